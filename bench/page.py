"""Loading of the page in Chromium, compared in turn with a page of one script from the same server.

Each load has an empty cache and one connection at least to open. Counted from the end of the document: until the form has its listeners
(the mark `interactive`), until the server has said what it offers and the form searches (`data-ready`), and until the first view stands.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.report import Cell, Report, percentiles, progress
from outrider.library.library import Library
from outrider.sources.web.browser import find_chromium, unavailable_reason
from outrider.state.records import Paper

if TYPE_CHECKING:
    from playwright.async_api import Browser

LOADS = 20
RECORDS = 200
AT_MOST_MS = 300
COLUMNS = ("page", "requests", "kB sent", "interactive, median ms", "p95 ms", "ready, median ms", "first view, median ms")
BARE = '<!doctype html><html lang="en"><title>Bare</title><script type="module" src="/bare.js"></script><p id="seen">Bare</p></html>'
BARE_SCRIPT = (
    'performance.mark("interactive"); performance.mark("ready"); performance.mark("seen"); document.documentElement.dataset.ready = "yes";'
)
MARK_LATER = """() => {
  const seen = new MutationObserver(() => {
    if (document.documentElement?.dataset.ready && !performance.getEntriesByName("ready").length) performance.mark("ready");
    if (document.querySelector(".example") && !performance.getEntriesByName("seen").length) performance.mark("seen");
  });
  seen.observe(document, {subtree: true, childList: true, attributes: true});
}"""
HAS_ALL = """() => ["interactive", "ready", "seen"].every((name) => performance.getEntriesByName(name).length)"""
TIMES = """() => {
  const page = performance.getEntriesByType("navigation")[0];
  const files = performance.getEntriesByType("resource");
  const marks = ["interactive", "ready", "seen"].map((name) => performance.getEntriesByName(name)[0].startTime - page.responseEnd);
  return [files.length, [page, ...files].reduce((sum, one) => sum + one.transferSize, 0) / 1000, ...marks];
}"""


@dataclass(frozen=True, slots=True)
class Load:
    requests: int
    kilobytes: float
    interactive_ms: float
    ready_ms: float
    seen_ms: float


def run() -> Report:
    if why := unavailable_reason():
        return Report("page", COLUMNS, (), (f"Not measured: {why}.",))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_fill(Path(folder) / "library"))
        with _served(Path(folder)) as address:
            loads = asyncio.run(_load(address))
    rows = tuple(_row(name, loads[name]) for name in ("/", "/bare"))
    own, bare = (statistics.median(load.interactive_ms for load in loads[name]) for name in ("/", "/bare"))
    note = f"Interactive {own:.0f} ms after the document, {own / bare:.1f} times the bare page of the same run; at most {AT_MOST_MS} ms."
    return Report("page", COLUMNS, rows, (f"{LOADS} loads each, in turn, each with an empty cache; {os.cpu_count()} cores.", note))


def _row(name: str, loads: list[Load]) -> tuple[Cell, ...]:
    middle, late = percentiles([load.interactive_ms for load in loads])
    ready, seen = (statistics.median(times) for times in ([load.ready_ms for load in loads], [load.seen_ms for load in loads]))
    return name, loads[0].requests, loads[0].kilobytes, middle, late, ready, seen


async def _fill(folder: Path) -> None:
    library = await Library.open(folder, create=True)
    await library.upsert([Paper(doc_id=f"w{at}", title=f"Liver injury by drugs, part {at}", year=2000) for at in range(RECORDS)])
    await library.optimize(force=True)
    library.close()


async def _load(address: str) -> dict[str, list[Load]]:
    from playwright.async_api import async_playwright

    loads: dict[str, list[Load]] = {"/": [], "/bare": []}
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium(), chromium_sandbox=os.geteuid() != 0)
        for number in range(LOADS + 1):  # the first warms both up and does not count
            progress(f"page: load {number} of {LOADS}")
            for path, times in loads.items():
                load = await _load_once(browser, address + path)
                if number:
                    times.append(load)
        await browser.close()
    return loads


async def _load_once(browser: Browser, address: str) -> Load:
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    tab = await context.new_page()
    await tab.add_init_script(f"({MARK_LATER})()")
    await tab.goto(address)
    await tab.wait_for_function(HAS_ALL)
    load = Load(*await tab.evaluate(TIMES))
    await context.close()
    return load


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.page", str(folder / "library")],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def serve(library: str) -> None:
    """Outrider's server, which also has the bare page."""
    import socket

    from fastapi import Response

    from outrider.interfaces.http.server import make_server
    from outrider.services import Services
    from outrider.settings.load import load

    values: dict[str, Any] = {"library.uri": library, "sources.offline": True, "embedding.model_name": "none"}
    server = make_server(Services(load(values, environ={}).settings), "127.0.0.1", needs_key=False, log_level="critical")
    headers = {"Content-Security-Policy": "script-src 'self'"}
    server.config.app.add_api_route("/bare", lambda: Response(BARE, 200, headers, "text/html"))  # type: ignore[union-attr]
    server.config.app.add_api_route("/bare.js", lambda: Response(BARE_SCRIPT, 200, headers, "text/javascript"))  # type: ignore[union-attr]
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    server.run(sockets=[listener])


if __name__ == "__main__":
    serve(sys.argv[1])
