"""Saved searches: each difference between two runs with its cause, interruptions, schedules, and what is refused."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from outrider.saved_searches.store import SavedStore
from outrider.services.saved_queue import find_next_run, list_due, queue_due_searches
from outrider.state.errors import BadRequest, LibraryError, NoSuchSaved, NothingSearchable, SavedBusy, SourceUnavailable, StoreDamaged
from outrider.state.records import Identifiers
from outrider.systematic_search.prisma import make_update_flow
from outrider.usecases.run_saved import run_saved
from outrider.usecases.saved import add_saved, diff_runs, find_due, list_saved, read_run, remove_saved, run_saved_job, show_saved
from support.fakes import NOON, Shelf
from support.saved_searches import SavedWorld, article, list_changes, replace_record
from support.systematic_runs import LibraryVersions, MemorySource

PROTOCOL = {"query": "aspirin[ti]", "sources": ["library", "pubmed"]}
RETRACTION = {"updated_by": [{"type": "retraction", "doi": "10.1000/notice", "source": "publisher"}]}


def make_world(folder: Path, count: int = 4, remote: tuple[int, ...] = ()) -> SavedWorld:
    library = LibraryVersions([article(number) for number in range(count)])
    pubmed = MemorySource("pubmed", [article(number, doc_id=f"pubmed:{number}") for number in remote])
    return SavedWorld(folder, library, {"pubmed": pubmed})


async def test_an_unchanged_search_has_no_difference(tmp_path: Path) -> None:
    world = make_world(tmp_path, remote=(1, 7))
    await world.save(PROTOCOL)
    assert await world.run() is None, "the first run has nothing to be compared with"
    difference = await world.run()
    assert difference is not None
    assert (difference.works, difference.counts_only, difference.remarks) == ((), 0, ())
    assert (difference.works_before, difference.works_after) == (5, 5), "p1 is in both sources, and one work"


async def test_each_change_of_a_record_has_its_cause(tmp_path: Path) -> None:
    world = make_world(tmp_path, 6, remote=(8,))
    await world.save(PROTOCOL)
    await world.run()
    records = replace_record(world.library.records, 0, venue="Journal of Tests", abstract="Now longer.")
    records = replace_record(records, 1, citations=17)
    records = replace_record(records, 2, metadata=RETRACTION)
    world.library.records = [*(one for one in records if one.doc_id != "p3"), article(9)]
    world.world["pubmed"].records.append(article(10, doc_id="pubmed:10", title="Aspirin in space"))
    difference = await world.run()
    assert list_changes(difference) == [
        ("new", "p9", "new in source"),
        ("new", "pubmed:10", "new in source"),
        ("changed", "p0", "record changed"),
        ("changed", "p2", "retracted"),
        ("gone", "p3", "gone from source"),
    ]
    assert difference is not None
    assert next(work for work in difference.works if work.doc_id == "p0").fields == ("abstract", "venue")
    assert difference.counts_only == 1


async def test_what_a_failed_source_had_is_not_gone(tmp_path: Path) -> None:
    world = make_world(tmp_path, 2, remote=(5, 6))
    await world.save(PROTOCOL)
    await world.run()
    world.world["pubmed"].fails_after = 0
    failed = await world.run()
    assert list_changes(failed) == [("missing", "pubmed:5", "source failed"), ("missing", "pubmed:6", "source failed")]
    assert failed is not None
    assert "pubmed was not read to its end" in failed.remarks[0]
    again = await world.run()
    assert list_changes(again) == [], "a second failure is no news"
    assert again is not None
    assert (again.works_before, again.works_after, again.still_missing) == (4, 2, 2)
    flow = make_update_flow(*await read_run(world.services, "alert"))
    assert flow.previous == flow.known + flow.gone + flow.unknown == 4
    world.world["pubmed"].fails_after = None
    world.world["pubmed"].records = [*world.world["pubmed"].records[1:], article(8, doc_id="pubmed:8")]
    back = await world.run()
    assert list_changes(back) == [("new", "pubmed:8", "new in source"), ("gone", "pubmed:5", "gone from source")]
    assert list_changes(await world.diff(1, 2))[0][0] == "missing"
    assert list_changes(await world.diff(1, 4)) == list_changes(back)


async def test_a_source_that_was_added_or_removed_or_failed_at_first_is_named(tmp_path: Path) -> None:
    world = make_world(tmp_path, 2, remote=(5,))
    await world.save({"query": "aspirin[ti]", "sources": ["library"]})
    await world.run()
    await world.save(PROTOCOL, replace=True)
    assert list_changes(await world.run()) == [("new", "pubmed:5", "source changed")]
    await world.save({"query": "aspirin[ti]", "sources": ["library"]}, replace=True)
    assert list_changes(await world.run()) == [("gone", "pubmed:5", "source changed")]
    other = make_world(tmp_path / "other", 1, remote=(5,))
    other.world["pubmed"].fails_after = 0
    await other.save(PROTOCOL)
    await other.run()
    other.world["pubmed"].fails_after = None
    assert list_changes(await other.run()) == [("new", "pubmed:5", "source changed")]


async def test_another_query_explains_only_what_it_explains(tmp_path: Path) -> None:
    """A record that both queries match is new because it is new."""
    world = make_world(tmp_path, 3)
    world.library.records += [article(4, "Statins and sleep"), article(5, "Aspirin, or statins")]
    await world.save({"query": "aspirin[ti]", "sources": ["library"]})
    await world.run()
    world.library.records += [article(6)]
    world.library.records = [one for one in world.library.records if one.doc_id != "p1"]
    await world.save({"query": "(aspirin[ti] OR statins[ti]) NOT sleep[ti] NOT kidney[ti]", "sources": ["library"]}, replace=True)
    world.library.records += [article(7, "Statins in spring")]
    assert list_changes(await world.run()) == [
        ("new", "p6", "new in source"),
        ("new", "p7", "query changed"),
        ("gone", "p0", "query changed"),
        ("gone", "p1", "gone from source"),
    ]


async def test_another_tokenizer_is_a_changed_version(tmp_path: Path) -> None:
    world = make_world(tmp_path, 3)
    await world.save({"query": "aspirin[ti]", "sources": ["library"]})
    await world.run()
    world.library.tokenizer, world.library.blind = "test words 2", frozenset({"p1"})
    difference = await world.run()
    assert list_changes(difference) == [("gone", "p1", "version changed")]
    assert difference is not None
    assert "test words 2" in difference.works[0].why


async def test_a_published_preprint_has_changed(tmp_path: Path) -> None:
    preprint = article(1, doc_id="pre", venue="arXiv", identifiers=Identifiers(arxiv="2401.00001"), year=2024)
    world = SavedWorld(tmp_path, LibraryVersions([preprint]))
    await world.save({"query": "aspirin[ti]", "sources": ["library"]})
    await world.run()
    world.library.records = [article(1, doc_id="pub", year=2024)]
    difference = await world.run()
    assert list_changes(difference) == [("changed", "pub", "published")]
    assert difference is not None
    assert difference.works[0].before_id == "pre"


async def test_a_record_with_another_id_is_the_same_work(tmp_path: Path) -> None:
    world = SavedWorld(tmp_path, LibraryVersions([article(1), article(2)]))
    await world.save({"query": "aspirin[ti]", "sources": ["library"]})
    await world.run()
    world.library.records = [article(1, doc_id="other", venue="Renamed Annals"), article(2)]
    difference = await world.run()
    assert list_changes(difference) == [("changed", "other", "record changed")]
    assert difference is not None
    assert (difference.works[0].before_id, difference.works[0].fields) == ("p1", ("venue",))


async def test_works_that_a_source_merged_are_named(tmp_path: Path) -> None:
    """The source had two records of one work, whose fields did not show it; now one has the identifier of both."""
    first = article(1, identifiers=Identifiers(doi="10.1000/1"))
    second = article(
        1, "Aspirin: a title that is quite another one", doc_id="p1b", identifiers=Identifiers(pmid="4711"), authors=("Poe, Ann",)
    )
    world = SavedWorld(tmp_path, LibraryVersions([first, second]))
    await world.save({"query": "aspirin[ti]", "sources": ["library"]})
    await world.run()
    world.library.records = [first.model_copy(update={"title": second.title, "authors": second.authors, "abstract": second.abstract})]
    assert ("gone", "p1b", "merged") in list_changes(await world.run())


def make_search(folder: Path, **options: Any) -> tuple[SavedWorld, Shelf, Shelf]:
    library = Shelf([article(number) for number in range(3)])
    service = Shelf([article(number, doc_id=f"openalex:{number}") for number in (5, 6)], name="openalex", strategies=("search",))
    return SavedWorld(folder, shelves=(library, service), **options), library, service


SEARCH = {"query": "aspirin", "top_k": 50, "distill_enabled": False}


async def test_a_ranked_search_is_compared_in_the_same_way(tmp_path: Path) -> None:
    world, library, service = make_search(tmp_path)
    await world.save(SEARCH)
    assert await world.run() is None
    assert list_changes(await world.run()) == []
    library.records = [*replace_record(library.records[1:], 1, metadata=RETRACTION), article(8)]
    library.records = replace_record(library.records, 2, venue="Other Annals")
    difference = await world.run()
    assert list_changes(difference) == [
        ("new", "p8", "new in source"),
        ("changed", "p1", "retracted"),
        ("changed", "p2", "record changed"),
        ("gone", "p0", "gone from source"),
    ]
    service.error = SourceUnavailable("openalex answered 503")
    failed = await world.run()
    assert set(list_changes(failed)) == {
        ("missing", "openalex:5", "source failed"),
        ("missing", "openalex:6", "source failed"),
    }
    service.error = None
    assert list_changes(await world.run()) == []


async def test_settings_and_ranks_of_a_search_are_named(tmp_path: Path) -> None:
    world, library, _ = make_search(tmp_path)
    await world.save({**SEARCH, "top_k": 3})
    await world.run()
    library.records.insert(0, article(20, "Aspirin, aspirin"))
    causes = {cause for _, _, cause in list_changes(await world.run())}
    assert causes == {"ranking"}, "it may have stood behind the third hit before"
    await world.save({**SEARCH, "top_k": 40}, replace=True)
    difference = await world.run()
    assert {(change, cause) for change, _, cause in list_changes(difference)} == {("new", "settings changed")}
    assert difference is not None
    assert "top_k 3 -> 40" in difference.remarks[0]
    await world.save({"query": "fever", "top_k": 40, "distill_enabled": False}, replace=True)
    assert {cause for _, _, cause in list_changes(await world.run())} == {"query changed"}


async def test_a_work_that_a_filter_leaves_out_since_says_so(tmp_path: Path) -> None:
    world, library, _ = make_search(tmp_path)
    await world.save({**SEARCH, "filters": {"retracted": False}})
    await world.run()
    library.records = replace_record(library.records, 1, metadata=RETRACTION)
    difference = await world.run()
    assert list_changes(difference) == [("gone", "p1", "retracted")]
    assert difference is not None
    assert difference.works[0].why.lower().startswith("retracted")


async def test_a_failed_run_is_kept_and_skipped(tmp_path: Path) -> None:
    world, library, service = make_search(tmp_path)
    await world.save(SEARCH)
    await world.run()
    library.error = service.error = SourceUnavailable("all is down")
    with pytest.raises(NothingSearchable):
        await world.run()
    library.error = service.error = None
    library.records.append(article(8))
    difference = await world.run()
    assert (difference and difference.before, list_changes(difference)) == (1, [("new", "p8", "new in source")])
    info = await show_saved(world.services, "alert")
    assert [(run.number, run.status) for run in info.runs] == [(3, "complete"), (2, "failed"), (1, "complete")]


@pytest.mark.blocking
async def test_an_interrupted_protocol_continues_after_its_last_page(tmp_path: Path) -> None:
    world = make_world(tmp_path, 0)
    world.library.records = [article(number, f"Aspirin in town {number}") for number in range(23)]
    await world.save({"query": "aspirin[ti]", "sources": ["library"]})
    await world.run()
    world.library.records = [*world.library.records, article(30, "Aspirin in town 30")]
    world.library.breaks_after = None
    services = world.services
    saved = await asyncio.to_thread(world.store.get, "alert")
    pages = 0

    def stop(source: str, hits: int) -> None:
        nonlocal pages
        pages += 1
        if pages == 2:
            asyncio.current_task().cancel()  # type: ignore[union-attr] # as Ctrl-C does

    task = asyncio.create_task(run_saved(services, world.store, saved, stop))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [run.status for run in world.store.runs(saved)] == ["complete", "running"]
    assert len(world.store.works(saved, 1)) == 23
    assert not world.store.works(saved, 2)
    assert world.library.last is not None
    difference = await world.run()
    assert world.library.last.opened == ["p17"], "after ten hits in the order of their ids"
    assert list_changes(difference) == [("new", "p30", "new in source")]
    assert [run.status for run in world.store.runs(saved)] == ["complete", "complete"]


@pytest.mark.blocking
async def test_only_one_process_runs_a_saved_search(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    await world.save(PROTOCOL)
    saved = world.store.get("alert")
    with world.store.claim(saved), pytest.raises(SavedBusy, match="is being run"):
        await world.run()


@pytest.mark.blocking
async def test_old_runs_and_their_records_are_deleted(tmp_path: Path) -> None:
    world = make_world(tmp_path, 1)
    world.saved = {"keep_runs": 2}
    await world.save({"query": "aspirin[ti]", "sources": ["library"]})
    for year in range(2001, 2006):
        world.library.records = [article(0, year=year)]
        await world.run()
    saved = world.store.get("alert")
    assert [run.number for run in world.store.runs(saved)] == [4, 5]
    assert len(world.store._query("SELECT content FROM records")) == 2
    assert await remove_saved(world.services, "alert") == 2
    assert world.store._query("SELECT content FROM records") == world.store._query("SELECT work FROM works") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "whenever"}, "is no schedule"),
        ({"schedule": "daily", "timezone": "Mars/Olympus"}, "no time zone"),
        ({"timezone": "UTC"}, "belongs to a schedule"),
        ({"webhook_address": "http://10.0.0.1/hook"}, "which is private"),
        ({"webhook_address": "http://localhost/hook?key=secret"}, "local network"),
        ({"webhook_address": "https://user:pass@example.org/"}, "user name or password"),
        ({"webhook_address": "ftp://example.org/"}, "only http and https"),
        ({"name": "../evil"}, "letters, digits"),
        ({"request": {"query": "(aspirin[ti]"}}, "parenthesis"),
        ({"request": {"query": "aspirin[ti]", "sources": ["nowhere"]}}, "nowhere"),
        ({"request": {"query": "aspirin[ti]", "top_k": 3}}, "top_k"),
    ],
)
async def test_bad_input_is_refused_before_anything_is_written(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    world = make_world(tmp_path)
    world.saved, world.sources = {"webhook_secret": "long enough"}, {"offline": False}
    arguments = {"name": "alert", "request": {"query": "aspirin[ti]"}, "kind": "systematic"} | options
    with pytest.raises(BadRequest, match=message) as refusal:
        await add_saved(world.services, arguments.pop("name"), arguments.pop("request"), **arguments)
    assert "secret" not in str(refusal.value)
    assert "pass@" not in str(refusal.value)
    assert not await asyncio.to_thread(lambda: list(tmp_path.iterdir()))


async def test_a_webhook_needs_a_secret_and_a_search_its_name(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    with pytest.raises(BadRequest, match="WEBHOOK_SECRET"):
        await world.save(PROTOCOL, webhook_address="https://example.org/hook")
    with pytest.raises(NoSuchSaved, match="no saved search 'alert'"):
        await world.run()
    await world.save(PROTOCOL)
    with pytest.raises(BadRequest, match="already"):
        await world.save(PROTOCOL)
    with pytest.raises(BadRequest, match="has 0"):
        await world.diff()
    await world.run()
    with pytest.raises(NoSuchSaved, match="no complete run 7"):
        await world.diff(1, 7)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9])
async def test_a_store_that_was_cut_off_is_refused_and_not_written(tmp_path: Path, share: float) -> None:
    world = make_world(tmp_path)
    await world.save(PROTOCOL)
    await world.run()
    path = world.store.path
    assert isinstance(path, Path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    for attempt in (world.run(), world.save(PROTOCOL, replace=True), list_saved(world.services), diff_runs(world.services, "alert")):
        with pytest.raises(StoreDamaged, match="restore the file"):
            await attempt
    assert path.read_bytes() == whole[: int(len(whole) * share)]


@pytest.mark.blocking
async def test_a_missed_schedule_is_due_once(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    await world.save({"query": "aspirin[ti]", "sources": ["library"]}, schedule="daily", timezone="Europe/Berlin")
    await world.save({"query": "aspirin[ti]", "sources": ["library"]}, name="other")
    store, settings = world.store, world.services.settings
    saved = store.get("alert")
    due = find_next_run(saved, None)
    assert due is not None
    assert datetime.fromtimestamp(due, UTC).hour == 4, "6 o'clock in summer"
    assert list_due(store, due - 1) == []
    assert [one.name for one in list_due(store, due + 5 * 86_400)] == ["alert"]
    settings = settings.model_copy(update={"jobs": settings.jobs.model_copy(update={"uri": str(tmp_path / "jobs.sqlite")})})
    assert queue_due_searches(settings, due + 5 * 86_400) == 1
    assert queue_due_searches(settings, due + 5 * 86_400 + 60) == 0, "five missed runs are one"
    assert queue_due_searches(settings, due + 6 * 86_400 + 60) == 1


@pytest.mark.blocking
async def test_a_time_zone_that_is_gone_stops_no_other_saved_search(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = make_world(tmp_path)
    for name in ("alert", "moved", "other"):
        await world.save(PROTOCOL, name=name, schedule="daily")
    moved = world.store.get("moved").model_copy(update={"timezone": "Mars/Olympus"})
    world.store.add(moved, replace=True)
    world.now += 2 * 86_400
    problems: dict[str, str] = {}
    due = await find_due(world.services, lambda saved, error: problems.update({saved.name: str(error)}))
    assert [one.name for one in due] == ["alert", "other"]
    assert list(problems) == ["moved"]
    assert "Mars/Olympus" in problems["moved"]
    assert [one.schedule_problem for one in await list_saved(world.services)] == ["", problems["moved"], ""]
    settings = world.services.settings
    settings = settings.model_copy(update={"jobs": settings.jobs.model_copy(update={"uri": str(tmp_path / "jobs.sqlite")})})
    assert queue_due_searches(settings, world.now) == 2
    assert "moved" in caplog.text
    world.store.queue(moved.model_copy(update={"schedule": "weekly"}), world.now, lambda *_: True, lambda: None)
    stored = world.store.get("moved")
    assert (stored.schedule, stored.queued_at) == ("daily", world.now), "what was saved meanwhile stays"


class Steps:
    """`JobSteps` that keep the answers, as DBOS does."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.progress = answers, ""

    async def step(self, name: str, work: Any) -> Any:
        if name not in self.answers:
            self.answers[name] = json.loads(json.dumps(await work()))
        return self.answers[name]

    async def report(self, progress: str) -> None:
        self.progress = progress


