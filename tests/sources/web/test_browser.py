"""The browser and its proxy on local servers: allowed hosts, start, prepared tabs, shutdown."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.runtime.threads_and_loops import in_background
from outrider.sources.http.ssrf_guard import Guard
from outrider.sources.web import browser as module
from outrider.sources.web.browser import Chromium, find_chromium, unavailable_reason
from outrider.sources.web.browser_proxy import SocksProxy
from outrider.sources.web.browser_tab import Tab
from outrider.sources.web.fetch import PageFetcher
from outrider.sources.web.search import DUCKDUCKGO, WebSearch
from outrider.state.errors import Forbidden, SourceTimeout, SourceUnavailable
from outrider.state.ports import SourceQuery
from support.http_server import NEVER, Answer, Request, as_text, refusal, serving
from support.shared_chromium import SharedChromium, chromium_owner

pytestmark = pytest.mark.slow


def test_why_there_is_no_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OUTRIDER_CHROMIUM", str(tmp_path / "none"))
    assert "OUTRIDER_CHROMIUM" in unavailable_reason()
    monkeypatch.delenv("OUTRIDER_CHROMIUM")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    assert "no Chromium" in unavailable_reason()
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert "outrider[browser]" in unavailable_reason()


def test_a_headless_shell_comes_before_a_whole_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OUTRIDER_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    for name in (
        "chromium-1200/chrome-linux64/chrome",
        "chromium_headless_shell-1200/chrome-linux/headless_shell",
        "chromium_headless_shell-1201/chrome-headless-shell-linux64/chrome-headless-shell",
        "chromium",
        "chromium-headless-shell",
    ):
        browser = tmp_path / name
        browser.parent.mkdir(parents=True, exist_ok=True)
        browser.write_text("#!/bin/sh\n")
        browser.chmod(0o755)
        assert (find_chromium(), unavailable_reason()) == (browser, "")


async def test_the_proxy_passes_allowed_hosts_only() -> None:
    with serving(lambda request: as_text("ok")) as server:
        host, port = server.base_url.removeprefix("http://").split(":")
        guard = Guard(frozenset({f"{host}:{port}"}))
        assert await _through(guard, None, host, int(port)) == (0, b"ok")
        assert await _through(guard, frozenset({"engine.example"}), host, int(port)) == (2, b"")
        assert await _through(Guard(), None, host, int(port)) == (4, b"")
        assert await _through(guard, None, "localhost", int(port)) == (4, b"")
        assert await _through(guard, None, host, int(port), command=2) == (7, b"")
    assert len(server.requests) == 1


async def _through(guard: Guard, hosts: frozenset[str] | None, host: str, port: int, command: int = 1) -> tuple[int, bytes]:
    """The reply code of the proxy to one request, and the body that passes through it."""
    async with SocksProxy(guard, hosts) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.address.rpartition(":")[2]))
        name = host.encode()
        writer.write(b"\x05\x01\x00" + bytes((5, command, 0, 3, len(name))) + name + port.to_bytes(2, "big"))
        assert await reader.readexactly(2) == b"\x05\x00"
        code = (await reader.readexactly(10))[1]
        body = b""
        if code == 0:
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            body = (await reader.readuntil(b"ok"))[-2:]
        writer.close()
        return code, body


@pytest.mark.parametrize(
    "payload", [b"", b"\x05", b"GET / HTTP/1.1\r\n\r\n", b"\x05\x01\x00\x05\x01\x00\x09abc", b"\x05\x01\x00\x05\x01\x00\x03\xff"]
)
async def test_the_proxy_survives_malformed_input(payload: bytes) -> None:
    async with SocksProxy(Guard()) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.address.rpartition(":")[2]))
        writer.write(payload)
        writer.write_eof()
        await reader.read()
        writer.close()


needs_chromium = pytest.mark.skipif(bool(unavailable_reason()), reason=unavailable_reason() or "a browser is there")

SCRIPTED = """<html><body><div id="root"></div><script>
fetch("{elsewhere}/stolen").catch(() => 0);
new Image().src = "{elsewhere}/image";
try {{ new WebSocket("{socket}/socket") }} catch (e) {{}}
document.getElementById("root").innerHTML =
'<div class="result"><a class="result__a" href="https://example.org/">Made by scripts</a></div>';
</script><link rel="prefetch" href="{elsewhere}/prefetched"><iframe src="{elsewhere}/frame"></iframe></body></html>"""


Make = Callable[..., Chromium]


def guard_for(*base_urls: str) -> Guard:
    return Guard(frozenset(url.removeprefix("http://") for url in base_urls))


@pytest.fixture
async def chromium_for() -> AsyncIterator[Make]:
    """Browsers by the hosts that are allowed, closed in the end."""
    browsers: list[Chromium] = []

    def make(*base_urls: str) -> Chromium:
        browsers.append(Chromium(guard_for(*base_urls)))
        return browsers[-1]

    yield make
    for chromium in browsers:
        await chromium.close()


@pytest.fixture
async def shared_chromium_for(running_chromium: Chromium) -> AsyncIterator[Make]:
    """The same in one running Chromium."""
    browsers: list[Chromium] = []

    def make(*base_urls: str) -> Chromium:
        browsers.append(SharedChromium(guard_for(*base_urls), owner=running_chromium))
        return browsers[-1]

    yield make
    for chromium in browsers:
        await chromium.close()


@needs_chromium
async def test_an_engine_in_the_browser(shared_chromium_for: Make) -> None:
    """Its scripts run; no request of its page reaches another host, by any method."""
    with serving(lambda request: as_text("secret")) as other:
        elsewhere = other.base_url.replace("127.0.0.1", "localhost")

        def engine_page(request: Request) -> Answer:
            return as_text(SCRIPTED.format(elsewhere=elsewhere, socket=elsewhere.replace("http", "ws")), "text/html")

        with serving(engine_page) as server:
            one = replace(DUCKDUCKGO, address=f"{server.base_url}/html/?q={{query}}")
            chromium = shared_chromium_for(server.base_url, elsewhere)
            answer = await WebSearch(chromium, (one,), gap_s=0.0, timeout_s=60.0).search(
                SourceQuery("phage", "duckduckgo", None, 10, within_s=60.0)
            )
            await asyncio.sleep(0.3)
            assert other.requests == []
            assert [hit.record.title for hit in answer.results] == ["Made by scripts"]
            assert server.requests[0].query == {"q": "phage"}
            await chromium.open_page(f"{server.base_url}/html/", 60.0)
            assert {"/stolen", "/frame"} <= {request.path for request in other.requests}, "what was kept from it above"


@needs_chromium
@pytest.mark.parametrize("forced", ["", "1"])
async def test_a_redirect_leads_the_browser_nowhere_else(forced: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not to loopback, and with one allowed host to no other; also where the environment makes Playwright bypass loopback."""
    monkeypatch.setenv("PLAYWRIGHT_DISABLE_FORCED_CHROMIUM_PROXIED_LOOPBACK", forced)  # read when it starts
    owner = chromium_owner()
    with serving(lambda request: as_text("<p>secret</p>", "text/html")) as inside:
        for to in (inside.base_url, inside.base_url.replace("127.0.0.1", "localhost"), inside.base_url.replace("127.0.0.1", "[::1]")):
            with serving(lambda request, to=to: Answer(status=302, headers={"Location": to})) as server:  # type: ignore[misc]
                chromium = SharedChromium(guard_for(server.base_url), owner=owner)
                with pytest.raises(Forbidden, match="may not be requested"):
                    await chromium.open_page(server.base_url, 60.0)
                await chromium.close()
        with serving(lambda request: Answer(status=302, headers={"Location": inside.base_url.replace("127.0.0.1", "localhost")})) as server:
            chromium = SharedChromium(guard_for(server.base_url, inside.base_url.replace("127.0.0.1", "localhost")), owner=owner)
            with pytest.raises(Forbidden):
                await chromium.open_page(server.base_url, 60.0, frozenset({"127.0.0.1"}))
            await chromium.close()
    await owner.close()
    assert inside.requests == []


