"""One vector space a library: its storage, kept and lost vectors, checks and reports."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outrider.library.library import Library
from outrider.library.vectors.write import NO_TEXT, EmbeddingReport, document_text
from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TokensRead
from outrider.state.errors import BadVectors, EmbeddingSpaceMismatch, ModelUnavailable, NoVectors
from outrider.state.filters import parse_filter
from outrider.state.records import Document, Paper, Record
from support.word_embedder import WordEmbedder

WORDS = WordEmbedder()


def paper(doc_id: str, title: str = "", **more: object) -> Paper:
    return Paper.model_validate({"doc_id": doc_id, "title": title, **more})


async def put(library: Library, *records: Record, embedder: WordEmbedder = WORDS) -> EmbeddingReport:
    done = await library.embed(records, embedder)
    await library.upsert(records)
    return done


async def near(library: Library, text: str) -> list[str]:
    return [one.doc_id for one in await library.dense(WORDS.vector(text), WORDS.space)]


def test_all_the_text_of_a_record_is_embedded() -> None:
    assert document_text(paper("a", "T", abstract="A", text="B")) == "T\n\nA\n\nB"
    assert document_text(Document(doc_id="a", title=" ", description="D")) == "D"
    assert document_text(Document(doc_id="a", title=" ")) == ""


async def test_the_space_is_stored_with_the_library(library: Library) -> None:
    assert await library.space() is None
    assert (await library.info()).vectors is None
    assert await library.tokens_read(["a"]) == {}
    await put(library, paper("a", "fox"))
    again = await Library.open(library.uri)
    assert await again.space() == WORDS.space
    assert await near(again, "fox") == ["a"]


async def test_another_handle_sees_the_first_space_at_once(library: Library) -> None:
    other = await Library.open(library.uri)
    assert await other.space() is None
    await put(library, paper("a", "fox"))
    assert await other.space() == WORDS.space


async def test_what_became_of_a_batch(library: Library) -> None:
    short = WordEmbedder(context=3, refused=frozenset({"cursed"}))
    records = [paper("a", "one two three four"), paper("b", "one"), Document(doc_id="c"), paper("d", "cursed"), paper("b", "two")]
    done = await library.embed(records, short)
    assert done == EmbeddingReport(embedded=2, reused=0, cut=1, without={"c": NO_TEXT, "d": "refused"})
    assert short.texts == ["one two three four", "two", "cursed"]
    assert await library.tokens_read(["a", "b", "c"]) == {"a": TokensRead(tokens=3, of=4), "b": TokensRead(tokens=1, of=1)}
    assert await library.embed([], short) == EmbeddingReport()


async def test_another_model_is_refused_before_it_embeds(library: Library) -> None:
    await put(library, paper("a", "fox"))
    for other in (WordEmbedder(name="other"), WordEmbedder(context=7), WordEmbedder(dimension=8)):
        with pytest.raises(EmbeddingSpaceMismatch, match=r"vectors of words.*outrider library reindex"):
            await library.embed([paper("b", "hen")], other)
        with pytest.raises(EmbeddingSpaceMismatch):
            await library.accept(other.space)
        assert other.texts == []
    await library.accept(WORDS.space.model_copy(update={"model_name": "/moved/elsewhere"}))


async def test_an_unchanged_text_keeps_its_vector(library: Library) -> None:
    """Also where another field changes, with a model or without; its copies for filters follow."""
    await put(library, paper("a", "fox", year=2000), paper("b", "hen"))
    model = WordEmbedder()
    assert await put(library, paper("a", "fox", year=2001), embedder=model) == EmbeddingReport(reused=1)
    await library.upsert([paper("b", "hen", year=2001)])
    assert model.texts == []
    hits = await library.dense(WORDS.vector("fox"), WORDS.space, parse_filter({"year": 2001}))
    assert [one.doc_id for one in hits] == ["a", "b"]
    assert await library.check() == ()


async def test_a_changed_text_loses_its_vector(library: Library) -> None:
    """A vector never outlives the text that it was computed from."""
    await put(library, paper("a", "fox"), paper("b", "hen"))
    await library.upsert([paper("a", "otter")])
    assert await near(library, "fox") == ["b"]
    assert await put(library, paper("a", "otter"), paper("b", "")) == EmbeddingReport(embedded=1, without={"b": NO_TEXT})
    assert await near(library, "otter") == ["a"]
    assert await library.check() == ()


async def test_removed_records_are_not_found(library: Library) -> None:
    await put(library, paper("a", "fox"), paper("b", "fox"))
    await library.remove(["a"])
    assert await near(library, "fox") == ["b"]
    vectors = (await library.info()).vectors
    assert vectors is not None
    assert (vectors.model, vectors.dimension, vectors.vectors, vectors.without) == ("words", 16, 1, 0)
    assert (vectors.index, vectors.recall) == ("exact", None)


async def test_vectors_of_records_that_were_never_written_do_no_harm(library: Library) -> None:
    """As after a kill between the two writes."""
    await library.embed([paper("a", "fox")], WORDS)
    assert await library.brief(await near(library, "fox")) == []
    (problem,) = await library.check()
    assert problem.startswith("1 vector belongs to a missing record")
    assert problem.endswith("drop them with: outrider library reindex")
    again = WordEmbedder()
    assert await put(library, paper("a", "fox"), embedder=again) == EmbeddingReport(reused=1)
    assert [record.doc_id for record in await library.brief(await near(library, "fox"))] == ["a"]


async def test_check_counts_what_is_missing_stale_or_broken(library: Library) -> None:
    await put(library, *(paper(name, f"fox {name}") for name in "abcde"), Document(doc_id="empty"))
    stored = await library._vectors.registry.current()
    assert stored is not None
    table = await library._vectors.table(stored)
    await table.delete("doc_id IN ('a', 'b')")
    await table.update({"content_hash": "old"}, where="doc_id = 'c'")
    await table.update({"vector": [0.0] * 16}, where="doc_id = 'd'")
    missing, stale, broken = await library.check()
    assert missing.startswith("2 records have no vector of words; embed with: outrider library reindex")
    assert stale.startswith("1 record has a vector of its former text")
    assert "with values that are not numbers, or with zeros only ('d')" in broken


# A model that fails


class Odd(WordEmbedder):
    """Gives what no model should."""

    def __init__(self, results: list[EmbeddedText]) -> None:
        super().__init__()
        self.results = results

    def embed_each(self, *_: object, **__: object) -> list[EmbeddedText]:
        return self.results


ONES = np.ones(16, dtype=np.float32)


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([], r"words gave 0 vectors for 1 texts"),
        ([EmbeddedText(ONES), EmbeddedText(ONES)], r"words gave 2 vectors for 1 texts"),
        ([EmbeddedText(np.ones(15, dtype=np.float32))], r"vector of shape \(15,\) instead of \(16,\)"),
    ],
)
async def test_a_model_that_gives_too_few_or_another_shape(library: Library, results: list[EmbeddedText], message: str) -> None:
    with pytest.raises(BadVectors, match=message):
        await library.embed([paper("a", "fox")], Odd(results))
    assert await library.space() is None


@pytest.mark.parametrize(("vector", "message"), [(ONES * np.nan, "not numbers"), (ONES * np.inf, "not numbers"), (ONES * 0, "of zeros")])
async def test_a_vector_without_direction_is_reported_not_written(library: Library, vector: np.ndarray, message: str) -> None:
    done = await library.embed([paper("a", "fox")], Odd([EmbeddedText(vector)]))
    assert message in done.without["a"]
    assert await library.space() is None


async def test_a_bug_of_the_model_is_not_taken_for_a_damaged_library(library: Library) -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        await library.embed([paper("a", "fox")], WordEmbedder(error=RuntimeError("mat1 and mat2 shapes cannot be multiplied")))
    with pytest.raises(ModelUnavailable):
        await library.embed([paper("a", "fox")], WordEmbedder(error=ModelUnavailable("gone")))


async def test_progress_is_reported_on_the_event_loop(library: Library) -> None:
    reports: list[tuple[int, int, bool]] = []
    here = threading.get_ident()
    await library.embed(
        [paper(str(n), f"fox {n}") for n in range(3)], WORDS, lambda *now: reports.append((*now, threading.get_ident() == here))
    )
    await asyncio.sleep(0)
    assert reports == [(1, 3, True), (2, 3, True), (3, 3, True)]


async def test_a_cancelled_embedding_stops_the_model(library: Library) -> None:
    begun, release, ended = threading.Event(), threading.Event(), threading.Event()

    class PausedEmbedder(WordEmbedder):
        def embed_each(self, *texts: Any, **more: Any) -> list[EmbeddedText]:
            begun.set()
            release.wait(60)
            try:
                return super().embed_each(*texts, **more)
            finally:
                ended.set()

    paused = PausedEmbedder()
    task = asyncio.create_task(library.embed([paper(str(n), f"fox {n}") for n in range(5_000)], paused))
    await asyncio.to_thread(begun.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    assert await asyncio.to_thread(ended.wait, 60)
    stopped = len(paused.texts)
    await asyncio.sleep(0.1)
    assert len(paused.texts) == stopped < 100


async def test_a_search_during_a_switch_reports_what_happened(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process drops the table between reading which one it is and reading it."""
    await put(library, paper("a", "fox"))
    other = await Library.open(library.uri)
    await near(other, "fox")
    stored = await library._vectors.registry.current()
    assert stored is not None
    await library.reindex(WordEmbedder(name="new", dimension=8))
    stale = iter([stored])

    async def late(self: object) -> object:
        return next(stale, None) or await library._vectors.registry.current()

    monkeypatch.setattr(other._vectors.registry, "current", late.__get__(other._vectors.registry))
    with pytest.raises(EmbeddingSpaceMismatch, match="has vectors of new"):
        await near(other, "fox")


