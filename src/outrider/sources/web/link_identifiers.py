"""What a link names by its address alone: a DOI, an arXiv number, a PMID or PMCID, a repository, where its form leaves no doubt."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote, urlsplit

from outrider.linkage.identifiers import normal_arxiv, normal_doi, normal_pmcid, normal_pmid
from outrider.sources.github.parse import normal_name
from outrider.sources.http.ssrf_guard import MOST_CHARS
from outrider.state.records import Identifiers

DOI = re.compile(r"(?:^|[/:=])(10\.\d{4,9}/[^\s\"]+)", re.IGNORECASE)
VIEW = re.compile(
    r"(?:/(?:full|fulltext|full-text|abstract|abs|summary|pdf|epdf|pdfdirect|html|xml|meta|references|citations|figures|download|supplement)"
    r"|\.(?:full|abstract|pdf|html?|xml|short|long))$"
)
"""What publishers hang on to the DOI in the address of one view of a work."""
LONGEST_VIEW = 12
"""Characters of one, or more."""
SESSION = re.compile(r";jsessionid=.*$", re.IGNORECASE)
VERSION = re.compile(r"^(10\.1101/.+?)v\d+$")
"""Of a preprint on bioRxiv or medRxiv; its DOI has none."""
PUBMED = re.compile(r"^https?://(?:www\.)?(?:pubmed\.ncbi\.nlm\.nih\.gov|ncbi\.nlm\.nih\.gov/pubmed)/\d+/?$", re.IGNORECASE)
ARXIV = re.compile(r"^https?://(?:www\.|export\.)?arxiv\.org/(?:abs|pdf|html)/", re.IGNORECASE)
PMC = re.compile(r"^https?://(?:(?:www\.)?ncbi\.nlm\.nih\.gov/pmc|pmc\.ncbi\.nlm\.nih\.gov)/articles/PMC\d+", re.IGNORECASE)
GITHUB = re.compile(r"^https?://(?:www\.)?github\.com/([^/]+)/([^/]+?)(?:\.git)?/?$", re.IGNORECASE)
NO_OWNERS = frozenset(
    """about account apps blog collections contact customer-stories enterprise events explore features issues join login marketplace
    notifications organizations orgs premium-support pricing pulls readme resources search security sessions settings site solutions
    sponsors stars team topics trending users""".split()
)
"""First parts of GitHub's own pages."""


def find_doi(url: str) -> str | None:
    """The DOI that stands in the address: in its path, a parameter or its fragment. Such a work is asked for by DOI, not fetched."""
    if len(url) > MOST_CHARS:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    places = (unquote(parts.path), *(value for _, value in parse_qsl(parts.query)), unquote(parts.fragment))
    found = next((found[1] for place in places if (found := DOI.search(place))), "")
    doi = normal_doi(SESSION.sub("", found).rstrip("/"))
    return VERSION.sub(r"\1", _without_views(doi)) if doi else None


def _without_views(doi: str) -> str:
    """In one pass from the end, however many views an address names; something is left behind the prefix."""
    first, end = doi.index("/") + 2, len(doi)
    while found := VIEW.search(doi, max(first, end - LONGEST_VIEW), end):
        end = found.start()
    return doi[:end]


def find_identifiers(url: str) -> Identifiers:
    """Every identifier that the address names; none of one that is longer than any that is fetched."""
    if len(url) > MOST_CHARS:
        return Identifiers()
    bare = re.split(r"[?#]", url.strip(), maxsplit=1)[0]
    return Identifiers(
        doi=find_doi(url),
        arxiv=normal_arxiv(ARXIV.sub("", bare)) if ARXIV.match(bare) else None,
        pmid=normal_pmid(bare) if PUBMED.match(bare) else None,
        pmcid=normal_pmcid(bare) if PMC.match(bare) else None,
        github=_repository(bare),
    )


def _repository(bare: str) -> str | None:
    found = GITHUB.match(bare)
    return normal_name(f"{found[1]}/{found[2]}") if found and found[1].lower() not in NO_OWNERS else None
