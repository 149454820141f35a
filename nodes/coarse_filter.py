"""Rules that need no model: what they remove keeps its reason, and a rule on a field that a record lacks passes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from outrider.state.hits import Candidate, Rejected
from outrider.state.intent import Constraints
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.records import Record, Repository

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

TRIVIAL_FORK_FORKS = 10
TRIVIAL_FORK_STAR_SHARE = 0.5


async def coarse_filter(state: PipelineState, runtime: Runtime[RunContext]) -> Update:
    """Reads candidates, strategy; writes candidates, rejected."""
    constraints = state.strategy.constraints if state.strategy else Constraints()
    kept, rejected = filtered(state.candidates, constraints)
    return {"candidates": kept, "rejected": rejected}


def filtered(candidates: Iterable[Candidate], constraints: Constraints) -> tuple[tuple[Candidate, ...], tuple[Rejected, ...]]:
    kept: list[Candidate] = []
    rejected: list[Rejected] = []
    for candidate in candidates:
        record = candidate.record
        if why := why_not(record, constraints):
            rejected.append(Rejected(doc_id=record.doc_id, title=record.title, why=why))
        else:
            kept.append(candidate)
    return tuple(kept), tuple(rejected)


def why_not(record: Record, constraints: Constraints) -> str | None:
    """The first rule that a record breaks, None if it breaks none."""
    years, stars = constraints.years, constraints.stars
    if record.year is not None and not years.holds(record.year):
        return f"year {record.year} is outside {_shown(years.min)}-{_shown(years.max)}"
    if not isinstance(record, Repository):
        return None
    if record.stars is not None and not stars.holds(record.stars):
        return f"{record.stars} stars are outside {_shown(stars.min)}-{_shown(stars.max)}"
    if record.archived:
        return "the repository is archived"
    return "a trivial fork" if _trivial_fork(record) else None


def _trivial_fork(record: Repository) -> bool:
    """Fewer than ten forks and under half of its parent's stars."""
    if not record.is_fork or record.forks is None or record.stars is None or record.parent_stars is None:
        return False
    return record.forks < TRIVIAL_FORK_FORKS and record.stars < TRIVIAL_FORK_STAR_SHARE * record.parent_stars


def _shown(bound: int | None) -> str:
    return "" if bound is None else str(bound)
