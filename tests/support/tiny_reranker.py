"""A base model of random weights, made in a moment, and a library whose records are worth asking about."""

from __future__ import annotations

import itertools
from pathlib import Path

from outrider.library.library import Library
from outrider.state.records import Edge, Identifiers, Paper
from outrider.training.training_set import Group

THINGS = "aspirin statin insulin heparin morphine cortisol dopamine serotonin glucose calcium lithium zinc".split()
PLACES = "liver kidney heart brain lung muscle bone skin".split()
FILLER = "lowers raises pain risk dose trial adults weeks blood cells mice after daily early late care study found right wrong".split()


def base(folder: Path) -> str:
    """A BERT of 2 layers x 32 with words for tokens."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder.mkdir(parents=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *THINGS, *PLACES, *FILLER]
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(words) + "\n")
    config = BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, max_position_embeddings=64
    )
    BertModel(config).save_pretrained(folder)
    BertTokenizerFast(vocab=str(vocabulary)).save_pretrained(folder)
    (folder / "README.md").write_text("---\nlicense: mit\n---\nA test.\n")
    return str(folder)


def papers() -> list[Paper]:
    """96 records, each of one thing and one place; every second one cites the one before it."""
    records: list[Paper] = []
    for number, (thing, place) in enumerate(itertools.product(THINGS, PLACES)):
        edges = (Edge(relation="cites", target=f"doi:10.1/{number - 1}"), Edge(relation="cites", target="doi:10.1/absent"))
        records.append(
            Paper(
                doc_id=f"p{number:02}",
                title=f"{thing.title()} and the {place} in adults",
                abstract=f"A trial found that daily {thing} lowers {place} risk. The dose of {thing} was early and late care. "
                f"Blood cells of the {place} after weeks were right. Mice with {thing} had less pain in the {place}.",
                identifiers=Identifiers(doi=f"10.1/{number}"),
                edges=edges if number % 2 else (),
            )
        )
    return records


async def fill(folder: Path) -> None:
    library = await Library.open(folder, create=True)
    await library.upsert(papers())
    await library.optimize(force=True)
    library.close()


def separable(count: int, start: int = 0) -> list[Group]:
    """Groups whose right text says "right" and whose wrong texts say "wrong"."""
    return [
        Group(
            query=f"{THINGS[at % 12]} {PLACES[at % 8]}",
            kind="title",
            source=str(at),
            doc_ids=tuple(f"{at}-{place}" for place in range(4)),
            texts=(f"{FILLER[at % 9]} right", *(f"{FILLER[(at + place) % 9]} wrong" for place in (1, 2, 3))),
            relevance=(1, 0, 0, 0),
        )
        for at in range(start, start + count)
    ]
