"""The response that every interface returns, its parts, and its provenance hash."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import Field

from outrider.state.checkpoints import Review
from outrider.state.distilling import UnitKind, Why
from outrider.state.errors import KeyRejected
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
    fields = request.model_dump(
        mode="json", include=set(SearchRequest.model_fields) - {"sources", "checkpoints"}
    )  # the strategy shows both
    parts = {
        "request": fields,
        "strategy": strategy.model_dump(mode="json") if strategy else None,
        "snapshot": snapshot,
        "versions": dict(versions),
        "results": [list(pair) for pair in results],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


SourceStatus = Literal[
    "ok", "partial", "empty", "timeout", "rate_limited", "unauthorized", "forbidden", "unavailable", "malformed", "off", "cached", "stale",
]  # fmt: skip


class Failure(Model):
    """An expected error in a node; the run continued with the node's fallback."""

    node: str
    error: str = Field(description="The kind of error, a name of `state.errors` or `TimeoutError`.")
    message: str


FINAL_NODES = ("translator", "scout", "systematic")
"""A run whose node of these failed has no answer."""


def find_fatal(failures: Sequence[Failure]) -> Failure | None:
    """The failure that ended a run without an answer: the model's key was rejected, or nothing could be searched."""
    rejected = [failure for failure in failures if failure.error == KeyRejected.__name__]
    return next(iter(rejected or [failure for failure in failures if failure.node in FINAL_NODES]), None)


class SourceReport(Model):
    """The outcome of one source for one strategy and query, as a row."""

    source: str
    strategy: str
    query: str = ""
    asked: int = Field(description="Requested results.")
    returned: int = 0
    total: int | None = Field(None, description="Number of results that the source reports, if it does.")
    status: SourceStatus
    message: str = ""
    command: str = Field("", description="A command that mends what the message reports.")
    model: str = Field("", description="The model that ranked, with its revision.")
    retry_at: str | None = None
    took_ms: float = 0.0


class Bypass(Model):
    """A step that did not run, and the reason."""

    step: str
    why: str


