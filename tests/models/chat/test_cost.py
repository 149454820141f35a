"""Prices and what calls cost by them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.models.chat.provider import NO_USAGE, PRICES, Price, TokenUsage, count_max_tokens, parse_prices
from outrider.state.errors import SettingsError


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
