"""Screening of reviews over REST: the next record, decisions, conflicts, imports, exports.

All clients work on the same reviews. With keys, the owner of the key is the reviewer; without, `by` names the reviewer. No request names
a file of the server. With `serve.read_only` nothing is changed.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from outrider.interfaces.http.library import FILE_BODY, READ_ONLY
from outrider.interfaces.http.problems import refuse_field
from outrider.interfaces.web.routes import FILE, MEDIA_TYPES
from outrider.reviews.export import FORMATS
from outrider.state.model import Model
from outrider.state.reviews import (
    MAX_NAME_CHARS,
    MAX_REVIEWERS,
    MAX_SEED,
    Candidate,
    ConflictList,
    DecisionReport,
    ImportReport,
    Presentation,
    ReviewList,
    ReviewRecord,
    ReviewStatus,
    Verdict,
)
from outrider.usecases import review as reviews
from outrider.usecases.review import MAX_TEXT_CHARS, REVIEW_NAME
from outrider.usecases.review_sources import SourceOptions

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from outrider.interfaces.http.request_limits import Admission
    from outrider.services import Services
    from outrider.usecases.ingest import Upload

BASE = "/api/reviews"
FILES = rf"{BASE}/{REVIEW_NAME.pattern}/files"
"""The paths of files to import."""
MAX_REASONS, MAX_SKIPPED = 50, 500
BINARY = "application/octet-stream"
SUFFIXES = {"bibtex": "bib", "csl": "csl.json", "markdown": "md", "prisma-markdown": "md", "prisma-json": "json"}
Name = Annotated[str, Path(description="The review's name.", pattern=rf"^{REVIEW_NAME.pattern}$")]
ABOUT_BY = "The reviewer. With a key it is the key's owner."
By = Annotated[str | None, Query(description=ABOUT_BY, max_length=MAX_NAME_CHARS)]
RecordId = Annotated[str, Field(min_length=1, max_length=500, description="A record's number, DOI or another identifier.")]
Text = Annotated[str, Field(max_length=MAX_TEXT_CHARS)]


class NewReview(Model):
    """A review to begin."""

    name: str = Field(pattern=rf"^{REVIEW_NAME.pattern}$")
    question: Text = Field("", description="What the records should answer. It orders them until both classes are known.")
    reviewers: int = Field(1, ge=1, le=MAX_REVIEWERS, description="Reviewers who decide on each record, without seeing each other.")
    reasons: tuple[Text, ...] = Field((), max_length=MAX_REASONS, description="Reasons for exclusion to offer.")
    seed: int = Field(0, ge=0, le=MAX_SEED, description="Of everything that is drawn at random.")


class ReviewerBody(Model):
    by: str | None = Field(None, max_length=MAX_NAME_CHARS, description=ABOUT_BY)


class ImportBody(ReviewerBody):
    """Records to add: exactly one of `source` and `text`."""

    source: str = Field("", max_length=500, description="`label:NAME`, a thread, or the name of a systematic run.")
    file_name: str = Field("records.ris", max_length=200, description="Of the text; its suffix names the format.")
    text: str = Field("", description="The content of a file: RIS, CSV, BibTeX, ...")
    labels: bool = Field(True, description="Whether labels of the records become decisions.")


class DecisionBody(ReviewerBody):
    """A decision on a record."""

    record: RecordId
    decision: Verdict
    reason: Text = ""
    resolve: bool = Field(False, description="Whether it resolves a conflict between reviewers.")
    shown: Presentation = Field(Presentation(), description="As it came with the record.")


class UndoBody(ReviewerBody):
    record: str = Field(
        "", max_length=500, description="The record whose last decision is taken back; by default that of the last decision."
    )


class NoteBody(ReviewerBody):
    record: RecordId
    text: Text


@dataclass(frozen=True, slots=True)
class ReviewRoutes:
    services: Services
    admission: Admission

    async def list_reviews(self) -> ReviewList:
        """The reviews, by name."""
        return await reviews.list_reviews(self.services)

    async def create(self, body: NewReview) -> ReviewStatus:
        """Begin a review."""
        self._require_writable()
        return await reviews.create_review(
            self.services, body.name, question=body.question, reviewers=body.reviewers, reasons=body.reasons, seed=body.seed
        )

    async def status(
        self,
        name: Name,
        recall: Annotated[float, Query(gt=0, lt=1, description="The recall that is to be reached.")] = 0.95,
        confidence: Annotated[float, Query(gt=0, lt=1, description="Of the statements about recall.")] = 0.95,
    ) -> ReviewStatus:
        """Counts, conflicts and imports of a review, and what is known of its recall."""
        async with self._work():
            return await reviews.get_status(self.services, name, target_recall=recall, confidence=confidence)

    async def delete(self, name: Name) -> Response:
        """Delete a review with its records and decisions."""
        self._require_writable()
        await reviews.delete_review(self.services, name)
        return Response(status_code=204)

    async def import_records(self, name: Name, body: ImportBody) -> ImportReport:
        """Add records. Duplicates are linked; labels that contradict each other are refused, and nothing is written."""
        self._require_writable()
        if bool(body.source) == bool(body.text):
            raise refuse_field("source", "give exactly one of source and text")
        options = SourceOptions(labels=body.labels)
        async with self._work():
            if body.text:
                return await reviews.import_text(self.services, name, body.file_name, body.text.encode(), by=body.by, options=options)
            return await reviews.import_records(self.services, name, body.source, by=body.by, options=options)

    async def import_file(
        self,
        request: Request,
        name: Name,
        file_name: Annotated[str, Query(alias="name", max_length=200, description="Of the file; its suffix names the format.")],
        by: By = None,
        labels: Annotated[bool, Query(description="Whether labels of the records become decisions.")] = True,
    ) -> ImportReport:
        """Add the records of a file, which may be large and of any encoding."""
        upload: Upload = request.state.upload
        async with self._work():
            return await reviews.import_file(self.services, name, upload.path, by=by, options=SourceOptions(labels=labels))

    async def next(
        self,
        name: Name,
        by: By = None,
        order: Annotated[Literal["model", "random"], Query(description="random gives the next draw of a proof of recall.")] = "model",
        skip: Annotated[list[int] | None, Query(description="Numbers of records that come last.", max_length=MAX_SKIPPED)] = None,
    ) -> Candidate:
        """The next record for a reviewer, with the words to highlight and the sentences that answer the question."""
        async with self._work():
            return await reviews.get_next(self.services, name, by=by, order=order, skip=frozenset(skip or ()))

    async def record(self, name: Name, record: Annotated[str, Path(max_length=500)], by: By = None) -> Candidate:
        """A record as a reviewer may see it."""
        return await reviews.get_record(self.services, name, record, by=by)

    async def decide(self, name: Name, body: DecisionBody) -> DecisionReport:
        """Decide on a record. The answer comes when the decision is on the disk."""
        self._require_writable()
        decisions = [(body.record, body.decision, body.reason)]
        return await reviews.decide(self.services, name, decisions, by=body.by, resolve=body.resolve, presentation=body.shown)

    async def undo(self, name: Name, body: UndoBody) -> DecisionReport:
        """Take back a reviewer's last decision."""
        self._require_writable()
        return await reviews.undo(self.services, name, body.record, by=body.by)

    async def note(self, name: Name, body: NoteBody) -> ReviewRecord:
        """Add a note to a record."""
        self._require_writable()
        return await reviews.add_note(self.services, name, body.record, body.text, by=body.by)

    async def conflicts(self, name: Name, by: By = None) -> ConflictList:
        """Records on which reviewers disagree, with their decisions."""
        return await reviews.list_conflicts(self.services, name, by=by)

    async def export(
        self, name: Name, form: Annotated[str, Query(alias="format", description=f"{', '.join(FORMATS)}.", max_length=20)] = "csv"
    ) -> Response:
        """The records with their labels as a file, or the counts of screening."""
        if form not in FORMATS:
            raise refuse_field("format", f"takes {', '.join(FORMATS)}")
        async with self._work():
            content = await reviews.export_review(self.services, name, form)
        file_name = f"{name}.{SUFFIXES.get(form, form)}"
        headers = {"Content-Disposition": f'attachment; filename="{file_name}"'}
        media_type = MEDIA_TYPES.get(form.removeprefix("prisma-"), BINARY)
        return Response(content, 200, headers, media_type)

    def _require_writable(self) -> None:
        if self.services.settings.serve.read_only:
            raise READ_ONLY

    @asynccontextmanager
    async def _work(self) -> AsyncGenerator[None]:
        """A place among the searches: features of a large review take seconds."""
        with self.admission.admit():
            async with self.admission.slot():
                yield


