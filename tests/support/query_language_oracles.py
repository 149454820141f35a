"""Independent readers of each service's query language, over documents of plain texts.

They split texts as the services' documentation or Lucene's standard analysis does: `O'Brien` is one word there and two in Outrider. Of the
package they use nothing, only the tests' own oracle (`boolean_oracle.split_words`, which knows the letters of the tests' words).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from support.boolean_oracle import split_words

Plain = Mapping[str, Sequence[str]]
Node = tuple[Any, ...]
STOP_WORDS = {"the", "of", "and", "not", "a", "is", "in"}


def tokenize(text: str) -> list[str]:
    """An apostrophe inside a word does not part it."""
    tokens: list[str] = []
    for part in re.split(r"(?<![A-Za-z])['’]|['’](?![A-Za-z])|(?!['’])[\W_]", text):
        tokens += (
            ["'".join("".join(split_words(piece)) for piece in re.split("['’]", part))] if re.search("['’]", part) else split_words(part)
        )
    return tokens


def stem(word: str) -> str:
    """Endings off, as a stemmer does it: `failure` and `failures` are the same, and neither begins with `failu` any more."""
    for ending in ("ures", "ure", "ities", "ity", "ies", "es", "s", "ed", "ing"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


class Reader:
    """Infix queries: `and_` and `or_` join, parentheses group, `term` reads the rest."""

    def __init__(self, and_: str, or_: str, term: str, not_: str = r"(?!)") -> None:
        self.tokens = re.compile(rf"\s*(?:(?P<and>{and_})|(?P<or>{or_})|(?P<not>{not_})|(?P<open>\()|(?P<close>\))|(?P<term>{term}))")

    def read(self, query: str) -> Node:
        self.remaining: list[tuple[str, str]] = []
        at = 0
        while at < len(query.rstrip()):
            match = self.tokens.match(query, at)
            assert match is not None, f"{query[at:]!r} cannot be read"
            self.remaining.append((str(match.lastgroup), match.group().strip()))
            at = match.end()
        node = self._chain()
        assert not self.remaining, self.remaining
        return node

    def _chain(self) -> Node:
        """From left to right, for every operator."""
        node = self._operand()
        while self.remaining and self.remaining[0][0] != "close":
            operator = self.remaining.pop(0)[0] if self.remaining[0][0] in ("and", "or", "not") else "and"
            node = (operator, node, self._operand())
        return node

    def _operand(self) -> Node:
        kind, text = self.remaining.pop(0)
        if kind == "open":
            node = self._chain()
            assert self.remaining.pop(0)[0] == "close"
            return node
        assert kind == "term", (kind, text)
        return ("term", text)


def holds(node: Node, term: Callable[[str], bool]) -> bool:
    if node[0] == "term":
        return term(node[1])
    left, right = holds(node[1], term), holds(node[2], term)
    return left and right if node[0] == "and" else left or right if node[0] == "or" else left and not right


def in_order(tests: Sequence[Callable[[str], bool] | None], words: Sequence[str], slop: int = 0) -> bool:
    """Lucene's phrase: places less their numbers differ by at most `slop`. None stands for a stop word, which is not looked for."""
    known = [(number, one) for number, one in enumerate(tests) if one]
    places = [[at - number for at, word in enumerate(words) if one(word)] for number, one in known]
    for chosen in itertools.product(*places):
        used = {at + number for at, (number, _) in zip(chosen, known, strict=True)}
        if len(used) == len(known) and max(chosen) - min(chosen) <= slop:
            return True
    return False


def same(word: str) -> Callable[[str], bool]:
    return lambda other: other == word


# OpenAlex ------------------------------------------------------------------------------------------------------------------------

OPENALEX = Reader(r"AND\b", r"OR\b", r'"[^"]*"(?:~\d+)?|[^\s()"]+')


def openalex(filters: str, document: Plain) -> bool:
    """Filters between commas, the search as the last one."""
    for one in filters.split(","):
        name, _, value = one.partition(":")
        if not _openalex_filter(name, value, document):
            return False
    return True


def _openalex_filter(name: str, value: str, document: Plain) -> bool:
    year = int(document["year"][0]) if document["year"] else None
    match name:
        case "from_publication_date":
            return year is not None and f"{year}-12-31" >= value
        case "to_publication_date":
            return year is not None and f"{year}-01-01" <= value
        case "language" | "doi" | "pmid":
            return any(own == one for own in document[name] for one in value.split("|"))
        case "title_and_abstract.search.exact":
            texts = [tokenize(text) for text in (*document["title"], *document["abstract"]) if text]
            return holds(OPENALEX.read(value), lambda term: any(_openalex_term(term, words) for words in texts))
    raise AssertionError(name)


def _openalex_term(term: str, words: Sequence[str]) -> bool:
    if term.startswith('"'):
        phrase, _, slop = term[1:].rpartition('"')
        assert not re.search(r"[*?]", phrase), "no wildcards in phrases"
        return in_order([same(word) for word in phrase.split()], words, int(slop[1:] or 0))
    assert term not in ("and", "or", "not")
    assert "~" not in term
    if "*" in term or "?" in term:
        assert re.fullmatch(r"[a-z0-9]{3,}\*|[a-z0-9]+\?[a-z0-9]*", term), term
        pattern = re.compile(term.replace("*", ".*").replace("?", "."))
        return any(map(pattern.fullmatch, words))
    return term in words


