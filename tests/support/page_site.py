"""The server and its services for tests of the page, and actions in a browser tab."""

from __future__ import annotations

import asyncio
import itertools
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from outrider.boolean.printer import format_tree
from outrider.services import Services
from outrider.settings.model import (
    CoarseFilterSettings,
    DistillerSettings,
    LibrarySettings,
    RunSettings,
    SavedSettings,
    SystematicSettings,
    ThreadSettings,
)
from outrider.settings.sections import ServeSettings
from outrider.state.records import Record, Repository
from support.chat_client import llm_settings
from support.chat_server import ChatServer, Reply
from support.chat_server import Request as ChatRequest
from support.fake_services import make_handler
from support.fake_services import settings as world_settings
from support.fakes import doi, no_reranker, paper
from support.http_server import Answer, Request, refusal
from support.systematic_runs import LibraryVersions, make_papers

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

Opens = Callable[..., AbstractAsyncContextManager["Page"]]
QUERY = "liver injury by drugs"
HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=1</script>Liver injury & drugs'
README = '<img src=x onerror="document.title=1"><script>document.title=1</script> Liver injury by drugs is computed.'
LONG = (
    "Drugs may harm the liver 🧪🧪 in rare cases. The weather was fine. "
    + "Nothing of it matters here. " * 30
    + "Liver injury by drugs ends."
)
EXACT = 3_000
"""Of which every third does not speak of aspirin."""
PATIENT_S = 600.0
"""Time limit of services, model and search: only a test ends what it holds back."""
_RELEASES: dict[tuple[str, str], threading.Event] = {}


@contextmanager
def hold(name: str, word: str) -> Iterator[threading.Event]:
    """Hold back an answer to queries with that word until the event is set.

    `name` is a service, `scorer` for the model that scores, or `library` for all but the first page of a systematic run.
    """
    release = _RELEASES[name, word] = threading.Event()
    try:
        yield release
    finally:
        release.set()
        del _RELEASES[name, word]


def _find_release(name: str, text: str) -> threading.Event | None:
    return next((release for (of, word), release in list(_RELEASES.items()) if of == name and word in text), None)


def make_records() -> list[Record]:
    own = "How livers are harmed by drugs is told, with what to do about it. The weather was fine. " + LONG
    return [
        paper("own:1", "Liver injury by drugs, a review", abstract=own, year=2021, venue="Hepatology", authors=("Doe, Jane", "Roe, R.")),
        paper("own:2", "Liver injury by drugs, openalex 1", identifiers=doi("10.1000/oa1"), year=2019, venue="Hepatology"),
        paper("own:3", HOSTILE, abstract="Liver injury by drugs. =1+1", url="javascript:document.title=1", year=2020, authors=("=cmd()",)),
        Repository(
            doc_id="own:4", title="liver/tool", description="Liver injury by drugs, in software", language="Rust", stars=900, forks=20,
            updated_at="2026-11-01T00:00:00Z", archived=False, text=f"A README about liver injury by drugs. {README}", url="https://example.org/tool",
            metadata={"created_at": "2020-01-01T00:00:00Z", "contributors": 12},
        ),
        Repository(doc_id="own:5", title="liver/bare", description="Liver injury by drugs, in software"),
    ]  # fmt: skip


def answer_as_model(request: ChatRequest) -> Reply:
    """The answers of a model: a plan, a score for each paper, one for a repository, a short answer."""
    data = request.data
    if "papers" in data:
        scores = [(one["id"], 0.95 if "review" in one["title"] else 0.75 - at / 50) for at, one in enumerate(data["papers"])]
        results = [{"paper_id": name, "relevance_score": score, "relevance_reason": "it answers"} for name, score in scores]
        return Reply({"results": results}, release=_find_release("scorer", request.user))
    if "repository" in data:
        reasons = {"relevance_reason": "a tool for it", "documentation_reason": "a README only", "ease_of_use_reason": "one command"}
        return Reply({"relevance": 1.0, "documentation": 6, "ease_of_use": 8, **reasons})
    if "works" in data:
        text = data["works"][0]["units"][0]["text"]
        drafts = [(text, "u1"), (f"<b>{text}</b>", "u1"), (f"{text} In 99 of 100.", "u1")]
        return Reply({"sentences": [{"text": draft, "citations": [unit]} for draft, unit in drafts]})
    if "request" not in data:
        return Reply({"groups": []})
    text = data["request"]["text"] if isinstance(data.get("request"), dict) else str(data.get("request", "liver injury by drugs"))
    queries = [{"text": text, "keywords": text.split()[:3]}, {"text": f"{text} study", "keywords": ["study"]}]
    return Reply({"topic": text, "concepts": ["liver"], "intent_type": "general", "queries": queries})


