"""The modes in which a structured answer is requested."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from outrider.models.chat.provider import Capabilities, OutputMode, describe_schema, make_schema
from outrider.state.model import Model


class Item(Model):
    id: str = Field(max_length=5)
    kind: Literal["paper", "page"] = "paper"


class Whole(Model):
    title: str = Field(description="A title.")
    items: tuple[Item, ...] = Field(max_length=3)
    note: str | None = None


def test_the_schema_is_what_strict_providers_take() -> None:
    """All fields required, none beyond, no reference, no default; a field may be called title."""
    item = {
        "type": "object",
        "properties": {"id": {"type": "string", "maxLength": 5}, "kind": {"type": "string", "enum": ["paper", "page"]}},
        "required": ["id", "kind"],
        "additionalProperties": False,
    }
    assert make_schema(Whole) == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "A title."},
            "items": {"type": "array", "items": item, "maxItems": 3},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["title", "items", "note"],
        "additionalProperties": False,
    }
    assert "maxLength" not in describe_schema(make_schema(Whole, bounds_lengths=False))


def test_what_works_is_tried_first_and_the_rest_keeps_its_order() -> None:
    assert Capabilities().modes() == list(OutputMode)
    assert Capabilities(working_mode=OutputMode.JSON_MODE).modes() == [
        OutputMode.JSON_MODE,
        OutputMode.JSON_SCHEMA,
        OutputMode.FUNCTION_CALLING,
        OutputMode.TEXT,
    ]