# Semantic Scholar ----------------------------------------------------------------------------------------------------------------

SEMANTIC_SCHOLAR = Reader(r"\+", r"\|", r'"[^"]*"(?:~\d+)?|[^\s()"+|]+')


def semantic_scholar(query: str, year: str, document: Plain) -> bool:
    if year:
        low, dash, high = year.partition("-")
        own = int(document["year"][0]) if document["year"] else None
        if own is None or own < int(low or 0) or own > int((high or 9999) if dash else low):
            return False
    texts = [[stem(word) for word in tokenize(text)] for text in (*document["title"], *document["abstract"]) if text]
    return holds(SEMANTIC_SCHOLAR.read(query), lambda term: any(_semantic_term(term, words) for words in texts))


def _semantic_term(term: str, words: Sequence[str]) -> bool:
    if term.startswith('"'):
        phrase, _, slop = term[1:].rpartition('"')
        tests = [None if word in STOP_WORDS else same(stem(word)) for word in phrase.split()]
        return any(tests) and in_order(tests, words, int(slop[1:] or 0))
    assert re.fullmatch(r"[a-z0-9]+\*", term), term
    return any(word.startswith(term[:-1]) for word in words)


# GitHub --------------------------------------------------------------------------------------------------------------------------


def github(query: str, document: Plain) -> bool:
    """Words and phrases that must all be there, or alternatives; qualifiers behind them."""
    assert len(query) <= 256
    terms = re.findall(r'"[^"]*"|\S+', query)
    assert sum(term in ("AND", "OR", "NOT") for term in terms) <= 5
    words = [term for term in terms if ":" not in term]
    alternatives = "OR" in words
    texts = [tokenize(text) for name in ("name", "description", "topics") for text in document[name] if text]
    matches = [
        any(in_order([same(word) for word in term.strip('"').split()], text) for text in texts)
        for term in words
        if term not in ("OR", "AND")
    ]
    return any(matches) if alternatives else all(matches)


# Crossref ------------------------------------------------------------------------------------------------------------------------


def crossref(title: str, filters: str, document: Plain) -> bool:
    if title and title not in [word for text in document["title"] for word in tokenize(text)]:
        return False
    dois = [one.partition(":")[2] for one in filters.split(",") if one.startswith("doi:")]
    if dois and not set(dois) & set(document["doi"]):
        return False
    year = int(document["year"][0]) if document["year"] else None
    for one in filters.split(","):
        name, _, value = one.partition(":")
        if name == "from-pub-date" and not (year is not None and year >= int(value)):
            return False
        if name == "until-pub-date" and not (year is not None and year <= int(value)):
            return False
    return True


# PubMed --------------------------------------------------------------------------------------------------------------------------

PUBMED = Reader(r"AND\b", r"OR\b", r'(?:"[^"]*"|[\w/:*-]+)\[[^\]]*\]', r"NOT\b")
FIELDS = {
    "ti": ["title"], "tiab": ["title", "abstract", "keywords"], "ot": ["keywords"], "tw": ["title", "abstract", "keywords", "mesh"],
    "all": ["title", "abstract", "keywords", "mesh", "author", "journal", "type", "pmid", "doi"],
}  # fmt: skip
WHOLE = {"ta": "journal", "pt": "type", "la": "language", "MeSH Terms": "mesh", "MeSH Terms:noexp": "mesh", "doi": "doi", "pmid": "pmid"}


def pubmed(query: str, document: Plain) -> bool:
    return holds(PUBMED.read(query), lambda term: _pubmed_term(term, document))


def _pubmed_term(term: str, document: Plain) -> bool:
    operand, _, tag = term[:-1].rpartition("[")
    if tag == "sb":
        return operand == "all"
    if tag == "dp":
        first, _, last = operand.partition(":")
        return any(int(first[:4]) <= int(year) <= int((last or first)[:4]) for year in document["year"])
    text = operand.strip('"')
    if tag in WHOLE:
        return any(split_words(value) == split_words(text) for value in document[WHOLE[tag]])
    name, _, near = tag.partition(":~")
    texts = [split_words(value) for field in FIELDS[name] for value in document[field] if value]
    if near:
        assert "*" not in text
        assert name in ("ti", "tiab")
        return any(_within(split_words(text), words, int(near)) for words in texts)
    wild = text.endswith("*")
    assert "*" not in text[:-1]
    assert "{" not in text
    phrase = split_words(text.rstrip("*"))
    assert not wild or len(phrase[-1]) >= 4
    tests = [same(word) for word in phrase]
    if wild:
        tests[-1] = lambda word: word.startswith(phrase[-1])
    return any(in_order(tests, words) for words in texts)


def _within(phrase: Sequence[str], words: Sequence[str], between: int) -> bool:
    """Any order, so many others among them."""
    places = [[at for at, word in enumerate(words) if word == one] for one in phrase]
    for chosen in itertools.product(*places):
        if len(set(chosen)) == len(chosen) and max(chosen) - min(chosen) + 1 - len(chosen) <= between:
            return True
    return False
