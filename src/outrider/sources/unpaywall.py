"""Unpaywall: open locations of works with a DOI

Follows the REST API v2, https://unpaywall.org/products/api: `/v2/{doi}?email=...`, one DOI a request, answered as
`{"doi", "is_oa", "oa_locations": [{"url_for_pdf", "url_for_landing_page", "license", "version", "host_type", ...}], ...}`, best first. An
unknown DOI is 404. It requires an e-mail address and asks for at most 100,000 requests a day. It hosts no texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote

from outrider.settings.sections import UnpaywallSettings
from outrider.sources.adapter import usable_seconds
from outrider.sources.http.client import Caller
from outrider.sources.http.service import Service
from outrider.sources.json_fields import items, link, mapping, text
from outrider.state.errors import Malformed
from outrider.state.full_text import Located, OpenLocation, TextForm, TextVersion
from outrider.state.records import Record

NAME = "unpaywall"
MOST_LOCATIONS = 10
VERSIONS: dict[str, TextVersion] = {"publishedversion": "published", "acceptedversion": "accepted", "submittedversion": "submitted"}
HOSTS = ("publisher", "repository")
ADDRESSES: tuple[tuple[str, TextForm], ...] = (
    ("url_for_pdf", "pdf"), ("pdf_url", "pdf"), ("url_for_landing_page", "html"), ("landing_page_url", "html"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unpaywall:
    """A `LocationSource`."""

    caller: Caller
    service: Service
    name: str = NAME

    @classmethod
    def of(cls, settings: UnpaywallSettings, caller: Caller, email: str) -> Self:
        return cls(caller, Service.of(NAME, settings, params={"email": email}))

    async def locate(self, record: Record, within_s: float) -> Located:
        if not record.identifiers.doi:
            return Located()
        path = f"/v2/{quote(record.identifiers.doi, safe='/')}"
        reply = await self.caller.get(self.service, path, within_s=usable_seconds(within_s), accept=frozenset({200, 404}))
        if reply.status == 404:
            return Located()
        answer = mapping(await reply.decode())
        if not isinstance(answer.get("is_oa"), bool):
            raise Malformed(f"{NAME} did not answer with the access to a work")
        return Located(locations=parse_locations(answer.get("oa_locations"), NAME) if answer["is_oa"] else ())


def parse_locations(payload: Any, found_by: str) -> tuple[OpenLocation, ...]:
    """The locations of Unpaywall, and of OpenAlex, which has the same data under other names: PDF and page of each."""
    found: dict[str, OpenLocation] = {}
    for one in map(mapping, items(payload)[:MOST_LOCATIONS]):
        common = {
            "licence": text(one.get("license")),
            "version": VERSIONS.get(text(one.get("version")).lower(), ""),
            "host": host if (host := text(one.get("host_type"))) in HOSTS else "",
            "found_by": found_by,
        }
        for name, form in ADDRESSES:
            if (url := link(one.get(name))) and url not in found:
                found[url] = OpenLocation.model_validate({"url": url, "form": form, **common})
    return tuple(found.values())
