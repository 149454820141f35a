"""Chat providers, the selected endpoint, its structured output modes, and the cost of calls."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from pydantic import JsonValue, SecretStr

from outrider.settings.model import LlmSettings
from outrider.state.errors import SettingsError
from outrider.state.model import Model
from outrider.text.sanitize import is_http_url, redact, split_addresses, without_password

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
    problem: str = ""
    """Why one of several servers is left out until then."""
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


AUTO, NONE = "auto", "none"
OPENAI_URL = "https://api.openai.com/v1"
NO_MODEL = "no model is configured: set OPENAI_API_KEY or DEEPSEEK_API_KEY, or llm.base_url and llm.model for a model of your own"
NO_ADDRESS = "llm.model is {}, and no key or address is set: set OPENAI_API_KEY or DEEPSEEK_API_KEY, or llm.base_url"
SWITCHED_OFF = "llm.model is none"
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Provider:
    """A known provider. The values of an option are tried in order until one is accepted; None omits the option."""

    default_model: str
    first_mode: OutputMode
    """A structured output mode that the provider documents."""
    options: dict[str, tuple[JsonValue, ...]]
    bounds_lengths: bool = True
    """Whether a strict schema may bound the length of a text."""


# Least thinking first: platform.openai.com/docs/guides/reasoning, api-docs.deepseek.com/guides/thinking_mode.
PROVIDERS = {
    "api.openai.com": Provider(
        "gpt-6-luna",
        OutputMode.JSON_SCHEMA,
        {"length": ("max_completion_tokens", "max_tokens"), "temperature": (0, None), "reasoning_effort": ("none", "minimal", "low", None)},
        bounds_lengths=False,
    ),
    "api.deepseek.com": Provider(
        "deepseek-flash",
        OutputMode.FUNCTION_CALLING,
        {"length": ("max_tokens",), "temperature": (0, None), "thinking": ({"type": "disabled"}, None)},
    ),
}
DEFAULT_OPTIONS: dict[str, tuple[JsonValue, ...]] = {"length": ("max_tokens", "max_completion_tokens"), "temperature": (0, None)}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model at one address, or with `replicas` at several."""

    model: str
    base_url: str = field(repr=False)
    key: SecretStr
    price: Price | None
    first_mode: OutputMode | None
    options: dict[str, tuple[JsonValue, ...]] = field(repr=False)
    bounds_lengths: bool = True
    replicas: tuple[str, ...] = field(default=(), repr=False)
    """Further addresses that serve the same model."""

    @property
    def is_openai(self) -> bool:
        return self.host == "api.openai.com"

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).netloc.rpartition("@")[2]

    @property
    def is_unnamed(self) -> bool:
        """Whether the server must be asked which model it serves."""
        return self.model == AUTO

    @property
    def name(self) -> str:
        hosts = ", ".join([self.host, *(replace(self, base_url=address).host for address in self.replicas)])
        return f"{'the only model' if self.is_unnamed else self.model} at {hosts}"

    def describe(self, choice: str) -> str:
        """One line for people; `choice` tells why this model."""
        price = self.price
        cost = f"${price.input:g} in, ${price.output:g} out for a million tokens" if price else "its price is unknown, see llm.prices"
        return f"{self.name} ({choice}; {cost})"

    def redact(self, message: object) -> str:
        """A server's message, shortened and without the key."""
        return redact(message, self.key.get_secret_value())


