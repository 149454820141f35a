"""The tools for models as their guide describes them: names, what they take, what they give, resources."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from compatibility.shapes import REQUIRED, frozen, key_paths, missing, refused, schema_paths

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

TOOLS: dict[str, Any] = frozen("mcp_tools")
RESULTS: dict[str, Any] = frozen("mcp_results")


async def all_tools(library: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Start `outrider mcp` as a client does; return its tools' schemas, and keys and kinds of content of some answers."""
    command = StdioServerParameters(command=sys.executable, args=["-m", "outrider", "mcp", "--library", str(library)], env={**os.environ})
    results: dict[str, Any] = {}
    async with Client(stdio_client(command)) as client:

        async def call(name: str, arguments: dict[str, Any]) -> Any:
            answer = await client.call_tool(name, arguments)
            results[name] = {
                "error": str(answer.is_error),
                "content": sorted({one.type for one in answer.content}),
                "resources": sorted({str(one.uri).rpartition("/")[0] for one in answer.content if one.type == "resource_link"}),
                "keys": key_paths(answer.structured_content),
            }
            return answer

        tools = {one.name: one for one in (await client.list_tools()).tools}
        found = await call("search", {"query": "aspirin liver", "top_k": 2})
        whole = await client.read_resource(f"outrider://result/{found.structured_content['answer']}")
        results["search"]["resource"] = sorted(json.loads(whole.contents[0].text))
        await call("systematic", {"query": "aspirin[tiab]"})
        await call("library_search", {"query": "statins", "strategy": "SPARSE"})
        await call("export", {"format": "ris", "answer": found.structured_content["answer"]})
        refused = await client.call_tool("search", {"query": "?"})
        results["refused"] = {"error": str(refused.is_error), "content": [one.type for one in refused.content]}
    return {name: described(tool) for name, tool in tools.items()}, results


def described(tool: Any) -> dict[str, dict[str, str]]:
    schemas = {"takes": tool.input_schema, "gives": tool.output_schema}
    return {name: schema_paths(schema, schema.get("$defs", {})) for name, schema in schemas.items()}


async def test_tools_are_as_before(made_library: Path) -> None:
    tools, results = await all_tools(made_library)
    assert set(TOOLS) <= set(tools)
    for name, expected in TOOLS.items():
        for side in ("takes", "gives"):
            compare = refused if side == "takes" else missing
            assert compare(expected[side], tools[name][side]) == []
        wanted = [path for path, said in tools[name]["takes"].items() if REQUIRED in said]
        assert [path for path in wanted if path not in expected["takes"]] == []
    for name, expected in RESULTS.items():
        current = results[name]
        assert missing(expected.get("keys", {}), current.get("keys", {})) == []
        assert set(expected.get("resource", ())) <= set(current.get("resource", ()))
        assert {part: current[part] for part in ("error", "content")} == {part: expected[part] for part in ("error", "content")}
        assert set(expected.get("resources", ())) <= set(current.get("resources", ()))
