"""Answers for the page that no search of the test site gives, and a tab that receives them instead of the server's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from outrider.interfaces.web.readable_answer import read_answer, read_text
from outrider.settings.model import Settings
from outrider.state.hits import FoundBy, Hit, Related
from outrider.state.intent import PlannedQuery, SearchStrategy
from outrider.state.response import ContextUnit, DistilledContext, SearchResponse, SourceReport

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

RIGHT_TO_LEFT = "إصابة الكبد بالأدوية: مراجعة منهجية (DILI 2020)"
LONG_TITLE = "Hepatotoxicity of commonly prescribed medicines in adults and children " * 6
SENTENCE = "Drugs may harm the liver in rare cases, and `paracetamol` is the **most** frequent [cause](https://a.org/x)."


def make_answer(count: int, **fields: Any) -> SearchResponse:
    """Hits of all kinds; the first have a right-to-left, a long and no title, each its own authors."""
    titles = [RIGHT_TO_LEFT, LONG_TITLE[:400], "", *(f"Liver injury by drugs, part {number}" for number in range(4, count + 1))]
    hits = [_make_hit(rank, title) for rank, title in enumerate(titles[:count], start=1)]
    units = [
        ContextUnit(doc_id=hit.doc_id, key=f"[{hit.rank}]", start=start, end=end, text=hit.original_text[start:end], score=0.9)
        for hit in hits for start, end in hit.spans
    ]  # fmt: skip
    given = {
        "query": "liver",
        "mode": "discovery",
        "strategy": SearchStrategy(
            queries=(PlannedQuery(text="liver", keywords=("liver",), boolean_query="liver"),),
            sources=("library",),
            strategies=("lance_fts",),
        ),
        "hits": tuple(hits),
        "context": DistilledContext(units=tuple(units)),
        "sources": (SourceReport(source="library", strategy="lance_fts", asked=10, status="ok", returned=count),),
        "total_candidates": 2 * count,
        "total_found": count,
        "execution_time_ms": 1234.0,
    }
    return SearchResponse.model_validate(given | fields)


def _make_hit(rank: int, title: str) -> Hit:
    is_read = rank <= 5
    text = f"The weather was fine. {SENTENCE} Nothing else of it matters here." if is_read else "About livers."
    start = text.find(SENTENCE)
    return Hit(
        rank=rank, doc_id=f"doi:10.1000/{rank}", kind=("paper", "repository", "document")[rank % 3], title=title, score=0.5,
        url=f"https://example.org/{rank}", authors=tuple(f"Author{rank} {letter}. Doe" for letter in "ABCDE"), year=1990 + rank % 30,
        venue=f"Journal {rank % 4}", citations=rank * 7 % 50, abstract=text, content=text, original_text=text, scored_by="rules",
        spans=((start, start + len(SENTENCE)),) if is_read else (), answers="yes" if is_read else "unread",
        found_by=(FoundBy("library", "lance_fts", "liver", rank),),
        related=(Related(relation="retracted by", doc_id="doi:10.1000/r", title="Retraction"),) if rank == 2 else (),
    )  # fmt: skip


async def receive(tab: Page, answer: SearchResponse | None, events: Sequence[tuple[str, dict[str, Any]]] = ()) -> None:
    """From now on each search of the tab gets these events and this answer."""
    last = [("response", answer.model_dump(mode="json"))] if answer else []
    wire = "".join(f"id: {at}\nevent: {name}\ndata: {json.dumps(data)}\n\n" for at, (name, data) in enumerate([*events, *last], 1))
    run = {"id": "x", "status": "done", "events": "/api/search/x/events", "response": answer.model_dump(mode="json") if answer else None}

    async def respond(route: Route) -> None:
        path = route.request.url.partition("/api/search")[2].partition("?")[0]
        if route.request.method == "POST":
            await route.fulfill(status=202, json={"id": "x"})
        elif path == "/x/events":
            await route.fulfill(body=wire, content_type="text/event-stream")
        elif path == "/x/reading" and answer:
            await route.fulfill(json=read_answer(answer, Settings()).model_dump(mode="json"))
        elif path.endswith("/text") and answer:
            hit = next(hit for hit in answer.hits if hit.rank == int(path.split("/")[3]))
            await route.fulfill(json=(await asyncio.to_thread(read_text, hit)).model_dump(mode="json"))
        else:
            await route.fulfill(json=run)

    await tab.route("**/api/search**", respond)
    await tab.route("**/api/search/**", respond)


async def ask(tab: Page, query: str = "liver") -> None:
    await tab.get_by_role("searchbox").fill(query)
    await tab.get_by_role("searchbox").press("Enter")
