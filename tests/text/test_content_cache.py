"""The cache of what is computed from a text."""

from __future__ import annotations

from outrider.text.content_cache import ENTRY_BYTES, ContentCache


def test_a_known_text_is_not_computed_again_and_the_oldest_is_dropped() -> None:
    computed: list[str] = []

    def double(text: str) -> str:
        computed.append(text)
        return text * 2

    cache = ContentCache(double, len, 2 * (ENTRY_BYTES + 2) + 1)
    assert [cache("a"), cache("b"), cache("a"), cache("c"), cache("a"), cache("b")] == ["aa", "bb", "aa", "cc", "aa", "bb"]
    assert computed == ["a", "b", "c", "b"]  # when c came, b had not been used for longest
    assert len(cache) == 2


def test_a_result_that_is_too_large_is_not_kept() -> None:
    cache = ContentCache(str.upper, lambda text: 10 * len(text), ENTRY_BYTES)
    assert cache("a \udcff lone half") == "A \udcff LONE HALF"
    assert len(cache) == 0
