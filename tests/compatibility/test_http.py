"""The server as its guide and `/openapi.json` describe it: routes, bodies, answers, problems, events, figures, keys."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from compatibility.machine import run_command
from compatibility.shapes import REQUIRED, frozen, key_paths, missing, refused, schema_paths

httpx = pytest.importorskip("httpx")
for needed in ("langserve", "uvicorn", "prometheus_client"):
    pytest.importorskip(needed, reason="the extra `serve` is not installed")

OPERATIONS: dict[str, Any] = frozen("http_operations")
ANSWERS: dict[str, dict[str, str]] = frozen("http_answers")
METRICS: dict[str, Any] = frozen("metrics")
PAGES = {"/": "text/html", "/search/playground/": "text/html", "/analyze/playground/": "text/html", "/metrics": "text/plain"}
PROBLEM = "application/problem+json"
EVENTS = {"queued", "started", "finished", "hits", "sources", "failures", "usage", "response", "problem", "cancelled"}


@contextmanager
def served(library: Path) -> Iterator[Any]:
    """Run `outrider serve` and give a client that has its key, once it takes searches. Ctrl-C ends it with 130, as the guide says."""
    made = run_command("serve", "key", "ann", "--json").json
    command = [sys.executable, "-m", "outrider", "serve", "--port", "0", "--library", str(library)]
    keys = {"OUTRIDER_SERVE__API_KEYS": json.dumps({made["name"]: made["hash"]}), "OUTRIDER_SERVE__AUTHENTICATION": "always"}
    environ = {**os.environ, "OUTRIDER_SERVE__PROCESSES": "0", **keys}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stderr
        try:
            lines = []
            for line in process.stderr:
                lines.append(line)
                if "startup complete" in line:
                    break
            found = re.search(r"http://127\.0\.0\.1:\d+", "".join(lines))
            assert found, "".join(lines)
            until = time.monotonic() + 60
            while httpx.get(f"{found[0]}/readyz", timeout=60).status_code != 200 and time.monotonic() < until:
                time.sleep(0.05)
            with httpx.Client(base_url=found[0], headers={"X-API-Key": made["key"]}, timeout=60) as client:
                yield client
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
    assert process.returncode == 130


def operations(description: dict[str, Any]) -> dict[str, Any]:
    """Return parameters, body and answers of each operation, by method and path."""
    definitions = description["components"]["schemas"]
    return {
        f"{method.upper()} {re.sub('{.*?}', '{}', path)}": {
            "parameters": sorted(
                f"{one['in']} {'{}' if one['in'] == 'path' else one['name']}{' ' + REQUIRED if one.get('required') else ''}"
                for one in operation.get("parameters", ())
            ),
            "body": {
                kind: schema_paths(one["schema"], definitions) for kind, one in operation.get("requestBody", {}).get("content", {}).items()
            },
            "answers": {
                status: {kind: schema_paths(one.get("schema"), definitions) for kind, one in answer.get("content", {}).items()}
                for status, answer in operation["responses"].items()
                if status.startswith("2")
            },
            "problems": sorted(status for status in operation["responses"] if not status.startswith("2")),
        }
        for path, item in description["paths"].items()
        for method, operation in item.items()
    }


def answers(client: Any) -> dict[str, dict[str, str]]:
    """Ask the documented addresses; return status, media type and the keys of each answer."""
    seen: dict[str, dict[str, str]] = {}

    def ask(name: str, method: str, path: str, **given: Any) -> Any:
        answer = client.request(method, path, **given)
        kind = answer.headers.get("content-type", "").partition(";")[0]
        seen[name] = {"HTTP status": str(answer.status_code), "media type": kind}
        if name.endswith("schema"):
            seen[name] |= schema_paths(answer.json(), answer.json().get("$defs", {}))
        elif "json" in kind:
            lines = answer.text.splitlines() if "ndjson" in kind else [answer.text]
            seen[name] |= {path: kind for line in lines for path, kind in key_paths(json.loads(line)).items()}
        return answer

    for path in ("/healthz", "/readyz", "/health", "/api/library", "/api/about", "/api/scoring", *PAGES):
        ask(f"GET {path}", "GET", path)
    ask("search", "POST", "/api/search", json={"query": "aspirin liver"})
    ask("search with bounds", "POST", "/api/search", json={"query": "aspirin", "run": {"max_calls": 0, "run_timeout_s": 20}})
    ask("search on a thread", "POST", "/api/search", json={"query": "aspirin"}, headers={"X-Thread-Id": "liver"})
    waited = {"Prefer": "respond-async; wait=60"}
    ask("search, asynchronous and waited for", "POST", "/api/search", json={"query": "aspirin"}, headers=waited)
    started = ask("search, asynchronous", "POST", "/api/search", json={"query": "aspirin liver"}, headers={"Prefer": "respond-async"})
    place = started.headers["location"]
    client.get(f"{place}/events")  # until it has ended
    ask("search, its state", "GET", place)
    ask("search, its events", "GET", f"{place}/events")
    for name in ("bibtex", "ris", "csv", "json", "jsonl", "markdown"):
        ask(f"search, exported as {name}", "GET", f"{place}/export", params={"format": name})
    ask("search, one hit exported", "GET", f"{place}/export", params={"format": "ris", "rank": [1, 2]})
    ask("search, stopped", "DELETE", place)
    run = json.loads(ask("systematic", "POST", "/api/systematic", json={"query": "aspirin[tiab]"}).text.splitlines()[0])["run"]
    ask("systematic, resumed", "POST", "/api/systematic", json={"resume": run})
    ask("systematic, explained", "POST", "/api/systematic/explain", json={"query": "aspirin[tiab] OR statins[ti]"})
    ask("systematic, its report", "GET", f"/api/systematic/{run}")
    ask("systematic, its diagram", "GET", f"/api/systematic/{run}/prisma.svg")
    ask("systematic, its hits", "GET", f"/api/systematic/{run}/export", params={"format": "ris"})
    ask("analyze", "POST", "/api/analyze", json={"target": "owner/name"})
    ask("analyze-repo", "POST", "/api/analyze-repo", json={"target": "owner/name"})
    ask("LangServe invoke", "POST", "/search/invoke", json={"input": {"query": "statins"}, "config": {"configurable": {"thread_id": "x"}}})
    ask("LangServe batch", "POST", "/search/batch", json={"inputs": [{"query": "statins"}, {"query": "aspirin"}]})
    ask("LangServe stream", "POST", "/search/stream", json={"input": {"query": "statins"}})
    ask("LangServe stream_events", "POST", "/search/stream_events", json={"input": {"query": "statins"}})
    ask("LangServe input schema", "GET", "/search/input_schema")
    ask("LangServe output schema", "GET", "/search/output_schema")
    ask("LangServe analyze", "POST", "/analyze/invoke", json={"input": {"target": "owner/name"}})
    ask("wrong body", "POST", "/api/search", json={})
    ask("unknown field", "POST", "/api/search", json={"query": "x", "topk": 1})
    ask("bound beyond the server's", "POST", "/api/search", json={"query": "x", "run": {"max_calls": 100_001}})
    ask("wrong query", "POST", "/api/systematic", json={"query": "aspirin[nonsense]"})
    ask("unknown address", "GET", "/nothing")
    ask("unknown search", "GET", "/api/search/nobody")
    ask("unknown run", "GET", "/api/systematic/nobody")
    ask("wrong method", "DELETE", "/api/search")
    ask("too large", "POST", "/api/search", content=b" " * 1_100_000, headers={"Content-Type": "application/json"})
    ask("foreign page", "POST", "/api/search", json={"query": "x"}, headers={"Origin": "https://example.org"})
    ask("foreign name", "GET", "/api/library", headers={"Host": "example.org"})
    return seen


def figures(text: str) -> dict[str, Any]:
    """Return kind and labels of each figure of the text format of Prometheus."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    made: dict[str, Any] = {name: {"kind": kind, "labels": []} for name, kind in kinds.items() if not name.endswith("_created")}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*?)\})? \S+$", text, re.MULTILINE):
        base = name if name in made else re.sub("_(bucket|count|sum)$", "", name)
        if base in made:
            made[base]["labels"] = sorted({*made[base]["labels"], *re.findall(r"(\w+)=", labels)})
    return made


