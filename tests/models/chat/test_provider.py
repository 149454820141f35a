"""The choice of the chat model, its prices and the costs of calls.

The modes in which a structured answer is requested.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, SecretStr

from outrider.models.chat.provider import (
    NO_USAGE,
    PRICES,
    PROVIDERS,
    Capabilities,
    OutputMode,
    Price,
    TokenUsage,
    count_max_tokens,
    describe_schema,
    make_schema,
    parse_prices,
    resolve_endpoint,
)
from outrider.settings.model import LlmSettings
from outrider.state.errors import SettingsError
from outrider.state.model import Model

KEY = SecretStr("sk-secret")
LOCAL = "http://localhost:11434/v1"


@pytest.mark.parametrize(
    ("settings", "name", "price"),
    [
        ({"api_key": KEY}, "gpt-6-luna at api.openai.com", PRICES["gpt-6-luna"]),
        ({"api_key": KEY, "base_url": "https://api.deepseek.com"}, "deepseek-flash at api.deepseek.com", PRICES["deepseek-flash"]),
        ({"api_key": KEY, "model": "gpt-5.4-nano"}, "gpt-5.4-nano at api.openai.com", PRICES["gpt-5.4-nano"]),
        ({"api_key": KEY, "model": "unheard-of"}, "unheard-of at api.openai.com", None),
        ({"api_key": KEY, "prices": {"gpt-6-luna": "7/8"}}, "gpt-6-luna at api.openai.com", Price(7, 8)),
        ({"model": "llama3", "base_url": LOCAL}, "llama3 at localhost:11434", None),
        ({"model": "llama3", "base_url": LOCAL, "prices": {"llama3": "0/0"}}, "llama3 at localhost:11434", Price(0, 0)),
        ({"model": "gpt-6-luna", "base_url": "https://me:pass@proxy/v1", "api_key": KEY}, "gpt-6-luna at proxy", None),
    ],
)
def test_the_model_is_the_named_one_or_the_cheap_one_of_the_provider(settings: dict[str, Any], name: str, price: Price | None) -> None:
    """The built-in prices are those of the providers themselves; what another server takes is not known."""
    endpoint, description = resolve_endpoint(LlmSettings(**settings))
    assert endpoint is not None
    assert (endpoint.name, endpoint.price) == (name, price)
    assert name in description
    assert ("price is unknown" in description) == (price is None)
    assert not {"sk-secret", "pass"} & set((repr(endpoint) + description).replace("'", " ").replace(":", " ").split())


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "OPENAI_API_KEY or DEEPSEEK_API_KEY"),
        ({"model": "gpt-6-luna"}, "OPENAI_API_KEY"),
        ({"model": "none", "api_key": KEY}, "llm.model is none"),
        ({"base_url": "https://api.openai.com/v1"}, "needs a key"),
    ],
)
def test_without_a_model_one_line_gives_the_reason(settings: dict[str, Any], why: str) -> None:
    endpoint, description = resolve_endpoint(LlmSettings(**settings))
    assert endpoint is None
    assert why in description
    assert "\n" not in description


@pytest.mark.parametrize("address", ["localhost:11434", "ftp://x/v1", "http://", "http://a b/v1", "http://[", "http://u:pw@:0/v1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(SettingsError, match=r"llm\.base_url") as caught:
        resolve_endpoint(LlmSettings(model="m", base_url=address))
    assert "pw" not in str(caught.value)


def test_default_models_have_a_price_and_think_as_little_as_they_can() -> None:
    assert {known.default_model for known in PROVIDERS.values()} <= PRICES.keys()
    openai, deepseek = PROVIDERS["api.openai.com"], PROVIDERS["api.deepseek.com"]
    assert (openai.first_mode, openai.options["reasoning_effort"][0]) == (OutputMode.JSON_SCHEMA, "none")
    assert (deepseek.first_mode, deepseek.options["thinking"][0]) == (OutputMode.FUNCTION_CALLING, {"type": "disabled"})


def test_a_call_costs_what_its_tokens_cost() -> None:
    """Cached input is cheaper where the price states it, and dearer where the provider writes the cache."""
    price = Price(0.10, 0.50, cached=0.01, cache_write=0.125)
    assert price.usd(TokenUsage(1_000_000, 0)) == pytest.approx(0.10)
    assert price.usd(TokenUsage(0, 1_000_000)) == pytest.approx(0.50)
    assert price.usd(TokenUsage(1_000_000, 100_000, cached_tokens=600_000, cache_write_tokens=200_000)) == pytest.approx(
        0.006 + 0.025 + 0.02 + 0.05
    )
    assert Price(1, 2).usd(TokenUsage(10, 10, cached_tokens=5, cache_write_tokens=5)) == pytest.approx(30e-6)
    assert price.usd(NO_USAGE) == 0.0


@given(st.sampled_from(sorted(PRICES)), st.integers(0, 10**6), st.integers(0, 10**5), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_no_call_costs_more_than_the_most(
    model: str, tokens: int, output: int, cached: float, stored_share: float, answer_share: float
) -> None:
    price, cached_tokens = PRICES[model], int(tokens * cached)
    used = TokenUsage(tokens, int(output * answer_share), cached_tokens, int((tokens - cached_tokens) * stored_share))
    assert 0 <= price.usd(used) <= price.max_usd(tokens, output) + 1e-12


@pytest.mark.parametrize("text", ["", "1", "a/b", "1/2/3", "-1/2", "nan/1", "1/inf", "1,5/2"])
def test_a_malformed_price_is_named(text: str) -> None:
    with pytest.raises(SettingsError, match=r"llm\.prices\.some-model takes INPUT/OUTPUT"):
        parse_prices({"some-model": text})


def test_prices_of_the_settings_are_read() -> None:
    assert parse_prices({"m": "0.05/0.40", "local": "0/0"}) == {"m": Price(0.05, 0.40), "local": Price(0, 0)}


def test_tokens_are_bounded_by_bytes() -> None:
    """Also of texts of which a character is several tokens."""
    assert count_max_tokens({"content": "搜索"}) == len('{"content": "搜索"}'.encode())
    assert count_max_tokens({"content": "\ud800"}) > 0


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


def test_a_server_of_ones_own_is_asked_for_its_only_model_if_none_is_named() -> None:
    endpoint, description = resolve_endpoint(LlmSettings(base_url=LOCAL))
    assert endpoint is not None
    assert endpoint.is_unnamed
    assert "llm.model is auto: the server is asked for its models" in description
