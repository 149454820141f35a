"""Citation chasing in rounds: yield, stop, and counts for PRISMA.

A chase is a value: each function takes one and returns the next, and it serialises as JSON (`Chase.model_dump_json`). A round shows the
first candidates of the ranking; the person includes or excludes them; included works extend the target, so that the next round follows
their links, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from pydantic import Field

from outrider.citations.rank_candidates import CandidateRanker
from outrider.state.citations import BOTH_DIRECTIONS, CitationCandidate, CitationSearchCounts, Direction
from outrider.state.errors import BadRequest
from outrider.state.model import Model

ROUND = 10
"""Records a round. With more of them the ranking learns from a decision later."""
PATIENCE = 5
"""Rounds in a row without an inclusion, after which the chase suggests to stop."""
StopReason = Literal["no candidates left", "no inclusion in the last rounds"]


class ChaseRound(Model):
    """What one round brought."""

    number: int = Field(ge=1)
    new_works: int = Field(ge=0, description="Works that became candidates for the first time.")
    candidates: int = Field(ge=0, description="Candidates at its start.")
    included: tuple[str, ...] = Field((), description="Keys of the works that it included.")
    excluded: tuple[str, ...] = Field((), description="Keys of the works that it excluded.")

    @property
    def read(self) -> int:
        """Records that a person decided on."""
        return len(self.included) + len(self.excluded)


class Chase(Model):
    """A chase of one target so far."""

    target: str = Field(description="The thread, tag or file whose works it started from.")
    works: tuple[str, ...] = Field(description="Keys of the target's works.")
    request: str = ""
    directions: tuple[Direction, ...] = Field(("citations", "references"), min_length=1)
    hops: int = Field(1, ge=1, le=3, description="Most links from a work of the target, or an included one, to a candidate.")
    patience: int = Field(PATIENCE, ge=1, description="Rounds in a row without an inclusion, after which it suggests to stop.")
    seen: tuple[str, ...] = Field((), description="Keys of all works that were candidates.")
    rounds: tuple[ChaseRound, ...] = ()

    @property
    def included(self) -> tuple[str, ...]:
        return tuple(key for one in self.rounds for key in one.included)

    @property
    def excluded(self) -> tuple[str, ...]:
        return tuple(key for one in self.rounds for key in one.excluded)


class YieldPoint(Model):
    """One point of the yield curve: totals after a round."""

    round: int
    seen: int = Field(description="Works that were candidates.")
    read: int = Field(description="Records that a person decided on.")
    included: int
    share_included: float = Field(description="Inclusions of this round for each record read in it.")


def start_chase(
    target: str, works: Collection[str], *, request: str = "", directions: Collection[Direction] = BOTH_DIRECTIONS, hops: int = 1
) -> Chase:  # fmt: skip
    """A chase before its first round. Raises `BadRequest` without a work to start from, and without a direction."""
    if not works:
        raise BadRequest(f"{target} has no works to chase citations from")
    if not directions:
        raise BadRequest("no direction: choose references, citations or both")
    return Chase(target=target, works=tuple(sorted(set(works))), request=request, directions=tuple(sorted(set(directions))), hops=hops)


def list_candidates(chase: Chase, ranker: CandidateRanker, limit: int | None = ROUND) -> tuple[CitationCandidate, ...]:
    """The candidates of the next round, best first."""
    return ranker.rank(
        chase.works, included=chase.included, excluded=chase.excluded, request=chase.request, directions=chase.directions,
        hops=chase.hops, limit=limit,
    )  # fmt: skip


def record_round(
    chase: Chase, candidates: Sequence[CitationCandidate] | Sequence[str], *, included: Collection[str] = (), excluded: Collection[str] = ()
) -> Chase:
    """The chase after a round. `candidates` are all that there were at its start, decided on or not.

    Raises `BadRequest` for a work that is both included and excluded, that is the target's own, or that was decided on before.
    """
    if both := sorted(set(included) & set(excluded)):
        raise BadRequest(f"{both[0]} is both included and excluded; decide for one")
    decided, before = {*included, *excluded}, {*chase.included, *chase.excluded}
    if again := sorted(decided & before):
        raise BadRequest(f"{again[0]} was decided on in an earlier round")
    if own := sorted(decided & set(chase.works)):
        raise BadRequest(f"{own[0]} is a work of the target itself")
    if not decided:
        raise BadRequest("a round needs a work that is included or excluded")
    keys = {one if isinstance(one, str) else one.key for one in candidates} | decided
    new = keys - set(chase.seen)
    round_ = ChaseRound(
        number=len(chase.rounds) + 1, new_works=len(new), candidates=len(keys), included=tuple(sorted(set(included))),
        excluded=tuple(sorted(set(excluded))),
    )  # fmt: skip
    return chase.model_copy(update={"seen": tuple(sorted({*chase.seen, *keys})), "rounds": (*chase.rounds, round_)})


def rename_keys(chase: Chase, keys: Mapping[str, str]) -> Chase:
    """The chase with other keys: that of a placeholder changes when its record enters the library. Keys that are not named stay.

    Two keys may become one, as a preprint and its publication do. Of two decisions the later one counts; within a round the exclusion.
    """

    def rename(names: Collection[str]) -> set[str]:
        return {keys.get(name, name) for name in names}

    rounds: list[ChaseRound] = []
    later: set[str] = set()
    for one in reversed(chase.rounds):
        excluded = rename(one.excluded) - later
        included = rename(one.included) - later - excluded
        later |= included | excluded
        rounds.append(one.model_copy(update={"included": tuple(sorted(included)), "excluded": tuple(sorted(excluded))}))
    works, seen = (tuple(sorted(rename(names))) for names in (chase.works, chase.seen))
    return chase.model_copy(update={"works": works, "seen": seen, "rounds": tuple(reversed(rounds))})


def withdraw_inclusions(chase: Chase, keys: Collection[str]) -> Chase:
    """The chase as if these works had not been included: they can be decided on again."""
    rounds = tuple(one.model_copy(update={"included": tuple(key for key in one.included if key not in keys)}) for one in chase.rounds)
    return chase.model_copy(update={"rounds": rounds})


def find_stop(chase: Chase, candidates_left: int) -> StopReason | None:
    """Why the chase may stop; None if it should go on. It proves nothing: see `describe_completeness`."""
    if not candidates_left:
        return "no candidates left"
    last = chase.rounds[-chase.patience :]
    if len(last) == chase.patience and not any(one.included for one in last):
        return "no inclusion in the last rounds"
    return None


def make_yield_curve(chase: Chase) -> tuple[YieldPoint, ...]:
    """Totals after each round."""
    points, seen, read, included = [], 0, 0, 0
    for one in chase.rounds:
        seen, read, included = seen + one.new_works, read + one.read, included + len(one.included)
        share = len(one.included) / one.read if one.read else 0.0
        points.append(YieldPoint(round=one.number, seen=seen, read=read, included=included, share_included=share))
    return tuple(points)


def count_citation_search(chase: Chase) -> CitationSearchCounts:
    """What a chase fills in of a PRISMA flow chart."""
    excluded = set(chase.excluded)
    included = set(chase.included) - excluded
    decided = included | excluded
    identified = decided | set(chase.seen)
    return CitationSearchCounts(len(identified), len(decided), len(excluded), len(included), len(identified - decided))


RECALL_OF_CHASES: Mapping[str, tuple[float, float]] = {
    "Donners 2021": (0.94, 1.00),
    "Sep 2021": (0.36, 0.95),
    "van der Valk 2021": (0.21, 0.89),
    "Jeyaraman 2020": (0.13, 0.93),
    "Nelson 2002": (0.08, 0.37),
}
"""Five systematic reviews of SYNERGY, from three random included works, 20 draws: recall of the other included works one link away, and
after following the links of each included work until nothing new came."""


def describe_completeness(chase: Chase) -> str:
    """What the chase cannot tell about works it did not find, with the reviews' figures."""
    one, closure = zip(*RECALL_OF_CHASES.values(), strict=True)
    unread = count_citation_search(chase).not_screened
    left = f" {unread:,} {'candidate was' if unread == 1 else 'candidates were'} not read." if unread else ""
    return (
        "Citation chasing alone is not complete: works that no citation connects with the target cannot be found. In five systematic "
        f"reviews, from three included works, one link away were {min(one):.0%} to {max(one):.0%} of the other included works, and "
        f"following all links to the end found {min(closure):.0%} to {max(closure):.0%}.{left} "
        "Screening statistics estimate what may be missing."
    )
