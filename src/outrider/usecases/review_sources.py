"""Records for a review from runs, threads, labels, files, ASReview; duplicates and decisions"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.ingest.column_mapping import check_fields
from outrider.ingest.entry import BadEntry, Entry, FileNote, ReadOptions
from outrider.ingest.readers.select_reader import NoReader, select_reader
from outrider.ingest.record_ids import make_id
from outrider.reviews.asreview import SUFFIX, read_project
from outrider.reviews.labels import ConflictingLabels, Label, find_unread_label, read_labels
from outrider.reviews.review import MAX_NAMED, NewDecision, Review
from outrider.runtime.threads_and_loops import load_module
from outrider.services.citation_queue import OWNER
from outrider.services.systematic import RUN_NAME, find_run_folder
from outrider.state.duplicate_decisions import NO_DECISIONS, Decisions
from outrider.state.errors import BadRequest, NoSuchThread, SearchError, did_you_mean, shorten
from outrider.state.reviews import VERDICTS
from outrider.systematic_search import ledger
from outrider.systematic_search.ledger import NoSuchRun, read_lines
from outrider.systematic_search.ledger_reader import is_done, make_run_hit
from outrider.usecases.citation_targets import LABEL, is_file
from outrider.usecases.export import make_record

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.state.records import Record

FORMS = "name a file, label:NAME (a label of the library), a thread, or a systematic run"
MAX_NOTES = 10


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """How a source is read. `column` names the field of the label; none is read without `labels`."""

    labels: bool = True
    column: str = ""
    columns: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class SourceRecords:
    """The records of a source, with the labels and notes that some of them have, by their places from 0."""

    name: str
    records: Sequence[Record]
    labels: Mapping[int, Sequence[Label]]
    notes: Mapping[int, str]
    duplicate_of: Mapping[int, int]
    """What the source itself says: by place, the place of the record that stands for it."""
    remarks: tuple[str, ...] = ()
    path: str = ""
    """Of a file on this machine, which its name alone may not tell from others."""
    decisions: Decisions = NO_DECISIONS
    """Of the user about duplicates among records of the library."""


async def read_source(services: Services, text: str, options: SourceOptions) -> SourceRecords:
    """Raises `BadRequest` for an unknown source and for one without records, `UnreadableFile`. A client of a server names no file."""
    text = text.strip()
    if not text:
        raise BadRequest(f"a source is required: {FORMS}")
    if text.startswith(LABEL):
        return await _add_decisions(services, await _read_label(services, text, options))
    if OWNER.get() is None or RUN_NAME.fullmatch(text):  # a client names a run, and no place of this machine
        with suppress(NoSuchRun):
            folder = await asyncio.to_thread(find_run_folder, services, text)
            return await _add_decisions(services, await asyncio.to_thread(_read_run, folder, options))
    if await is_file(text):
        limits = services.settings.ingest
        read = ReadOptions(columns=dict(options.columns or {}), max_bytes=limits.max_bytes, max_pages=limits.max_pages)
        return await asyncio.to_thread(lambda: replace(read_file(Path(text), options, read), path=Path(text).resolve().as_posix()))
    try:
        return await _add_decisions(services, await _read_thread(services, text, options))
    except NoSuchThread:
        raise BadRequest(f"there is no source {shorten(text)}: {FORMS}") from None


async def _add_decisions(services: Services, source: SourceRecords) -> SourceRecords:
    """Records that may be the library's, with what the user decided about them."""
    try:
        return replace(source, decisions=await services.decisions())
    except SearchError as error:
        return replace(source, remarks=(*source.remarks, f"your decisions about duplicates could not be read: {error}"))


