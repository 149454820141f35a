"""Screening of reviews: imports, the next record, decisions, status and exports

A review is a folder (`reviews.review`), named by its name among the reviews of the settings or, on this machine, by its path. All
reviewers of a server work on the same reviews; the owner of an API key is the reviewer's name.
"""

from __future__ import annotations

import asyncio
import getpass
import re
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.cluster.task_map import open_task_map
from outrider.ingest.entry import ReadOptions
from outrider.reviews.decision_log import NAME
from outrider.reviews.export import FORMATS, SUFFIXES, export_views
from outrider.reviews.labels import ConflictingLabels
from outrider.reviews.review import NewBatch, NewDecision, NewNote, Review
from outrider.reviews.review_state import ReviewState
from outrider.reviews.session import ReviewSession
from outrider.reviews.stop import CONFIDENCE, TARGET_RECALL, describe_stop
from outrider.runtime.threads_and_loops import run_in_background, run_in_thread
from outrider.services import Services, open_services
from outrider.services.citation_queue import OWNER
from outrider.services.distiller import distil
from outrider.state.distilling import Reading
from outrider.state.errors import BadRequest, SearchError, did_you_mean, shorten
from outrider.state.reviews import (
    MAX_NAME_CHARS,
    MAX_REVIEWERS,
    MAX_SEED,
    VERDICTS,
    Candidate,
    ConflictList,
    DecisionReport,
    ImportReport,
    NoSuchReview,
    Order,
    Presentation,
    RecordState,
    ReviewerAgreement,
    ReviewerCount,
    ReviewList,
    ReviewRecord,
    ReviewStatus,
    ReviewSummary,
    list_reasons,
)
from outrider.statistics.agreement import compute_kappa, count_agreed
from outrider.text.screening_labels import parse_verdict
from outrider.text.strip_markup import fold_text
from outrider.text.words import WORD, content_words, stem
from outrider.usecases.review_sources import SourceOptions, SourceRecords, find_duplicates, make_decisions, read_file, read_source

if TYPE_CHECKING:
    from outrider.state.records import Record

REVIEW_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MAX_TEXT_CHARS = 5_000
"""Of a reason, a note or a question."""
SENTENCES = 3
"""Sentences of an abstract that are marked."""
ENGINE = "words"
"""Of the distiller: a reviewer waits for it at each record, so no model is loaded."""
STATES: tuple[RecordState, ...] = ("include", "exclude", "maybe", "conflict", "waiting", "unscreened")


async def create_review(
    services: Services, name: str, *, question: str = "", reviewers: int = 1, reasons: Sequence[str] = (), seed: int = 0
) -> ReviewStatus:
    """A new review without records. Raises `BadRequest` for an invalid name and for one that is taken."""
    if not REVIEW_NAME.fullmatch(name):
        raise BadRequest(f"a review's name has letters, digits, dots, - and _, 100 at most, not {shorten(name)}")
    if not 1 <= reviewers <= MAX_REVIEWERS:
        raise BadRequest(f"reviewers takes 1 to {MAX_REVIEWERS}, not {reviewers}")
    if not 0 <= seed <= MAX_SEED:
        raise BadRequest(f"seed takes 0 to {MAX_SEED:,}, not {seed}")
    settings = {
        "name": name, "question": _check_text("question", question), "created": _now(services), "seed": seed, "reviewers": reviewers,
        "reasons": [*dict.fromkeys(_check_text("a reason", one) for one in reasons)],
    }  # fmt: skip
    await asyncio.to_thread(Review.create, services.reviews.folder / name, settings)
    return await get_status(services, name)


async def list_reviews(services: Services) -> ReviewList:
    """The reviews of the settings by name; one that cannot be opened with the reason."""

    def read() -> ReviewList:
        return ReviewList(reviews=tuple(_summarize(services, folder) for folder in services.reviews.list_folders()))

    return await asyncio.to_thread(read)


