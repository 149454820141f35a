"""Structured output modes, best first, and the modes and options that an endpoint supports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

from outrider.state.model import Model

ANSWER = "answer"
"""The name of the schema, and of the function to call."""
LENGTH_BOUNDS = frozenset({"minLength", "maxLength"})
FIT = "Answer with one JSON object that fits this JSON Schema, and with nothing else:"


class OutputMode(StrEnum):
    JSON_SCHEMA = "json_schema"
    FUNCTION_CALLING = "function_calling"
    JSON_MODE = "json_mode"
    TEXT = "text"

    @property
    def in_prompt(self) -> bool:
        """Whether the schema must be part of the prompt, because the request has no field for it."""
        return self in {OutputMode.JSON_MODE, OutputMode.TEXT}

    def request(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Request fields that ask for structured output."""
        if self is OutputMode.JSON_SCHEMA:
            return {"response_format": {"type": "json_schema", "json_schema": {"name": ANSWER, "strict": True, "schema": schema}}}
        if self is OutputMode.FUNCTION_CALLING:
            function = {"name": ANSWER, "description": "Give the answer.", "parameters": schema}
            return {
                "tools": [{"type": "function", "function": function}],
                "tool_choice": {"type": "function", "function": {"name": ANSWER}},
            }
        return {"response_format": {"type": "json_object"}} if self is OutputMode.JSON_MODE else {}


@dataclass(slots=True)
class Capabilities:
    """Modes and options that one endpoint is known to support. Written on the background loop only."""

    working_mode: OutputMode | None = None
    steps: dict[str, int] = field(default_factory=dict)
    """Number of refused values of each option."""
    closed_until: float = 0.0
    """`time.monotonic` before which the endpoint accepts no call."""
    _accepted: bool = field(default=False, init=False)
    _search: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def modes(self) -> list[OutputMode]:
        """The working mode first; the others follow for a schema that the endpoint does not accept in it."""
        return sorted(OutputMode, key=lambda mode: mode is not self.working_mode)

    def record_accepted(self, mode: OutputMode, *, sure: bool) -> None:
        """Record that a question was accepted in this mode; not `sure` if only a failure of the server, which may pass, led to it."""
        self._accepted = True
        if sure:
            self.working_mode = mode

    @asynccontextmanager
    async def search_turn(self, within_s: float) -> AsyncIterator[None]:
        """Let one question search for a working mode while the others wait; at most `within_s`, since the server may hang."""
        searching = False
        if not self._is_known():
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    searching = await self._search.acquire()
        if searching and self._is_known():
            self._search.release()
            searching = False
        try:
            yield
        finally:
            if searching:
                self._search.release()

    def _is_known(self) -> bool:
        return self._accepted or self.working_mode is not None


@cache
def get_capabilities(base_url: str, model: str) -> Capabilities:
    """One object per model and process, shared by all services that call the model."""
    return Capabilities()


@cache
def make_schema(shape: type[Model], *, bounds_lengths: bool = True) -> dict[str, Any]:
    """The JSON Schema of a shape that strict providers and small servers accept: all fields required, no others, no references.

    Cached, since it takes some milliseconds; callers must not change it.
    """
    whole = shape.model_json_schema()
    definitions = whole.get("$defs", {})
    dropped = {"default", "title", "$defs"} | (frozenset() if bounds_lengths else LENGTH_BOUNDS)

    def simplify(node: Any) -> Any:
        if isinstance(node, list):
            return [simplify(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return simplify(definitions[node["$ref"].rpartition("/")[2]])
        simple = {key: simplify(value) for key, value in node.items() if key not in dropped and key != "properties"}
        if "properties" in node:
            fields = {name: simplify(value) for name, value in node["properties"].items()}
            simple |= {"properties": fields, "required": list(fields), "additionalProperties": False}
        return simple

    schema: dict[str, Any] = simplify(whole)
    return schema


def describe_schema(schema: dict[str, Any]) -> str:
    """The schema as text for a prompt."""
    return f"{FIT}\n{json.dumps(schema, ensure_ascii=False)}"
