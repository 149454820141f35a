"""Which model is asked, where, and with which key; and what is known of its provider before it is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pydantic import JsonValue, SecretStr

from outrider.models.chat.cost import PRICES, Price, parse_prices
from outrider.models.chat.structured_output_modes import OutputMode
from outrider.settings.model import LlmSettings
from outrider.state.errors import SettingsError
from outrider.text.sanitize import is_http_url, redact, without_password

AUTO, NONE = "auto", "none"
OPENAI_URL = "https://api.openai.com/v1"
NO_MODEL = "no model is configured: set OPENAI_API_KEY or DEEPSEEK_API_KEY, or llm.base_url and llm.model for a model of your own"
SWITCHED_OFF = "llm.model is none"


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider. `options` are tried in their order until it takes one; None leaves the option out."""

    default_model: str
    first_mode: OutputMode
    """A way of asking for structure that it documents."""
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
    """One model at one address."""

    model: str
    base_url: str = field(repr=False)
    key: SecretStr
    price: Price | None
    first_mode: OutputMode | None
    options: dict[str, tuple[JsonValue, ...]] = field(repr=False)
    bounds_lengths: bool = True

    @property
    def is_openai(self) -> bool:
        return self.host == "api.openai.com"

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).netloc.rpartition("@")[2]

    @property
    def name(self) -> str:
        return f"{self.model} at {self.host}"

    def redact(self, said: object) -> str:
        """What it says, as it may be shown."""
        return redact(said, self.key.get_secret_value())


def resolve_endpoint(settings: LlmSettings) -> tuple[Endpoint | None, str]:
    """The model of the settings, or None, and why. Raises `SettingsError` for an address or a price that cannot be read."""
    prices = PRICES | parse_prices(settings.prices)
    if settings.model == NONE:
        return None, SWITCHED_OFF
    key, base_url = settings.api_key, settings.base_url or OPENAI_URL
    if not settings.base_url and not key.get_secret_value():
        return None, NO_MODEL
    host = _host(base_url)
    known = PROVIDERS.get(host)
    if settings.model == AUTO and known is None:
        return None, f"llm.base_url is {without_password(base_url)}, and no model is named; set llm.model to one that is served there"
    model = known.default_model if known and settings.model == AUTO else settings.model
    if known is not None and not key.get_secret_value():
        return None, f"{model} at {host} needs a key; set llm.api_key, or OPENAI_API_KEY or DEEPSEEK_API_KEY"
    how = "llm.model" if settings.model != AUTO else "llm.model is auto: the cheap model of the provider"
    options, first, lengths = (known.options, known.first_mode, known.bounds_lengths) if known else (DEFAULT_OPTIONS, None, True)
    price = prices.get(model) if known or model in settings.prices else None
    endpoint = Endpoint(model, base_url, key, price, first, options, lengths)
    return endpoint, f"{endpoint.name} ({how}; {_told(price)})"


def _told(price: Price | None) -> str:
    if price is None:
        return "its price is unknown, see llm.prices"
    return f"${price.input:g} in, ${price.output:g} out for a million tokens"


def _host(address: str) -> str:
    if is_http_url(address):
        return urlsplit(address).hostname or ""
    raise SettingsError(f"llm.base_url {without_password(address)!r} is no address; write for example http://localhost:11434/v1")