def read_file(path: Path, options: SourceOptions, read: ReadOptions) -> SourceRecords:
    """The records of a file, in its order. Raises `BadRequest`, `UnreadableFile`."""
    if not path.is_file():
        raise BadRequest(f"{path} is no file; {FORMS}")
    if path.suffix.lower() == SUFFIX:
        return _read_asreview(path, options, read.max_bytes)
    check_fields(read.columns)
    reader = select_reader(path)
    if isinstance(reader, NoReader):
        raise BadRequest(f"{path}: {reader.reason}")
    records: list[Record] = []
    remarks: list[str] = []
    lost = 0
    for entry in reader.read(path, read):
        if isinstance(entry, Entry):
            key = f"id:{entry.own_id}" if entry.own_id is not None else f"at:{len(records)}"
            doc_id = entry.record.doc_id or make_id(path.name, key)
            records.append(entry.record.model_copy(update={"doc_id": doc_id, "origin": path.name}))
        elif isinstance(entry, BadEntry):
            lost += not entry.empty
            remarks += [f"not read: {entry.where}: {entry.why}"] if lost <= MAX_NOTES and not entry.empty else []
        elif isinstance(entry, FileNote):
            remarks.append(entry.text)
    if lost > MAX_NOTES:
        remarks.append(f"{lost:,} entries could not be read; the first {MAX_NOTES} are listed above")
    return _make_source(path.name, records, options, remarks)


def _read_asreview(path: Path, options: SourceOptions, max_bytes: int) -> SourceRecords:
    project = read_project(path, max_bytes)
    records = [one.record.model_copy(update={"origin": path.name}) for one in project]
    labels: dict[int, Sequence[Label]] = {}
    if options.labels:
        labels = {place: [Label("include" if one.included else "exclude")] for place, one in enumerate(project) if one.included is not None}
    notes = {place: one.note for place, one in enumerate(project) if one.note}
    of = {place: one.duplicate_of for place, one in enumerate(project) if one.duplicate_of is not None}
    return SourceRecords(path.name, _require(records, path.name), labels, notes, of)


def _read_run(folder: Path, options: SourceOptions) -> SourceRecords:
    """All hits of a run: those that repeat another one are its duplicates, as the run found them."""
    path = folder / ledger.NAME
    places: dict[int, int] = {}
    records: list[Record] = []
    duplicates: dict[int, int] = {}
    for line in read_lines(path):
        if line.kind == "hit":
            hit = make_run_hit(line)
            places[hit.number] = len(records)
            records.append(hit.record)
        elif line.kind == "duplicate":
            duplicates[line.fields["hit"]] = line.fields["of"]
    remarks = [] if is_done(path) else ["the run has not fetched all matches yet; resume it and import it again"]
    source = _make_source(folder.name, records, options, remarks)
    return replace(source, duplicate_of={places[hit]: places[of] for hit, of in duplicates.items()})


async def _read_label(services: Services, text: str, options: SourceOptions) -> SourceRecords:
    library, name = await services.library(), text.removeprefix(LABEL).strip()
    labels = await library.labels()
    ids = sorted(doc_id for doc_id, names in labels.items() if name in names)
    if not ids:
        known = sorted({one for names in labels.values() for one in names})
        raise BadRequest(f"no record of the library has the label {shorten(name)}{did_you_mean(name, known)}")
    return _make_source(f"{LABEL}{name}", await library.fetch(ids), options, [])


async def _read_thread(services: Services, text: str, options: SourceOptions) -> SourceRecords:
    usecase = await load_module("outrider.usecases.threads")  # it loads the graph, which no other source needs
    name = await usecase.find_client_target(services, text, OWNER.get())
    async with usecase.open_threads(services) as threads:
        answer = await threads.last(name)
    return _make_source(text, [make_record(hit) for hit in answer.hits] if answer else [], options, [])


def _make_source(name: str, records: list[Record], options: SourceOptions, remarks: Sequence[str]) -> SourceRecords:
    _require(records, name)
    labels: dict[int, Sequence[Label]] = {}
    if options.labels or options.column:
        labels = {place: label for place, record in enumerate(records) if (label := read_labels(record, options.column))}
        if options.column and not labels:
            raise BadRequest(f"{name} has no labels in a field {options.column!r}")
    if options.labels and not options.column:
        rest = (find_unread_label(record) for place, record in enumerate(records) if place not in labels)
        remarks = [*remarks, *_describe_unread([cell for cell in rest if cell])]
    return SourceRecords(name, records, labels, {}, {}, tuple(remarks))


