"""MCP tool that shows the code of papers and the papers of repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import BaseModel, Field

from outrider.interfaces.mcp.short_answers import cut
from outrider.interfaces.mcp.tool_calls import make_result, report_progress
from outrider.usecases.code_links import get_code_links

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.state.code_links import LinkedCode, LinkedPaper

MOST, TITLE_CHARS, WORDS_CHARS, ID_CHARS = 5, 120, 160, 200


class ShortLink(BaseModel):
    name: str
    kind: str = Field(description="paper's own code, repository's paper, archive, ...")
    liveness: str = Field("", description="Of a repository: alive, quiet, dead or unknown, and why.")
    title: str = ""
    both_agree: bool = Field(False, description="Whether the paper and the repository each name the other.")
    confidence: float
    evidence: str = Field("", description="The words that say so, and where they stand.")


class LinksResult(BaseModel):
    """Code of a paper, or papers of a repository. What is not listed is unknown, not absent."""

    doc_id: str
    title: str = ""
    code: list[ShortLink] = Field(default_factory=list, description="Alive code before dead code.")
    papers: list[ShortLink] = Field(default_factory=list)


class LinkTools:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def code_links(
        self,
        context: Context,
        work: Annotated[str, Field(description="A record's id, a DOI, arxiv:2101.00001, or owner/name.", min_length=1, max_length=300)],
    ) -> Annotated[CallToolResult, LinksResult]:
        """Find the code of a paper and whether it is maintained, or the papers of a repository, with the words that say so."""
        async with report_progress(context, "reading"):
            found = await get_code_links(self._services, work)
        result = LinksResult(
            doc_id=cut(found.doc_id, ID_CHARS),
            title=cut(found.title, TITLE_CHARS),
            code=[shorten_link(one) for one in found.code[:MOST]],
            papers=[shorten_link(one) for one in found.papers[:MOST]],
        )
        return make_result(result, [])


def shorten_link(one: LinkedCode | LinkedPaper) -> ShortLink:
    best = next(iter(one.evidence), None)
    place = ", ".join(filter(None, (best.place, best.field))) if best else ""
    return ShortLink(
        name=cut(one.name, ID_CHARS),
        kind=one.kind,
        liveness=f"{liveness}: {cut(getattr(one, 'why', ''), WORDS_CHARS)}" if (liveness := getattr(one, "liveness", "")) else "",
        title=cut(getattr(one, "title", ""), TITLE_CHARS),
        both_agree=one.agree,
        confidence=one.confidence,
        evidence=f"{place}: {cut(best.words, WORDS_CHARS)}" if best else "",
    )
