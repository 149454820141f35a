"""Services that a systematic run does not ask, and why: named, so that nobody takes them for asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from outrider.state.boolean import Node
from outrider.state.errors import SourceOff
from outrider.state.systematic import Harvest, MatchedPage, SentQuery

VARIES = "its totals and results differ between two calls of the same query, and no query of it reads to the last hit"
REFUSED = {
    "serpapi_scholar": f"Google Scholar, by SerpApi: {VARIES}",
    "serpapi_google": f"Google, by SerpApi: {VARIES}",
    "web": f"a result page of the web: {VARIES}",
}
UNSAID = {"arxiv": "its query language is not written by Outrider; search PubMed, OpenAlex or Semantic Scholar, which hold its papers"}


@dataclass(frozen=True, slots=True)
class Refused:
    """A `WorldSource` that is never asked."""

    name: str

    def translate(self, tree: Node, text: str) -> SentQuery:
        return SentQuery(self.name, refused=self.why, reproducible=self.name not in REFUSED)

    async def harvest(self, tree: Node, sent: SentQuery, into: Harvest, after: str = "") -> AsyncIterator[MatchedPage]:
        into.remarks.append(self.why)
        raise SourceOff(f"{self.name} is not asked in a systematic run: {self.why}")
        yield  # pragma: no cover - a generator that gives nothing

    @property
    def why(self) -> str:
        return REFUSED.get(self.name) or UNSAID[self.name]
