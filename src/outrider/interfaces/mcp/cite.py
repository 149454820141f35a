"""MCP tools that list candidates of citation chasing, and queue some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import BaseModel, Field

from outrider.interfaces.mcp.short_answers import NOTE_CHARS, cut, shorten_notes
from outrider.interfaces.mcp.tool_calls import make_result, report_progress
from outrider.services.citation_queue import OWNER
from outrider.state.errors import BadRequest
from outrider.usecases.cite import list_candidates, queue_candidates
from outrider.usecases.threads import find_client_target

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.state.citations import CitationCandidate

MAX_CANDIDATES, MAX_IDS, SHOWN_IDS = 20, 500, 20
TITLE_CHARS, WHY_CHARS, ID_CHARS = 120, 120, 300
Target = Annotated[str, Field(description="label:NAME, a label of the library; or a thread's name.", min_length=1, max_length=200)]
Ids = Annotated[list[str], Field(description="Ids of candidates, as reference_candidates names them.", max_length=MAX_IDS)]


class ShortCandidate(BaseModel):
    id: str = Field(description="For queue_reference_candidates.")
    title: str
    year: int | None = None
    why: str = ""
    retracted: bool = Field(False, description="Tell the user before it is used.")


class CandidatesResult(BaseModel):
    """Works that citations connect with the target's works, best first. They are no evidence yet: they were not read."""

    candidates: list[ShortCandidate]
    total: int = Field(description="All candidates.")
    works: int = Field(description="Works of the target, with those that were included.")
    round: int = Field(description="The round that a decision makes.")
    stop: str = Field("", description="Why it may be enough.")
    notes: list[str] = Field(default_factory=list, description="What chasing cannot find, and what was not read yet.")


class QueueResult(BaseModel):
    """What a decision on candidates did."""

    queued: int = Field(description="Works that are fetched.")
    excluded: int = Field(description="Works that are no candidates any more.")
    ids: list[str] = Field(default_factory=list, description="The first works that are fetched.")
    jobs: list[str] = Field(default_factory=list, description="Numbers of background jobs, for the tool jobs.")
    round: int
    dry_run: bool = False


class CiteTools:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def reference_candidates(
        self,
        context: Context,
        target: Target,
        request: Annotated[str, Field(description="Candidates that fit these words come first.", max_length=2_000)] = "",
        direction: Annotated[
            Literal["", "references", "citations"],
            Field(description="Only works that the target's works cite, or only works that cite them; both by default."),
        ] = "",
        hops: Annotated[int, Field(description="Most links from a work of the target to a candidate.", ge=1, le=3)] = 1,
        limit: Annotated[int, Field(description="How many candidates.", ge=1, le=MAX_CANDIDATES)] = 10,
    ) -> Annotated[CallToolResult, CandidatesResult]:
        """List works that cite the works of a target or are cited by them, and that were not read yet, best first."""
        async with report_progress(context, "ranking"):
            name = await find_client_target(self._services, target, OWNER.get())
            found = await list_candidates(self._services, name, request=request, direction=direction, hops=hops, limit=limit)
        result = CandidatesResult(
            candidates=[shorten_candidate(one) for one in found.candidates],
            total=found.total,
            works=found.works,
            round=found.round,
            stop=cut(found.stop, NOTE_CHARS),
            notes=shorten_notes([*found.remarks, found.completeness] if found.completeness else found.remarks),
        )
        return make_result(result, [])

    async def queue_reference_candidates(
        self,
        context: Context,
        target: Target,
        include_ids: Annotated[Ids | None, Field(description="Fetch these candidates.")] = None,
        exclude_ids: Annotated[Ids | None, Field(description="Exclude these candidates and fetch all others.")] = None,
        all_candidates: Annotated[bool, Field(description="Fetch all candidates.")] = False,
        dry_run: Annotated[bool, Field(description="Only say what would be done.")] = False,
    ) -> Annotated[CallToolResult, QueueResult]:
        """Fetch candidates of a target in background jobs, as a round: exactly one of include_ids, exclude_ids and all_candidates."""
        if self._services.settings.serve.read_only and not dry_run:
            raise BadRequest("this server does not change its library (serve.read_only)")
        async with report_progress(context, "queueing"):
            name = await find_client_target(self._services, target, OWNER.get())
            report = await queue_candidates(
                self._services, name, include=include_ids or (), exclude=exclude_ids or (), all_of=all_candidates, dry_run=dry_run
            )
        result = QueueResult(
            queued=len(report.queued),
            excluded=len(report.excluded),
            ids=[cut(key, ID_CHARS) for key in report.queued[:SHOWN_IDS]],
            jobs=list(report.jobs[:SHOWN_IDS]),
            round=report.round,
            dry_run=report.dry_run,
        )
        return make_result(result, [])


def shorten_candidate(one: CitationCandidate) -> ShortCandidate:
    """The id is whole: a cut one would name nothing."""
    return ShortCandidate(
        id=one.key, title=cut(one.title or one.key, TITLE_CHARS), year=one.year, why=cut(one.why, WHY_CHARS), retracted=one.retracted
    )