@needs_chromium
async def test_tabs_time_and_errors(shared_chromium_for: Make) -> None:
    """Two tabs at a time; a page that never loads costs its time; a forbidden link starts no browser."""
    answers = {"/slow": NEVER, "/gone": refusal(404)}
    with serving(lambda request: answers.get(request.path, as_text("<p>here</p>", "text/html", after_s=0.3))) as server:
        chromium = shared_chromium_for(server.base_url)
        with pytest.raises(Forbidden):
            await chromium.open_page("http://127.0.0.1:1/", 60.0)
        assert chromium._running is None
        opened = await asyncio.gather(*(chromium.open_page(f"{server.base_url}/{number}", 60.0) for number in range(5)))
        assert all("here" in one.html for one in opened)
        assert server.most <= 2
        with pytest.raises(SourceUnavailable, match="404"):
            await chromium.render(f"{server.base_url}/gone", 60.0)
        began = time.monotonic()
        with pytest.raises(SourceTimeout):
            await chromium.open_page(f"{server.base_url}/slow", 1.0)
        assert time.monotonic() - began < 3.0
        assert (await chromium.open_page(f"{server.base_url}/again", 60.0)).status == 200


@needs_chromium
async def test_a_page_that_its_scripts_make_is_fetched(shared_chromium_for: Make) -> None:
    text = "Sentence about the lysis of bacteria that a script has written into the page. " * 10
    page = f"<html><head><title>App</title></head><body><div id=r></div><script>r.innerHTML='<p>{text}</p>'</script></body></html>"
    with serving(lambda request: refusal(404) if request.path == "/robots.txt" else as_text(page, "text/html")) as server:
        guard = Guard(frozenset({server.base_url.removeprefix("http://")}))
        pages = PageFetcher(guard, browser=shared_chromium_for(server.base_url))
        fetched_page = await pages.fetch(f"{server.base_url}/app", 60.0)
        await pages.close()
    assert "lysis of bacteria" in fetched_page.page.text


