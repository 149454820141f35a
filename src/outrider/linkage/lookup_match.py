"""Checks that two records are one work by a shared identifier and the title alone.

They confirm that the answer to a lookup is the requested work. `resolve.py` deduplicates many records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from outrider.linkage.identifiers import normal_arxiv, normal_doi, normal_pmid
from outrider.linkage.names_and_titles import normal_title
from outrider.linkage.normalized_record import find_server
from outrider.state.records import Record

AGREEING_TITLES = 0.85
"""Least Indel similarity (difflib's ratio) of two titles of one work."""
VERSION = re.compile(r"[-./_]v\d+$")
PER_VERSION = frozenset({"doi", "pmid", "pmcid", "openalex", "s2"})
"""Schemes that give a preprint and its publication different numbers."""

ADDRESS = re.compile(
    r"""https?://(?:www\.)?(?: (?:dx\.)?doi\.org/(?P<doi>10\.[^?\#]+?)
      | (?:export\.)?arxiv\.org/(?:abs|pdf)/(?P<arxiv>[^?\#]+?)
      | (?:pubmed\.ncbi\.nlm\.nih\.gov|ncbi\.nlm\.nih\.gov/pubmed)/(?P<pmid>\d+)
      | github\.com/(?P<github>[\w-][\w.-]*/[\w.-]+)
    )/?(?:[?\#]|$)""",
    re.VERBOSE | re.IGNORECASE,
)
"""Addresses of the page of one identifier at its registry."""
NORMAL: Mapping[str, Callable[[str], str | None]] = {"doi": normal_doi, "arxiv": normal_arxiv, "pmid": normal_pmid, "github": str.lower}


def same_work(one: Record, other: Record) -> str | None:
    """The reason why two records are the same work, None if that is not certain."""
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
    """The strongest identifier that both have, None if another scheme contradicts: packages of one repository are different works."""
    theirs = other.identifiers.pairs()
    shared = next((pair for pair in one.identifiers.pairs() if pair in theirs), None)
    return None if shared is None or identifiers_contradict(one, other) else shared


def page_identifier(record: Record) -> tuple[str, str] | None:
    """The identifier whose page the record is, whatever the title of the page ("[1706.03762] Attention ... - arXiv.org")."""
    if record.kind != "page" or not record.url or not (match := ADDRESS.match(record.url)):
        return None
    scheme, text = next((scheme, text) for scheme, text in match.groupdict().items() if text)
    value = NORMAL[scheme](text)
    return (scheme, value) if value and (scheme, value) in record.identifiers.pairs() else None


def identifiers_contradict(one: Record, other: Record) -> bool:
    """Whether identifiers show two works: two of one scheme differ, and no preprint explains the difference."""
    theirs = dict(other.identifiers.pairs())
    first, second = preprint_server(one), preprint_server(other)
    differ = {scheme for scheme, value in one.identifiers.pairs() if theirs.get(scheme, value) != value}
    if first != second:  # a preprint and its publication, or two servers
        return bool(differ - PER_VERSION)
    if first and "doi" in differ and VERSION.sub("", one.identifiers.doi or "") == VERSION.sub("", theirs["doi"]):
        differ.discard("doi")
    return bool(differ)


def preprint_server(record: Record) -> str | None:
    """The DOI prefix of the record's preprint server, `arxiv` for an arXiv record without a DOI, else None."""
    return find_server(dict(record.identifiers.pairs()), record.venue) or None


def titles_agree(one: str, other: str) -> bool:
    """Whether both records have a title and the titles are alike. A missing title does not agree."""
    return titles_alike(normal_title(one), normal_title(other))


def titles_alike(first: str, second: str) -> bool:
    """`titles_agree` for titles that are already normal."""
    if not first or not second:
        return False
    from rapidfuzz.distance import Indel

    return first == second or Indel.normalized_similarity(first, second, score_cutoff=AGREEING_TITLES) > 0
