"""Ways of asking for an answer in a shape, best first; and what of them an endpoint takes, remembered for the process."""

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
NO_LENGTHS = frozenset({"minLength", "maxLength"})
FIT = "Answer with one JSON object that fits this JSON Schema, and with nothing else:"


class OutputMode(StrEnum):
    JSON_SCHEMA = "json_schema"
    FUNCTION_CALLING = "function_calling"
    JSON_MODE = "json_mode"
    TEXT = "text"

    @property
    def in_prompt(self) -> bool:
        """Whether the schema must stand in the prompt, because it goes no other way."""
        return self in {OutputMode.JSON_MODE, OutputMode.TEXT}

    def request(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The fields of the request that ask for structure."""
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
    """What one endpoint has shown so far. Written on the background loop only."""

    working_mode: OutputMode | None = None
    steps: dict[str, int] = field(default_factory=dict)
    """How many values of an option it has refused."""
    closed_until: float = 0.0
    """`time.monotonic` before which it wants no further call."""
    _taken: bool = field(default=False, init=False)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def modes(self) -> list[OutputMode]:
        """What works first; the others stand behind it, for a schema that it does not take in that way."""
        return sorted(OutputMode, key=lambda way: way is not self.working_mode)

    def record_accepted(self, way: OutputMode, *, sure: bool) -> None:
        """A question was taken in this way; not `sure` where it came to that only because the server failed before, which may pass."""
        self._taken = True
        if sure:
            self.working_mode = way

    @asynccontextmanager
    async def search_turn(self, within_s: float) -> AsyncIterator[None]:
        """Until a way is known one question looks for it, and the others wait for theirs; no longer than this, as the server may hang."""
        held = False
        if not self._found:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    held = await self._looking.acquire()
        if held and self._found:
            self._looking.release()
            held = False
        try:
            yield
        finally:
            if held:
                self._looking.release()

    @property
    def _found(self) -> bool:
        return self._taken or self.working_mode is not None


@cache
def get_capabilities(base_url: str, model: str) -> Capabilities:
    """One for a process: every service that asks the same model profits from what was found out."""
    return Capabilities()


@cache
def make_schema(shape: type[Model], *, bounds_lengths: bool = True) -> dict[str, Any]:
    """The JSON Schema of a shape as strict providers and small servers take it: all fields required, none beyond, no references.

    Made once, since it takes some milliseconds; nobody may write into it.
    """
    whole = shape.model_json_schema()
    plain: dict[str, Any] = _plain(whole, whole.get("$defs", {}), bounds_lengths)
    return plain


def _plain(node: Any, defs: dict[str, Any], keeps_lengths: bool) -> Any:
    if isinstance(node, list):
        return [_plain(item, defs, keeps_lengths) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _plain(defs[node["$ref"].rpartition("/")[2]], defs, keeps_lengths)
    dropped = {"default", "title", "$defs"} | (frozenset() if keeps_lengths else NO_LENGTHS)
    plain = {key: _plain(value, defs, keeps_lengths) for key, value in node.items() if key not in dropped and key != "properties"}
    if "properties" in node:
        fields = {name: _plain(value, defs, keeps_lengths) for name, value in node["properties"].items()}
        plain |= {"properties": fields, "required": list(fields), "additionalProperties": False}
    return plain


def describe_schema(schema: dict[str, Any]) -> str:
    """The schema for a prompt."""
    return f"{FIT}\n{json.dumps(schema, ensure_ascii=False)}"
