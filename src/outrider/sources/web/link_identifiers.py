"""Identifiers in a link: DOI, arXiv number, PMID, PMCID or repository"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote, urlsplit

from outrider.code_links.names import NO_OWNERS
from outrider.linkage.identifiers import normal_arxiv, normal_doi, normal_pmcid, normal_pmid
from outrider.sources.github.parse import normal_name
from outrider.sources.http.ssrf_guard import MOST_CHARS
from outrider.state.records import Identifiers

DOI = re.compile(r"(?:^|[/:=])(10\.\d{4,9}/[^\s\"]+)", re.IGNORECASE)
VIEW = re.compile(
    r"(?:/(?:full|fulltext|full-text|abstract|abs|summary|pdf|epdf|pdfdirect|html|xml|meta|references|citations|figures|download|supplement)"
    r"|\.(?:full|abstract|pdf|html?|xml|short|long))$"
)
"""Suffixes that publishers append to the DOI in the URL of one view of a work."""
LONGEST_VIEW = 12
"""Characters of a view, or more."""
SESSION = re.compile(r";jsessionid=.*$", re.IGNORECASE)
VERSION = re.compile(r"^(10\.1101/.+?)v\d+$")
"""Of a preprint on bioRxiv or medRxiv; its DOI has no version."""
PUBMED = re.compile(r"^https?://(?:www\.)?(?:pubmed\.ncbi\.nlm\.nih\.gov|ncbi\.nlm\.nih\.gov/pubmed)/\d+/?$", re.IGNORECASE)
ARXIV = re.compile(r"^https?://(?:www\.|export\.)?arxiv\.org/(?:abs|pdf|html)/", re.IGNORECASE)
PMC = re.compile(r"^https?://(?:(?:www\.)?ncbi\.nlm\.nih\.gov/pmc|pmc\.ncbi\.nlm\.nih\.gov)/articles/PMC\d+", re.IGNORECASE)
GITHUB = re.compile(r"^https?://(?:www\.)?github\.com/([^/]+)/([^/]+?)(?:\.git)?/?$", re.IGNORECASE)


def find_doi(url: str) -> str | None:
    """The DOI in the path, a parameter or the fragment of the URL. Such a work is looked up by its DOI, not fetched."""
    if len(url) > MOST_CHARS:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    places = (unquote(parts.path), *(value for _, value in parse_qsl(parts.query)), unquote(parts.fragment))
    match = next((match[1] for place in places if (match := DOI.search(place))), "")
    doi = normal_doi(SESSION.sub("", match).rstrip("/"))
    if not doi:
        return None
    # In one pass from the end, for any number of views; something is left after the prefix.
    first, end = doi.index("/") + 2, len(doi)
    while view := VIEW.search(doi, max(first, end - LONGEST_VIEW), end):
        end = view.start()
    return VERSION.sub(r"\1", doi[:end])


def find_identifiers(url: str) -> Identifiers:
    """All identifiers in the URL; none if it is longer than any that is fetched."""
    if len(url) > MOST_CHARS:
        return Identifiers()
    bare = re.split(r"[?#]", url.strip(), maxsplit=1)[0]
    repository = GITHUB.match(bare)
    return Identifiers(
        doi=find_doi(url),
        arxiv=normal_arxiv(ARXIV.sub("", bare)) if ARXIV.match(bare) else None,
        pmid=normal_pmid(bare) if PUBMED.match(bare) else None,
        pmcid=normal_pmcid(bare) if PMC.match(bare) else None,
        github=normal_name(f"{repository[1]}/{repository[2]}") if repository and repository[1].lower() not in NO_OWNERS else None,
    )
