"""Token vectors beside the records: computed once, found by text, never out of date."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from outrider.library.library import Library
from outrider.library.vectors import token_index
from outrider.library.vectors.token_index import TokenIndexInfo
from outrider.models.rerank.late_interaction import INDEX_COMMAND
from outrider.models.rerank.token_blocks import compress, count_bytes
from outrider.state.embedding import TextRole
from outrider.state.errors import EmbeddingSpaceMismatch, NoVectors
from outrider.state.records import Document, Paper, Record
from outrider.state.reranking import make_reranker_text
from support.token_embedder import TokenEmbedder


class Counting(TokenEmbedder):
    """Remembers the texts whose tokens it embedded."""

    def token_vectors(self, texts: Sequence[str], role: TextRole = "document") -> list[np.ndarray]:
        self.before(len(self.texts))
        self.texts += texts
        return super().token_vectors(texts, role)


def paper(doc_id: str, title: str, **more: object) -> Paper:
    return Paper.model_validate({"doc_id": doc_id, "title": title, **more})


async def put(library: Library, *records: Record) -> None:
    await library.embed(records, TokenEmbedder())
    await library.upsert(records)


async def read(library: Library, *texts: str) -> dict[str, bytes] | None:
    return await library._tokens.read(TokenEmbedder().space, texts)


def block(text: str) -> bytes:
    return compress(TokenEmbedder().token_vectors([text])[0])


async def test_blocks_are_found_by_the_text_that_a_reranker_reads(library: Library) -> None:
    records: list[Record] = [paper("a", "red fox", abstract="It runs."), paper("b", "hen"), Document(doc_id="c")]
    await put(library, *records)
    assert await read(library, "hen") is None
    report = await library.index_tokens(TokenEmbedder())
    assert (report.model, report.records, report.indexed, report.dropped) == ("words", 3, 3, 0)
    assert report.mean_bytes == pytest.approx((4 + 1) * count_bytes(16) / 3)
    assert await read(library, *map(make_reranker_text, records), "otter") == {
        "red fox\n\nIt runs.": block("red fox It runs."), "hen": block("hen"), "": b"",
    }  # fmt: skip
    assert await asyncio.to_thread(library.read_tokens, TokenEmbedder().space, ["hen"]) == {"hen": block("hen")}
    assert await library.check() == ()


async def test_only_new_and_changed_texts_are_embedded(library: Library) -> None:
    await put(library, paper("a", "fox", year=2000), paper("b", "hen"), paper("c", "owl"))
    await library.index_tokens(TokenEmbedder())
    await put(library, paper("a", "fox", year=2001), paper("b", "otter"), paper("d", "newt"))
    await library.remove(["c"])
    assert (await library.info()).token_vectors == TokenIndexInfo(records=0, without=3, size_bytes=2 * count_bytes(16))
    assert await read(library, "fox", "hen", "otter", "owl") == {"fox": block("fox"), "hen": block("hen")}
    (problem,) = await library.check()
    assert problem == f"records without current token vectors: 3; compute them with: {INDEX_COMMAND}"
    model = Counting()
    report = await library.index_tokens(model)
    assert (sorted(model.texts), report.records, report.indexed) == (["newt", "otter"], 3, 2)
    assert (await library.info()).token_vectors == TokenIndexInfo(records=3, without=0, size_bytes=3 * count_bytes(16))
    assert await read(library, "hen", "otter") == {"otter": block("otter")}
    assert await library.check() == ()
    assert (await library.index_tokens(model)).indexed == 0
    assert len(model.texts) == 2


async def test_it_needs_record_vectors_of_the_same_model(library: Library) -> None:
    await library.upsert([paper("a", "fox")])
    with pytest.raises(NoVectors, match="outrider library reindex"):
        await library.index_tokens(TokenEmbedder())
    await put(library, paper("a", "fox"))
    with pytest.raises(EmbeddingSpaceMismatch):
        await library.index_tokens(TokenEmbedder(name="other"))
    assert (await library.info()).token_vectors is None


async def test_another_model_replaces_the_blocks(library: Library) -> None:
    await put(library, paper("a", "fox"))
    await library.index_tokens(TokenEmbedder())
    other = TokenEmbedder(name="other")
    await library.reindex(other)
    assert (await library.info()).token_vectors is None
    assert await library.check() == (f"token vectors of another model take up space; drop them with: {INDEX_COMMAND}",)
    assert (await library.index_tokens(other)).dropped == 1
    assert await read(library, "fox") is None
    assert await library._tokens.read(other.space, ["fox"]) is not None
    assert await library.check() == ()
    assert await library.drop_tokens() == 1
    assert (await library.info()).token_vectors is None


async def test_an_interrupted_run_continues(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_index, "BATCH", 2)
    await put(library, *(paper(str(n), f"fox {n}") for n in range(7)))
    there, go_on = threading.Event(), threading.Event()

    def hold(count: int) -> None:
        if count == 4:
            there.set()
            go_on.wait(30)

    work = asyncio.create_task(library.index_tokens(Counting(before=hold)))
    assert await asyncio.to_thread(there.wait, 30)
    work.cancel()
    await asyncio.wait([work])
    go_on.set()
    assert (await library.info()).token_vectors == TokenIndexInfo(records=4, without=3, size_bytes=8 * count_bytes(16))
    model = Counting()
    counts: list[tuple[int, int]] = []
    await library.index_tokens(model, lambda done, total: counts.append((done, total)))
    assert (model.texts, counts) == (["fox 4", "fox 5", "fox 6"], [(4, 7), (6, 7), (7, 7)])


async def test_a_record_that_changes_meanwhile_gets_no_block_of_its_former_text(library: Library) -> None:
    await put(library, paper("a", "fox"), paper("b", "hen"))
    there, go_on = threading.Event(), threading.Event()

    def hold(count: int) -> None:
        there.set()
        go_on.wait(30)

    work = asyncio.create_task(library.index_tokens(Counting(before=hold)))
    assert await asyncio.to_thread(there.wait, 30)
    await library.upsert([paper("a", "otter")])
    go_on.set()
    await work
    assert await read(library, "fox", "hen") == {"hen": block("hen")}


async def test_check_finds_damage_and_blocks_of_missing_records(library: Library) -> None:
    await put(library, paper("a", "fox"), paper("b", "hen"))
    await library.index_tokens(TokenEmbedder())
    table = await library._tokens._open(TokenEmbedder().space)
    assert table is not None
    await table.update({"size": 1}, where="doc_id = 'a'")
    await table.update({"doc_id": "gone"}, where="doc_id = 'b'")
    missing, strangers, broken = await library.check()
    assert missing.startswith("records without current token vectors: 1;")
    assert strangers == f"missing records with token vectors: 1; drop these with: {INDEX_COMMAND}"
    assert broken.startswith("damaged token vectors: 1; ")