async def delete_review(services: Services, name: str) -> None:
    """Delete a review with its records and decisions. Raises `NoSuchReview`."""
    await asyncio.to_thread(lambda: services.reviews.delete(_find_folder(services, name)))


async def import_records(
    services: Services,
    name: str,
    source: str,
    *,
    by: str | None = None,
    options: SourceOptions = SourceOptions(),  # noqa: B008 - frozen
    link: bool = True,
) -> ImportReport:
    """Add the records of a source: a systematic run, a thread, `label:NAME` or a file. With `link`, duplicates are linked.

    Labels of the source are final decisions. Raises `BadRequest`, `UnreadableFile`, and `ConflictingLabels` where labels of one work
    contradict each other or the review's: then nothing is written.
    """
    session = await _open(services, name)
    return await _import(services, session, await read_source(services, source, options), by, link=link)


async def import_text(
    services: Services,
    name: str,
    file_name: str,
    content: bytes,
    *,
    by: str | None = None,
    options: SourceOptions = SourceOptions(),  # noqa: B008
) -> ImportReport:
    """Add the records of a file that a client sent as a text. Errors of `import_records`."""
    from tempfile import TemporaryDirectory

    session = await _open(services, name)

    def read() -> SourceRecords:
        plain = re.sub(r"[^\w.() -]", "_", Path(file_name).name)[-MAX_NAME_CHARS:] or "file"
        with TemporaryDirectory(prefix="outrider-review-") as folder:
            path = Path(folder) / plain
            path.write_bytes(content)
            return _read_sent_file(services, path, options)

    return await _import(services, session, await run_in_thread(read), by, link=True)


async def import_file(
    services: Services,
    name: str,
    path: Path,
    *,
    by: str | None = None,
    options: SourceOptions = SourceOptions(),  # noqa: B008
) -> ImportReport:
    """Add the records of a file that a client sent, which is at `path` for now. Errors of `import_records`."""
    session = await _open(services, name)
    source = await run_in_thread(lambda: _read_sent_file(services, path, options))
    return await _import(services, session, source, by, link=True)


def _read_sent_file(services: Services, path: Path, options: SourceOptions) -> SourceRecords:
    """No error names its folder, which is no business of the client."""
    limits = services.settings.ingest
    try:
        return read_file(path, options, ReadOptions(max_bytes=limits.max_bytes, max_pages=limits.max_pages))
    except SearchError as error:
        raise BadRequest(str(error).replace(str(path), path.name)) from error


async def get_next(
    services: Services, name: str, *, by: str | None = None, order: Order = "model", skip: Collection[int] = ()
) -> Candidate:
    """The next record for a reviewer: `order` is `model`, or `random` for the next draw of a proof of recall. Skipped ones come last."""
    session, reviewer = await _open(services, name), find_reviewer(services, by)
    found = await run_in_thread(lambda: session.next_record(reviewer, order, skip))
    return await _make_candidate(services, session, reviewer, found.number, found.shown, found.terms, found.left)


async def get_record(services: Services, name: str, record_id: str, *, by: str | None = None) -> Candidate:
    """A record by its number, DOI or another identifier, as the reviewer may see it."""
    session, reviewer = await _open(services, name), find_reviewer(services, by)
    (number,) = await run_in_thread(lambda: session.review.find_numbers([record_id]))

    def read() -> tuple[Presentation, int]:
        with session.review.reading() as state:
            return session.find_presentation(reviewer, number), len(state.find_open(reviewer))

    presentation, left = await asyncio.to_thread(read)
    return await _make_candidate(services, session, reviewer, number, presentation, (), left)


