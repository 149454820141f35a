"""Hits as files, by the writers of `outrider export`: what a spreadsheet would take for a formula is defused there."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Query, Request, Response

from outrider.ingest.export import make_writer
from outrider.interfaces.http.problems import Refusal
from outrider.interfaces.http.rest import RunId, owner_of
from outrider.state.request import MAX_TOP_K
from outrider.state.response import SearchResponse
from outrider.usecases.export import SUFFIXES, make_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outrider.interfaces.http.run_registry import Runs

MEDIA_TYPES = {
    "bibtex": "application/x-bibtex",
    "ris": "application/x-research-info-systems",
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "markdown": "text/markdown; charset=utf-8",
}
ENDINGS = {form: suffix for suffix, form in SUFFIXES.items()}
Form = Annotated[str, Query(alias="format", description="bibtex, ris, csv, json, jsonl or markdown.", max_length=20)]
Ranks = Annotated[list[int] | None, Query(alias="rank", description="Of the hits that are wanted; all by default.", max_length=MAX_TOP_K)]


@dataclass(frozen=True, slots=True)
class AnswerExport:
    """Of a search that was asked for asynchronously, as long as its answer is kept."""

    runs: Runs

    async def export(self, request: Request, run_id: RunId, form: Form = "ris", ranks: Ranks = None) -> Response:
        """The hits of a finished search as a file for a reference manager, a spreadsheet or a program."""
        run = self.runs.get(run_id, owner_of(request))
        if not run.answer:
            raise Refusal(404, "no-answer", "this search has no answer yet")
        text = written(SearchResponse.model_validate_json(run.answer), form, ranks or ())
        return Response(text.encode(), 200, headers_of("hits", form), MEDIA_TYPES[form])


def written(answer: SearchResponse, form: str, ranks: Sequence[int]) -> str:
    """Raises `BadRequest` for a format that there is not."""
    text = io.StringIO(newline="")
    writing = make_writer(form, text)
    writing.begin()
    for hit in answer.hits:
        if not ranks or hit.rank in ranks:
            writing.record(make_record(hit))
    writing.end()
    return text.getvalue()


def headers_of(name: str, form: str) -> dict[str, str]:
    """`name` is our own: nothing that was sent stands in a header."""
    return {"Content-Disposition": f'attachment; filename="outrider-{name}{ENDINGS[form]}"'}