def _describe_unread(cells: Sequence[str]) -> list[str]:
    if not cells:
        return []
    different = [*dict.fromkeys(map(shorten, cells))]
    more = f", and {len(different) - MAX_NAMED} more" if len(different) > MAX_NAMED else ""
    records = "1 record has" if len(cells) == 1 else f"{len(cells):,} records have"
    return [f"{records} no label but {', '.join(different[:MAX_NAMED])}{more} in its column; write include, exclude or maybe"]


def _require(records: list[Record], name: str) -> list[Record]:
    if not records:
        raise BadRequest(f"{name} holds no records")
    return records


def find_duplicates(review: Review, source: SourceRecords, *, link: bool) -> dict[int, int]:
    """By place in the source: the number of the record of the review that stands for it, from all that the records say.

    Decisions of the user override that, and what the source says.
    """
    from outrider.linkage.clustering import make_overrides
    from outrider.linkage.normalized_record import make_keys
    from outrider.linkage.resolve import resolve_keys

    before, total = review.state.total, len(source.records)
    if not all(0 <= of < total for of in source.duplicate_of.values()):
        raise BadRequest(f"{source.name} calls a record the duplicate of one that it lacks. Nothing was imported")
    linked: dict[int, int] = {}
    if link:
        records: list[Record] = [*review.all_records(), *source.records]
        overrides = make_overrides(source.decisions, [record.doc_id for record in records])
        for group in resolve_keys([make_keys(record) for record in records], overrides=overrides).groups:
            leader = review.state.leader(group[0] + 1)
            linked |= {member + 1: leader for member in group if member >= before and member + 1 != leader}
    for place, of in sorted(source.duplicate_of.items()):
        first, second = sorted(_find_leader(linked, before + 1 + one) for one in (place, of))
        is_apart = source.decisions.are_apart(source.records[place].doc_id, source.records[of].doc_id)
        if first != second > before and not is_apart:  # works of the review stay apart, too
            linked[second] = first
    leaders = {number: _find_leader(linked, number) for number in linked}
    return {number - before - 1: leader for number, leader in leaders.items()}


def _find_leader(linked: Mapping[int, int], number: int) -> int:
    """The end of a chain of duplicates."""
    while (following := linked.get(number)) is not None:
        number = following
    return number


def make_decisions(review: Review, source: SourceRecords, duplicates: Mapping[int, int]) -> list[NewDecision]:
    """The labels of the source as decisions on works: final ones, or those of the people it names, if the review takes several.

    Raises `ConflictingLabels`.
    """
    new: dict[tuple[int, str], NewDecision] = {}
    made: set[tuple[int, str]] = set()
    clashes, before = [], review.state.total
    for place, labels in sorted(source.labels.items()):
        work = duplicates.get(place, before + 1 + place)
        state = review.state.state(work) if work <= before else "unscreened"
        own = {one.by: one.verdict for one in review.state.decisions(work)} if state == "waiting" else {}
        title = shorten(source.records[place].title or source.records[place].doc_id)
        for verdict, reason, name in labels:
            by = _find_person(name, source) if review.state.reviewers > 1 else ""
            one = new.setdefault((work, by), NewDecision(work, verdict, by or source.name, reason, imported=not by))
            if one.verdict != verdict:
                clashes.append(f"{title} is labelled {one.verdict} and {verdict}")
            elif (present := state if state in VERDICTS else own.get(by, verdict)) != verdict:
                clashes.append(f"{title} is labelled {verdict}, and the review has {present}")
            if state not in ("unscreened", "waiting") or by in own:
                made.add((work, by))
    if clashes:
        more = f", and {len(clashes) - MAX_NAMED} more" if len(clashes) > MAX_NAMED else ""
        raise ConflictingLabels(
            f"the labels of {source.name} contradict each other: {'; '.join(clashes[:MAX_NAMED])}{more}. Nothing was imported; import "
            "without labels (--no-labels), into a review of several reviewers (--reviewers 2) where people disagree, or without linking "
            "duplicates (--keep-duplicates) where these are different works"
        )
    return [one for key, one in new.items() if key not in made]


def _find_person(name: str, source: SourceRecords) -> str:
    """The reviewer of a label. A client with a key decides for nobody else: others are marked as people of the file."""
    return name if not name or OWNER.get() in (None, "", name) else f"{name} ({source.name})"
