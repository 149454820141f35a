"""Cost of a call: prices of chat models, upper bounds, and cost by the provider's count."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from outrider.state.errors import SettingsError

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens; `cached` for input read from the provider's cache, `cache_write` for input written to it."""

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None

    def max_usd(self, input_tokens: int, output_tokens: int) -> float:
        return (max(self.input, self.cache_write or 0.0) * input_tokens + self.output * output_tokens) / MILLION

    def usd(self, usage: TokenUsage) -> float:
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