async def decide(
    services: Services,
    name: str,
    decisions: Sequence[tuple[str, str, str]],
    *,
    by: str | None = None,
    resolve: bool = False,
    note: str = "",
    presentation: Presentation | None = None,
) -> DecisionReport:
    """Record decisions of a reviewer: an id (number, DOI, ...), `include`, `exclude` or `maybe`, and a reason or an empty text.

    `resolve` decides conflicts; a note is added to the records. Raises `BadRequest` for unknown ids and decisions, `ConflictingLabels` for
    two decisions on one work: then nothing is written.
    """
    session, reviewer = await _open(services, name), find_reviewer(services, by)

    def write() -> DecisionReport:
        review = session.review
        numbers = review.find_numbers([record for record, _, _ in decisions])
        leaders = [review.state.leader(number) for number in numbers]
        shown = session.find_presentations(reviewer, leaders, presentation)
        new: dict[int, NewDecision] = {}
        for leader, (record, word, reason) in zip(leaders, decisions, strict=True):
            if (verdict := parse_verdict(word)) is None:
                suggestion = did_you_mean(word, VERDICTS)
                raise BadRequest(f"record {record}: a decision is include, exclude or maybe, not {shorten(word)}{suggestion}")
            one = NewDecision(leader, verdict, reviewer, _check_text("a reason", reason), shown[leader], resolves=resolve)
            earlier = new.setdefault(leader, one)
            if earlier.verdict != verdict or earlier.reason != one.reason:
                both = " and ".join(f"{two.verdict}{f' ({shorten(two.reason)})' if two.reason else ''}" for two in (earlier, one))
                raise ConflictingLabels(f"the decisions on record {record} contradict each other: {both}; nothing was written")
        text = _check_text("a note", note)
        review.decide([*new.values(), *(NewNote(leader, text, reviewer) for leader in new if text)], _now(services))
        made = [one for number in new for one in review.state.decisions(number, reviewer) if one.by == reviewer]
        return DecisionReport(
            review=review.state.name, decisions=tuple(made), states={number: review.state.state(number) for number in new}
        )

    return await run_in_thread(write)


async def undo(services: Services, name: str, record_id: str = "", *, by: str | None = None) -> DecisionReport:
    """Take back a reviewer's last decision, or the last one on a record."""
    session, reviewer = await _open(services, name), find_reviewer(services, by)

    def write() -> DecisionReport:
        review = session.review
        record = review.find_numbers([record_id])[0] if record_id else None
        number = review.undo(reviewer, _now(services), record)
        return DecisionReport(review=review.state.name, undone=(number,), states={number: review.state.state(number)})

    return await run_in_thread(write)


async def add_note(services: Services, name: str, record_id: str, text: str, *, by: str | None = None) -> ReviewRecord:
    """Add a note to a record."""
    session, reviewer = await _open(services, name), find_reviewer(services, by)
    if not text.strip():
        raise BadRequest("a note takes a text")

    def write() -> ReviewRecord:
        review = session.review
        (number,) = review.find_numbers([record_id])
        review.decide([NewNote(number, _check_text("a note", text), reviewer)], _now(services))
        return review.view(number, reviewer)

    return await run_in_thread(write)


async def get_status(
    services: Services, name: str, *, target_recall: float = TARGET_RECALL, confidence: float = CONFIDENCE
) -> ReviewStatus:
    """Counts, conflicts and imports of a review, and what its labels tell about the recall. Raises `BadRequest`."""
    session = await _open(services, name)

    def read(state: ReviewState) -> ReviewStatus:
        states = {number: state.state(number) for number in state.leaders()}
        counts = Counter(states.values())
        excluded = (number for number, one in states.items() if one == "exclude")
        reasons = Counter(next(reversed(list_reasons("exclude", state.decisions(number))), "no reason given") for number in excluded)
        return ReviewStatus(
            name=state.name,
            question=state.question,
            created=state.created,
            reviewers=state.reviewers,
            reasons=state.list_reasons(),
            records=state.total,
            duplicates=len(state.duplicate_of),
            unscreened=counts["unscreened"],
            waiting=counts["waiting"],
            included=counts["include"],
            excluded=counts["exclude"],
            maybe=counts["maybe"],
            conflicts=tuple(number for number, one in states.items() if one == "conflict"),
            excluded_by_reason=dict(sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))),
            by_reviewer=tuple(ReviewerCount(by=by, decided=number, last=last) for by, (number, last) in state.count_by_reviewer().items()),
            agreement=tuple(
                ReviewerAgreement(reviewers=names, records=len(pairs), agreed=count_agreed(pairs), kappa=compute_kappa(pairs))
                for names, pairs in state.pair_verdicts().items()
            ),
            imports=tuple(
                ImportReport(
                    review=state.name,
                    source=source,
                    records=batch.records,
                    duplicates=len(batch.fields["duplicate_of"]),
                    labels=batch.fields["labels"],
                    first=batch.first,
                )
                for batch, source in zip(state.batches, state.name_sources(), strict=True)
            ),
            stop=describe_stop(state.name, state.list_screened(), state.list_draws(), target_recall, confidence, counts["conflict"]),
            remarks=session.remarks(),
        )

    def read_consistently() -> ReviewStatus:
        with session.review.reading() as state:
            return read(state)

    return await run_in_thread(read_consistently)


