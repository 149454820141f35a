"""Values that are compared as a whole: journals, publication types, headings."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from outrider.boolean.occurrences import Matcher, matchers


def whole_value(words: Iterable[str]) -> Callable[[list[str]], bool]:
    """Whether a value has these words and no others. `*` at the very end takes in further words, too."""
    said = [word for word in words if matchers(word)]
    return whole([matcher for word in said for matcher in matchers(word)], open_end=bool(said) and said[-1].endswith("*"))


def whole(asked: list[Matcher], *, open_end: bool = False) -> Callable[[list[str]], bool]:
    """As `whole_value`, of words that were parted before."""
    if all(isinstance(matcher, str) for matcher in asked) and not open_end:
        return lambda value: value == asked

    def holds(value: list[str]) -> bool:
        if len(value) < len(asked) or (len(value) > len(asked) and not open_end):
            return False
        return all(word == one if isinstance(one, str) else one.fullmatch(word) for one, word in zip(asked, value, strict=False))

    return holds
