"""OpenCitations: open citations between works, from Crossref, PubMed, DataCite and others

Follows the OpenCitations Index API v2, https://api.opencitations.net/index/v2: `/references/{id}` and `/citations/{id}` with `doi:...`,
`pmid:...` or `omid:...`, answered as one list without pages:
`[{"oci", "citing": "omid:br/... doi:... pmid:...", "cited": "...", "creation", "timespan", ...}, ...]`. An unknown id is an empty list.
It knows identifiers only; an access token is asked for, and not required.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self
from urllib.parse import quote

from outrider.linkage.identifiers import normal_doi, normal_openalex, normal_pmcid, normal_pmid
from outrider.settings.sections import OpencitationsSettings
from outrider.sources.adapter import build_answer, score_results, usable_seconds
from outrider.sources.http.client import Caller
from outrider.sources.http.service import Service, parse_in_thread
from outrider.sources.json_fields import code, mapping
from outrider.state.citations import BOTH_DIRECTIONS, Direction
from outrider.state.errors import Malformed
from outrider.state.ports import SourceAnswer
from outrider.state.records import Identifiers, Paper
from outrider.text.sanitize import redact

NAME = "opencitations"
FAR_END: Mapping[Direction, tuple[str, str]] = {"references": ("cited", "citing"), "citations": ("citing", "cited")}
"""The field of the other work, and that of the requested one."""
MOST_BYTES = 100 * 2**20
"""An entry has about 400 bytes, and there are no pages: enough for a work that is cited 250,000 times."""


@dataclass(frozen=True, slots=True)
class Opencitations:
    """A `LinkSource`."""

    caller: Caller
    service: Service
    timeout_s: float
    name: str = NAME
    directions: frozenset[Direction] = BOTH_DIRECTIONS
    schemes: tuple[str, ...] = ("doi", "pmid")

    @classmethod
    def of(cls, settings: OpencitationsSettings, caller: Caller) -> Self:
        key = settings.api_key.get_secret_value()
        service = Service.of(NAME, settings, headers={"authorization": key} if key else {})
        return cls(caller, replace(service, most_bytes=MOST_BYTES), settings.timeout_s)

    async def references(self, scheme: str, value: str, within_s: float, limit: int) -> SourceAnswer:
        return await self._find_links("references", scheme, value, within_s, limit)

    async def citations(self, scheme: str, value: str, within_s: float, limit: int) -> SourceAnswer:
        return await self._find_links("citations", scheme, value, within_s, limit)

    async def _find_links(self, direction: Direction, scheme: str, value: str, within_s: float, limit: int) -> SourceAnswer:
        own = normal_doi(value) if scheme == "doi" else normal_pmid(value) if scheme == "pmid" else None
        if own is None:
            return SourceAnswer(())
        path = f"/index/v2/{direction}/{scheme}:{quote(own, safe='/')}"
        reply = await self.caller.get(self.service, path, within_s=usable_seconds(within_s))
        payload = await reply.decode()
        if not isinstance(payload, list):
            raise Malformed(f"{NAME} did not answer with a list of citations: {redact(str(payload), '')}")
        far, near = FAR_END[direction]

        def build() -> SourceAnswer:
            works = [parse_work(mapping(entry).get(far)) for entry in payload]
            known = [(work, None) for work in works if work is not None]
            results = score_results(known)
            without = len(works) - len(known)
            notes = (f"{without:,} works have no identifier that is known elsewhere",) if without else ()
            answer = build_answer(results[:limit], len(results), [reply], notes=notes)
            return replace(answer, subject=parse_work(mapping(payload[0]).get(near)) if payload else None)

        return await parse_in_thread([reply], build)


def parse_work(payload: Any) -> Paper | None:
    """A work from its identifiers, such as `omid:br/0612 doi:10.1/x pmid:1`; None without one that another service knows."""
    names: dict[str, str] = {}
    for name in code(payload).split():
        scheme, _, value = name.partition(":")
        names.setdefault(scheme, value)
    identifiers = Identifiers(
        doi=normal_doi(names.get("doi", "")),
        pmid=normal_pmid(names.get("pmid", "")),
        pmcid=normal_pmcid(names.get("pmcid", "")),
        openalex=normal_openalex(names.get("openalex", "")),
    )
    strongest = next(iter(identifiers.pairs()), None)
    return None if strongest is None else Paper(doc_id=f"{NAME}:{':'.join(strongest)}", source=NAME, identifiers=identifiers)
