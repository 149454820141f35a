"""What a call costs: the providers' prices, the most that a call can come to, and what it did cost by the provider's own count."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from outrider.state.errors import SettingsError

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """USD for a million tokens. `cached` is what input costs that the provider has kept, `kept` what it costs where it begins to."""

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None

    def max_usd(self, input_tokens: int, output_tokens: int) -> float:
        return (max(self.input, self.cache_write or 0.0) * input_tokens + self.output * output_tokens) / MILLION

    def usd(self, used: TokenUsage) -> float:
        cached = self.input if self.cached is None else self.cached
        kept = self.input if self.cache_write is None else self.cache_write
        plain = used.input_tokens - used.cached_tokens - used.cache_write_tokens
        return (
            self.input * plain + cached * used.cached_tokens + kept * used.cache_write_tokens + self.output * used.output_tokens
        ) / MILLION


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one call, as the provider counts them; cached and kept ones are part of the input."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0


NO_USAGE = TokenUsage(0, 0)
"""What a request has used that was refused, or never got there."""

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


def parse_prices(given: Mapping[str, str]) -> dict[str, Price]:
    """The prices of the settings. Raises `SettingsError` that names the entry."""
    return {model: _price(model, text) for model, text in given.items()}


def _price(model: str, text: str) -> Price:
    parts = text.split("/")
    try:
        input_usd, output_usd = (float(part) for part in parts)
    except ValueError:
        input_usd = output_usd = math.nan
    if not (0 <= input_usd < math.inf and 0 <= output_usd < math.inf):
        raise SettingsError(f"llm.prices.{model} takes INPUT/OUTPUT in USD for a million tokens, such as 0.05/0.40, not {text!r}")
    return Price(input_usd, output_usd)


def count_max_tokens(request: Mapping[str, object]) -> int:
    """An upper bound on the tokens of a request: no tokenizer in use makes more of a text than its bytes."""
    return len(json.dumps(request, ensure_ascii=False).encode(errors="replace"))
