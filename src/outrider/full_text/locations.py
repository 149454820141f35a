"""Open locations that need no service: those of the record, and arXiv's by number

Pages of PubMed Central and Europe PMC are left out: they are not for programs, and their services have the same texts. Addresses of arXiv
are all written in one way, so that none is tried twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import ValidationError

from outrider.linkage.identifiers import normal_arxiv, normal_pmcid
from outrider.settings.sections import ArxivTextSettings
from outrider.sources.web.access_barriers import find_address_barrier
from outrider.state.full_text import LOCATIONS, Located, OpenLocation
from outrider.state.records import Identifiers, Record

ARXIV = "arxiv"
ARXIV_HOST = re.compile(r"(?:^|\.)arxiv\.org$", re.IGNORECASE)
ARXIV_PATH = re.compile(r"^/(?:abs|pdf|html)/(.+?)(?:\.pdf)?/?$", re.IGNORECASE)
PMC_PAGE = re.compile(
    r"^https?://(?:(?:www\.)?ncbi\.nlm\.nih\.gov/(?:labs/)?pmc|(?:www\.)?pmc\.ncbi\.nlm\.nih\.gov|(?:www\.)?pubmedcentral\.(?:nih\.)?gov"
    r"|(?:www\.)?(?:europepmc\.org|ukpmc\.ac\.uk))(?::\d+)?(?:[/?#]|$)",
    re.IGNORECASE,
)
PMC_NUMBER = re.compile(r"[/=]PMC(\d+)|(?:/articles/|artid=)(\d+)", re.IGNORECASE)
LINKS = (("open_access_url", "openalex", "html"), ("pdf_url", "semantic_scholar", "pdf"))
"""Metadata with one open address: its name, the service that writes it, and the form of the text."""


@dataclass(frozen=True, slots=True)
class KnownLocations:
    """A `LocationSource` that asks nobody."""

    arxiv: ArxivTextSettings
    links: bool
    """Whether addresses of publishers and repositories are used."""
    name: str = "record"

    async def locate(self, record: Record, within_s: float) -> Located:
        return self.arrange(list_recorded(record), record.identifiers)

    def arrange(self, named: Sequence[OpenLocation], identifiers: Identifiers) -> Located:
        """These locations as they are fetched, and arXiv's. PMC's pages become the PMCID."""
        arxiv, pmcid, licences = identifiers.arxiv, identifiers.pmcid, dict[str, str]()
        others: dict[str, OpenLocation] = {}
        for one in named:
            if preprint := find_arxiv(one.url):
                arxiv = arxiv or preprint
                licences.setdefault(preprint, one.licence)
            elif PMC_PAGE.match(one.url):
                number = PMC_NUMBER.search(one.url)
                pmcid = pmcid or (normal_pmcid(f"PMC{number[1] or number[2]}") if number else None)
            elif self.links:
                others.setdefault(one.url, one)
        locations = [*others.values()]
        if arxiv and self.arxiv.enabled:
            base, common = self.arxiv.base_url.rstrip("/"), {"version": "submitted", "host": "repository", "found_by": ARXIV}
            for form in ("html", "pdf"):
                fields = {"url": f"{base}/{form}/{arxiv}", "form": form, "licence": licences.get(arxiv, ""), **common}
                locations.append(OpenLocation.model_validate(fields))
        return Located(locations=tuple(locations), identifiers=Identifiers(arxiv=arxiv, pmcid=pmcid))


def list_recorded(record: Record) -> list[OpenLocation]:
    """The open locations that services named when the record was found."""
    listed = record.metadata.get(LOCATIONS)
    found: list[OpenLocation] = []
    for fields in listed if isinstance(listed, list) else ():
        try:
            found.append(OpenLocation.model_validate(fields))
        except ValidationError:  # written by another version
            continue
    for name, service, form in LINKS:
        url = record.metadata.get(name)
        # the services that write such a field name nothing but open copies
        if (
            isinstance(url, str)
            and url
            and (record.source == service or name == "open_access_url")
            and url not in {one.url for one in found}
        ):
            is_pdf = form == "pdf" or url.partition("?")[0].lower().endswith(".pdf")
            found.append(OpenLocation(url=url, form="pdf" if is_pdf else "html", found_by=service))
    return found


def find_barrier(url: str) -> str:
    """Why an address is not asked for, redirects included; empty for another one."""
    return "a page of PubMed Central, which is not for programs" if PMC_PAGE.match(url) else find_address_barrier(url)


def find_arxiv(url: str) -> str | None:
    """The arXiv number of an address at arXiv."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return None
    match = ARXIV_PATH.match(parts.path) if ARXIV_HOST.search(host) else None
    return normal_arxiv(match[1]) if match else None
