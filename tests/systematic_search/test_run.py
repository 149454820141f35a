"""Runs over a library and services in memory: order, interruption, completeness."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

import outrider
from outrider.state.errors import BadRequest, LibraryError
from outrider.statistics.capture_recapture import bound_recall_of_routes
from outrider.systematic_search import manifest
from outrider.systematic_search.ledger import Ledger, RunBusy, Tampered
from outrider.systematic_search.ledger_reader import IncompleteRun, read_routes
from outrider.systematic_search.run import OtherRun
from support.systematic_runs import LibraryVersions, MemorySource, make_exact_services, make_papers

QUERY = "aspirin[ti]"


def test_every_hit_comes_once_in_the_stated_order(tmp_path: Path) -> None:
    shelves = LibraryVersions(make_papers(40))
    hits = outrider.systematic(QUERY, services=make_exact_services(tmp_path, shelves))
    results = list(hits)
    assert [hit.doc_id for hit in results] == [one.doc_id for one in shelves.records if one.title.startswith("aspirin")]
    assert [hit.rank for hit in results] == list(range(1, len(results) + 1))
    assert {hit.reason for hit in results} == {"verified"}
    assert hits.manifest.complete
    assert hits.manifest.total == len(results)
    assert hits.manifest.asked.order == "library by doc_id, compared by code points"
    assert hits.result_set.cursor is None
    assert list(outrider.iter_hits(hits.result_set)) == results


def test_a_run_without_hits_is_complete(tmp_path: Path) -> None:
    hits = outrider.systematic("zebra[ti]", services=make_exact_services(tmp_path, LibraryVersions(make_papers(5))))
    assert list(hits) == []
    assert hits.manifest.complete
    assert list(outrider.iter_hits(hits.result_set)) == []


async def test_the_asynchronous_generator_gives_the_same_pages(tmp_path: Path) -> None:
    services = make_exact_services(tmp_path, LibraryVersions(make_papers(40)))
    hits = outrider.asystematic({"title": "aspirin"}, services=services)
    pages = [page async for page in hits.pages()]
    assert [len(page.hits) for page in pages] == [5, 5, 5, 5, 5, 1]
    again = [hit.doc_id async for hit in outrider.asystematic({"title": "aspirin"}, services=services)]
    assert [hit.doc_id for page in pages for hit in page.hits] == again


def test_a_run_whose_reader_stops_resumes_after_the_cursor(tmp_path: Path) -> None:
    services = make_exact_services(tmp_path, LibraryVersions(make_papers(40)))
    whole = [hit.doc_id for hit in outrider.systematic(QUERY, services=services, folder=tmp_path / "whole")]
    with outrider.systematic(QUERY, services=services, folder=tmp_path / "run") as hits:
        first = [hit.doc_id for hit in itertools.islice(hits, 12)]
    assert not hits.manifest.complete
    with pytest.raises(IncompleteRun, match=r"1[05] hits were fetched"):
        list(outrider.iter_hits(hits.result_set))
    rest = outrider.systematic(services=services, resume=tmp_path / "run", after=hits.cursor)
    assert first[:10] + [hit.doc_id for hit in rest] == whole
    assert _without_times(tmp_path / "run") == _without_times(tmp_path / "whole")


@pytest.mark.parametrize("pages", range(5))
def test_a_library_that_fails_leaves_the_hits_so_far(tmp_path: Path, pages: int) -> None:
    shelves = LibraryVersions(make_papers(40))
    services = make_exact_services(tmp_path, shelves)
    whole = [hit.doc_id for hit in outrider.systematic(QUERY, services=services, folder=tmp_path / "whole")]
    shelves.breaks_after = pages
    with pytest.raises(LibraryError, match="cannot be read"):
        list(outrider.systematic(QUERY, services=services, folder=tmp_path / "run"))
    broken = manifest.read(tmp_path / "run" / manifest.NAME)
    assert (broken.total, broken.complete) == (pages * 5, False)
    shelves.breaks_after = None
    assert [hit.doc_id for hit in outrider.systematic(services=services, resume=tmp_path / "run")] == whole
    assert _without_times(tmp_path / "run") == _without_times(tmp_path / "whole")


@pytest.mark.parametrize(
    ("query", "syntax"),
    [
        ("TI=aspirin", "wos"), ("TITLE(aspirin)", "scopus"), ("'aspirin':ti", "embase"), ("TI aspirin", "ebsco"),
        ("ti(aspirin)", "proquest"), ("aspirin:ti", "cochrane"), ("1. aspirin.ti.", "ovid"), ("aspirin[ti]", "pubmed"),
    ],
)  # fmt: skip
def test_a_query_of_any_platform_runs_resumes_and_is_verified(tmp_path: Path, query: str, syntax: str) -> None:
    services = make_exact_services(tmp_path, LibraryVersions(make_papers(40)))
    with outrider.systematic(query, services=services, folder=tmp_path / "run", syntax=syntax) as hits:
        next(hits)
    resumed = outrider.systematic(services=services, resume=tmp_path / "run")
    assert len(list(resumed)) == 26
    assert resumed.manifest.asked.syntax == syntax
    assert outrider.verify(tmp_path / "run").sound
    assert outrider.replay(tmp_path / "run", services=services).empty


def test_a_run_reads_its_snapshot_while_others_write(tmp_path: Path) -> None:
    shelves = LibraryVersions(make_papers(40))
    services = make_exact_services(tmp_path, shelves)
    before = [one.doc_id for one in shelves.records if one.title.startswith("aspirin")]
    hits = outrider.systematic(QUERY, services=services)
    doc_ids = [next(hits).doc_id]
    shelves.records += make_papers(10, first=100)
    doc_ids += [hit.doc_id for hit in hits]
    assert doc_ids == before


def test_services_follow_the_library_and_duplicates_are_counted(tmp_path: Path) -> None:
    own = make_papers(12)
    abroad = [one.model_copy(update={"doc_id": f"W{one.doc_id}", "source": "pubmed"}) for one in make_papers(30)]
    services = make_exact_services(tmp_path, LibraryVersions(list(own)), {"pubmed": MemorySource("pubmed", list(abroad))})
    hits = outrider.systematic(QUERY, services=services, sources=["library", "pubmed"])
    results = list(hits)
    run_manifest = hits.manifest
    assert [one.source for one in run_manifest.sources] == ["library", "pubmed"]
    assert run_manifest.sources[1].fetched == run_manifest.sources[1].total == 30
    assert (run_manifest.sources[0].hits, run_manifest.sources[1].hits) == (8, 20)
    assert [hit.found_by[0].source for hit in results] == ["library"] * 8 + ["pubmed"] * 20
    assert run_manifest.duplicates == 8
    assert run_manifest.unique == 20
    assert "identifiers, titles" in run_manifest.deduplicated_by
    routes = read_routes(Path(hits.result_set.path))
    assert (len(routes["library"]), len(routes["pubmed"]), len(routes["library"] & routes["pubmed"])) == (8, 20, 8)
    assert "fewer than two routes found works of their own" in bound_recall_of_routes(routes).sentence
    few = make_exact_services(tmp_path, LibraryVersions(list(own)), {"pubmed": MemorySource("pubmed", list(abroad))}, identity_most=3)
    by_identifiers = outrider.systematic(QUERY, services=few, sources=["library", "pubmed"])
    list(by_identifiers)
    assert by_identifiers.manifest.duplicates == 8
    assert "identifiers alone" in by_identifiers.manifest.deduplicated_by


def test_a_short_harvest_never_looks_complete(tmp_path: Path) -> None:
    services = make_exact_services(tmp_path, LibraryVersions([]), {"pubmed": MemorySource("pubmed", list(make_papers(30)), lost=3)})
    hits = outrider.systematic(QUERY, services=services, sources=["pubmed"])
    with pytest.raises(IncompleteRun, match="pubmed: 27 of 30 fetched"):
        list(hits)
    assert not hits.manifest.complete
    assert not hits.result_set.complete
    with pytest.raises(IncompleteRun):
        list(outrider.iter_hits(hits.result_set))


def test_a_service_that_refuses_gets_no_query_and_is_named(tmp_path: Path) -> None:
    services = make_exact_services(
        tmp_path, LibraryVersions(make_papers(4)), {"pubmed": MemorySource("pubmed", list(make_papers(3)), refuses="it knows no proximity")}
    )
    with pytest.raises(IncompleteRun, match="pubmed: 0 fetched: it knows no proximity"):
        list(outrider.systematic(QUERY, services=services, sources=["library", "pubmed"]))


def test_a_failing_service_loses_the_rest_of_its_hits_and_is_read_again_on_resume(tmp_path: Path) -> None:
    """The others are still read; after a resume the ledger equals that of a run without a failure."""
    remote_sources = {"a": MemorySource("a", list(make_papers(30))), "b": MemorySource("b", list(make_papers(9, first=100)))}
    services = make_exact_services(tmp_path, LibraryVersions([]), remote_sources)
    whole = [hit.doc_id for hit in outrider.systematic(QUERY, services=services, sources=["a", "b"], folder=tmp_path / "whole")]
    remote_sources["a"].fails_after = 3
    services = make_exact_services(tmp_path, LibraryVersions([]), remote_sources)
    hits = outrider.systematic(QUERY, services=services, sources=["a", "b"], folder=tmp_path / "run")
    with pytest.raises(IncompleteRun, match="a: 12 of 30 fetched: a answered 503"):
        list(hits)
    assert hits.manifest.sources[1].complete
    remote_sources["a"].fails_after = None
    assert [hit.doc_id for hit in outrider.systematic(services=services, resume=hits.result_set)] == whole
    assert remote_sources["a"].seen_before == {f"p{number:05}" for number in range(12)}, "also those that do not match"
    assert _without_times(tmp_path / "run") == _without_times(tmp_path / "whole")


def test_only_one_process_writes_to_a_run(tmp_path: Path) -> None:
    services = make_exact_services(tmp_path, LibraryVersions(make_papers(40)))
    hits = outrider.systematic(QUERY, services=services, folder=tmp_path / "run")
    next(hits)
    with pytest.raises(RunBusy, match="another process"):
        next(outrider.systematic(services=services, resume=tmp_path / "run"))
    hits.close()


async def test_a_run_that_is_stopped_while_it_begins_leaves_its_folder_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread goes on when the run is cancelled, and may then open nothing that stays open."""
    entered, cancelled, ended = threading.Event(), threading.Event(), threading.Event()
    begin = Ledger.begin

    def begin_late(ledger: Ledger, request: Mapping[str, object]) -> None:
        entered.set()
        cancelled.wait(60)
        try:
            begin(ledger, request)
        finally:
            ended.set()

    monkeypatch.setattr(Ledger, "begin", begin_late)
    services = make_exact_services(tmp_path, LibraryVersions(make_papers(5)))
    task = asyncio.create_task(anext(outrider.asystematic(QUERY, services=services, folder=tmp_path / "run").pages()))
    assert await asyncio.to_thread(entered.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    cancelled.set()
    assert await asyncio.to_thread(ended.wait, 60)
    monkeypatch.undo()
    assert [page async for page in outrider.asystematic(QUERY, services=services, folder=tmp_path / "run").pages()]


def test_a_run_that_cannot_be_resumed_gives_the_reason(tmp_path: Path) -> None:
    shelves = LibraryVersions(make_papers(40))
    services = make_exact_services(tmp_path, shelves)
    with outrider.systematic(QUERY, services=services, folder=tmp_path / "run") as hits:
        next(hits)
    shelves.tokenizer = "test words 2"
    with pytest.raises(OtherRun, match=r"split words by test words 1.*test words 2"):
        next(outrider.systematic(services=services, resume=tmp_path / "run"))
    shelves.records, shelves.versions = make_papers(3), {}
    with pytest.raises(OtherRun, match="is not available"):
        next(outrider.systematic(services=services, resume=tmp_path / "run"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"query": "aspirin[tiabs]"}, "line 1, column 9"),
        ({"query": QUERY, "sources": ["pubmedd"]}, "pubmedd"),
        ({"query": QUERY, "resume": "x"}, "not both"),
        ({}, "takes either a query"),
        ({"query": QUERY, "after": "x"}, "after"),
        ({"resume": "nowhere"}, "no run 'nowhere'"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        list(outrider.systematic(**options, services=make_exact_services(tmp_path, LibraryVersions(make_papers(3)))))  # type: ignore[arg-type]
    assert not (tmp_path / "runs").exists()


def test_a_folder_with_a_run_is_not_overwritten(tmp_path: Path) -> None:
    services = make_exact_services(tmp_path, LibraryVersions(make_papers(3)))
    list(outrider.systematic(QUERY, services=services, folder=tmp_path / "run"))
    with pytest.raises(BadRequest, match="holds a run already"):
        list(outrider.systematic(QUERY, services=services, folder=tmp_path / "run"))


def test_a_cursor_of_another_run_is_refused(tmp_path: Path) -> None:
    services = make_exact_services(tmp_path, LibraryVersions(make_papers(30)))
    hits = outrider.systematic(QUERY, services=services)
    list(hits)
    with pytest.raises(BadRequest, match="cursor"):
        list(outrider.iter_hits(hits.result_set, after="library:nowhere"))


def test_a_changed_ledger_stops_the_reader_at_the_line(tmp_path: Path) -> None:
    hits = outrider.systematic(QUERY, services=make_exact_services(tmp_path, LibraryVersions(make_papers(30))))
    list(hits)
    path = Path(hits.result_set.path)
    path.write_bytes(path.read_bytes().replace(b"part 4", b"part 5", 1))
    with pytest.raises(Tampered, match=r"line 4: .*hit 3, 'p00004'"):
        list(outrider.iter_hits(hits.result_set))


def _without_times(folder: Path) -> dict[str, object]:
    return manifest.read(folder / manifest.NAME).model_dump(mode="json", exclude={"times", "seal"})