@pytest.fixture(scope="module")
def client(made_library: Path, module_folder: Path) -> Iterator[Any]:
    with served(made_library) as made:
        yield made


@pytest.fixture(scope="module")
def described(client: Any) -> dict[str, Any]:
    return operations(client.get("/openapi.json").json())


@pytest.fixture(scope="module")
def answered(client: Any) -> dict[str, dict[str, str]]:
    return answers(client)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_described_as_before(name: str, described: dict[str, Any]) -> None:
    assert name in described
    expected, current = OPERATIONS[name], described[name]
    assert set(expected["parameters"]) <= set(current["parameters"])
    assert [one for one in current["parameters"] if one.endswith(REQUIRED) and one not in expected["parameters"]] == []
    assert set(expected["problems"]) <= set(current["problems"])
    for kind, paths in expected["body"].items():
        assert refused(paths, current["body"][kind]) == []
        assert [path for path, said in current["body"][kind].items() if REQUIRED in said and path not in paths] == []
    for status, kinds in expected["answers"].items():
        for kind, paths in kinds.items():
            assert missing(paths, current["answers"][status][kind]) == []


@pytest.mark.parametrize("name", ANSWERS)
def test_every_address_answers_as_before(name: str, answered: dict[str, dict[str, str]]) -> None:
    assert missing(ANSWERS[name], answered[name]) == []


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_served(path: str, client: Any) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(PAGES[path])