async def list_conflicts(services: Services, name: str, *, by: str | None = None) -> ConflictList:
    """The records on which reviewers disagree, with their decisions; a decision that resolves one is `decide(..., resolve=True)`."""
    session, reviewer = await _open(services, name), find_reviewer(services, by)

    def read() -> ConflictList:
        with session.review.reading() as state:
            numbers = [number for number in state.leaders() if state.state(number) == "conflict"]
            return ConflictList(review=state.name, conflicts=tuple(session.review.view(number, reviewer) for number in numbers))

    return await run_in_thread(read)


async def export_review(services: Services, name: str, form: str, states: Collection[str] = ()) -> bytes:
    """The records with their labels in a format of `reviews.export`, at most those in `states`. Decisions that are blinded stay hidden."""
    if form not in FORMATS:
        raise BadRequest(f"a review is not exported to {form!r}{did_you_mean(form, FORMATS)}; known formats: {', '.join(FORMATS)}")
    if unknown := [one for one in states if one not in STATES]:
        raise BadRequest(f"no record is {unknown[0]!r}{did_you_mean(unknown[0], STATES)}; known: {', '.join(STATES)}")
    session, status = await _open(services, name), await get_status(services, name)

    def write() -> bytes:
        review = session.review
        # a part has each work once; all records have their duplicates, each with the number of its work
        every = review.state.leaders() if states else range(1, review.state.total + 1)
        chosen = (number for number in every if not states or review.state.state(number) in states)
        return export_views(status, [review.view(number, "") for number in chosen], form)

    return await run_in_thread(write)


def find_export_format(path: Path) -> str:
    """The format of an exported review by its suffix. Raises `BadRequest`."""
    if path.suffix.lower() not in SUFFIXES:
        raise BadRequest(f"{path} has no known suffix; a review is exported to {', '.join(SUFFIXES)}")
    return SUFFIXES[path.suffix.lower()]


def find_reviewer(services: Services, by: str | None) -> str:
    """The reviewer: the owner of the key on a server with keys, else the name, else that of the user."""
    owner = OWNER.get()
    if owner:
        if by and by != owner:
            raise BadRequest(f"the key is {owner}'s, who cannot decide as {shorten(by)}")
        return owner
    if by is None or not by.strip():
        if owner is not None:
            raise BadRequest("a reviewer's name is required: by")
        by = services.settings.review.reviewer
    if not by:
        with suppress(OSError, KeyError, ImportError):  # a container may have no name for its user
            by = getpass.getuser()
    name = " ".join((by or "reviewer").split())
    if len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise BadRequest(f"a reviewer's name has at most {MAX_NAME_CHARS} printable characters")
    return name


async def prepare_review(services: Services, name: str, on: str = "", address: str | None = None) -> None:
    """Compute the features that order the records of a review, before the first one is asked for.

    With `on="ray"` the cluster at `address`, by default that of the settings, counts their terms. Raises `NoSuchReview`, and what
    `open_cluster` raises.
    """
    session = await _open(services, name)

    def prepare() -> None:
        with open_task_map(on, address) as tasks:
            session.prepare(tasks)

    await run_in_thread(prepare, "outrider-review")


