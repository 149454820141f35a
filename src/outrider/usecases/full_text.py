"""Open full texts of library records, by ids, identifiers or a label."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from pydantic import Field

from outrider.linkage.identifiers import find_identifiers
from outrider.runtime.threads_and_loops import run_in_background
from outrider.services import Services, open_services
from outrider.services.full_text import MOST_WORKS_A_JOB, WORKS_A_PART, FullTextRequest, fetch_part
from outrider.sources.library import BY_IDENTIFIER
from outrider.state.errors import BadRequest
from outrider.state.filters import Compare
from outrider.state.full_text import FullTextReport, WorkText, read_origin
from outrider.state.model import Model
from outrider.usecases.jobs import queue_job

if TYPE_CHECKING:
    from outrider.library.library import Library
    from outrider.state.records import Record

OnReport = Callable[[FullTextReport, int], None]
"""Called with the report so far and the number of all works."""
PAPER = "paper"


class QueuedTexts(Model):
    """Jobs that were queued."""

    jobs: tuple[str, ...] = ()
    works: int = 0
    unknown: tuple[str, ...] = Field((), description="Names that are no records of the library.")


class Selection(Model):
    """Records that a request names."""

    ids: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


async def afetch_full_text(
    *names: str,
    label: str = "",
    all_records: bool = False,
    again: bool = False,
    dry_run: bool = False,
    progress: OnReport | None = None,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> FullTextReport:
    """Fetch the open full texts of these records (ids, DOIs, PMIDs, PMCIDs, arXiv numbers), of those with a label, or of `all_records`.

    Each text is kept in its record with licence and place, ten works at a time. A record with a text is skipped; `again` looks for a
    better form of a text that was fetched. `dry_run` only tells which works would be asked for. Offline, the report has what the library
    holds. Raises `BadRequest` if nothing is named, `LibraryError`.
    """
    async with open_services(services, library) as opened:
        shelf = await opened.library()
        chosen = await select_works(shelf, names, label=label, all_records=all_records)
        works = [WorkText(doc_id=name, status="unknown", reason="the library holds no such record") for name in chosen.unknown]
        total = len(chosen.ids) + len(works)
        for start in range(0, len(chosen.ids), WORKS_A_PART):
            part = chosen.ids[start : start + WORKS_A_PART]
            works += await (_plan(shelf, part, again=again) if dry_run else fetch_part(opened, shelf, part, again=again))
            if progress:
                progress(FullTextReport(works=tuple(works)), total)
        if not dry_run:
            await shelf.optimize()
    return FullTextReport(works=tuple(works))


def fetch_full_text(
    *names: str,
    label: str = "",
    all_records: bool = False,
    again: bool = False,
    dry_run: bool = False,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> FullTextReport:
    """`afetch_full_text` for callers without an event loop."""
    options = {"label": label, "all_records": all_records, "again": again, "dry_run": dry_run}
    return run_in_background(afetch_full_text(*names, **options, library=library, services=services))  # type: ignore[arg-type]


async def queue_full_text(
    services: Services, names: Iterable[str], *, target: str = "", label: str = "", all_records: bool = False, again: bool = False
) -> QueuedTexts:
    """Queue jobs of the kind `full_text` for these records, at most 500 works each. Raises as `afetch_full_text`, and `TargetPaused`."""
    chosen = await select_works(await services.library(), tuple(names), label=label, all_records=all_records)
    if not chosen.ids:
        return QueuedTexts(unknown=chosen.unknown)
    named = target or (f"label:{label}" if label else "full texts")
    numbers: list[str] = []
    for start in range(0, len(chosen.ids), MOST_WORKS_A_JOB):
        request = FullTextRequest(ids=chosen.ids[start : start + MOST_WORKS_A_JOB], again=again)
        numbers.append(await queue_job(services, "full_text", named, request.model_dump(mode="json")))
    return QueuedTexts(jobs=tuple(numbers), works=len(chosen.ids), unknown=chosen.unknown)


async def select_works(library: Library, names: Sequence[str], *, label: str = "", all_records: bool = False) -> Selection:
    """The records that are named, each once; by a label or by all, only papers."""
    if not (names or label or all_records):
        raise BadRequest("name records (ids, DOIs, PMIDs, arXiv numbers), a label, or all of them")
    ids = dict.fromkeys(record.doc_id for record in await library.fetch(list(names)))
    unknown: list[str] = []
    for name in dict.fromkeys(names):
        if name in ids:
            continue
        found = await _find_by_identifier(library, name)
        if found:
            ids[found] = None
        else:
            unknown.append(name)
    if label:
        labels = await library.labels()
        ids |= dict.fromkeys(sorted(doc_id for doc_id, own in labels.items() if label in own))
    if all_records:
        async for record in library.scan(Compare("kind", "$eq", PAPER)):
            ids[record.doc_id] = None
    return Selection(ids=tuple(ids), unknown=tuple(unknown))


async def _find_by_identifier(library: Library, name: str) -> str:
    """The id of the record with a DOI, PMID or arXiv number; empty for none."""
    for scheme, value in find_identifiers(name):
        if scheme in BY_IDENTIFIER and (records := await library.page(Compare(scheme, "$eq", value), 1)):
            return records[0].doc_id
    return ""


async def _plan(library: Library, ids: Sequence[str], *, again: bool) -> list[WorkText]:
    return [_plan_work(record, again=again) for record in await library.fetch(ids)]


def _plan_work(record: Record, *, again: bool) -> WorkText:
    known, origin = {"doc_id": record.doc_id, "title": record.title}, read_origin(record)
    if record.text and not (again and origin):
        return WorkText(**known, status="kept" if origin else "own text", full_text=origin)
    return WorkText(**known, status="planned" if record.kind == PAPER else "not a paper")
