"""One hash that says: the same question, asked of the same things, gave the same answer.

The one answer that every door returns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import Field

from outrider.state.distilling import UnitKind, Why
from outrider.state.hits import Hit
from outrider.state.intent import ParsedIntent, SearchStrategy
from outrider.state.model import Model
from outrider.state.request import SearchRequest


def provenance_hash(
    request: SearchRequest,
    strategy: SearchStrategy | None,
    snapshot: str | None,
    versions: Mapping[str, str],
    results: Iterable[tuple[str, str]],
) -> str:
    """Sha-256 (hex) over request, strategy, snapshot, versions and the ordered (doc_id, content hash) of the results.

    Times, paths and costs are left out: they differ between equal runs.
    """
    asked = request.model_dump(mode="json", include=set(SearchRequest.model_fields) - {"sources"})  # the strategy names them
    said = {
        "request": asked,
        "strategy": strategy.model_dump(mode="json") if strategy else None,
        "snapshot": snapshot,
        "versions": dict(versions),
        "results": [list(pair) for pair in results],
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


SourceStatus = Literal[
    "ok", "partial", "empty", "timeout", "rate_limited", "unauthorized", "forbidden", "unavailable", "malformed", "off", "cached", "stale",
]  # fmt: skip


class Failure(Model):
    """Something expected that went wrong in a node; the run went on with the node's fallback."""

    node: str
    error: str = Field(description="The kind of error, a name of `state.errors` or `TimeoutError`.")
    message: str


class SourceReport(Model):
    """What one source did for one strategy and query; one row each."""

    source: str
    strategy: str
    query: str = ""
    asked: int = Field(description="Results asked for.")
    returned: int = 0
    total: int | None = Field(None, description="How many the source says there are, where it says.")
    status: SourceStatus
    message: str = ""
    model: str = Field("", description="The model that ranked, with what identifies it.")
    retry_at: str | None = None
    took_ms: float = 0.0


class Bypass(Model):
    """A step that did not run, and why."""

    step: str
    why: str


class NodeUsage(Model):
    """What models cost: from the provider's own usage figures."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = Field(0.0, description="None when a price is unknown.")
    untold_calls: int = Field(0, description="Calls that ended without the provider's figures: what they cost is not in the sums.")
    untold_usd: float = Field(0.0, description="What those calls may have cost at most, as far as the price is known.")


class Usage(NodeUsage):
    """The same of a whole run, and of each node that asked a model."""

    by_node: dict[str, NodeUsage] = Field(default_factory=dict)


class Scoring(Model):
    """How far a model read the works, in the order of the rules."""

    read: int = Field(description="Works that the model scored.")
    of: int
    risk: float | None = Field(
        0.0, ge=0, le=1, description="The chance, as estimated, that the rest would change the first works; None where works were lost."
    )
    max_risk: float = Field(
        0.0, ge=0, le=1, description="What it may be for the reading to stop; of both kinds together, where both were left partly unread."
    )


class Facets(Model):
    """Counts over everything above the threshold, most frequent first (years: newest first).

    Of works that a model left unread (see `Scoring`) nobody knows whether they are above it; they are not counted.
    """

    by_year: dict[str, int] = Field(default_factory=dict)
    by_venue: dict[str, int] = Field(default_factory=dict)
    by_language: dict[str, int] = Field(default_factory=dict)
    top_authors: dict[str, int] = Field(default_factory=dict)
    key_themes: dict[str, int] = Field(default_factory=dict)


class Support(Model):
    """Where the same is said again."""

    doc_id: str
    start: int
    end: int


class ContextUnit(Model):
    """One kept sentence: `text == original_text[start:end]` of the hit `doc_id`."""

    doc_id: str
    key: str = Field(description="Citation key, `[rank]` of the hit.")
    start: int
    end: int
    text: str
    score: float = Field(ge=0, le=1, description="How likely it answers; 1 where nothing was left out.")
    kind: UnitKind = "sentence"
    why: Why = Field(
        "relevant",
        description="Its own score, the best of its text, needed by the next one, a heading of a kept one, or all was passed on.",
    )
    support: tuple[Support, ...] = Field((), description="Where the same is said again; it is left out there.")
    shortened: str = Field("", description="What LLMLingua-2 left of it, which stands in the context; never to be quoted.")


class DistilledContext(Model):
    """Only the sentences that answer, ready to paste into a prompt."""

    text: str = ""
    units: tuple[ContextUnit, ...] = ()
    tokens: int = Field(0, description="Tokens of `text`: counted by `distiller.tokenizer`, else an estimate from above.")
    engine: str = Field("", description="What judged the sentences; empty where nothing was distilled.")
    threshold: float | None = None
    calibrated: bool = Field(False, description="Whether the threshold was fitted for this engine.")
    keep_rate: float | None = Field(
        None, description="Share of texts in which all that answers is kept, as promised; None without a promise."
    )
    fitted_on: str = Field("", description="What the threshold was fitted on.")
    no_promise: str = Field("", description="Why nothing is promised here.")
    removed: float = Field(0.0, ge=0, le=1, description="Share of the texts' characters that was left out.")
    over_budget: int = Field(0, description="Sentences that reached the threshold and that the budget had no room for.")
    verbatim: bool = Field(True, description="False where words were left out of sentences.")
    bypassed: str = Field("", description="Why the texts were passed on as they are.")
    notes: tuple[str, ...] = ()


class ResultSet(Model):
    """Where the hits of a systematic run lie; they never enter the state. `outrider.iter_hits` reads them."""

    path: str = Field(description="The ledger.")
    total: int = Field(description="Hits in it.")
    cursor: str | None = Field(None, description="Where a run that is not complete goes on.")
    sha256: str = Field(description="Of the ledger's bytes.")
    manifest: str = Field(description="What was asked of whom, what came, and the hashes to check it by.")
    complete: bool = Field(False, description="Whether every source was read to its last hit.")
    missing: tuple[str, ...] = Field((), description="What makes it incomplete.")


class SearchResponse(Model):
    query: str | dict[str, str]
    mode: str
    intent: ParsedIntent | None = None
    strategy: SearchStrategy | None = None
    hits: tuple[Hit, ...] = ()
    facets: Facets = Facets()
    context: DistilledContext = DistilledContext()
    failures: tuple[Failure, ...] = ()
    sources: tuple[SourceReport, ...] = ()
    bypassed: tuple[Bypass, ...] = ()
    scoring: Scoring | None = Field(None, description="None where no model scored.")
    reranked_by: str = Field("", description="The reranker that ordered the first works, and why it ran.")
    usage: Usage = Usage()
    timings_ms: dict[str, float] = Field(default_factory=dict)
    total_candidates: int = Field(0, description="Works after deduplication.")
    total_found: int = Field(0, description="Works above the threshold, before top_k; without those that a model left unread.")
    execution_time_ms: float = 0.0
    snapshot: str | None = Field(None, description="Library id and version that were searched.")
    provenance_hash: str = ""
    result_set: ResultSet | None = None
