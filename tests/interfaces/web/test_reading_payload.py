"""What the page reads of an answer, and what it says before the first search. No browser."""

from __future__ import annotations

import httpx
import pytest

from outrider.interfaces.web.landing import GENERAL, choose_examples
from outrider.interfaces.web.readable_answer import MAX_BEST_OF_HIT, read_answer, read_text
from outrider.nodes import rule_ranker
from outrider.nodes.organizer import to_hit
from outrider.settings.model import Settings
from outrider.state.hits import Candidate, Hit
from outrider.state.records import Repository
from outrider.state.response import ContextUnit, DistilledContext, SearchResponse
from support.fakes import doi, paper
from support.http_app import ASPIRIN, STATINS, open_client, services

README = """# Tool

[![CI](https://a.org/b.svg)](https://a.org)

It **waits** with `sleep()` before each call.

```python
for x in y:
    retry(x)
```
"""


def _make_hit(rank: int, text: str, *pieces: str, **fields: object) -> Hit:
    spans = tuple((text.index(piece), text.index(piece) + len(piece)) for piece in pieces)
    known = {"answers": "yes" if spans else "no", "original_text": text, "spans": spans, "title": f"Work {rank}", "kind": "paper"}
    return Hit.model_validate({"rank": rank, "doc_id": f"d:{rank}", "score": 0.5, **known, **fields})


def _make_answer(*hits: Hit, kind: str = "sentence", why: str = "relevant") -> SearchResponse:
    units = [
        ContextUnit.model_validate(
            {"doc_id": hit.doc_id, "key": f"[{hit.rank}]", "start": start, "end": end, "text": hit.original_text[start:end],
             "score": 0.9 - hit.rank / 10, "kind": kind, "why": why}
        )
        for hit in hits for start, end in hit.spans
    ]  # fmt: skip
    return SearchResponse(query="q", mode="discovery", hits=hits, context=DistilledContext(units=tuple(units)))


def test_a_kept_sentence_is_text_and_code_without_marks() -> None:
    hit = _make_hit(1, README, "It **waits** with `sleep()` before each call.")
    (piece,) = read_answer(_make_answer(hit), Settings()).hits[0].pieces
    assert [(part.text, part.is_code) for part in piece.parts] == [
        ("It waits with ", False), ("sleep()", True), (" before each call.", False),
    ]  # fmt: skip


def test_a_hit_has_the_labels_of_its_record_and_of_those_merged_into_it() -> None:
    hit = _make_hit(1, README, duplicates=({"doc_id": "own:1", "source": "library", "why": "same DOI"},))
    labels = {"d:1": ("read",), "own:1": ("read", "cite"), "other": ("no",)}
    assert read_answer(_make_answer(hit), Settings(), labels).hits[0].labels == ("read", "cite")


def test_a_hit_without_kept_sentences_is_about_its_first_prose() -> None:
    assert read_answer(_make_answer(_make_hit(1, README)), Settings()).hits[0].summary == "It waits with sleep() before each call."


def test_a_hit_without_any_text_says_what_is_known() -> None:
    hit = _make_hit(1, "", tags=("rpc", "schema"), metadata={"version": "6.33"}, identifiers={"pypi": "protobuf"})
    reading = read_answer(_make_answer(hit), Settings()).hits[0]
    assert (reading.pieces, reading.summary) == ((), "")
    assert reading.known == "No text of it is known, only its title. Keywords: rpc, schema. Version 6.33. PyPI protobuf."
    assert read_answer(_make_answer(_make_hit(1, README)), Settings()).hits[0].known == ""


def test_kept_code_keeps_its_lines() -> None:
    hit = _make_hit(1, README, "for x in y:\n    retry(x)")
    (piece,) = read_answer(_make_answer(hit, kind="code"), Settings()).hits[0].pieces
    assert (piece.kind, piece.parts[0].text) == ("code", "for x in y:\n    retry(x)")


def test_a_row_of_a_table_has_the_names_of_its_columns_on_the_card_and_in_its_text() -> None:
    table = "# Wax\n\n| year | price |\n|---|---|\n| 1391 | 22 |\n| 1399 | 17 |\n"
    hit = _make_hit(1, table, "| 1399 | 17 |")
    (piece,) = read_answer(_make_answer(hit, kind="row"), Settings()).hits[0].pieces
    assert [part.text for part in piece.parts] == ["year 1399 · price 17"]
    rows = [(block.parts[0].text, block.parts[0].kept) for block in read_text(hit).blocks if block.kind == "row"]
    assert rows == [("year 1391 · price 22", None), ("year 1399 · price 17", table.index("| 1399"))]