@pytest.mark.parametrize(
    ("method", "path", "given", "status", "type_"),
    [
        ("POST", "/api/search", {"json": {}}, 422, "bad-request"),
        ("GET", "/nothing", {}, 404, "not-found"),
        ("DELETE", "/api/search", {}, 405, "method-not-allowed"),
    ],
)
def test_problems_have_their_form(method: str, path: str, given: dict[str, Any], status: int, type_: str, client: Any) -> None:
    answer = client.request(method, path, **given)
    problem = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    assert (problem["type"], problem["status"]) == (f"urn:outrider:problem:{type_}", status)
    assert {"title", "detail", "instance"} <= set(problem)
    assert [set(one) >= {"field", "message"} for one in problem.get("errors", ())] == [True] * (status == 422)


def test_events_keep_their_names_and_keys(client: Any) -> None:
    place = client.post("/api/search", json={"query": "aspirin liver"}, headers={"Prefer": "respond-async"}).headers["location"]
    answer = client.get(f"{place}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events: dict[str, dict[str, str]] = {}
    for block in answer.text.split("\n\n"):
        said = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if "event" in said:
            assert said["id"].isdigit()
            events.setdefault(said["event"], key_paths(json.loads(said["data"])))
    assert {"started", "finished", "hits", "sources", "response"} <= set(events) <= EVENTS
    for name, keys in frozen("events").items():
        assert missing(keys, events[name]) == []
    last = client.get(f"{place}/events", headers={"Last-Event-ID": "1"})
    assert re.findall(r"^id: (\d+)$", last.text, re.MULTILINE) == re.findall(r"^id: (\d+)$", answer.text, re.MULTILINE)[1:]


def test_figures_keep_their_names_and_labels(client: Any, answered: dict[str, dict[str, str]]) -> None:
    current = figures(client.get("/metrics").text)
    for name, expected in METRICS.items():
        assert name in current
        assert current[name]["kind"] == expected["kind"]
        assert set(expected["labels"]) <= set(current[name]["labels"])


def test_keys_are_asked_for_as_before(client: Any) -> None:
    key, address = client.headers["X-API-Key"], client.base_url
    refused = httpx.get(f"{address}/api/library", timeout=60)
    assert (refused.status_code, refused.headers["content-type"]) == (401, PROBLEM)
    assert httpx.get(f"{address}/api/library", headers={"Authorization": "Bearer wrong"}, timeout=60).status_code == 401
    assert httpx.get(f"{address}/api/library", headers={"Authorization": f"Bearer {key}"}, timeout=60).status_code == 200
    assert httpx.get(f"{address}/api/library", headers={"X-API-Key": key}, timeout=60).status_code == 200
    for path in ("/healthz", "/readyz", "/"):
        assert httpx.get(f"{address}{path}", timeout=60).status_code == 200


def test_langserve_clients_get_an_answer(client: Any) -> None:
    from langserve import RemoteRunnable

    headers = {"X-API-Key": client.headers["X-API-Key"]}
    answer = RemoteRunnable(f"{client.base_url}/search", headers=headers).invoke(
        {"query": "statins"}, {"configurable": {"thread_id": "clients"}}
    )
    assert answer["hits"][0]["title"] == "Statins in practice"
