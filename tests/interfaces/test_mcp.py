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
    made = Services.from_file({"library.uri": str(shelved)})
    yield made
    made.close()


def text_of(result: Any) -> str:
    return "\n".join(one.text for one in result.content if one.type == "text")


def links_of(result: Any) -> list[str]:
    return [str(one.uri) for one in result.content if one.type == "resource_link"]


async def test_each_tool_has_schemas_and_answers_briefly_with_links_to_the_rest(services: Services, tmp_path: Path) -> None:
    steps: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, of: float | None, said: str | None) -> None:
        steps.append((done, of, said))

    async with Client(make_server(services)) as client:
        tools = {one.name: one for one in (await client.list_tools()).tools}
        assert set(tools) == TOOLS
        for one in tools.values():
            assert one.description
            assert one.output_schema
            assert "context" not in one.input_schema["properties"]
            assert all("description" in said for said in one.input_schema["properties"].values())
        found = await client.call_tool("search", {"query": "aspirin liver", "top_k": 2}, progress_callback=progress)
        assert not found.is_error
        assert found.structured_content["hits"][0]["sentences"][0].startswith("Aspirin harms the liver at high doses.")
        assert len(text_of(found)) < MOST_CHARS
        assert [said for *_, said in steps][:2] == ["translator", "scout"]
        assert [done for done, *_ in steps] == sorted({done for done, *_ in steps})
        whole = await client.read_resource(links_of(found)[0])
        assert json.loads(whole.contents[0].text)["provenance_hash"]
        again = await client.call_tool("search", {"query": "aspirin liver", "after": found.structured_content["answer"]})
        strategy = json.loads((await client.read_resource(links_of(again)[0])).contents[0].text)["strategy"]
        assert strategy["earlier"][0]["queries"][0]["text"] == "aspirin liver"
        exported = await client.call_tool("export", {"format": "ris", "answer": found.structured_content["answer"]})
        ris = (await client.read_resource(exported.structured_content["resource"])).contents[0].text
        assert "TI  - Aspirin and the liver" in ris
        own = await client.call_tool("library_search", {"query": "statins", "strategy": "SPARSE"})
        assert own.structured_content["hits"][0]["doc_id"] == "b"
        assert "Statins lower cholesterol" in (await client.read_resource(links_of(own)[0])).contents[0].text


async def test_an_exact_run_is_told_briefly(services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Client(make_server(services)) as client:
        found = await client.call_tool("systematic", {"query": "aspirin[tiab] OR statins[tiab]"})
    assert not found.is_error, text_of(found)
    assert (found.structured_content["total"], found.structured_content["complete"]) == (2, True)
    assert os.path.isdir(found.structured_content["folder"])  # noqa: ASYNC240, PTH112


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
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
async def test_what_a_model_can_mend_is_told_to_it(services: Services, tool: str, arguments: dict[str, Any], says: str) -> None:
    async with Client(make_server(services)) as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert says in text_of(result)
    assert "Traceback" not in text_of(result)


async def test_offline_an_analysis_says_why_there_is_none(services: Services) -> None:
    async with Client(make_server(services)) as client:
        result = await client.call_tool("analyze", {"target": "a/b"})
    assert result.is_error
    assert "sources.offline" in text_of(result)


@pytest.mark.parametrize("uri", ["outrider://result/none", "outrider://record/none", "outrider://record/..%2F..%2Fetc"])
async def test_a_resource_that_is_not_there_is_an_error(services: Services, uri: str) -> None:
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
        found = await client.call_tool("search", {"query": "aspirin liver"})
    assert found.structured_content["hits"][0]["doc_id"] == "a"


@contextmanager
def served(services: Services) -> Iterator[str]:
    """On a free port, in a thread; gives the address of the tools."""
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


async def test_over_http_with_a_key_and_none_other(shelved: Path) -> None:
    key = "outrider_test"
    given = {
        "library.uri": str(shelved),
        "sources.offline": True,
        "serve.authentication": "always",
        "serve.api_keys": {"me": hash_key(key)},
    }
    with served(Services.from_file(given)) as address:
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            assert {one.name for one in (await client.list_tools()).tools} == TOOLS
            found = await client.call_tool("search", {"query": "aspirin liver"})
            assert found.structured_content["hits"][0]["doc_id"] == "a"
        async with httpx2.AsyncClient(timeout=60) as http:
            asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            assert (await http.post(address, json=asked)).status_code == 401
            assert (await http.post(address, json=asked, headers={"Authorization": "Bearer wrong"})).status_code == 401
            assert (await http.post(address, json=asked, headers={**headers, "Host": "evil.example"})).status_code == 400
            assert (await http.post(address, json=asked, headers={**headers, "Origin": "https://evil.example"})).status_code == 403


@pytest.mark.parametrize(("host", "authentication"), [("0.0.0.0", "auto"), ("192.168.1.5", "auto"), ("127.0.0.1", "always")])
def test_another_address_than_loopback_needs_a_key(services: Services, host: str, authentication: str) -> None:
    own = services.settings.model_copy(update={"serve": ServeSettings.model_validate({"authentication": authentication})})
    with pytest.raises(BadRequest, match="outrider serve key"):
        run_http(Services(own), host, 0)
