"""Deduplication of files and libraries (`outrider.dedup`), and decisions (`merge`, `split`)."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from outrider.cluster.task_map import open_task_map
from outrider.ingest.deduplicate_files import check_input, deduplicate_files
from outrider.ingest.entry import ReadOptions
from outrider.linkage.disk_keys import OnStep, no_progress
from outrider.linkage.out_of_core import OutOfCoreResolver
from outrider.runtime.task_map import TaskMap, map_here
from outrider.runtime.threads_and_loops import run_in_background, run_in_thread, stop_if_abandoned
from outrider.services import open_services
from outrider.settings.load import load
from outrider.state.duplicate_decisions import Decision, Decisions
from outrider.state.errors import BadRequest
from outrider.state.records import Record

if TYPE_CHECKING:
    from outrider.services import Services


MAX_IDS, MAX_CHARS = 100, 1_000
MIN_IDS = {"merge": 2, "split": 1, "forget": 1}
BY = "outrider library dedup"
IDS_A_DECISION = 100
"""A larger group takes several decisions, which share an id."""
DECISIONS_A_COMMIT = 1_000
RECORDS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A decision as the library remembers it. Records stay as they are."""

    decision: Decision
    titles: dict[str, str]
    """By id, of records in the library."""
    unknown: tuple[str, ...]
    """Ids without a record in the library: the decision counts for records that searches find under them."""


