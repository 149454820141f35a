"""The files of `deploy/` with real proxies: two servers, of which one is stopped and one is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from bench import servers as programs
from bench.servers import ProgramMissing, ServerProcess, haproxy, nginx, outrider_servers
from outrider.interfaces.http.access import hash_key
from outrider.settings.load import load

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
KEY = "outrider_a-key-of-these-tests"
DRAIN_S = 2.0
PROXIES = {"haproxy": haproxy, "nginx": nginx}


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[tuple[dict[str, str], list[ServerProcess]]]:
    """The addresses of the proxies, and the two servers behind both, which share Redis, a file of threads, and a library."""
    pytest.importorskip("redis")
    with ExitStack() as stack:
        try:
            for program in ("redis-server", *PROXIES):
                programs.find_program(program)
        except ProgramMissing as error:
            pytest.skip(str(error))
        settings: dict[str, Any] = {
            "shared": {"redis_url": stack.enter_context(programs.redis_server(tmp_path))},
            "threads": {"uri": str(tmp_path / "threads.sqlite")},
            "library": {"uri": str(tmp_path / "library")},
            "sources": {"offline": True},
            "serve": {
                "authentication": "always",
                "api_keys": {"ann": hash_key(KEY)},
                "trusted_proxies": "127.0.0.1",
                "drain_s": DRAIN_S,
                "processes": 0,
            },
        }
        _fill_library(tmp_path)
        servers = stack.enter_context(outrider_servers(("one", "two"), settings, tmp_path))
        for server in servers:
            server.wait_until_ready()
        yield {name: stack.enter_context(proxy(servers, tmp_path)) for name, proxy in PROXIES.items()}, servers


def _fill_library(folder: Path) -> None:
    from outrider.library.library import Library
    from outrider.state.records import Paper

    async def fill() -> None:
        library = await Library.open(str(folder / "library"), create=True)
        await library.upsert([Paper(doc_id="a", title="Aspirin and the liver", abstract="Aspirin harms the liver at high doses.")])
        library.close()

    asyncio.run(fill())


def test_proxies_pass_keys_addresses_and_events_at_once_and_survive_a_stop_and_a_kill(
    proxied: tuple[dict[str, str], list[ServerProcess]],
) -> None:
    """One test, because servers take seconds to start, and the last steps end them."""
    urls, servers = proxied
    with ExitStack() as stack:
        clients = {
            name: stack.enter_context(httpx.Client(base_url=url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60))
            for name, url in urls.items()
        }
        for name, client in clients.items():
            _until(lambda client=client: client.get("/readyz").status_code == 200)
            assert httpx.get(f"{urls[name]}/api/library", timeout=60).status_code == 401
            assert client.get("/metrics").status_code == 403
            answer = client.post("/api/search", json={"query": "aspirin liver"})
            assert (answer.status_code, answer.json()["hits"][0]["doc_id"]) == (200, "a")
            wrong = client.post("/api/search", json={"query": ""})
            assert (wrong.status_code, wrong.headers["content-type"]) == (422, "application/problem+json")
            _check_events(client)
            _check_log(client, servers, name)
        _check_stop([*clients.values()], servers[0])
        _check_kill(clients["haproxy"], servers[1])


def _check_events(client: httpx.Client) -> None:
    """They arrive as they happen: those of a search that waits for a person, although its stream stays open."""
    begun = client.post("/api/search", json={"query": "aspirin", "checkpoints": ["plan"]}, headers={"Prefer": "respond-async"})
    search = begun.headers["location"]
    names, began = [], time.monotonic()
    with client.stream("GET", f"{search}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            names += [line.removeprefix("event: ")] if line.startswith("event: ") else []
            if names and names[-1] == "waiting":
                break
    assert names[-1] == "waiting"
    assert time.monotonic() - began < 30
    states = [client.get(search) for _ in range(6)]  # whichever server is asked
    assert {state.json()["status"] for state in states} == {"waiting"}
    assert client.delete(search).status_code < 300


def _check_log(client: httpx.Client, servers: list[ServerProcess], mark: str) -> None:
    client.get(f"/livez?{mark}", headers={"X-Forwarded-For": "198.51.100.7"})

    def lines() -> list[dict[str, Any]]:
        texts = [server.log.read_text() for server in servers]
        return [json.loads(line) for text in texts for line in text.splitlines() if f"?{mark}" in line]

    _until(lambda: bool(lines()))
    assert [line["client"] for line in lines()] == ["127.0.0.1"], "that which the proxy saw, not what the client claims"


def _check_stop(clients: list[httpx.Client], server: ServerProcess) -> None:
    """No request fails while a server stops and after it has."""
    server.process.send_signal(signal.SIGTERM)
    statuses = []
    ends_at = time.monotonic() + 120
    while server.process.poll() is None or len(statuses) < 20:
        assert time.monotonic() < ends_at
        statuses += [client.post("/api/search", json={"query": "aspirin"}).status_code for client in clients]
    statuses += [client.get("/readyz").status_code for client in clients for _ in range(5)]
    assert set(statuses) == {200}
    assert server.process.returncode == 128 + signal.SIGTERM


def _check_kill(client: httpx.Client, server: ServerProcess) -> None:
    """A request that a server dies over gets a clear answer: it may be sent again."""
    os.kill(server.process.pid, signal.SIGSTOP)  # it accepts the request, and answers nothing
    began = time.monotonic()

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(base_url=client.base_url, headers=client.headers, timeout=60) as own:
            asking = asyncio.create_task(own.post("/api/search", json={"query": "aspirin"}))
            await asyncio.sleep(0.3)
            os.kill(server.process.pid, signal.SIGKILL)
            return await asking

    lost = asyncio.run(ask())
    assert time.monotonic() - began < 30
    assert (lost.status_code, lost.headers["content-type"]) == (502, "application/problem+json")
    assert lost.headers["retry-after"]
    assert lost.json()["type"] == "urn:outrider:problem:server-lost"
    _until(lambda: client.get("/readyz").status_code == 503)
    nobody = client.get("/api/library")
    assert (nobody.status_code, nobody.json()["type"]) == (503, "urn:outrider:problem:no-server")


def _until(holds: Any, within_s: float = 60.0) -> None:
    ends_at = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < ends_at
        time.sleep(0.05)


def test_the_settings_of_all_files_are_valid_and_stops_fit(tmp_path: Path) -> None:
    documents = [*yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text())]
    by_kind = {document["kind"]: document for document in documents}
    (tmp_path / "k8s.yaml").write_text(by_kind["ConfigMap"]["data"]["settings.yaml"])
    secrets = by_kind["Secret"]["stringData"]
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    pod = by_kind["Deployment"]["spec"]["template"]["spec"]
    graces = {
        "k8s.yaml": pod["terminationGracePeriodSeconds"],
        "settings.yaml": int(compose["services"]["outrider"]["stop_grace_period"][:-1]),
    }
    for path, environ in ((tmp_path / "k8s.yaml", secrets), (ROOT / "deploy" / "settings.yaml", {})):
        settings = load(environ=environ | {"OUTRIDER_CONFIG": str(path)}, cwd=tmp_path, user_dir=tmp_path).settings
        assert settings.shared.redis_url.startswith("redis://")
        assert settings.threads.uri.startswith("postgresql://")
        assert settings.serve.drain_s > 0
        assert graces[path.name] > settings.serve.drain_s + settings.serve.shutdown_s
    container = pod["containers"][0]
    probes = [container[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")]
    assert probes == ["/readyz", "/readyz", "/livez"]
    labels = by_kind["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert by_kind["Service"]["spec"]["selector"] == by_kind["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    names = {document["metadata"]["name"] for document in documents}
    used = {
        container["envFrom"][0]["secretRef"]["name"],
        pod["volumes"][0]["configMap"]["name"],
        pod["volumes"][1]["persistentVolumeClaim"]["claimName"],
    }
    assert used <= names
