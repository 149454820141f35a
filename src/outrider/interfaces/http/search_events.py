"""Events of a search, as clients follow them.

The format is https://html.spec.whatwg.org/multipage/server-sent-events.html.

::

    queued     {position}                        it waits for a free slot
    started    {node}
    finished   {node, took_ms, candidates?, hits?, failures?}
    hits       {node, total, hits[]}             the first works in the order of this node, without their texts; a work that an earlier
                                                 event described has only doc_id, rank, score, scored_by, reason
    sources    {sources[]}                       the reports of the sources so far; the last one has all
    failures   {failures[]}
    usage      {calls, input_tokens, ...}        calls and tokens of models so far
    waiting    PlanReview | ResultsReview        the search waits for a person; the stream ends, and goes on after the answer
    taken_over {takeovers}                       its process ended, and another one goes on; without a thread from the beginning on
    response   SearchResponse                    the last event of a successful search
    problem    Problem                           the last event of a failed search
    cancelled  {}                                the last event of a stopped search
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from outrider.state.hits import Candidate, Hit, ScoredBy
from outrider.state.model import Model
from outrider.state.notices import Notice, list_notices
from outrider.state.records import Kind

PARTIAL_HITS = 20
"""Maximum works of one partial list; a request for fewer hits gets fewer."""
LAST = frozenset({"response", "problem", "cancelled", "waiting"})
StreamPart = tuple[str, Any]
"""A part of LangGraph's stream: its mode, and the part."""


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    data: str
    """JSON on one line."""

    def wire(self, number: int) -> bytes:
        return f"id: {number}\nevent: {self.name}\ndata: {self.data}\n\n".encode()


class PartialHit(Model):
    """A work during a search, as a list shows it. Its score is that of the node that it comes from."""

    rank: int
    doc_id: str
    kind: Kind
    title: str
    url: str | None = None
    authors: tuple[str, ...] = ()
    year: int | None = None
    venue: str | None = None
    stars: int | None = None
    language: str | None = None
    score: float
    scored_by: ScoredBy
    reason: str = ""
    found_by: tuple[str, ...] = Field((), description="`source/strategy`, each once.")
    notices: tuple[Notice, ...] = Field((), description="Retractions, withdrawals, concerns and corrections, the gravest first.")


SHARED_FIELDS = ("doc_id", "kind", "title", "url", "authors", "year", "venue", "stars", "language")
CHANGING_FIELDS = {"doc_id", "rank", "score", "scored_by", "reason"}


def make_event(name: str, data: Mapping[str, Any]) -> Event:
    return Event(name, json.dumps(data, ensure_ascii=False, separators=(",", ":")))


@dataclass(slots=True)
class EventWriter:
    """The events of one search. Each work is described once, so that a stream grows with its works and not with its nodes."""

    most: int = PARTIAL_HITS
    """Works of one list."""
    _described: set[str] = field(default_factory=set)
    _reports: list[dict[str, Any]] = field(default_factory=list)
    """Of the sources that have answered so far."""

    def make_events(self, stream_part: StreamPart) -> Iterator[Event]:
        """The events of one part of `graph.astream(stream_mode=["custom", "updates", ...])`."""
        mode, part = stream_part
        if mode == "custom" and part.get("event") in ("started", "finished"):
            yield make_event(part["event"], {name: value for name, value in part.items() if name != "event"})
        elif mode == "custom" and part.get("event") == "searched":
            self._reports.append(part["report"])
            yield make_event("sources", {"sources": self._reports})
        elif mode == "updates":
            for node, update in part.items():
                yield from self._make_update_events(node, update or {})

    def _make_update_events(self, node: str, update: Mapping[str, Any]) -> Iterator[Event]:
        is_first = node == "translator"  # it resets all fields
        if rows := [row for row in update.get("sources") or () if not isinstance(row, str)]:
            yield make_event("sources", {"sources": [row.model_dump(mode="json") for row in rows]})
        if update.get("failures"):
            yield make_event("failures", {"failures": [failure.model_dump(mode="json") for failure in update["failures"]]})
        if "usage" in update and not is_first:
            yield make_event("usage", update["usage"].model_dump(mode="json"))
        works = update.get("hits") or update.get("candidates")
        if works is not None and not is_first:
            first = [self._describe(work, rank) for rank, work in enumerate(works[: self.most], start=1)]
            total = update.get("total_found", len(works)) if update.get("hits") else len(works)
            yield make_event("hits", {"node": node, "total": total, "hits": first})

    def _describe(self, work: Candidate | Hit, rank: int) -> dict[str, Any]:
        partial_hit = make_partial_hit(work, rank)
        is_known = partial_hit.doc_id in self._described
        self._described.add(partial_hit.doc_id)
        return partial_hit.model_dump(mode="json", include=CHANGING_FIELDS if is_known else None)


def make_partial_hit(work: Candidate | Hit, rank: int) -> PartialHit:
    record = work.record if isinstance(work, Candidate) else work
    shared = {name: getattr(record, name) for name in SHARED_FIELDS if hasattr(record, name)}
    found_by = tuple(dict.fromkeys(f"{by.source}/{by.strategy}" for by in work.found_by))
    notices = list_notices(work.record, work.related) if isinstance(work, Candidate) else work.notices
    about = {"score": work.score, "scored_by": work.scored_by, "reason": work.reason, "found_by": found_by, "notices": notices}
    return PartialHit(**shared, **about, rank=rank)
