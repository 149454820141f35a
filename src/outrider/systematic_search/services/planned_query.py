"""Planned Boolean queries of ordinary searches in the syntax of a service.

A planned query has words, phrases, AND, OR and NOT, and no fields. It is translated as a systematic run translates its query, with two
differences. Where a service cannot search all fields, titles and abstracts stand for them. And arXiv is among the services: an ordinary
search needs no proof that it read the last hit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from outrider.boolean.diagnostics import BooleanSyntaxError
from outrider.boolean.parser import parse
from outrider.state.boolean import LACKING, WORD_FIELDS, And, Field, Node, Not, Or, Text
from outrider.state.ports import BooleanQuery
from outrider.state.systematic import SentQuery
from outrider.systematic_search.services import github, openalex, pubmed, semantic_scholar
from outrider.systematic_search.services.phrase_syntax import PhraseSyntax
from outrider.systematic_search.services.translate import Condition, Term, render, translate

TITLE_ABSTRACT = (Field.TITLE, Field.ABSTRACT)
MOST_CHARS = 1_500
"""Of arXiv's expression in an address."""
SIGNS = re.compile(r"\w(?:\+\+|#)|(?<![\w.])\.[A-Za-z]")
"""Of `C++`, `F#`, `.NET`: expressions are made of words, so `C++` would be sent as `c`, which matches far too much."""


def read_planned_query(source: str, query: str) -> BooleanQuery | None:
    """The query for a service, or None if it is no Boolean query, or the service cannot search for any part of it.

    Without an expression where the service's words are more exact, and for a source that is not among `TRANSLATIONS`.
    """
    try:
        tree = parse(query).tree
    except BooleanSyntaxError:  # a model wrote it; its text is searched in any case
        return None
    if source in TRANSLATIONS and SIGNS.search(query):
        return BooleanQuery(tree)
    sent = TRANSLATIONS[source](tree, query) if source in TRANSLATIONS else None
    if sent is None:
        return BooleanQuery(tree)
    return BooleanQuery(tree, sent.query, wider=bool(sent.widened)) if sent.query else None


def search_titles_and_abstracts(node: Node) -> Node:
    """The tree with titles and abstracts in the place of all fields."""
    match node:
        case And(parts):
            return And(tuple(map(search_titles_and_abstracts, parts)))
        case Or(parts):
            return Or(tuple(map(search_titles_and_abstracts, parts)))
        case Not(part):
            return Not(search_titles_and_abstracts(part))
        case Text(pattern, fields) if Field.ALL in fields:
            return Text(pattern, TITLE_ABSTRACT)
    return node


def _arxiv_term(words: str) -> Condition:
    return Term(f"all:{words}" if words.isalnum() else f'all:"{words}"')


ARXIV = PhraseSyntax("arxiv", WORD_FIELDS, LACKING, _arxiv_term, lambda piece: None)
"""Of the arXiv API User's Manual, §5.1: `all:word`, `all:"a phrase"`, AND, OR, parentheses."""


def _translate_for_arxiv(tree: Node, text: str) -> SentQuery:
    translation = translate("arxiv", tree, ARXIV.translate_leaf, lambda node: None)
    query = translation.shorten(lambda condition: render(condition, " AND ", " OR "), lambda text: len(text) <= MOST_CHARS)
    return translation.make_query(query) if query else translation.refuse_too_long()


TRANSLATIONS: Mapping[str, Callable[[Node, str], SentQuery]] = MappingProxyType(
    {
        "pubmed": pubmed.translate_query,
        "openalex": lambda tree, text: openalex.translate_query(search_titles_and_abstracts(tree)),
        "semantic_scholar": lambda tree, text: semantic_scholar.translate_query(search_titles_and_abstracts(tree)),
        "github": lambda tree, text: github.translate_query(tree),
        "arxiv": _translate_for_arxiv,
    }
)
