"""Full texts of library records, fetched in parts, and jobs of the kind `full_text`

A part is written before the next one begins, so an interrupted run keeps what it has. Records that hold a text are skipped. A record keeps
its id and its other fields: a JATS file, a PDF and a page of a work are one record with the best text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, JsonValue

from outrider.full_text.reader import AT_ONCE
from outrider.runtime.threads_and_loops import finish
from outrider.services.citations import open_library
from outrider.state.errors import JobError
from outrider.state.full_text import FullTextReport, WorkText, carry_text, read_origin
from outrider.state.model import Model

if TYPE_CHECKING:
    from outrider.library.library import Library
    from outrider.services import Services
    from outrider.state.jobs import JobSteps
    from outrider.state.records import Record

WORKS_A_PART = 10
"""Works that are fetched and written together, and that a killed process fetches again."""
MOST_WORKS_A_JOB = 500
"""More works are several jobs."""
MOST_REASON_CHARS = 1_000
"""Reasons in a job's result are cut: it is read with each list of jobs."""


class FullTextRequest(Model):
    """The request of a `full_text` job."""

    ids: tuple[str, ...] = Field(description="Ids of records of the library.")
    again: bool = Field(False, description="Also look for better texts of records whose text was fetched.")


async def fetch_part(services: Services, library: Library, ids: Sequence[str], *, again: bool = False) -> list[WorkText]:
    """Fetch the full texts of these records, keep them, and report each. Everything again changes nothing. Raises `LibraryError`."""
    records = await library.fetch(ids)
    fetcher, why_not = await services.text_fetcher()
    wanted = [record.model_copy(update={"text": ""}) if again and read_origin(record) else record for record in records]
    if fetcher is None:
        return [_report_kept(record, why_not) for record in records]
    within_s = services.settings.enrich.full_text_work_s * math.ceil(len(wanted) / AT_ONCE)
    fetched = await fetcher.fetch(wanted, within_s)
    read = {record.doc_id: record for record, report in fetched if report.status == "fetched"}
    stored, renewed = await _carry_texts(library, read)
    if changed := [record for doc_id, record in renewed.items() if record is not stored[doc_id]]:
        await services.embed_known(library, changed)
        # embedding takes seconds, in which others may write: what they wrote is kept, and their text if it is the user's own
        stored, renewed = await _carry_texts(library, read)
        await finish(library.upsert([record for doc_id, record in renewed.items() if record is not stored[doc_id]]))
    return [_report_stored(report, stored, renewed) if report.doc_id in read else report for _, report in fetched]


def _report_stored(report: WorkText, stored: Mapping[str, Record], renewed: Mapping[str, Record]) -> WorkText:
    """The report of a text that was fetched, by what became of the record meanwhile."""
    record = renewed.get(report.doc_id)
    if record is None:
        return report.model_copy(update={"status": "unknown", "full_text": None, "reason": "the record was removed meanwhile"})
    if record is not stored[report.doc_id]:
        return report
    origin = read_origin(record)
    return report.model_copy(update={"status": "kept" if origin else "own text", "full_text": origin})


async def _carry_texts(library: Library, read: Mapping[str, Record]) -> tuple[dict[str, Record], dict[str, Record]]:
    """The records as they are stored now, and with the texts that were read; those that were removed are in neither."""
    stored = {record.doc_id: record for record in await library.fetch(list(read))}
    return stored, {doc_id: carry_text(stored[doc_id], record) for doc_id, record in read.items() if doc_id in stored}


def _report_kept(record: Record, why_not: str) -> WorkText:
    """What the library holds, where nothing can be fetched."""
    origin = read_origin(record)
    if not record.text:
        return WorkText(doc_id=record.doc_id, title=record.title, status="failed", reason=why_not)
    return WorkText(doc_id=record.doc_id, title=record.title, status="kept" if origin else "own text", full_text=origin)


async def run_full_text_job(services: Services, request: dict[str, JsonValue], steps: JobSteps) -> dict[str, JsonValue]:
    """A job of the kind `full_text`: the fields of a `FullTextRequest` in, those of a `FullTextReport` out.

    Raises `JobError` if nothing may be contacted, and `LibraryError`.
    """
    job = FullTextRequest.model_validate(request)
    fetcher, why_not = await services.text_fetcher()
    if fetcher is None:
        raise JobError(f"no full text can be fetched: {why_not}")
    works: list[WorkText] = []
    for start in range(0, len(job.ids), WORKS_A_PART):
        part = job.ids[start : start + WORKS_A_PART]

        async def fetch(part: Sequence[str] = part) -> JsonValue:
            reports = await fetch_part(services, await open_library(services), part, again=job.again)
            return [shorten(report).model_dump(mode="json", exclude_defaults=True) for report in reports]

        answer = await steps.step(f"full text {start + 1} to {start + len(part)}", fetch)
        works += [WorkText.model_validate(one) for one in answer] if isinstance(answer, list) else []
        report = FullTextReport(works=tuple(works))
        await steps.report(f"{start + len(part)} of {len(job.ids)} works, {report.count('fetched')} fetched")
    fields: dict[str, JsonValue] = FullTextReport(works=tuple(works)).model_dump(mode="json", exclude_defaults=True)
    return fields


def shorten(report: WorkText) -> WorkText:
    """The report with short reasons."""
    attempts = tuple(one.model_copy(update={"reason": one.reason[:MOST_REASON_CHARS]}) for one in report.attempts)
    notes = tuple(note[:MOST_REASON_CHARS] for note in report.notes)
    return report.model_copy(update={"attempts": attempts, "reason": report.reason[:MOST_REASON_CHARS], "notes": notes})