def services_over(address: str, chat: ChatServer, folder: Path, **serve: Any) -> Services:
    settings = world_settings(address, folder / "cache", timeout_s=PATIENT_S)
    own = {
        "library": LibrarySettings(uri=str(folder / "library")),
        "llm": llm_settings(chat, timeout_s=PATIENT_S),
        "distiller": DistillerSettings(bypass=False),  # on a busy machine it might not be worth its time
        "coarse_filter": CoarseFilterSettings(updated_within_months=0, require_readme=False),
        "threads": ThreadSettings(uri=str(folder / "threads.sqlite")),
        "systematic": SystematicSettings(folder=str(folder / "runs")),
        "saved": SavedSettings(uri=str(folder / "saved.sqlite")),
        "serve": ServeSettings(**{"request_s": PATIENT_S, **serve}),
        "run": RunSettings(run_timeout_s=PATIENT_S),
    }
    return Services(
        settings.model_copy(update=own),
        reranker=no_reranker,
        pin=LibraryVersions(make_papers(EXACT), hold=lambda tree: _find_release("library", format_tree(tree))),
        world={},
    )


def answer_as_services(request: Request) -> Answer:
    """All services; crossref is down for queries with "broken"."""
    if "broken" in request.target and request.path.startswith("/crossref"):
        return refusal(500)
    return replace(make_handler()(request), release=_find_release(request.path.split("/")[1], request.target))


async def hold_requests(tab: Page, address: str, times: int | None = None) -> asyncio.Event:
    """Requests to addresses of that pattern wait until the event is set; only so many of them, if `times` is given."""
    released = asyncio.Event()
    numbers = itertools.count()

    async def go_on_later(route: Route) -> None:
        if times is None or next(numbers) < times:
            await released.wait()
        await route.fallback()

    await tab.route(re.compile(address), go_on_later)  # with its own `times`, Playwright lets all go on when the first one does
    return released


async def release(tab: Page, held: asyncio.Event, address: str) -> None:
    """Let the held requests go on, and return when the page has had the first answer and another one after it."""
    async with tab.expect_response(re.compile(address)):
        held.set()
    await tab.evaluate("fetch('api/about').then((answer) => answer.text()).then(() => new Promise((done) => setTimeout(done)))")


async def search(tab: Page, query: str = QUERY, top_k: int = 10) -> None:
    """Through the form, until its answer stands there with all hits that it has."""
    if top_k != 10:
        await tab.locator("#narrow summary").click()
        await tab.get_by_label("Hits", exact=True).fill(str(top_k))
    await tab.get_by_role("searchbox").fill(query)
    await tab.get_by_role("searchbox").press("Enter")
    await tab.locator("#hits .hit.done").first.wait_for()
    while top_k != 10 and await tab.locator("#more", has_text="Show").is_visible():
        await tab.locator("#more").click()


SIZES = ((360, 740), (768, 1024), (1280, 800), (1440, 900))
LOOK = """async (rules) => {
  const place = document.querySelector("dialog[open]") ?? document;
  const { violations } = await axe.run(place, { resultTypes: ["violations"], ...(rules && { runOnly: rules }) });
  const cut = [...document.querySelectorAll(":is(main, dialog) :is(button, label, h1, h2, h3, p, li), nav a, .tools button")]
    .filter((one) => one.checkVisibility() && !one.closest(".wide, .text, .hidden, pre, nav"))
    .filter((one) => one.getBoundingClientRect().right > innerWidth + 1);
  return {
    violations: violations.map((one) => `${one.id} (${one.impact}): ${one.nodes[0].html.slice(0, 200)}`),
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    cut: cut.map((one) => one.outerHTML.slice(0, 120)),
  };
}"""
"""What is wrong with what is shown; in an open dialog, the dialog."""
NOTHING: dict[str, Any] = {"violations": [], "wide": 0, "cut": []}


async def look(tab: Page, *rules: str) -> dict[str, Any]:
    """All that axe finds, and what is wider than the window; of these rules, if any are given."""
    base = pytest.importorskip("axe_playwright_python.base", reason="axe-playwright-python is not installed")
    if not await tab.evaluate("() => 'axe' in window"):  # half a megabyte: once for a document
        await tab.evaluate(base.AXE_SCRIPT)
    seen: dict[str, Any] = await tab.evaluate(LOOK, list(rules) or None)
    return seen


async def check(tab: Page) -> None:
    """Nothing is cut off and axe finds nothing at any width, light or dark. A scheme changes nothing but colours.

    One document for all: loading it again would take longer than the rules.
    """
    for width, height in SIZES:
        await tab.set_viewport_size({"width": width, "height": height})
        await tab.emulate_media(color_scheme="light")
        assert await look(tab) == NOTHING, f"light at {width}"
        await tab.emulate_media(color_scheme="dark")
        assert await look(tab, "color-contrast") == NOTHING, f"dark at {width}"
    await tab.emulate_media(color_scheme="light")
    await tab.set_viewport_size({"width": 1280, "height": 900})