async def asplit(
    doc_id: str,
    *others: str,
    why: str = "",
    by: str | None = None,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> RecordedDecision:
    """Do the same as `outrider library split`: keep a record separate from `others`, or, without them, from every other record.

    The library remembers who decided (`by`, the user's name by default) and when; records stay as they are. Raises `BadRequest`,
    `LibraryMissing`.
    """
    async with open_services(services, library) as opened:
        return await record_decision(opened, "split", [doc_id, *others], by, why)


def split(doc_id: str, *others: str, **options: Any) -> RecordedDecision:
    """`asplit` for callers without an event loop."""
    return run_in_background(asplit(doc_id, *others, **options))


async def amerge(
    *doc_ids: str,
    why: str = "",
    by: str | None = None,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> RecordedDecision:
    """Do the same as `outrider library merge`: take records for one work from now on, whatever the evidence; `asplit` undoes it.

    Raises `BadRequest`, also for a merge of records that were split, and `LibraryMissing`.
    """
    async with open_services(services, library) as opened:
        return await record_decision(opened, "merge", doc_ids, by, why)


def merge(*doc_ids: str, **options: Any) -> RecordedDecision:
    """`amerge` for callers without an event loop."""
    return run_in_background(amerge(*doc_ids, **options))


async def record_decision(
    services: Services, what: Literal["merge", "split", "forget"], ids: Sequence[str], by: str | None = None, why: str = ""
) -> RecordedDecision:
    """Record a decision in the library of the services; `by` is the user's name where it is None.

    Raises `BadRequest` for invalid ids, and for a merge of records that were split; `LibraryMissing` where there is no library.
    """
    _check_ids(what, ids)
    library = await services.library()
    if by is None:
        by = ""
        with suppress(OSError, KeyError, ImportError):  # a container may have no name for its user
            by = getpass.getuser()
    now = datetime.fromtimestamp(services.clock(), UTC).isoformat(timespec="seconds")
    decision = Decision(what=what, ids=tuple(ids), by=by, at=now, why=why)
    before = await library.decisions()
    conflicts = Decisions.from_log((*before, decision)).conflicts()
    if conflicts and conflicts != Decisions.from_log(before).conflicts():
        raise BadRequest(f"this would go against {conflicts[0]}; undo one of them first with: outrider library decisions --forget ID")
    titles = {record.doc_id: record.title for record in await library.fetch(list(ids))}
    await library.decide(decision)
    return RecordedDecision(decision, titles, tuple(doc_id for doc_id in ids if doc_id not in titles))


def _check_ids(what: str, ids: Sequence[str]) -> None:
    listed = ", ".join(f"{doc_id[:80]!r}" for doc_id in ids) or "nothing"
    if len({*ids}) < MIN_IDS[what]:
        needs = "the ids of two or more different records" if what == "merge" else "the id of a record"
        raise BadRequest(f"{what} takes {needs}, not {listed}")
    if len({*ids}) < len(ids):
        raise BadRequest(f"{what} was given one id twice: {listed}")
    if len(ids) > MAX_IDS:
        raise BadRequest(f"{what} takes {MAX_IDS} ids at most, not {len(ids)}")
    for doc_id in ids:
        if not doc_id.strip() or len(doc_id) > MAX_CHARS or not doc_id.isprintable():
            raise BadRequest(f"{doc_id[:80]!r} is no id of a record; search and `outrider library list` show them")


@dataclass(frozen=True, slots=True)
class FilesDeduplicated:
    """Ids are the records' own, as `outrider dedup` prints them."""

    groups: tuple[tuple[str, ...], ...]
    """Every record once, singles included, in the order of the files."""
    reasons: tuple[tuple[str, ...], ...]
    """In parallel: why each group is one work; empty for a single."""
    works: tuple[Record, ...]
    """In parallel: each group as one record; `metadata["merged"]` names all records of a larger group."""
    unsure: tuple[tuple[str, str], ...]
    """Pairs that stayed separate and may be one work, the most likely first."""
    related: tuple[tuple[str, str, str], ...]
    """(id, relation, id) of records that belong together and are not one work, such as a preprint and its article."""
    notes: tuple[str, ...]
    """Records that could not be read, and how ids were made."""


def dedup(
    *files: str | PathLike[str], columns: Mapping[str, str] | None = None, on: str = "", address: str | None = None
) -> FilesDeduplicated:
    """Do the same as `outrider dedup FILE...`: groups of the records' own ids, every record in exactly one. No library is needed.

    With `on="ray"` the cluster at `address` compares the records. Raises `BadRequest` for a file that is missing, cannot be read or holds
    no record, and for unknown `columns`.
    """
    limits = load().settings.ingest
    options = ReadOptions(columns=dict(columns or {}), max_bytes=limits.max_bytes, max_pages=limits.max_pages)
    paths = [Path(file) for file in files]
    check_input(paths, options)
    with open_task_map(on, address) as tasks, deduplicate_files(paths, options, tasks=tasks) as result:
        ids, groups, related = result.ids, list(result.groups()), []
        for pair in result.related_pairs():
            first, second = (pair.one, pair.other) if pair.relation.forward else (pair.other, pair.one)
            related.append((ids[first], pair.relation.kind, ids[second]))
        return FilesDeduplicated(
            groups=tuple(tuple(ids[place] for place in group.places) for group in groups),
            reasons=tuple(group.reasons for group in groups),
            works=tuple(result.work(group) for group in groups),
            unsure=tuple((ids[pair.one], ids[pair.other]) for pair in result.unsure_pairs()),
            related=tuple(related),
            notes=result.notes,
        )


@dataclass(frozen=True, slots=True)
class Work:
    """Records of the library that are one work."""

    ids: tuple[str, ...]
    """In the library's order; the first is the smallest."""
    reasons: tuple[str, ...]
    remembered: bool
    """Whether earlier decisions already merge them."""


@dataclass(frozen=True, slots=True)
class UnsurePair:
    """Two records of the library that may be one work."""

    one: str
    other: str
    score: float
    """Log-odds that they are one work."""
    why: str


class LibraryResolver:
    """Finds the works of a library that have several records. Keys are on disk; memory is about a KB a record."""

    def __init__(self, folder: Path, on_step: OnStep, tasks: TaskMap = map_here) -> None:
        self._folder, self._on_step, self._tasks = folder, on_step, tasks
        self.records = 0
        self._resolver: OutOfCoreResolver | None = None
        self._decisions = Decisions()

    async def read(self, services: Services) -> None:
        """Read the library of the services. Raises `LibraryError`."""
        library = await services.library()
        self._decisions = Decisions.from_log(await library.decisions())
        self._resolver = OutOfCoreResolver(self._folder, self._on_step, decisions=self._decisions, tasks=self._tasks)
        scan, loop = library.scan(batch=RECORDS_AT_ONCE), asyncio.get_running_loop()

        def read() -> Iterator[tuple[str, Record]]:
            while batch := asyncio.run_coroutine_threadsafe(_take(scan, RECORDS_AT_ONCE), loop).result():
                stop_if_abandoned()
                self.records += len(batch)
                yield from ((record.doc_id, record) for record in batch)

        # in a thread: the keys cost computation, and go to the disk
        await run_in_thread(partial(self._resolver.add_records, read()), "outrider-duplicates")

    def works(self) -> Iterator[Work]:
        """Works of several records; decisions of people are respected."""
        if self._resolver is None:
            return
        result = self._resolver.resolve()
        for group in result.groups():
            if len(group.places) > 1:
                ids = tuple(result.ids[place] for place in group.places)
                merged = {self._decisions.merged.get(doc_id, doc_id) for doc_id in ids}
                yield Work(ids, group.reasons, len(merged) == 1)

    def unsure(self) -> list[UnsurePair]:
        """Pairs that stay apart and may be one work, the most likely first, without those that a person decided."""
        if self._resolver is None:
            return []
        result = self._resolver.resolve()
        pairs = ((result.ids[pair.one], result.ids[pair.other], pair.judgement) for pair in result.ambiguous_pairs())
        return [
            UnsurePair(one, other, judgement.score, judgement.why())
            for one, other, judgement in pairs
            if not self._decisions.are_apart(one, other)
        ]

    def close(self) -> None:
        if self._resolver is not None:
            self._resolver.close()


async def _take(records: AsyncIterator[Record], number: int) -> list[Record]:
    """The next records; none at the end."""
    batch: list[Record] = []
    async for record in records:
        batch.append(record)
        if len(batch) == number:
            break
    return batch


@contextmanager
def resolve_library(on_step: OnStep = no_progress, tasks: TaskMap = map_here) -> Iterator[LibraryResolver]:
    """A resolver over a temporary folder. The library is read here; `tasks` compares its records."""
    with TemporaryDirectory(prefix="outrider-dedup-") as folder, closing(LibraryResolver(Path(folder), on_step, tasks)) as resolver:
        yield resolver


async def find_unsure_pairs(services: Services, on_step: OnStep = no_progress) -> list[UnsurePair]:
    """Pairs of the library that stay apart and may be one work, the most likely first; decided ones are left out. Reads every record.

    `on_step` is called in threads.
    """

    def step(name: str, done: int, total: int | None) -> None:
        stop_if_abandoned()
        on_step(name, done, total)

    with ExitStack() as stack:
        source = await asyncio.to_thread(stack.enter_context, resolve_library(step))
        cleanup = stack.pop_all()
    try:
        await source.read(services)
        return await run_in_thread(source.unsure, "outrider-duplicates")
    finally:
        await asyncio.shield(asyncio.to_thread(cleanup.close))


async def remember_works(services: Services, works: Sequence[Work]) -> int:
    """Record each work that is not remembered yet as merges, which `split` and `decisions --forget` undo; returns how many works."""
    library = await services.library()
    now = datetime.fromtimestamp(services.clock(), UTC).isoformat(timespec="seconds")
    new = [work for work in works if not work.remembered]
    decisions: list[Decision] = []
    for work in new:
        first, others, why = work.ids[0], work.ids[1:], work.reasons[0] if work.reasons else ""
        for start in range(0, len(others), IDS_A_DECISION - 1):
            ids = (first, *others[start : start + IDS_A_DECISION - 1])
            decisions.append(Decision(what="merge", ids=ids, by=BY, at=now, why=why))
    for start in range(0, len(decisions), DECISIONS_A_COMMIT):
        await library.decide(*decisions[start : start + DECISIONS_A_COMMIT])
    return len(new)
