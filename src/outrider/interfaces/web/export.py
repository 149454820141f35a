"""Hits of an answer as files, by the writers of `outrider export`."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Query, Request, Response

from outrider.interfaces.http.problems import Refusal
from outrider.interfaces.http.rest import RunId, read_owner
from outrider.state.request import MAX_TOP_K
from outrider.state.response import SearchResponse
from outrider.usecases.export import SUFFIXES, make_record, write_records

if TYPE_CHECKING:
    from outrider.interfaces.http.search_runs import RunRegistry

MEDIA_TYPES = {
    "bibtex": "application/x-bibtex",
    "ris": "application/x-research-info-systems",
    "csl": "application/vnd.citationstyles.csl+json",
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "markdown": "text/markdown; charset=utf-8",
}
ENDINGS = {form: suffix for suffix, form in SUFFIXES.items()}
Form = Annotated[str, Query(alias="format", description="bibtex, ris, csl, csv, json, jsonl or markdown.", max_length=20)]
Ranks = Annotated[list[int] | None, Query(alias="rank", description="Ranks of the hits to export; all by default.", max_length=MAX_TOP_K)]


@dataclass(frozen=True, slots=True)
class AnswerExport:
    """Exports of an asynchronous search, as long as its answer is kept."""

    runs: RunRegistry

    async def export(self, request: Request, run_id: RunId, form: Form = "ris", ranks: Ranks = None) -> Response:
        """The hits of a finished search as a file for a reference manager, a spreadsheet or a program."""
        run = self.runs.get(run_id, read_owner(request))
        if not run.answer:
            raise Refusal(404, "no-answer", "this search has no answer yet")
        answer = SearchResponse.model_validate_json(run.answer)
        text = io.StringIO(newline="")
        write_records((make_record(hit) for hit in answer.hits if not ranks or hit.rank in ranks), form, text)
        return Response(text.getvalue().encode(), 200, make_headers("hits", form), MEDIA_TYPES[form])


def make_headers(name: str, form: str) -> dict[str, str]:
    """`name` is a constant: no text of a request may enter a header."""
    return {"Content-Disposition": f'attachment; filename="outrider-{name}{ENDINGS[form]}"'}