async def test_a_space_is_the_same_wherever_its_weights_lie() -> None:
    space = EmbeddingSpace(model_name="a", revision="r", dimension=3, context_length=5)
    assert space.id == replace_name(space, "/b").id
    assert (
        len({space.id, *(space.model_copy(update=change).id for change in ({"revision": "s"}, {"dimension": 4}, {"query_prompt": "q"}))})
        == 4
    )


def replace_name(space: EmbeddingSpace, name: str) -> EmbeddingSpace:
    return space.model_copy(update={"model_name": name})


async def test_a_library_created_anew_under_a_handle_has_its_own_vectors_or_none(tmp_path: Path) -> None:
    library = await Library.open(tmp_path / "l", create=True)
    await put(library, paper("a", "fox"))
    assert await near(library, "fox") == ["a"]
    for number in range(2):
        shutil.rmtree(tmp_path / "l")
        fresh = await Library.open(tmp_path / "l", create=True)
        if number:
            await put(fresh, paper("b", "fox"))
            assert await near(library, "fox") == ["b"]
        else:
            await fresh.upsert([paper("b", "fox")])
            with pytest.raises(NoVectors):
                await near(library, "fox")
        fresh.close()
    library.close()


async def test_a_closed_library_leaves_nothing_open(tmp_path: Path) -> None:
    library = await Library.open(tmp_path / "l", create=True)
    await put(library, paper("a", "fox"))
    await near(library, "fox")
    tables = [*library._vectors._tables.values(), library._vectors.registry._kept.handle, library._table]
    library.close()
    assert len(tables) == 3
    assert not any(table.is_open() for table in tables if table is not None)


async def test_two_that_embed_first_at_once_share_the_space(tmp_path: Path) -> None:
    handles = [await Library.open(tmp_path / "l", create=True) for _ in range(3)]
    await asyncio.gather(*(put(handle, paper(str(n), "fox")) for n, handle in enumerate(handles)))
    assert len(await handles[0]._vectors.registry.all()) == 1
    assert await near(handles[0], "fox") == ["0", "1", "2"]