class TabCounter:
    """Counts the tabs that a browser makes, and those that are open."""

    def __init__(self, chromium: Chromium, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chromium, self.count = chromium, 0
        make, own = Tab.of, self

        async def counted(running: object, guard: Guard) -> Tab:
            own.count += 1
            return await make(running, guard)  # type: ignore[arg-type]

        monkeypatch.setattr(module.Tab, "of", counted)

    @property
    def open(self) -> int:
        return len(self.chromium._running.contexts) if self.chromium._running else 0

    async def ready(self) -> Tab:
        """The tab of whoever comes next."""
        tidying = [task for task in self.chromium._tasks if task is not self.chromium._next]
        await in_background(_all(tidying))
        assert self.chromium._next
        return await in_background(_one(self.chromium._next))


async def _all(tasks: list[asyncio.Task[object]]) -> None:
    await asyncio.gather(*tasks)


async def _one(making: asyncio.Task[Tab]) -> Tab:
    return await asyncio.shield(making)


RESULT = '<div class="result">found</div>'
PAGES = {
    "/late": "<div id=r></div><script>setTimeout(() => { r.className = 'result' }, 300)</script>",
    "/rewritten": """<script>setTimeout(() => {
document.open(); document.write('<p class=result>anew</p>'); document.close() }, 100)</script>""",
    "/onwards": "<script>location = '/there'</script>",
    "/there": RESULT,
    "/forged": """<script>for (const name of Object.getOwnPropertyNames(window)) if (/outrider/i.test(name)) window[name]('forged');
window.outriderReport?.('forged')</script>"""
    + RESULT,
    "/within": "<iframe srcdoc='<p class=result>a frame</p>'></iframe><p>outside</p>",
    "/heavy": """<link rel=stylesheet href="/style"><style>@font-face{font-family:x;src:url(/font)}
p{font-family:x;background:url(/image)}</style><img src="/image"><video src="/video" autoplay></video><p class=result>light</p>""",
    "/nothing": "<p>no results</p>",
}


@needs_chromium
async def test_the_page_is_read_when_its_results_appear(shared_chromium_for: Make) -> None:
    """Results that arrive late, on a rewritten page or on the next one; not those of a frame, nor forged messages of the page."""
    with serving(lambda request: as_text(f"<!DOCTYPE html><body>{PAGES.get(request.path, '')}</body>", "text/html")) as server:
        chromium = shared_chromium_for(server.base_url)

        async def html(path: str, within_s: float = 60.0) -> str:
            return (await chromium.open_page(server.base_url + path, within_s, ready=".result, .none")).html

        assert 'class="result"' in await html("/late")
        assert "anew" in await html("/rewritten")
        assert "found" in await html("/onwards")
        assert "forged" not in (await html("/forged")).replace("('forged')", "")
        assert "light" in await html("/heavy")
        assert (await html("/there")).startswith("<!DOCTYPE html><html>")
        began = time.monotonic()
        nothing, outside = await asyncio.gather(html("/nothing", 6.0), html("/within", 6.0))
        assert ("no results" in nothing, "outside" in outside) == (True, True)
        assert time.monotonic() - began >= 6.0 * 0.7
        paths = {request.path for request in server.requests}
    assert paths == {"/late", "/rewritten", "/onwards", "/there", "/forged", "/heavy", "/nothing", "/within"}


@needs_chromium
@pytest.mark.parametrize("status", [202, 403, 500])
async def test_a_page_that_failed_is_not_waited_for(shared_chromium_for: Make, status: int) -> None:
    with serving(lambda request: as_text("<p>no</p>", "text/html", status)) as server:
        chromium = shared_chromium_for(server.base_url)
        began = time.monotonic()
        opened = await chromium.open_page(server.base_url, 60.0, ready=".result")
        assert (opened.status, "no" in opened.html) == (status, True)
        assert time.monotonic() - began < 30.0


@needs_chromium
async def test_a_tab_is_prepared_before_it_is_needed(chromium_for: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepared, replaced after each use, never over the limit; it sends no request before its use and holds no earlier state."""
    remembers = """<div class=result></div><script>
document.cookie = 'mine=1'; localStorage.mine = 1; fetch('/said?' + document.cookie + localStorage.length)</script>"""
    cookie = {"Set-Cookie": "theirs=1; Path=/"}
    with serving(lambda _: as_text(remembers, "text/html", headers=cookie)) as server:
        chromium = chromium_for(server.base_url)
        tabs = TabCounter(chromium, monkeypatch)
        await asyncio.gather(chromium.prepare(), chromium.prepare())
        tab = await tabs.ready()
        assert (tabs.count, tabs.open) == (1, 1)
        with pytest.raises(Forbidden):
            await in_background(tab.show(server.base_url, time.monotonic() + 20.0, frozenset(), ""))
        assert server.requests == []
        for count in (2, 3, 4):
            await chromium.open_page(f"{server.base_url}/{count}", 60.0, ready=".result")
            assert tabs.count <= count
            await tabs.ready()
            assert (tabs.count, tabs.open) == (count, 1)
        await asyncio.gather(*(chromium.open_page(f"{server.base_url}/x{number}", 60.0) for number in range(5)))
        await tabs.ready()
        assert tabs.open <= chromium.tabs
        page_requests = [one for one in server.requests if one.path != "/said"]
        assert not any("cookie" in one.headers for one in page_requests)
        assert {one.target for one in server.requests if one.path == "/said"} <= {
            "/said?mine=1;%20theirs=1" + "1",
            "/said?theirs=1;%20mine=11",
        }


@pytest.mark.parametrize(
    ("script", "error"), [("exec sleep 600", SourceTimeout), ("exit 1", SourceUnavailable), ("kill -9 $$", SourceUnavailable)]
)
async def test_a_chromium_that_does_not_start_costs_its_time_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, error: type[Exception]
) -> None:
    fake = tmp_path / "chromium"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("OUTRIDER_CHROMIUM", str(fake))
    monkeypatch.setattr(module, "OPEN_TAB_S", 6.0)
    chromium = Chromium(Guard(allowed_hosts=frozenset({"127.0.0.1:9"})))
    with pytest.raises(error):
        await chromium.open_page("http://127.0.0.1:9/", 3.0)
    began = time.monotonic()
    for _ in range(5):
        await chromium.prepare()
        with pytest.raises(SourceUnavailable):
            await chromium.open_page("http://127.0.0.1:9/", 3.0)
    assert time.monotonic() - began < 1.0
    await chromium.close()


@needs_chromium
async def test_a_cancelled_request_leaves_the_tab_to_the_next(shared_chromium_for: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda request: as_text(RESULT, "text/html")) as server:
        chromium = shared_chromium_for(server.base_url)
        tabs = TabCounter(chromium, monkeypatch)
        with pytest.raises(SourceTimeout):
            await chromium.open_page(server.base_url, 0.01)
        assert server.requests == []
        assert (await chromium.open_page(server.base_url, 60.0)).status == 200
        await tabs.ready()
        assert (tabs.count, tabs.open) == (2, 1)


@needs_chromium
async def test_a_chromium_that_died_is_started_again(chromium_for: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whether it dies with a prepared tab or with a loading page, whose caller gets an error at once."""
    pids = await asyncio.to_thread(_noting, monkeypatch, tmp_path)
    with serving(lambda request: NEVER if request.path == "/slow" else as_text("<p>here</p>", "text/html")) as server:
        chromium = chromium_for(server.base_url)
        tabs = TabCounter(chromium, monkeypatch)
        await chromium.prepare()
        tab = await tabs.ready()
        os.killpg(_read(pids)[-1], signal.SIGKILL)
        await _until(lambda: not tab.usable)
        assert (await chromium.open_page(server.base_url, 60.0)).status == 200
        await tabs.ready()
        for ready in (".result", ""):
            opening = asyncio.create_task(chromium.open_page(f"{server.base_url}/{'' if ready else 'slow'}", 60.0, ready=ready))
            count = len(server.requests)
            await _until(lambda count=count: len(server.requests) > count)  # type: ignore[misc]
            await asyncio.sleep(0.2)
            began = time.monotonic()
            os.killpg(_read(pids)[-1], signal.SIGKILL)
            with pytest.raises(SourceUnavailable):
                await opening
            assert time.monotonic() - began < 20.0
            await tabs.ready()
        assert (await chromium.open_page(server.base_url, 60.0)).status == 200
    assert len(_read(pids)) == 4


@needs_chromium
async def test_an_idle_chromium_is_closed(chromium_for: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """After a while without use, with the tab that was ready; also one that was prepared and never used."""
    pids = await asyncio.to_thread(_noting, monkeypatch, tmp_path)
    monkeypatch.setattr(module, "IDLE_S", 0.2)
    with serving(lambda request: as_text("<p>here</p>", "text/html")) as server:
        chromium = chromium_for(server.base_url)
        await chromium.open_page(server.base_url, 60.0)
        await _until(lambda: chromium._running is None and not _lives(_read(pids)[-1]))
        assert chromium._next is None
        await chromium.prepare()
        await _until(lambda: len(_read(pids)) == 2)
        await _until(lambda: chromium._running is None and not _lives(_read(pids)[-1]))
        assert (await chromium.open_page(server.base_url, 60.0)).status == 200


EXIT_SCRIPT = """
import asyncio, sys
from outrider.sources.http.ssrf_guard import Guard
from outrider.sources.web.browser import Chromium
async def main():
    chromium = Chromium(Guard(frozenset({sys.argv[1]})))
    await chromium.prepare()
    await chromium.open_page(f"http://{sys.argv[1]}/", 60.0)
    print("answered", flush=True)
    await asyncio.sleep(float(sys.argv[2]))
asyncio.run(main())
"""


@needs_chromium
@pytest.mark.skipif(sys.platform == "win32", reason="has other signals")
@pytest.mark.parametrize(("pause_s", "kill_signal"), [(0.0, None), (60.0, signal.SIGINT), (60.0, signal.SIGKILL)])
async def test_no_process_or_folder_remains_when_the_process_ends(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    pause_s: float,
    kill_signal: signal.Signals | None,
) -> None:
    """By itself, by Ctrl-C, which the whole group gets, or killed: no Chromium, and no folder of its profile."""
    pids, rooms = await asyncio.to_thread(_noting, monkeypatch, tmp_path), tmp_path_factory.mktemp("o")
    monkeypatch.setenv("TMPDIR", str(rooms))
    with serving(lambda request: as_text("<p>here</p>", "text/html")) as server:
        ran = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-c", EXIT_SCRIPT, server.base_url.removeprefix("http://"), str(pause_s)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert ran.stdout
        first = await ran.stdout.readline()
        if kill_signal is signal.SIGINT:
            os.killpg(ran.pid, kill_signal)
        elif kill_signal:
            ran.send_signal(kill_signal)
        _, errors = await ran.communicate()
    assert first == b"answered\n", errors
    if kill_signal is None:
        assert (ran.returncode, errors) == (0, b"")
    await _until(lambda: not any(map(_lives, _read(pids))))
    await _until(lambda: not list(rooms.iterdir()))


def _noting(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Where the ids of the process groups of the Chromiums that are started are written; some begin with a script of their package."""
    pids, script = folder / "pids", folder / "chromium"
    script.write_text(f'#!/bin/sh\necho $$ >> "{pids}"\nexec "{find_chromium()}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("OUTRIDER_CHROMIUM", str(script))
    return pids


def _read(pids: Path) -> list[int]:
    return [int(line) for line in pids.read_text().split()]


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


async def _until(holds: Callable[[], bool], within_s: float = 30.0) -> None:
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until
        await asyncio.sleep(0.02)