def make_router(handlers: ReviewRoutes) -> APIRouter:
    router = APIRouter(prefix=BASE, tags=["reviews"], default_response_class=JSONResponse)
    add = router.add_api_route
    add("", handlers.list_reviews, methods=["GET"], summary="Reviews")
    add("", handlers.create, methods=["POST"], summary="Begin a review", status_code=201)
    add("/{name}", handlers.status, methods=["GET"], summary="Counts of a review")
    add("/{name}", handlers.delete, methods=["DELETE"], summary="Delete a review", status_code=204, response_class=Response)
    add("/{name}/import", handlers.import_records, methods=["POST"], summary="Add records")
    add("/{name}/files", handlers.import_file, methods=["POST"], summary="Add the records of a file", openapi_extra=FILE_BODY)
    add("/{name}/next", handlers.next, methods=["GET"], summary="The next record")
    add("/{name}/records/{record}", handlers.record, methods=["GET"], summary="A record")
    add("/{name}/decisions", handlers.decide, methods=["POST"], summary="Decide on a record")
    add("/{name}/undo", handlers.undo, methods=["POST"], summary="Take back a decision")
    add("/{name}/notes", handlers.note, methods=["POST"], summary="Add a note")
    add("/{name}/conflicts", handlers.conflicts, methods=["GET"], summary="Conflicts between reviewers")
    add("/{name}/export", handlers.export, methods=["GET"], summary="A review as a file", response_class=Response, responses=FILE)
    return router
