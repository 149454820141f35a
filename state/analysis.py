"""Types of an analysis: request, state, answer, and the services that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import Field, JsonValue, ValidationError, field_validator
from typing_extensions import TypedDict

from outrider.state.errors import BadRequest, explain_wrong_fields
from outrider.state.model import Model
from outrider.state.notices import Notice
from outrider.state.ports import SourceAnswer
from outrider.state.records import Kind, Record, WebLink
from outrider.state.response import DistilledContext, Failure, Usage

MAX_TARGET_CHARS, MAX_QUESTION_CHARS = 500, 1_000


class AnalyzeRequest(Model):
    """A target and a question."""

    target: str = Field(
        min_length=1,
        max_length=MAX_TARGET_CHARS,
        description="owner/name of a repository, a DOI, arxiv:2101.00001, pmid:123, or a link to one of them.",
    )
    question: str = Field(
        "", max_length=MAX_QUESTION_CHARS, description="The question it is judged against; by default its own title or description."
    )
    fresh: bool = Field(False, description="Ignore cached analyses.")

    @field_validator("target")
    @classmethod
    def strip_target(cls, target: str) -> str:
        if not target.strip().isprintable() or not target.strip():
            raise ValueError("names nothing: write owner/name, a DOI, arxiv:2101.00001 or pmid:123")
        return target.strip()


class Rating(Model):
    """One dimension, 0 to 10."""

    dimension: str
    score: float | None = Field(description="None if nothing is known about it.")
    because: tuple[str, ...] = Field((), description="The basis of the score: each figure with its part in [0, 1], or a model's reason.")
    missing: tuple[str, ...] = Field((), description="Figures that no source provides.")
    by: str = Field("rules", description="`rules` for scores from metadata, or `model`.")


class Neighbour(Model):
    """A related work."""

    doc_id: str
    title: str
    url: WebLink = None
    kind: Kind
    year: int | None = None
    stars: int | None = None
    citations: int | None = None
    description: str = ""
    why: str = Field(description="How it was found.")


class Analysis(Model):
    """The answer."""

    target: str
    question: str = ""
    kind: Kind | None = Field(None, description="None if the target was not found; `failures` says why.")
    doc_id: str = ""
    title: str = ""
    url: WebLink = None
    description: str = ""
    facts: dict[str, JsonValue] = Field(default_factory=dict, description="Facts from sources, by name.")
    ratings: tuple[Rating, ...] = Field((), description="The six dimensions of a repository, in alphabetical order.")
    relevance: float | None = Field(None, description="How well it answers the question, 0 to 1, if a model judged.")
    dependencies: tuple[str, ...] = Field((), description="Packages that it depends on, as `ecosystem:name`, sorted.")
    alternatives: tuple[Neighbour, ...] = ()
    references: tuple[Neighbour, ...] = ()
    citations: tuple[Neighbour, ...] = ()
    related_code: tuple[Neighbour, ...] = ()
    retraction: str = Field("", description="Reports of a retraction or withdrawal; empty without one.")
    notices: tuple[Notice, ...] = Field(
        (),
        description="Retractions, withdrawals, concerns and corrections, the gravest first; and whether the work is itself such a notice.",
    )
    full_text: str = Field("", description="Source of the text that was read, or why there is none.")
    context: DistilledContext = Field(DistilledContext(), description="The sentences that answer, verbatim.")
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = Field((), description="Omissions and their reasons.")
    usage: Usage = Usage()
    timings_ms: dict[str, float] = Field(default_factory=dict)
    execution_time_ms: float = 0.0
    age_s: float | None = Field(None, description="Age of the analysis, if it comes from the cache.")


class AnalysisState(Analysis):
    """The state of one analysis."""

    fresh: bool = False
    asked: str = Field("", description="The question of the request.")
    started_at: float = 0.0
    record: Record | None = None


class AnalysisUpdate(TypedDict, total=False):
    """The fields that a node may write."""

    question: str
    kind: Kind | None
    doc_id: str
    title: str
    url: str | None
    description: str
    facts: dict[str, JsonValue]
    ratings: tuple[Rating, ...]
    relevance: float | None
    dependencies: tuple[str, ...]
    alternatives: tuple[Neighbour, ...]
    references: tuple[Neighbour, ...]
    citations: tuple[Neighbour, ...]
    related_code: tuple[Neighbour, ...]
    retraction: str
    notices: tuple[Notice, ...]
    full_text: str
    context: DistilledContext
    failures: tuple[Failure, ...]
    notes: tuple[str, ...]
    usage: Usage
    timings_ms: dict[str, float]
    execution_time_ms: float
    age_s: float | None
    started_at: float
    record: Record | None


class Citing(Protocol):
    """A source of references and citations."""

    @property
    def name(self) -> str: ...

    async def references(self, scheme: str, value: str, within_s: float, limit: int) -> SourceAnswer: ...

    async def citations(self, scheme: str, value: str, within_s: float, limit: int) -> SourceAnswer: ...


class Depending(Protocol):
    """A service that knows the dependencies of a repository. Raises `SourceError`."""

    async def dependencies(self, full_name: str, within_s: float) -> tuple[str, ...] | None:
        """Dependencies as `ecosystem:name`, sorted; None if the service does not publish them."""
        ...


def check_analysis_request(request: Mapping[str, Any] | AnalyzeRequest) -> AnalyzeRequest:
    """Validate a request; `BadRequest` names every wrong field."""
    try:
        return AnalyzeRequest.model_validate(request)
    except ValidationError as error:
        raise BadRequest(explain_wrong_fields(error.errors(), AnalyzeRequest.model_fields)) from error
