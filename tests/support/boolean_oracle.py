"""What a query means, worked out a second time and slowly: on plain strings and lists, with nothing of the package.

A query is nested tuples (`support.boolean_queries` makes them), a document a mapping of field to texts. A word is compared letter by
letter, proximity tries every choice of places, and the operators join sets of document numbers instead of testing one document.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

Query = tuple[Any, ...]
Plain = Mapping[str, Sequence[str]]

ACCENTS = {"é": "e", "è": "e", "ï": "i", "ö": "o", "ü": "u", "ø": "o", "ł": "l", "å": "a", "ß": "ss", "œ": "oe", "ﬁ": "fi"}
ALONE = "東京大学病院研究²ไทย"
KEPT = "βγμίहिनदी"
TAGS = {
    "ti": ["title"], "ab": ["abstract"], "tiab": ["title", "abstract", "keywords"], "tw": ["title", "abstract", "keywords", "mesh"],
    "ot": ["keywords"], "body": ["body"], "ti, ab": ["title", "abstract"],
    "all": ["title", "abstract", "keywords", "mesh", "body", "author", "journal", "type", "pmid", "doi"],
}  # fmt: skip


@functools.cache
def cut(text: str) -> list[str]:
    """Words: runs of letters and digits without case and accents; a character of a script without spaces is one by itself."""
    words, word = [], ""
    for char in map(str.lower, text):
        if char in ALONE:
            words += [word, "2" if char == "²" else char]
            word = ""
        elif char in ACCENTS:
            word += ACCENTS[char]
        elif char in KEPT or (char.isascii() and char.isalnum()):
            word += char
        else:
            words.append(word)
            word = ""
    return [word for word in (*words, word) if word]


@functools.cache
def fits(asked: str, word: str) -> bool:
    """Whether a word is spelt as asked; `*`, `{?}`, `{#}`, `{*2}` stand for letters."""
    if not asked:
        return not word
    if asked[0] == "*":
        return any(fits(asked[1:], word[skipped:]) for skipped in range(len(word) + 1))
    if asked.startswith("{*"):
        most, rest = int(asked[2 : asked.index("}")]), asked[asked.index("}") + 1 :]
        return any(fits(rest, word[skipped:]) for skipped in range(min(most, len(word)) + 1))
    if asked.startswith("{?}"):
        return fits(asked[3:], word) or fits(asked[3:], word[1:]) if word else fits(asked[3:], word)
    if asked.startswith("{#}"):
        return bool(word) and fits(asked[3:], word[1:])
    return bool(word) and asked[0] == word[0] and fits(asked[1:], word[1:])


@functools.cache
def asked_words(term: str) -> list[str]:
    """A term's words; signs stay where they are. One that stands alone behind a hyphen (`IL-*`) asks for nothing."""
    for number, sign in enumerate(("{*2}", "{?}", "{#}", "*")):
        term = term.replace(sign, f"zqx{number}xqz")
    words = cut(term)
    for number, sign in enumerate(("{*2}", "{?}", "{#}", "*")):
        words = [word.replace(f"zqx{number}xqz", sign) for word in words]
    return [word for word in words if word not in ("*", "{?}", "{#}", "{*2}")]


@functools.cache
def spelt_so(asked: str, text: str) -> frozenset[int]:
    """Numbers of the text's words that are spelt as asked."""
    return frozenset(number for number, word in enumerate(cut(text)) if fits(asked, word))


def runs(term: str, text: str) -> list[list[int]]:
    """Places of a term that is written next to each other, each as the list of its word numbers."""
    found = [spelt_so(asked, text) for asked in asked_words(term)]
    if not all(found):
        return []
    return [list(range(start, start + len(found))) for start in found[0] if all(start + step in one for step, one in enumerate(found))]


def near(groups: Sequence[Sequence[str]], between: int, text: str, *, ordered: bool = False) -> bool:
    """Whether one term of each group can be found so that at most so many other words lie among them, and no word serves twice."""
    places = [[place for term in group for place in runs(term, text)] for group in groups]
    for chosen in itertools.product(*places):
        used = [number for place in chosen for number in place]
        if len(set(used)) != len(used) or (ordered and used != sorted(used)):
            continue
        if max(used) - min(used) + 1 - len(used) <= between:
            return True
    return False


def truth(query: Query, documents: Sequence[Plain], known: dict[Query, frozenset[int]]) -> frozenset[int]:
    """Numbers of the documents that match."""
    if query not in known:
        known[query] = _truth(query, documents, known)
    return known[query]


def _truth(query: Query, documents: Sequence[Plain], known: dict[Query, frozenset[int]]) -> frozenset[int]:
    every = frozenset(range(len(documents)))
    if query[0] == "chain":
        (_, first), *rest = query[1]
        found = truth(first, documents, known)
        for operator, operand in rest:
            other = truth(operand, documents, known)
            found = found | other if operator == "OR" else found - other if operator == "NOT" else found & other
        return found
    if query[0] == "not":
        return every - truth(query[1], documents, known)
    return frozenset(number for number in every if _holds(query, documents[number]))


def _holds(leaf: Query, document: Plain) -> bool:
    match leaf:
        case ("term", term, tag):
            return any(runs(term, text) for text in _texts(document, tag))
        case ("near", terms, between, tag):
            return any(near([[term] for term in terms], between, text) for text in _texts(document, tag))
        case ("adj", groups, between, ordered, tag):
            return any(near(groups, between, text, ordered=ordered) for text in _texts(document, tag))
        case ("years", first, last):
            return any(first <= int(year) <= last for year in document["year"])
        case ("whole", field, value):
            asked = asked_words(value)
            return any(len(said) == len(asked) and all(map(fits, asked, said)) for said in map(cut, document[field]))
        case ("everything",):
            return True
    raise AssertionError(leaf)


def _texts(document: Plain, tag: str) -> list[str]:
    return [text for field in TAGS[tag] for text in document[field] if text]
