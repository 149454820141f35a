"""PubMed Central: full texts of its open access subset, as JATS or PDF

Follows the cloud service, https://pmc.ncbi.nlm.nih.gov/tools/cloud/, as of August 2026: a public bucket with a folder for each version of
an article. `/?list-type=2&prefix=PMC123.&delimiter=/` lists the versions as XML, `/metadata/PMC123.1.json` describes one (`license_code`,
`is_manuscript`, `xml_url`, `pdf_url`), `/PMC123.1/PMC123.1.xml` is its text. It holds nothing but what programs may read: articles under a
licence, and author manuscripts for text mining (`TDM`). The web pages of PMC are not for programs and are never fetched.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from typing import Self

from outrider.linkage.identifiers import normal_pmcid
from outrider.settings.sections import PmcSettings
from outrider.sources.adapter import deadline_after
from outrider.sources.http.client import Caller
from outrider.sources.http.service import MEBIBYTE, Service
from outrider.sources.json_fields import mapping, text
from outrider.state.errors import Malformed
from outrider.state.full_text import Located, OpenLocation, TextForm
from outrider.state.records import Record

NAME = "pmc"
PREFIX = re.compile(rb"<Prefix>(PMC\d+)\.(\d{1,3})/</Prefix>")
MOST_BYTES = 50 * MEBIBYTE
FILES: tuple[tuple[str, TextForm], ...] = (("xml_url", "jats"), ("pdf_url", "pdf"))


@dataclass(frozen=True, slots=True)
class Pmc:
    """A `TextSource`."""

    caller: Caller
    service: Service
    name: str = NAME

    @classmethod
    def of(cls, settings: PmcSettings, caller: Caller) -> Self:
        return cls(caller, replace(Service.of(NAME, settings, keeps=lambda reply: bool(reply.body)), most_bytes=MOST_BYTES))

    async def locate(self, record: Record, within_s: float) -> Located:
        """The newest version of the article."""
        pmcid = normal_pmcid(record.identifiers.pmcid or "")
        if pmcid is None:
            return Located()
        until_s = deadline_after(within_s)
        params = {"list-type": "2", "prefix": f"{pmcid}.", "delimiter": "/"}
        listing = await self.caller.get(self.service, "/", params, within_s=until_s - time.monotonic())
        versions = [int(number) for own, number in PREFIX.findall(listing.body) if own.decode() == pmcid]
        if not versions:
            return Located()
        name = f"{pmcid}.{max(versions)}"
        reply = await self.caller.get(
            self.service, f"/metadata/{name}.json", within_s=until_s - time.monotonic(), accept=frozenset({200, 403, 404})
        )
        if reply.status != 200:
            return Located()
        about = mapping(await reply.decode())
        if text(about.get("pmcid")) != pmcid:
            raise Malformed(f"{NAME} did not describe {name}")
        common = {
            "licence": text(about.get("license_code")),
            "version": "accepted" if about.get("is_manuscript") is True else "published",
            "host": "repository",
            "found_by": NAME,
        }
        base = self.service.base_url.rstrip("/")
        urls = ((f"{base}/{name}/{name}.{'xml' if form == 'jats' else 'pdf'}", form) for field, form in FILES if text(about.get(field)))
        return Located(locations=tuple(OpenLocation.model_validate({"url": url, "form": form, **common}) for url, form in urls))

    async def fetch_text(self, location: OpenLocation, within_s: float) -> bytes:
        path = location.url.removeprefix(self.service.base_url.rstrip("/"))
        return (await self.caller.get(self.service, path, within_s=within_s)).body