def resolve_endpoint(settings: LlmSettings) -> tuple[Endpoint | None, str]:
    """The endpoint of the settings with a description, or None with the reason. Raises `SettingsError` for a bad address or price."""
    prices = PRICES | parse_prices(settings.prices)
    if settings.model == NONE:
        return None, SWITCHED_OFF
    key, base_url = settings.api_key, settings.base_url or OPENAI_URL
    if not settings.base_url and not key.get_secret_value():
        return None, NO_MODEL if settings.model == AUTO else NO_ADDRESS.format(settings.model)
    addresses = split_addresses(base_url) or (base_url,)
    for address in addresses:
        if not is_http_url(address):
            raise SettingsError(f"llm.base_url {without_password(address)!r} is no address; write for example http://localhost:11434/v1")
    hosts = {urlsplit(address).hostname or "" for address in addresses}
    host = hosts.pop() if len(hosts) == 1 else ""
    provider = PROVIDERS.get(host)
    model = provider.default_model if provider and settings.model == AUTO else settings.model
    if provider is not None and not key.get_secret_value():
        return None, f"{model} at {host} needs a key; set llm.api_key, or OPENAI_API_KEY or DEEPSEEK_API_KEY"
    choice = "llm.model"
    if settings.model == AUTO:
        choice = (
            "llm.model is auto: the cheap model of the provider" if provider else "llm.model is auto: the server is asked for its models"
        )
    options, first_mode, lengths = (
        (provider.options, provider.first_mode, provider.bounds_lengths) if provider else (DEFAULT_OPTIONS, None, True)
    )
    price = prices.get(model) if provider or model in settings.prices else None
    endpoint = Endpoint(model, addresses[0], key, price, first_mode, options, lengths, addresses[1:])
    return endpoint, endpoint.describe(choice)


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens; `cached` for input read from the provider's cache, `cache_write` for input written to it."""

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None

    def max_usd(self, input_tokens: int, output_tokens: int) -> float:
        """An upper bound on the cost of a call in USD."""
        return (max(self.input, self.cache_write or 0.0) * input_tokens + self.output * output_tokens) / MILLION

    def usd(self, usage: TokenUsage) -> float:
        """The cost of a call in USD, by the provider's count."""
        cached = self.input if self.cached is None else self.cached
        cache_write = self.input if self.cache_write is None else self.cache_write
        plain = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        input_usd = self.input * plain + cached * usage.cached_tokens + cache_write * usage.cache_write_tokens
        return (input_usd + self.output * usage.output_tokens) / MILLION


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one call, as the provider counts them; cached and cache-write tokens are part of the input."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0


NO_USAGE = TokenUsage(0, 0)
"""Usage of a request that was refused or did not reach the server."""

# OpenAI: developers.openai.com/api/docs/models/gpt-6-luna and .../gpt-5.6-luna, in force since 2026-09-22 and 2026-07-30, prompts
# up to 272,000 tokens; gpt-5.4-nano and gpt-5-nano (served until 2026-12-11) on the same site, 2026-11. DeepSeek:
# api-docs.deepseek.com/quick_start/pricing, 2026-10-27, its peak hours; outside them it takes half.
PRICES = {
    "gpt-6-luna": Price(0.10, 0.50, cached=0.01, cache_write=0.125),
    "gpt-5.6-luna": Price(0.20, 1.20, cached=0.02, cache_write=0.25),
    "gpt-5.4-nano": Price(0.20, 1.25),
    "gpt-5-nano": Price(0.05, 0.40, cached=0.005),
    "deepseek-flash": Price(0.30, 1.20, cached=0.006),
    "deepseek-v4-pro": Price(1.32, 3.96, cached=0.044),
}


def parse_prices(entries: Mapping[str, str]) -> dict[str, Price]:
    """Parse the prices of the settings (model -> "INPUT/OUTPUT"). Raises `SettingsError` that names the entry."""
    prices = {}
    for model, text in entries.items():
        try:
            input_usd, output_usd = (float(part) for part in text.split("/"))
        except ValueError:
            input_usd = output_usd = math.nan
        if not (0 <= input_usd < math.inf and 0 <= output_usd < math.inf):
            raise SettingsError(f"llm.prices.{model} takes INPUT/OUTPUT in USD for a million tokens, such as 0.05/0.40, not {text!r}")
        prices[model] = Price(input_usd, output_usd)
    return prices


def count_max_tokens(request: Mapping[str, object]) -> int:
    """An upper bound on the tokens of a request: no tokenizer in use makes more tokens of a text than it has bytes."""
    return len(json.dumps(request, ensure_ascii=False).encode(errors="replace"))