async def _open(services: Services, name: str) -> ReviewSession:
    return await asyncio.to_thread(lambda: services.reviews.open(_find_folder(services, name)))


def _find_folder(services: Services, name: str) -> Path:
    """A name among the reviews of the settings, or on this machine the path of a folder. Raises `NoSuchReview`."""
    folder = services.reviews.folder / name
    if REVIEW_NAME.fullmatch(name) and (folder / NAME).is_file():
        return folder
    path = Path(name).expanduser()
    if OWNER.get() is None and (path / NAME).is_file():
        return path.resolve()
    known = [one.name for one in services.reviews.list_folders()]
    raise NoSuchReview(f"there is no review {shorten(name)}{did_you_mean(name, known) or '; outrider review list shows them'}")


async def _import(services: Services, session: ReviewSession, source: SourceRecords, by: str | None, *, link: bool) -> ImportReport:
    reviewer = "" if OWNER.get() == "" and not by else find_reviewer(services, by)  # a server without keys need not know who imports
    review = session.review

    def write() -> ImportReport:
        expected = review.state.total
        duplicates = find_duplicates(review, source, link=link)
        decisions = make_decisions(review, source, duplicates)
        works = ((duplicates.get(place, expected + 1 + place), text) for place, text in sorted(source.notes.items()))
        notes = dict.fromkeys(NewNote(work, text[:MAX_TEXT_CHARS], source.name) for work, text in works)  # a project repeats them
        batch = NewBatch(source.name, source.records, duplicates, source.path)
        review.import_batch(batch, [*decisions, *notes], reviewer, _now(services), expected)
        return ImportReport(
            review=review.state.name,
            source=source.name,
            records=len(source.records),
            duplicates=len(duplicates),
            labels=len(decisions),
            notes=len(notes),
            first=expected + 1,
            remarks=source.remarks,
        )

    return await run_in_thread(write)


async def _make_candidate(
    services: Services,
    session: ReviewSession,
    reviewer: str,
    number: int | None,
    presentation: Presentation,
    terms: Sequence[str],
    left: int,
) -> Candidate:
    def read() -> tuple[Candidate, str]:  # in a thread: another one may hold the review while it waits for a process that writes
        with session.review.reading() as state:
            candidate = Candidate(
                review=state.name,
                by=reviewer,
                left=left,
                decided=state.count_decided(reviewer),
                reasons=state.list_reasons(reviewer),
                remarks=session.remarks(),
            )
            if number is None:
                return candidate, ""
            view = session.review.view(number, reviewer)
            marked = _find_terms(view.record, {*map(stem, terms), *map(stem, content_words(state.question))})
            return candidate.model_copy(update={"record": view, "shown": presentation, "terms": marked}), state.question

    candidate, question = await run_in_thread(read)
    if candidate.record is None:
        return candidate
    return candidate.model_copy(update={"sentences": await _find_sentences(services, question, candidate.record.record)})


def _find_terms(record: Record, stems: Collection[str]) -> tuple[str, ...]:
    """The words of a record with these stems, in lower case."""
    every = {word.lower() for word in WORD.findall(f"{record.title} {record.abstract or record.description}")}
    return tuple(sorted(word for word in every if stem(fold_text(word)) in stems))


async def _find_sentences(services: Services, question: str, record: Record) -> tuple[tuple[int, int], ...]:
    text = record.abstract or record.description
    if not question.strip() or not text.strip():
        return ()
    reading = Reading(record.doc_id or "1", text, record.title, "[1]")
    kept = await distil(services, question, [reading], engine=ENGINE, max_units=SENTENCES, bypass=False)
    return tuple((unit.start, unit.end) for unit in kept.units)