@pytest.mark.blocking
async def test_a_job_runs_a_saved_search_once(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    await world.save(PROTOCOL)
    answers: dict[str, Any] = {}
    result = await run_saved_job(world.services, {"saved": "alert"}, Steps(answers))
    assert result == {"run": 1, "works": 4, "changes": {}}
    assert await run_saved_job(world.services, {"saved": "alert"}, Steps(answers)) == result, "a job that continues"
    assert len(world.store.runs(world.store.get("alert"))) == 1


async def test_owners_see_their_own(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    key = "sha256:" + "0" * 64
    services = world.services
    serve = services.settings.serve.model_copy(update={"api_keys": {"ann": key, "bob": key}})
    services.settings = services.settings.model_copy(update={"serve": serve})
    await add_saved(services, "alert", PROTOCOL, kind="systematic", owner="ann")
    assert [one.name for one in await list_saved(services, "ann")] == ["alert"]
    assert await list_saved(services, "bob") == await list_saved(services, "") == ()
    assert [one.name for one in await list_saved(services)] == ["ann/alert"]
    for owner, name in (("bob", "alert"), ("", "ann/alert"), ("bob", "ann/alert")):
        with pytest.raises(NoSuchSaved):
            await show_saved(services, name, owner)


@pytest.mark.blocking
async def test_a_library_that_fails_keeps_the_earlier_runs(tmp_path: Path) -> None:
    world = make_world(tmp_path, 20)
    await world.save({"query": "aspirin[ti]", "sources": ["library"]})
    await world.run()
    world.library.breaks_after = 1
    with pytest.raises(LibraryError):
        await world.run()
    world.library.breaks_after = None
    world.library.records.append(article(25))
    assert list_changes(await world.run()) == [("new", "p25", "new in source")]
    assert SavedStore(world.store.path).runs(world.store.get("alert"))[1].error == "the library cannot be read any more"
    assert world.now > NOON
