"""The process: keys, ports, figures, and how it stops."""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from outrider.interfaces.http import run_server
from outrider.interfaces.http.access import find_owner, hash_key
from outrider.interfaces.http.server import build_application
from outrider.services import Services
from outrider.settings.load import load
from outrider.state.errors import BadRequest, SourceUnavailable
from support.fakes import Shelf
from support.http_app import ASPIRIN, BASE, BlockingLibrary, open_client, running, services, until

pytestmark = pytest.mark.slow


OUTRIDER = (sys.executable, "-m", "outrider")


def test_a_port_that_is_taken_is_said(shelved: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(BadRequest, match="choose another --port"):
        run_server(Services.for_library(shelved), "127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_without_a_key_only_loopback_is_served(shelved: Path, host: str) -> None:
    with pytest.raises(BadRequest, match="outrider serve key NAME"):
        run_server(Services.for_library(shelved), host, 0)


def test_ctrl_c_ends_the_server_with_130_and_nothing_on_standard_output(shelved: Path) -> None:
    process = subprocess.Popen(
        [*OUTRIDER, "serve", "--port", "0", "-l", str(shelved)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    said = process.stderr.readline()
    base_url = said.partition("http://")[2].split()[0]
    for line in process.stderr:
        if "startup complete" in line:
            break
    assert httpx.get(f"http://{base_url}/healthz", timeout=60).status_code == 200
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err


KEYS_IN_URLS = ("api_key", "key", "access_token", "X-Amz-Signature", "api%5Fkey", "client_secret", "Authorization")
"""Names of parameters whose values no log may show; the second half was not used while this was built."""


def test_every_line_of_the_log_is_json_and_the_lines_of_a_request_have_one_number(shelved: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*OUTRIDER, "--verbose", "serve", "--port", "0", "--offline", "-l", str(shelved)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env={**os.environ, "OUTRIDER_THREADS__URI": str(tmp_path / "threads.sqlite")},
    )  # fmt: skip
    assert process.stderr is not None
    base_url = "http://" + process.stderr.readline().partition("http://")[2].split()[0]
    with httpx.Client(base_url=base_url, timeout=120) as client:
        _until_ready(client)
        headers = {"X-Thread-Id": "logged"}
        answers = [
            client.post("/api/search", json={"query": "aspirin"}),
            client.post("/api/search", json={"query": "aspirin liver"}, headers=headers),
            client.post("/api/search", json={"query": "aspirin"}, headers={"Prefer": "respond-async, wait=60"}),
            client.post("/search/invoke", json={"input": {"query": "aspirin"}}),
            client.post("/search/stream", json={"input": {"query": "aspirin"}}),
            client.post("/search/batch", json={"inputs": [{"query": "aspirin"}, {"query": "statins"}]}),
        ]
        search_id = answers[0].headers["x-search-id"]
        exported = client.get(f"/api/search/{search_id}/export", params={"format": "ris"})
        for number, name in enumerate(KEYS_IN_URLS):
            client.get(f"/healthz?author=Doe&{name}=hush-{number}&keyword=liver")
        client.get("/?next=http%3A%2F%2Fexample.org%2F%3Fapi_key%3Dhush-nested")
        client.get("/nothing/outrider_0123456789abcdefghijklmnop")
    process.terminate()
    lines = [json.loads(line) for line in process.communicate(timeout=300)[1].splitlines()]
    assert process.returncode == 128 + signal.SIGTERM
    assert exported.status_code == 200
    access = {line["request"]: line for line in lines if "request" in line}
    for answer in answers:
        request_id = answer.headers["x-request-id"]
        nodes = [line["node"] for line in lines if line["run"] == request_id and "node" in line]
        assert access[request_id]["run"] == request_id
        assert set(nodes) >= {"translator", "scout", "distiller"}, answer.request.url
        if "batch" not in str(answer.request.url):
            assert access[request_id]["search"] == request_id
    assert access[exported.headers["x-request-id"]]["search"] == search_id
    assert all(line["run"] for line in lines if "node" in line)
    text = json.dumps(lines)
    assert "startup complete" in text
    assert "hush" not in text
    assert "0123456789abcdef" not in text
    assert text.count("author=Doe") == text.count("keyword=liver") > 0


def _until_ready(client: httpx.Client) -> None:
    until = time.monotonic() + 300
    while client.get("/readyz").status_code != 200 and time.monotonic() < until:
        time.sleep(0.05)


def test_a_key_is_made_once_and_its_lines_are_settings(tmp_path: Path) -> None:
    made = subprocess.run([*OUTRIDER, "serve", "key", "ann"], capture_output=True, text=True, check=True)
    key = made.stdout.strip()
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "search_config.yaml").write_text(made.stderr.split("\n", 1)[1], encoding="utf-8")
    loaded = load(environ={}, cwd=tmp_path, user_dir=tmp_path / "user").settings
    assert find_owner(key, loaded.serve.api_keys) == "ann"
    assert key not in made.stderr
    assert hash_key(key) not in repr(loaded)


def test_a_key_for_nobody_is_refused_in_a_line() -> None:
    refused = subprocess.run([*OUTRIDER, "serve", "key", "a b"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "a key's owner" in refused.stderr


def test_a_stopping_server_finishes_what_runs_and_takes_nothing_new() -> None:
    held = BlockingLibrary([ASPIRIN])
    answers: list[httpx.Response] = []
    with running(services(shelf=held)) as base_url:
        asking_ = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{base_url}/api/search", json={"query": "aspirin"}, timeout=60))
        )
        asking_.start()
        until = time.monotonic() + 60
        while not held.let._waiters and time.monotonic() < until:
            time.sleep(0.02)
        loop_of(held)
        stopping = threading.Timer(0.3, held.let.set)
        stopping.start()
    asking_.join(timeout=60)
    assert answers[0].status_code == 200


def loop_of(held: BlockingLibrary) -> None:
    """The event is set from another thread: `asyncio.Event` wakes its waiters only on their own loop."""
    waiter = next(iter(held.let._waiters))
    loop = waiter.get_loop()
    plain = held.let.set
    held.let.set = lambda: loop.call_soon_threadsafe(plain)  # type: ignore[method-assign,assignment,return-value]


async def test_an_asynchronous_search_is_finished_before_the_server_ends() -> None:
    held = BlockingLibrary([ASPIRIN])
    async with open_client(services(shelf=held)) as client:
        run_id = (await client.post("/api/search", json={"query": "aspirin"}, headers={"Prefer": "respond-async"})).json()["id"]
        run = await client.application.runs.find(run_id, "")  # type: ignore[attr-defined]
        asyncio.get_running_loop().call_later(0.1, held.let.set)
    assert run.status == "done"


async def test_what_does_not_end_in_time_is_stopped_and_said(caplog: pytest.LogCaptureFixture) -> None:
    held = BlockingLibrary([ASPIRIN])
    async with open_client(services(shelf=held, shutdown_s=0.05)) as client:
        run_id = (await client.post("/api/search", json={"query": "aspirin"}, headers={"Prefer": "respond-async"})).json()["id"]
        run = await client.application.runs.find(run_id, "")  # type: ignore[attr-defined]
        await until(lambda: held.begun > 0)
    assert (run.status, held.stopped) == ("cancelled", 1)
    assert "were stopped" in caplog.text


async def test_a_server_that_is_about_to_stop_is_not_ready_and_takes_no_search() -> None:
    async with open_client(services()) as client:
        await ready(client)
        client.application.stop()  # type: ignore[attr-defined]
        after = [(await client.get("/readyz")).status_code, (await client.post("/api/search", json={"query": "x"})).status_code]
        alive = (await client.get("/healthz")).json()
    assert (after, alive) == ([503, 503], {"status": "ok"})


async def test_figures_tell_nodes_sources_errors_and_requests_by_our_own_words_only() -> None:
    async with open_client(services(shelf=Shelf([ASPIRIN], error=SourceUnavailable("it is down")))) as client:
        await client.post("/api/search", json={"query": "aspirin"})
        await client.post("/search/invoke", json={"input": {"query": "aspirin"}})
        await client.get("/evil-path-of-somebody")
        figures = (await client.get("/metrics")).text
    assert 'outrider_searches_total{door="rest",outcome="failed"} 1.0' in figures
    assert 'outrider_searches_total{door="langserve",outcome="failed"} 1.0' in figures
    assert 'outrider_source_errors_total{source="library",status="unavailable"} 2.0' in figures
    assert 'outrider_node_errors_total{error="NothingSearchable",node="scout"} 2.0' in figures
    assert 'outrider_node_seconds_count{node="translator"} 2.0' in figures
    assert 'outrider_http_requests_total{method="POST",route="/api/search",status="503"} 1.0' in figures
    assert "evil" not in figures
    for name in ("cache_hits", "model_cost_usd", "model_tokens", "searches_running", "requests_waiting"):
        assert f"outrider_{name}" in figures


async def test_the_engines_parts_are_told(shelved: Path) -> None:
    async with open_client(await asyncio.to_thread(Services.for_library, shelved)) as client:
        told = (await client.get("/health")).json()
    assert told["status"] == "ok"
    assert json.dumps(told["parts"]).count('"what"') == 7


@pytest.mark.parametrize("alone", [True, False])
async def test_only_a_server_that_is_alone_keeps_what_it_loaded_from_the_collector(alone: bool) -> None:
    """Else it would be another program's garbage, and another program's processes."""
    gc.unfreeze()
    before, made = gc.get_threshold(), services(processes=1)
    opened = await asyncio.to_thread(build_application, made, alone=alone)
    await until(lambda: not multiprocessing.active_children())  # of tests before this one
    async with opened.app.router.lifespan_context(opened.app):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(opened.app), base_url=BASE) as client:
            await ready(client)
        assert (gc.get_freeze_count() > 0, gc.get_threshold() != before) == (alone, alone)
        assert len(multiprocessing.active_children()) == alone
        opened.admission.running = 2
        if alone:
            await until(made.workers.available)
        opened.admission.running = 1
        assert not made.workers.available()
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, before)
    await until(lambda: not multiprocessing.active_children())


async def ready(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(300):
        while (await client.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - the door has no event for it
            await asyncio.sleep(0.01)
