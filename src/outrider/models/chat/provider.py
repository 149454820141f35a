"""Chat providers and their defaults, and the endpoint that the settings select."""

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
        return None, NO_MODEL
    if not is_http_url(base_url):
        raise SettingsError(f"llm.base_url {without_password(base_url)!r} is no address; write for example http://localhost:11434/v1")
    host = urlsplit(base_url).hostname or ""
    provider = PROVIDERS.get(host)
    if settings.model == AUTO and provider is None:
        return None, f"llm.base_url is {without_password(base_url)}, and no model is named; set llm.model to one that is served there"
    model = provider.default_model if provider and settings.model == AUTO else settings.model
    if provider is not None and not key.get_secret_value():
        return None, f"{model} at {host} needs a key; set llm.api_key, or OPENAI_API_KEY or DEEPSEEK_API_KEY"
    choice = "llm.model" if settings.model != AUTO else "llm.model is auto: the cheap model of the provider"
    options, first_mode, lengths = (
        (provider.options, provider.first_mode, provider.bounds_lengths) if provider else (DEFAULT_OPTIONS, None, True)
    )
    price = prices.get(model) if provider or model in settings.prices else None
    endpoint = Endpoint(model, base_url, key, price, first_mode, options, lengths)
    cost = f"${price.input:g} in, ${price.output:g} out for a million tokens" if price else "its price is unknown, see llm.prices"
    return endpoint, f"{endpoint.name} ({choice}; {cost})"