def _summarize(services: Services, folder: Path) -> ReviewSummary:
    try:
        review = services.reviews.open(folder).review
    except SearchError as error:
        return ReviewSummary(name=folder.name, question="", created="", reviewers=1, records=0, screened=0, problem=str(error))
    with review.reading() as state:
        return ReviewSummary(
            name=state.name, question=state.question, created=state.created, reviewers=state.reviewers, records=state.total,
            screened=state.count_screened(),
        )  # fmt: skip


def _check_text(what: str, text: str) -> str:
    plain = " ".join(text.split())
    if len(plain) > MAX_TEXT_CHARS:
        raise BadRequest(f"{what} has at most {MAX_TEXT_CHARS:,} characters, not {len(plain):,}")
    return plain


def _now(services: Services) -> str:
    return datetime.fromtimestamp(services.clock(), UTC).isoformat(timespec="milliseconds")


async def _call(function: Any, library: str | PathLike[str] | None, services: Services | None, *arguments: Any, **options: Any) -> Any:
    async with open_services(services, library) as opened:
        return await function(opened, *arguments, **options)


async def areview_new(name: str, *, services: Services | None = None, **options: Any) -> ReviewStatus:
    """A new review; options of `outrider review new`: `question`, `reviewers`, `reasons`, `seed`. Raises `BadRequest`."""
    status: ReviewStatus = await _call(create_review, None, services, name, **options)
    return status


def review_new(name: str, **options: Any) -> ReviewStatus:
    """`areview_new` for callers without an event loop."""
    return run_in_background(areview_new(name, **options))


async def areview_import(
    name: str, source: str | PathLike[str], *, library: str | PathLike[str] | None = None, services: Services | None = None, **options: Any
) -> ImportReport:
    """Add the records of a run, a thread, `label:NAME` or a file to a review; errors of `import_records`."""
    report: ImportReport = await _call(import_records, library, services, name, str(source), **options)
    return report


def review_import(name: str, source: str | PathLike[str], **options: Any) -> ImportReport:
    """`areview_import` for callers without an event loop."""
    return run_in_background(areview_import(name, source, **options))


async def areview_next(name: str, *, services: Services | None = None, **options: Any) -> Candidate:
    """The next record for the reviewer `by`, best first; `order="random"` gives the next draw of a proof of recall."""
    candidate: Candidate = await _call(get_next, None, services, name, **options)
    return candidate


def review_next(name: str, **options: Any) -> Candidate:
    """`areview_next` for callers without an event loop."""
    return run_in_background(areview_next(name, **options))


async def areview_label(
    name: str, record: int | str, decision: str, reason: str = "", *, services: Services | None = None, **options: Any
) -> DecisionReport:
    """Decide on a record: `include`, `exclude` or `maybe`, as the reviewer `by`. Raises `BadRequest`."""
    report: DecisionReport = await _call(decide, None, services, name, [(str(record), decision, reason)], **options)
    return report


def review_label(name: str, record: int | str, decision: str, *arguments: Any, **options: Any) -> DecisionReport:
    """`areview_label` for callers without an event loop."""
    return run_in_background(areview_label(name, record, decision, *arguments, **options))


async def areview_status(name: str, *, services: Services | None = None, **options: Any) -> ReviewStatus:
    """Counts, conflicts and imports of a review, and what is known of its recall: `target_recall`, `confidence`."""
    status: ReviewStatus = await _call(get_status, None, services, name, **options)
    return status


def review_status(name: str, **options: Any) -> ReviewStatus:
    """`areview_status` for callers without an event loop."""
    return run_in_background(areview_status(name, **options))


async def areview_export(name: str, form: str = "csv", *, services: Services | None = None, **options: Any) -> bytes:
    """The records with their labels as the content of a file: `csv`, `ris`, `asreview`, `jsonl`, ..., `prisma-markdown`, `prisma-json`."""
    content: bytes = await _call(export_review, None, services, name, form, **options)
    return content


def review_export(name: str, form: str = "csv", **options: Any) -> bytes:
    """`areview_export` for callers without an event loop."""
    return run_in_background(areview_export(name, form, **options))
