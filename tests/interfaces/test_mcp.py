"""The tools through the official client: in memory, over standard input and output, and over streamable HTTP."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import httpx2
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from outrider.interfaces.http.access import hash_key
from outrider.interfaces.mcp import make_server, run_http
from outrider.interfaces.mcp.http import build_application
from outrider.services import Services
from outrider.settings.sections import ServeSettings
from outrider.state.errors import BadRequest

TOOLS = {"search", "systematic", "analyze", "library_ingest", "library_search", "export"}
MOST_CHARS = 8_000


@pytest.fixture
def services(shelved: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "true")
    configured = Services.from_file({"library.uri": str(shelved)})
    yield configured
    configured.close()


def read_text(result: Any) -> str:
    return "\n".join(one.text for one in result.content if one.type == "text")


def read_links(result: Any) -> list[str]:
    return [str(one.uri) for one in result.content if one.type == "resource_link"]


async def test_each_tool_has_schemas_and_answers_briefly_with_links_to_the_rest(services: Services, tmp_path: Path) -> None:
    steps: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, of: float | None, message: str | None) -> None:
        steps.append((done, of, message))

    async with Client(make_server(services)) as client:
        tools = {one.name: one for one in (await client.list_tools()).tools}
        assert set(tools) == TOOLS
        for one in tools.values():
            assert one.description
            assert one.output_schema
            assert "context" not in one.input_schema["properties"]
            assert all("description" in message for message in one.input_schema["properties"].values())
        result = await client.call_tool("search", {"query": "aspirin liver", "top_k": 2}, progress_callback=progress)
        assert not result.is_error
        assert result.structured_content["hits"][0]["sentences"][0].startswith("Aspirin harms the liver at high doses.")
        assert len(read_text(result)) < MOST_CHARS
        assert [message for *_, message in steps][:2] == ["translator", "scout"]
        assert [done for done, *_ in steps] == sorted({done for done, *_ in steps})
        whole = await client.read_resource(read_links(result)[0])
        assert json.loads(whole.contents[0].text)["provenance_hash"]
        again = await client.call_tool("search", {"query": "aspirin liver", "after": result.structured_content["answer"]})
        strategy = json.loads((await client.read_resource(read_links(again)[0])).contents[0].text)["strategy"]
        assert strategy["earlier"][0]["queries"][0]["text"] == "aspirin liver"
        exported = await client.call_tool("export", {"format": "ris", "answer": result.structured_content["answer"]})
        ris = (await client.read_resource(exported.structured_content["resource"])).contents[0].text
        assert "TI  - Aspirin and the liver" in ris
        own = await client.call_tool("library_search", {"query": "statins", "strategy": "SPARSE"})
        assert own.structured_content["hits"][0]["doc_id"] == "b"
        exact = await client.call_tool("library_search", {"query": "statins[ti] NOT x-client[ti]", "strategy": "SPARSE"})
        assert [note.partition(":")[0] for note in exact.structured_content["notes"]] == ["hyphen"]
        assert "Statins lower cholesterol" in (await client.read_resource(read_links(own)[0])).contents[0].text


async def test_an_exact_run_is_reported_briefly(services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Client(make_server(services)) as client:
        result = await client.call_tool("systematic", {"query": "aspirin[tiab] OR statins[tiab]"})
    assert not result.is_error, read_text(result)
    assert (result.structured_content["total"], result.structured_content["complete"]) == (2, True)
    assert os.path.isdir(result.structured_content["folder"])  # noqa: ASYNC240, PTH112
    assert result.structured_content["remarks"] == []


async def test_the_remarks_of_an_exact_run_reach_the_model(services: Services) -> None:
    async with Client(make_server(services)) as client:
        result = await client.call_tool("systematic", {"query": '1990:2030[dp] AND "x-client"[ti]'})
    hyphen, missing = result.structured_content["remarks"]
    assert hyphen.startswith("hyphen: line 1, column 19: ")
    assert "1 of 4 records has no year and was not matched; 1 of them fits the rest of the query" in missing
    assert missing in read_text(result)


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("search", {"query": "😀"}, "no letter or digit"),
        ("search", {"query": "x", "filters": {"year": {"$gtt": 1}}}, "$gtt"),
        ("search", {"query": "x", "top_k": 1000}, "top_k"),
        ("search", {"query": "x", "after": "none"}, "search again"),
        ("analyze", {"target": "nonsense"}, "names no repository"),
        ("library_ingest", {"targets": ["/etc/passwd"]}, "outrider ingest"),
        ("library_ingest", {"targets": ["file:///etc/passwd"]}, ""),
        ("library_search", {"query": "x", "strategy": "GUESS"}, "strategy"),
        ("export", {"answer": "none"}, "search again"),
    ],
)
async def test_errors_that_a_model_can_correct_are_reported_to_it(
    services: Services, tool: str, arguments: dict[str, Any], message: str
) -> None:
    async with Client(make_server(services)) as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert message in read_text(result)
    assert "Traceback" not in read_text(result)


async def test_an_offline_analysis_reports_the_reason(services: Services) -> None:
    async with Client(make_server(services)) as client:
        result = await client.call_tool("analyze", {"target": "a/b"})
    assert result.is_error
    assert "sources.offline" in read_text(result)


@pytest.mark.parametrize("uri", ["outrider://result/none", "outrider://record/none", "outrider://record/..%2F..%2Fetc"])
async def test_a_missing_resource_is_an_error(services: Services, uri: str) -> None:
    from mcp import MCPError

    async with Client(make_server(services)) as client:
        with pytest.raises(MCPError):
            await client.read_resource(uri)


def environ(shelved: Path, folder: Path) -> dict[str, str]:
    own = {
        "OUTRIDER_SOURCES__OFFLINE": "true",
        "OUTRIDER_LIBRARY": str(shelved),
        "XDG_DATA_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
    }
    return {**os.environ, **own}


async def test_over_standard_input_and_output(shelved: Path, tmp_path: Path) -> None:
    command = StdioServerParameters(command=sys.executable, args=["-m", "outrider", "mcp"], env=environ(shelved, tmp_path))
    async with Client(stdio_client(command)) as client:
        assert {one.name for one in (await client.list_tools()).tools} == TOOLS
        result = await client.call_tool("search", {"query": "aspirin liver"})
    assert result.structured_content["hits"][0]["doc_id"] == "a"


@contextmanager
def serve_tools(services: Services) -> Iterator[str]:
    """Yields the address of the tools, served on a free port in a thread."""
    config = uvicorn.Config(build_application(make_server(services), services, "127.0.0.1"), port=0, log_level="critical", lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join(timeout=30)


async def test_over_http_only_with_the_right_key(shelved: Path) -> None:
    key = "outrider_test"
    values = {
        "library.uri": str(shelved),
        "sources.offline": True,
        "serve.authentication": "always",
        "serve.api_keys": {"me": hash_key(key)},
    }
    with serve_tools(Services.from_file(values)) as address:
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            assert {one.name for one in (await client.list_tools()).tools} == TOOLS
            result = await client.call_tool("search", {"query": "aspirin liver"})
            assert result.structured_content["hits"][0]["doc_id"] == "a"
        async with httpx2.AsyncClient(timeout=60) as http:
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            assert (await http.post(address, json=request)).status_code == 401
            assert (await http.post(address, json=request, headers={"Authorization": "Bearer wrong"})).status_code == 401
            assert (await http.post(address, json=request, headers={**headers, "Host": "evil.example"})).status_code == 400
            assert (await http.post(address, json=request, headers={**headers, "Origin": "https://evil.example"})).status_code == 403


@pytest.mark.parametrize(("host", "authentication"), [("0.0.0.0", "auto"), ("192.168.1.5", "auto"), ("127.0.0.1", "always")])
def test_another_address_than_loopback_needs_a_key(services: Services, host: str, authentication: str) -> None:
    own = services.settings.model_copy(update={"serve": ServeSettings.model_validate({"authentication": authentication})})
    with pytest.raises(BadRequest, match="outrider serve key"):
        run_http(Services(own), host, 0)
