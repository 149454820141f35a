"""Server-sent events of a running search.

The format is https://html.spec.whatwg.org/multipage/server-sent-events.html.

::

    queued     {position}                        it waits for a free slot
    started    {node}
    finished   {node, took_ms, candidates?, hits?, failures?}
    hits       {node, total, hits[]}             the first works in the order of this node, without their texts
    sources    {sources[]}                       the report of each source
    failures   {failures[]}
    usage      {calls, input_tokens, ...}        calls and tokens of models so far
    response   SearchResponse                    the last event of a successful search
    problem    Problem                           the last event of a failed search
    cancelled  {}                                the last event of a stopped search
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from outrider.state.hits import Candidate, Hit, ScoredBy
from outrider.state.model import Model
from outrider.state.records import Kind

PARTIAL_HITS = 20
"""Maximum works of one partial list."""
LAST = frozenset({"response", "problem", "cancelled"})
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


SHARED_FIELDS = ("doc_id", "kind", "title", "url", "authors", "year", "venue", "stars", "language")


def make_event(name: str, data: Mapping[str, Any]) -> Event:
    return Event(name, json.dumps(data, ensure_ascii=False, separators=(",", ":")))


def make_events(stream_part: StreamPart) -> Iterator[Event]:
    """The events of one part of `graph.astream(stream_mode=["custom", "updates", ...])`."""
    mode, part = stream_part
    if mode == "custom" and part.get("event") in ("started", "finished"):
        yield make_event(part["event"], {name: value for name, value in part.items() if name != "event"})
    elif mode == "updates":
        for node, update in part.items():
            yield from _make_update_events(node, update or {})


def _make_update_events(node: str, update: Mapping[str, Any]) -> Iterator[Event]:
    is_first = "started_at" in update  # the first node resets all fields
    if rows := [row for row in update.get("sources") or () if not isinstance(row, str)]:
        yield make_event("sources", {"sources": [row.model_dump(mode="json") for row in rows]})
    if update.get("failures"):
        yield make_event("failures", {"failures": [failure.model_dump(mode="json") for failure in update["failures"]]})
    if "usage" in update and not is_first:
        yield make_event("usage", update["usage"].model_dump(mode="json"))
    works = update.get("hits") or update.get("candidates")
    if works is not None and not is_first:
        first = [make_partial_hit(work, rank).model_dump(mode="json") for rank, work in enumerate(works[:PARTIAL_HITS], start=1)]
        total = update.get("total_found", len(works)) if update.get("hits") else len(works)
        yield make_event("hits", {"node": node, "total": total, "hits": first})


def make_partial_hit(work: Candidate | Hit, rank: int) -> PartialHit:
    record = work.record if isinstance(work, Candidate) else work
    shared = {name: getattr(record, name) for name in SHARED_FIELDS if hasattr(record, name)}
    found_by = tuple(dict.fromkeys(f"{by.source}/{by.strategy}" for by in work.found_by))
    return PartialHit(**shared, rank=rank, score=work.score, scored_by=work.scored_by, reason=work.reason, found_by=found_by)
