"""Slow, independent evaluator of Boolean queries on plain strings and lists.

It uses nothing of the package. A query is nested tuples (`support.boolean_queries` makes them), a document a mapping of field to texts. A
word is compared letter by letter, proximity tries every combination of places, and the operators join sets of document numbers instead of
testing one document.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

Query = tuple[Any, ...]
Plain = Mapping[str, Sequence[str]]

ACCENTS = {"é": "e", "è": "e", "ï": "i", "ö": "o", "ü": "u", "ø": "o", "ł": "l", "å": "a", "ß": "ss", "œ": "oe", "ﬁ": "fi"}
ALONE = "東京大学病院研究ไทย"
INVISIBLE = "\u00ad\u200b\u200c\u2060\ufeff\u0308\u030a"
"""Characters that are not compared, and the accents that stand by themselves."""
MARKED = {
    "K<sub>Ca</sub>": "KCa", "<i>heart</i>": "heart", "H<sub>2</sub>O": "H2O", "H₂O": "H2O", "&lt;b&gt;fine&lt;/b&gt;": "fine",
    "&beta;-lactam": "β-lactam", "Stra&szlig;e": "Straße", "&#956;m": "μm", "tum&amp;shy;our": "tumour", "fail&#8203;ure": "failure",
    "$K_{Ca}$": "KCa", "$\\beta$-lactam": "β-lactam", "na{\\\"i}ve": "naive", "\\textit{heart}": "heart", "x²": "x2",
    "<jats:sup>heart</jats:sup>beat": "heartbeat", "ﬁne": "fine", "{K}Ca": "KCa",
}  # fmt: skip
"""Words with markup, and the same words without it."""
OTHER_LETTERS = "βγμίहिनदी"
TAGS = {
    "ti": ["title"], "ab": ["abstract"], "tiab": ["title", "abstract", "keywords"], "tw": ["title", "abstract", "keywords", "mesh"],
    "ot": ["keywords"], "body": ["body"], "ti, ab": ["title", "abstract"],
    "all": ["title", "abstract", "keywords", "mesh", "body", "author", "journal", "type", "pmid", "doi"],
}  # fmt: skip


@functools.cache
def split_words(text: str) -> list[str]:
    """Words: runs of letters and digits without case and accents; a character of a script without spaces is one by itself."""
    words, word = [], ""
    for marked, plain in MARKED.items():
        text = text.replace(marked, plain)
    for char in map(str.lower, text):
        if char in INVISIBLE:
            continue
        if char in ALONE:
            words += [word, char]
            word = ""
        elif char in ACCENTS:
            word += ACCENTS[char]
        elif char in OTHER_LETTERS or (char.isascii() and char.isalnum()):
            word += char
        else:
            words.append(word)
            word = ""
    return [word for word in (*words, word) if word]


@functools.cache
def matches_word(pattern: str, word: str) -> bool:
    """Whether a word matches the pattern; `*`, `{?}`, `{#}`, `{*2}` stand for letters."""
    if not pattern:
        return not word
    if pattern[0] == "*":
        return any(matches_word(pattern[1:], word[skipped:]) for skipped in range(len(word) + 1))
    if pattern.startswith("{*"):
        most, rest = int(pattern[2 : pattern.index("}")]), pattern[pattern.index("}") + 1 :]
        return any(matches_word(rest, word[skipped:]) for skipped in range(min(most, len(word)) + 1))
    if pattern.startswith("{?}"):
        return matches_word(pattern[3:], word) or matches_word(pattern[3:], word[1:]) if word else matches_word(pattern[3:], word)
    if pattern.startswith("{#}"):
        return bool(word) and matches_word(pattern[3:], word[1:])
    return bool(word) and pattern[0] == word[0] and matches_word(pattern[1:], word[1:])


@functools.cache
def query_words(term: str) -> list[str]:
    """A term's words; signs stay where they are. One that stands alone behind a hyphen (`IL-*`) is dropped."""
    for number, sign in enumerate(("{*2}", "{?}", "{#}", "*")):
        term = term.replace(sign, f"zqx{number}xqz")
    words = split_words(term)
    for number, sign in enumerate(("{*2}", "{?}", "{#}", "*")):
        words = [word.replace(f"zqx{number}xqz", sign) for word in words]
    return [word for word in words if word not in ("*", "{?}", "{#}", "{*2}")]


@functools.cache
def find_words(pattern: str, text: str) -> frozenset[int]:
    """Numbers of the text's words that match the pattern."""
    return frozenset(number for number, word in enumerate(split_words(text)) if matches_word(pattern, word))


def find_phrases(term: str, text: str) -> list[list[int]]:
    """Places of a term that is written next to each other, each as the list of its word numbers."""
    places = [find_words(word, text) for word in query_words(term)]
    if not all(places):
        return []
    return [list(range(start, start + len(places))) for start in places[0] if all(start + step in one for step, one in enumerate(places))]


def has_near(groups: Sequence[Sequence[str]], between: int, text: str, *, ordered: bool = False) -> bool:
    """Whether one term of each group can be found so that at most so many other words lie among them, and no word serves twice."""
    places = [[place for term in group for place in find_phrases(term, text)] for group in groups]
    for chosen in itertools.product(*places):
        used = [number for place in chosen for number in place]
        if len(set(used)) != len(used) or (ordered and used != sorted(used)):
            continue
        if max(used) - min(used) + 1 - len(used) <= between:
            return True
    return False


def find_matches(query: Query, documents: Sequence[Plain], cache: dict[Query, frozenset[int]]) -> frozenset[int]:
    """Numbers of the documents that match."""
    if query not in cache:
        cache[query] = _truth(query, documents, cache)
    return cache[query]


def _truth(query: Query, documents: Sequence[Plain], cache: dict[Query, frozenset[int]]) -> frozenset[int]:
    every = frozenset(range(len(documents)))
    if query[0] == "chain":
        (_, first), *rest = query[1]
        matches = find_matches(first, documents, cache)
        for operator, operand in rest:
            other = find_matches(operand, documents, cache)
            matches = matches | other if operator == "OR" else matches - other if operator == "NOT" else matches & other
        return matches
    if query[0] == "not":
        return every - find_matches(query[1], documents, cache)
    return frozenset(number for number in every if _holds(query, documents[number]))


def _holds(leaf: Query, document: Plain) -> bool:
    match leaf:
        case ("term", term, tag):
            return any(find_phrases(term, text) for text in _texts(document, tag))
        case ("near", terms, between, tag):
            return any(has_near([[term] for term in terms], between, text) for text in _texts(document, tag))
        case ("adj", groups, between, ordered, tag):
            return any(has_near(groups, between, text, ordered=ordered) for text in _texts(document, tag))
        case ("years", first, last):
            return any(first <= int(year) <= last for year in document["year"])
        case ("whole", field, value):
            value_words = query_words(value)
            return any(
                len(words) == len(value_words) and all(map(matches_word, value_words, words)) for words in map(split_words, document[field])
            )
        case ("everything",):
            return True
    raise AssertionError(leaf)


def _texts(document: Plain, tag: str) -> list[str]:
    return [text for field in TAGS[tag] for text in document[field] if text]
