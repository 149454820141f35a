"""The state of the search graph, the updates that nodes write, and settings of one run."""

from __future__ import annotations

from typing import Any

from pydantic import Field, JsonValue, ValidationError, field_validator
from typing_extensions import TypedDict

from outrider.state.checkpoints import Judgements
from outrider.state.errors import BadRequest, explain_wrong_fields
from outrider.state.hits import Candidate, Hit, RankedList, Rejected
from outrider.state.intent import ParsedIntent, SearchStrategy
from outrider.state.model import Model, restore_tuples
from outrider.state.request import SearchRequest
from outrider.state.response import Bypass, DistilledContext, Facets, Failure, ResultSet, Scoring, ShortAnswer, SourceReport, Usage


class PipelineState(SearchRequest):
    """The state of one run. Nodes run one after another, so a field has one writer at a time and needs no reducer.

    `sources` holds the requested names, and from the scout on the row of each source.
    """

    sources: tuple[SourceReport | str, ...] | None = None  # type: ignore[assignment]

    @field_validator("sources")
    @classmethod
    def check_sources(cls, sources: tuple[SourceReport | str, ...] | None) -> tuple[SourceReport | str, ...] | None:  # type: ignore[override]
        return sources  # the names were checked when the request came in

    @field_validator("candidates")
    @classmethod
    def restore_candidates(cls, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        """A parent graph's checkpointer gives lists back in place of tuples, in all works or in none."""
        return tuple(map(restore_tuples, candidates)) if candidates and isinstance(candidates[0].found_by, list) else candidates

    started_at: float = Field(0.0, description="Seconds since the epoch.")
    intent: ParsedIntent | None = None
    strategy: SearchStrategy | None = None
    lists: tuple[RankedList, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    hits: tuple[Hit, ...] = ()
    facets: Facets = Facets()
    context: DistilledContext = DistilledContext()
    answer: ShortAnswer | None = None
    failures: tuple[Failure, ...] = ()
    bypassed: tuple[Bypass, ...] = ()
    scoring: Scoring | None = None
    reranked_by: str = ""
    usage: Usage = Usage()
    timings_ms: dict[str, float] = Field(default_factory=dict)
    total_candidates: int = 0
    total_found: int = 0
    execution_time_ms: float = 0.0
    snapshot: str | None = None
    provenance_hash: str = ""
    result_set: ResultSet | None = None
    judged: Judgements = Field(Judgements(), description="What a person said about results on this thread; kept from run to run.")


class ParentState(Model):
    """What a run remembers of the parent's state, to write its output in the parent's terms."""

    sources: tuple[str, ...] | None = None
    """Names that the parent keeps in `sources`. They stay: reports in their place would widen the next run of a loop to all sources."""
    query: str | dict[str, str] = ""
    """What the parent itself keeps in `query`. It stays where the query came from messages: in the next turn it would hide the next one."""
    has_messages: bool = False
    """Whether the query is the last message of a human, which gets a reply. The messages themselves stay with the parent."""


class Update(TypedDict, total=False):
    """The fields that a node may write."""

    started_at: float
    sources: tuple[SourceReport, ...]
    intent: ParsedIntent | None
    strategy: SearchStrategy | None
    lists: tuple[RankedList, ...]
    candidates: tuple[Candidate, ...]
    rejected: tuple[Rejected, ...]
    hits: tuple[Hit, ...]
    facets: Facets
    context: DistilledContext
    answer: ShortAnswer | None
    failures: tuple[Failure, ...]
    bypassed: tuple[Bypass, ...]
    scoring: Scoring | None
    reranked_by: str
    usage: Usage
    timings_ms: dict[str, float]
    total_candidates: int
    total_found: int
    execution_time_ms: float
    snapshot: str | None
    provenance_hash: str
    result_set: ResultSet | None
    filters: dict[str, JsonValue] | None
    judged: Judgements


class RunContext(Model):
    """Settings that one run may override. JSON types only, so that a server can draw its form."""

    run_timeout_s: float | None = Field(None, gt=0, le=600, description="Seconds a search may take.")
    relevance_threshold: float | None = Field(None, ge=0, le=1, description="A model's score below this is dropped.")
    max_context_tokens: int | None = Field(None, ge=0, le=1_000_000, description="Token budget of the distilled context.")
    max_calls: int | None = Field(None, ge=0, le=100_000, description="Model calls of this run; when they are spent, rules do the rest.")
    max_cost_usd: float | None = Field(None, ge=0, description="USD that this run may cost at most; 0 for no paid call.")


def check_context(context: Any) -> Any:
    """Overrides of a run, a mapping as the model; anything else as it is. `BadRequest` names every wrong field."""
    if not isinstance(context, dict):
        return context
    try:
        return RunContext.model_validate(context)
    except ValidationError as error:
        raise BadRequest(f"context: {explain_wrong_fields(error.errors(), RunContext.model_fields)}") from error