class NodeUsage(Model):
    """Cost of models, from the provider's usage figures."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = Field(0.0, description="None when a price is unknown.")
    untold_calls: int = Field(0, description="Calls that ended without the provider's figures: their cost is not in the sums.")
    untold_usd: float = Field(0.0, description="Upper limit of their cost, as far as the price is known.")


class Usage(NodeUsage):
    """Cost of a whole run, and of each node that used a model."""

    by_node: dict[str, NodeUsage] = Field(default_factory=dict)


class Scoring(Model):
    """How many works a model read, in rule order."""

    read: int = Field(description="Works that the model scored.")
    of: int
    risk: float | None = Field(
        0.0, ge=0, le=1, description="Estimated chance that the rest would change the first works; None if works were lost."
    )
    max_risk: float = Field(
        0.0, ge=0, le=1, description="Risk at which reading stops; of both kinds together, if both were left partly unread."
    )


class Facets(Model):
    """Counts over everything above the threshold, most frequent first (years: newest first).

    Works that a model left unread (see `Scoring`) are not counted.
    """

    by_year: dict[str, int] = Field(default_factory=dict)
    by_venue: dict[str, int] = Field(default_factory=dict)
    by_language: dict[str, int] = Field(default_factory=dict)
    by_notice: dict[str, int] = Field(
        default_factory=dict, description="Works by the kind of their notices, such as `retracted`, the gravest kind first."
    )
    by_code: dict[str, int] = Field(
        default_factory=dict, description="Papers that have code of their own (`has code`), and of these by whether it is alive."
    )
    top_authors: dict[str, int] = Field(default_factory=dict)
    key_themes: dict[str, int] = Field(default_factory=dict)


class Support(Model):
    """A place that repeats the sentence."""

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
    score: float = Field(ge=0, le=1, description="Probability that it answers; 1 if nothing was left out.")
    kind: UnitKind = "sentence"
    why: Why = Field(
        "relevant",
        description="Its own score, the best of its text, needed by the next one, heading of a kept one, or everything was passed on.",
    )
    support: tuple[Support, ...] = Field((), description="Places that repeat it and are left out.")
    shortened: str = Field("", description="The words that LLMLingua-2 kept, as in the context; never quote them.")


class DistilledContext(Model):
    """Only the sentences that answer, ready to paste into a prompt."""

    text: str = ""
    units: tuple[ContextUnit, ...] = ()
    tokens: int = Field(0, description="Tokens of `text`: counted by `distiller.tokenizer`, else an estimate from above.")
    engine: str = Field("", description="The engine that judged the sentences; empty if nothing was distilled.")
    threshold: float | None = None
    calibrated: bool = Field(False, description="Whether the threshold was fitted for this engine.")
    keep_rate: float | None = Field(None, description="Guaranteed share of texts in which every answer is kept; None without a guarantee.")
    fitted_on: str = Field("", description="Data that the threshold was fitted on.")
    no_promise: str = Field("", description="Why there is no guarantee.")
    removed: float = Field(0.0, ge=0, le=1, description="Share of the texts' characters that were left out.")
    over_budget: int = Field(0, description="Sentences above the threshold that did not fit the budget.")
    verbatim: bool = Field(True, description="False if words were left out of sentences.")
    bypassed: str = Field("", description="Why the texts were passed on unchanged.")
    unanswered: tuple[str, ...] = Field((), description="Ids of the hits that were read and in which no sentence answers.")
    notes: tuple[str, ...] = ()


LackOfAnswer = Literal["no_model", "nothing_kept", "no_answer", "all_removed", "time_spent", "budget_spent", "model_failed"]
"""Why no sentence was written: no chat model; no kept sentence that a model may read; the model finds no answer in them; no sentence passed
the checks; the time or the budget of the run is spent; the call failed."""
RemovalReason = Literal[
    "no_citation", "unknown_citation", "other_work", "number", "negation", "quote", "markup", "instruction", "too_long", "repeated",
    "beyond_limit",
]  # fmt: skip


REMOVALS: Mapping[RemovalReason, str] = {
    "no_citation": "without a citation",
    "unknown_citation": "with a citation of nothing that was kept",
    "other_work": "that names another work than it cites",
    "number": "with a number that no cited sentence has",
    "negation": "that negates or affirms otherwise than the cited sentences",
    "quote": "with a quotation that no cited sentence has",
    "markup": "with a link or markup",
    "instruction": "with instructions to a model",
    "too_long": "that was too long",
    "repeated": "that repeats an earlier one",
    "beyond_limit": "beyond the limit (answer.max_sentences)",
}
"""Reasons to remove a sentence of a short answer, for people."""


class AnswerCitation(Model):
    """A kept sentence, the `ContextUnit` with the same `doc_id`, `start` and `end`."""

    doc_id: str
    key: str = Field(description="Citation key, `[rank]` of the hit.")
    start: int
    end: int


class AnswerSentence(Model):
    """A sentence of a model that passed the checks."""

    text: str
    citations: tuple[AnswerCitation, ...] = Field(min_length=1)
    uncertain: bool = Field(False, description="Whether all that it cites may not answer: the `why` of these units is `best`.")

    @property
    def with_keys(self) -> str:
        """`Aspirin harms the liver. [1][3]`, with a remark if it is uncertain."""
        keys = "".join(dict.fromkeys(citation.key for citation in self.citations))
        return f"{self.text} {keys}{' (may not answer)' if self.uncertain else ''}"


class ShortAnswer(Model):
    """A few sentences of a model, each with citations of kept sentences.

    Checks removed sentences whose numbers, negations, quotes or works differ from what they cite. They cannot see every other change of
    meaning: nothing here says that the cited sentences support the answer.
    """

    sentences: tuple[AnswerSentence, ...] = ()
    removed: dict[RemovalReason, int] = Field(default_factory=dict, description="Removed sentences by the reason.")
    model: str = Field("", description="The model that wrote; empty if none did.")
    lack: LackOfAnswer | None = Field(None, description="Why there is no sentence.")
    why: str = Field("", description="The same, for people, with what to do.")


def explain_removed(answer: ShortAnswer) -> str:
    """`2 sentences were removed: 1 with a number that no cited sentence has, ...`; empty if none was."""
    if not answer.removed:
        return ""
    total = sum(answer.removed.values())
    reasons = ", ".join(f"{count:,} {REMOVALS[reason]}" for reason, count in answer.removed.items())
    return f"{total:,} sentence{'s were' if total != 1 else ' was'} removed: {reasons}"


class ResultSet(Model):
    """The files of a systematic run; its hits never enter the state. `outrider.iter_hits` reads them."""

    path: str = Field(description="The ledger.")
    total: int = Field(description="Hits in it.")
    cursor: str | None = Field(None, description="Where an incomplete run resumes.")
    sha256: str = Field(description="Sha-256 of the ledger.")
    manifest: str = Field(description="File with requests, results, and the hashes to verify them.")
    complete: bool = Field(False, description="Whether every source was read to its last hit.")
    missing: tuple[str, ...] = Field((), description="Why it is incomplete.")
    remarks: tuple[str, ...] = Field((), description="Where the query may not mean what it seems to, and values that records lack.")


class SearchResponse(Model):
    query: str | dict[str, str]
    mode: str
    intent: ParsedIntent | None = None
    strategy: SearchStrategy | None = None
    hits: tuple[Hit, ...] = ()
    facets: Facets = Facets()
    context: DistilledContext = DistilledContext()
    answer: ShortAnswer | None = Field(None, description="A short answer of a model; None if the request does not ask for one.")
    failures: tuple[Failure, ...] = ()
    sources: tuple[SourceReport, ...] = ()
    bypassed: tuple[Bypass, ...] = ()
    scoring: Scoring | None = Field(None, description="None if no model scored.")
    reranked_by: str = Field("", description="The reranker that ordered the first works, and why it ran.")
    usage: Usage = Usage()
    timings_ms: dict[str, float] = Field(default_factory=dict)
    total_candidates: int = Field(0, description="Works after deduplication.")
    total_found: int = Field(0, description="Works above the threshold, before top_k; without those that a model left unread.")
    execution_time_ms: float = 0.0
    snapshot: str | None = Field(None, description="Library id and version that were searched.")
    provenance_hash: str = ""
    result_set: ResultSet | None = None
    waiting: Review | None = Field(
        None, description="The plan or the results that wait for a person (`checkpoints`); None if the run has ended."
    )


def explain_unanswered(hits: Sequence[Hit], query: str) -> str:
    """One sentence that says so if no text that was read clearly answers; empty if one does, if none was read, or if nothing is asked."""
    read = [hit for hit in hits if hit.answers != "unread"]
    if not read or any(hit.answers == "yes" for hit in read) or asks_for_work(query, hits):
        return ""
    answers = "clearly answers" if any(hit.answers == "perhaps" for hit in read) else "answers"
    if len(hits) == 1:
        return f"No sentence in this work {answers} the question; it is the nearest."
    works = (
        f"these {len(hits):,} works"
        if len(read) == len(hits)
        else f"the {len(read):,} work{'s that were' if len(read) > 1 else ' that was'} read"
    )
    return f"No sentence in {works} {answers} the question; they are the nearest."


def asks_for_work(query: str, hits: Sequence[Hit]) -> bool:
    """Whether the request is just the title, an author or an identifier of a hit: no sentence could answer it."""
    asked = _list_words(query)
    names = {name for hit in hits for name in (hit.title, *hit.authors)}
    names |= {name for hit in hits for scheme, value in hit.identifiers.pairs() for name in (value, f"{scheme}:{value}")}
    if asked and any(_list_words(name) == asked for name in names):
        return True
    # a person whom the library's graph knows by name and initial, such as `author:knuth, d` for "Donald E. Knuth"
    paths = (path for hit in hits for row in hit.found_by for path in row.paths)
    persons = (_list_words(path.through.partition(":")[2]) for path in paths if path.relation == "author" and path.through == path.anchor)
    return any(
        len(person) <= len(asked) <= len(person) + 1 and all(any(word.startswith(part) for word in asked) for part in person)
        for person in persons
    )


def _list_words(text: str) -> list[str]:
    return sorted(re.findall(r"\w+", text.casefold()))