def test_the_best_sentences_come_from_several_hits_and_a_hit_that_may_not_answer_comes_last() -> None:
    sentences = [f"Sentence number {number} says enough of it." for number in range(4)]
    first = _make_hit(1, " ".join(sentences), *sentences)
    second = _make_hit(2, "Another work says something else of it.", "Another work says something else of it.")
    best = read_answer(_make_answer(first, second), Settings()).best
    assert [one.rank for one in best] == [1] * MAX_BEST_OF_HIT + [2]
    perhaps = _make_answer(first.model_copy(update={"answers": "perhaps"}), why="best")
    assert all(one.uncertain for one in read_answer(perhaps, Settings()).best)
    nothing = _make_hit(1, "The weather was fine.")
    assert read_answer(_make_answer(nothing), Settings()).best == ()
    assert "No sentence" in read_answer(_make_answer(nothing), Settings()).unanswered


@pytest.mark.parametrize("request_text", ["aspirin liver", "recent and highly cited work on aspirin and the liver"])
@pytest.mark.parametrize("vectors", [{}, {"lance_dense": 0.6}], ids=["words", "vectors"])
def test_the_parts_of_a_rule_score_add_up_to_it(request_text: str, vectors: dict[str, float]) -> None:
    settings = Settings()
    records = [
        paper("p:1", "Aspirin and the liver", abstract="Aspirin harms the liver.", year=2020, citations=12, identifiers=doi("10.1000/1")),
        paper("p:2", "Statins", abstract="Statins and the liver.", year=2001),
        Repository(doc_id="r:1", title="liver/tool", description="Models of the liver", stars=40),
    ]
    candidates = [Candidate(one, scores={"fused": 1 - at / 4, **vectors}) for at, one in enumerate(records)]
    weights = rule_ranker.weigh_wishes(settings.ranking, request_text)
    ranked = rule_ranker.rank_by_rules(candidates, request_text, weights, 2026)
    hits = tuple(to_hit(one, rank) for rank, one in enumerate(ranked, 1))
    reading = read_answer(SearchResponse(query=request_text, mode="discovery", hits=hits), settings)
    for hit, read in zip(hits, reading.hits, strict=True):
        assert sum(part.adds for part in read.parts) == pytest.approx(hit.score, abs=1e-4)
        assert sum(part.weight for part in read.parts) == pytest.approx(1)
        assert ("recency" in {part.name for part in read.parts}) is ("recent" in request_text)
        assert ("subject" in {part.name for part in read.parts}) is (hit.kind == "repository")
    reranked = hits[0].model_copy(update={"score": hits[0].score / 2})
    assert read_answer(SearchResponse(query=request_text, mode="discovery", hits=(reranked,)), settings).hits[0].parts == ()


def test_the_text_of_a_hit_has_blocks_without_badges_and_marks_what_was_kept() -> None:
    text = read_text(_make_hit(1, README, "It **waits** with `sleep()` before each call."))
    assert [block.kind for block in text.blocks] == ["heading", "paragraph", "code"]
    assert "".join(part.text for part in text.blocks[1].parts if part.kept is not None) == "It waits with sleep() before each call."
    assert all(part.kept is None for part in text.blocks[0].parts)
    assert not text.is_cut


def test_a_long_text_is_cut_around_its_first_kept_sentence() -> None:
    sentence = "Here it is at last."
    text = read_text(_make_hit(1, "Nothing of it.\n\n" * 10_000 + sentence + "\n\nNothing." * 10_000, sentence))
    assert text.is_cut
    assert [part.text for block in text.blocks for part in block.parts if part.kept is not None] == [sentence]


def test_examples_ask_for_what_the_library_holds() -> None:
    records = [
        Repository(doc_id="r:1", title="a/b", description="tenacity is a general purpose retrying library. It waits."),
        Repository(doc_id="r:2", title="a/c", description="Short"),
        paper("p:1", "Liver injury by common drugs in adults"),
        paper("p:2", "<b>Markup</b> in a title of a paper"),
    ]
    chosen = choose_examples(records)
    assert set(chosen[:2]) == {"General purpose retrying library", "Liver injury by common drugs in adults"}
    assert choose_examples(records[:2]) == ("General purpose retrying library",), "and none that it cannot answer"
    assert choose_examples(list(reversed(records))) == chosen
    assert choose_examples([]) == GENERAL


async def test_the_page_reads_an_answer_and_the_text_of_a_hit() -> None:
    async with open_client(services(ASPIRIN, STATINS)) as client:
        found = await client.post("/api/search", json={"query": "aspirin liver"})
        address = f"/api/search/{found.headers['x-search-id']}"
        reading = (await client.get(f"{address}/reading")).json()
        text = (await client.get(f"{address}/hits/1/text")).json()
        missing = await client.get(f"{address}/hits/99/text")
        landing = (await client.get("/api/landing")).json()
    assert reading["hits"][0]["rank"] == 1
    assert reading["hits"][0]["why"]
    assert "Aspirin harms the liver" in str(text["blocks"])
    assert missing.status_code == 404
    assert (landing["records"], landing["problem"], landing["examples"]) == (0, "missing", list(GENERAL))


@pytest.mark.parametrize("address", ["/api/search/none/reading", "/api/search/none/hits/1/text"])
async def test_an_unknown_search_has_no_reading(address: str) -> None:
    async with open_client(services(ASPIRIN)) as client:
        answer: httpx.Response = await client.get(address)
    assert answer.status_code == 404
