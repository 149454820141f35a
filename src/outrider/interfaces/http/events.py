"""What a search says while it runs, as server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).

::

    queued     {position}                        it waits for its turn
    started    {node}
    finished   {node, took_ms, candidates?, hits?, failures?}
    hits       {node, total, hits[]}             the first works as this node left them, without their texts
    sources    {sources[]}                       what each source did
    failures   {failures[]}
    usage      {calls, input_tokens, ...}        what models cost so far
    response   SearchResponse                    the last one where it ended well
    problem    Problem                           the last one where it did not
    cancelled  {}                                the last one where it was stopped
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from outrider.state.hits import Candidate, FoundBy, Hit, ScoredBy
from outrider.state.model import Model
from outrider.state.records import Kind

FIRST = 20
"""Works of one partial list at most."""
LAST = frozenset({"response", "problem", "cancelled"})
Streamed = tuple[str, Any]
"""What LangGraph streams: the mode, and the part."""


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    data: str
    """JSON on one line."""

    def wire(self, number: int) -> bytes:
        return f"id: {number}\nevent: {self.name}\ndata: {self.data}\n\n".encode()


class PartialHit(Model):
    """A work on its way: what a list shows of it. Its score is that of the node that it comes from."""

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


SAME = ("doc_id", "kind", "title", "url", "authors", "year", "venue", "stars", "language")


def event(name: str, data: Mapping[str, Any]) -> Event:
    return Event(name, json.dumps(data, ensure_ascii=False, separators=(",", ":")))


def events_of(streamed: Streamed) -> Iterator[Event]:
    """The events of one part of `graph.astream(stream_mode=["custom", "updates", ...])`."""
    mode, part = streamed
    if mode == "custom" and part.get("event") in ("started", "finished"):
        yield event(part["event"], {name: value for name, value in part.items() if name != "event"})
    elif mode == "updates":
        for node, update in part.items():
            yield from _of_update(node, update or {})


def _of_update(node: str, update: Mapping[str, Any]) -> Iterator[Event]:
    begins = "started_at" in update  # the first node sets all fields back
    if rows := [row for row in update.get("sources") or () if not isinstance(row, str)]:
        yield event("sources", {"sources": [row.model_dump(mode="json") for row in rows]})
    if update.get("failures"):
        yield event("failures", {"failures": [failure.model_dump(mode="json") for failure in update["failures"]]})
    if "usage" in update and not begins:
        yield event("usage", update["usage"].model_dump(mode="json"))
    works = update.get("hits") or update.get("candidates")
    if works is not None and not begins:
        first = [partial_hit(work, rank).model_dump(mode="json") for rank, work in enumerate(works[:FIRST], start=1)]
        total = update.get("total_found", len(works)) if update.get("hits") else len(works)
        yield event("hits", {"node": node, "total": total, "hits": first})


def partial_hit(work: Candidate | Hit, rank: int) -> PartialHit:
    said = work.record if isinstance(work, Candidate) else work
    same = {name: getattr(said, name) for name in SAME if hasattr(said, name)}
    places = _places(work.found_by)
    return PartialHit(**same, rank=rank, score=work.score, scored_by=work.scored_by, reason=work.reason, found_by=places)


def _places(found: Iterable[FoundBy]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{place.source}/{place.strategy}" for place in found))
