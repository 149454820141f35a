"""Whether what came for an identifier is the work that it was asked for: by that identifier and the title, nothing else need be known.

Which records of many are one work is another question: `resolving.py`.
"""

from __future__ import annotations

import re

from outrider.identity.identifiers import normal_arxiv, normal_doi, normal_pmid
from outrider.identity.keys import find_server
from outrider.identity.titles import normal_title
from outrider.state.records import Record

AGREEING_TITLES = 0.85
"""Least likeness (Indel similarity, which is difflib's ratio) of two titles of one work."""
VERSION = re.compile(r"[-./_]v\d+$")
PER_VERSION = frozenset({"doi", "pmid", "pmcid", "openalex", "s2"})
"""Schemes that number a preprint and its publication apart."""

ADDRESS = re.compile(
    r"""https?://(?:www\.)?(?: (?:dx\.)?doi\.org/(?P<doi>10\.[^?\#]+?)
      | (?:export\.)?arxiv\.org/(?:abs|pdf)/(?P<arxiv>[^?\#]+?)
      | (?:pubmed\.ncbi\.nlm\.nih\.gov|ncbi\.nlm\.nih\.gov/pubmed)/(?P<pmid>\d+)
      | github\.com/(?P<github>[\w-][\w.-]*/[\w.-]+)
    )/?(?:[?\#]|$)""",
    re.VERBOSE | re.IGNORECASE,
)
"""The page of one identifier at those who give it."""
NORMAL = {"doi": normal_doi, "arxiv": normal_arxiv, "pmid": normal_pmid, "github": str.lower}


def same_work(one: Record, other: Record) -> str | None:
    """Why two records are the same work, None where that is not certain."""
    shared = shared_identifier(one, other)
    if shared is None:
        return None
    if titles_agree(one.title, other.title):
        return f"same {shared[0]} {shared[1]} and agreeing titles"
    theirs = other.identifiers.pairs()
    pages = {page_identifier(one), page_identifier(other)}
    return next(
        (f"the page of {scheme} {value}" for scheme, value in one.identifiers.pairs() if (scheme, value) in pages & {*theirs}), None
    )


def shared_identifier(one: Record, other: Record) -> tuple[str, str] | None:
    """The strongest identifier that both have, None where another scheme contradicts: packages of one repository are not one work."""
    theirs = other.identifiers.pairs()
    shared = next((pair for pair in one.identifiers.pairs() if pair in theirs), None)
    return None if shared is None or identifiers_contradict(one, other) else shared


def page_identifier(record: Record) -> tuple[str, str] | None:
    """The identifier whose own page the record is, whatever that page calls itself ("[1706.03762] Attention ... - arXiv.org")."""
    if record.kind != "page" or not record.url or not (found := ADDRESS.match(record.url)):
        return None
    scheme, said = next((scheme, said) for scheme, said in found.groupdict().items() if said)
    value = NORMAL[scheme](said)
    return (scheme, value) if value and (scheme, value) in record.identifiers.pairs() else None


def identifiers_contradict(one: Record, other: Record) -> bool:
    """Whether identifiers show two works: both have one of the same scheme, and no preprint explains why they differ."""
    theirs = dict(other.identifiers.pairs())
    first, second = preprint_server(one), preprint_server(other)
    differ = {scheme for scheme, value in one.identifiers.pairs() if theirs.get(scheme, value) != value}
    if first != second:  # a preprint and its publication, or two servers
        return bool(differ - PER_VERSION)
    if first and "doi" in differ and VERSION.sub("", one.identifiers.doi or "") == VERSION.sub("", theirs["doi"]):
        differ.discard("doi")
    return bool(differ)


def preprint_server(record: Record) -> str | None:
    """The DOI prefix of the server that the record's own DOI is of, `arxiv` for a record of arXiv without DOI, else None."""
    return find_server(dict(record.identifiers.pairs())) or None


def titles_agree(one: str, other: str) -> bool:
    """Both have a title, and they are alike; a missing title is unknown, not agreement."""
    return titles_alike(normal_title(one), normal_title(other))


def titles_alike(first: str, second: str) -> bool:
    """The same of normal titles."""
    if not first or not second:
        return False
    from rapidfuzz.distance import Indel

    return first == second or Indel.normalized_similarity(first, second, score_cutoff=AGREEING_TITLES) > 0
