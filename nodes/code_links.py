"""Code of candidates: whether it is alive, what the request requires, its place in the order

Whether a repository is alive follows from two of its six dimensions (`fine_scorer.dimensions`), as far as their inputs are known:

=======  ============================================================================================================
dead     archived; or no push and no release for two years, and a maintenance below 5 of 10
alive    a push or release within two years, and an activity of 2 or a maintenance of 5 of 10, or more
quiet    neither
unknown  no date of a push or release is known, or it was not abandoned yet when its host was last asked: it is said, and not guessed
=======  ============================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from outrider.code_links.names import list_names, repository_url
from outrider.nodes.fine_scorer.dimensions import DAY_S, Facts, dimensions
from outrider.state.code_links import (
    LIVENESS_ORDER,
    OWN,
    READ_AT,
    CodeLink,
    KnownLinks,
    LinkedCode,
    LinkedPaper,
    LinkFinder,
    Liveness,
    best_liveness,
)
from outrider.state.filters import CodeConditions, parse_filter, split_code
from outrider.state.hits import Candidate
from outrider.state.pipeline import PipelineState
from outrider.state.records import Record, Repository
from outrider.state.response import Bypass

ABANDONED_DAYS = 730
ALIVE_ACTIVITY, ALIVE_MAINTENANCE = 2.0, 5.0
MOST_LINKS, MOST_EVIDENCE = 8, 3
"""Of a work, and of a link, that a hit shows."""
NO_CODE, DEAD = "no code of its own is known", "its code is dead"
"""Reasons for which works are left out."""
LEAST_SHOWN = 0.5
"""Confidence below which a repository is only mentioned, and not shown with a hit."""


def judge_liveness(record: Repository, now: float) -> tuple[Liveness, str]:
    """Whether a repository is alive, and why; `now` in seconds since the epoch."""
    if record.archived:
        return "dead", "archived"
    facts = Facts(record, now)
    ages = {name: age / DAY_S for name in ("updated_at", "last_release_at") if (age := facts.age_s(name)) is not None}
    if not ages:
        return "unknown", "no date of a push or release is known"
    scores = dimensions(record, now)
    activity, maintenance = (scores[name].score or 0.0 for name in ("activity", "maintenance"))
    last = min(ages.values())
    what = "last push" if ages.get("updated_at") == last else "last release"
    why = f"{what} {last:,.0f} day{'s' if round(last) != 1 else ''} ago; activity {activity:.1f} and maintenance {maintenance:.1f} of 10"
    if last > ABANDONED_DAYS:
        read_days = (facts.age_s(READ_AT) or 0.0) / DAY_S
        if last - read_days <= ABANDONED_DAYS:
            return "unknown", f"it was read {read_days:,.0f} days ago; {why}"
        return ("quiet", why) if maintenance >= ALIVE_MAINTENANCE else ("dead", f"abandoned: {why}")
    return ("alive" if activity >= ALIVE_ACTIVITY or maintenance >= ALIVE_MAINTENANCE else "quiet"), why


def find_conditions(state: PipelineState) -> CodeConditions:
    """What the request's words and its filters require of code; a filter counts before the words."""
    _, own = split_code(parse_filter(state.filters or {}))
    constraints = state.strategy.constraints if state.strategy else None
    has_code = own.has_code if own.has_code is not None else True if constraints and constraints.has_code else None
    alive = own.code_alive if own.code_alive is not None else True if constraints and constraints.code_alive else None
    return CodeConditions(has_code, alive)


async def attach_code(candidates: Sequence[Candidate], finder: LinkFinder, now: float) -> tuple[Candidate, ...]:
    """The candidates with their code or papers, and the evidence."""
    known = await finder.find([candidate.record for candidate in candidates])
    attached = []
    for candidate in candidates:
        links = known.links.get(candidate.record.doc_id, ())
        code, papers = describe_links(candidate.record, links, known, now) if links else ((), ())
        attached.append(replace(candidate, code=code, papers=papers) if code or papers else candidate)
    return tuple(attached)


def describe_links(
    record: Record, links: Iterable[CodeLink], known: KnownLinks, now: float
) -> tuple[tuple[LinkedCode, ...], tuple[LinkedPaper, ...]]:
    """The repositories of a work, alive ones first, and the papers of a repository, the most certain first."""
    own = set(list_names(record))
    code: list[LinkedCode] = []
    papers: dict[str, LinkedPaper] = {}
    for link in links:
        if link.kind == "page" or link.confidence < LEAST_SHOWN:
            continue
        shown = {"kind": link.kind, "confidence": link.confidence, "agree": link.agree, "evidence": link.evidence[:MOST_EVIDENCE]}
        if link.work in own and link.target not in own:
            other = known.records.get(link.target)
            liveness, why = judge_liveness(other, now) if isinstance(other, Repository) else ("unknown", "nothing of its host is kept")
            url = repository_url(link.target) or (other.url if other else None)
            doc_id = other.doc_id if other else ""
            code.append(LinkedCode(name=link.target, doc_id=doc_id, url=url, liveness=liveness, why=why, **shown))
        elif link.target in own and link.work not in own:
            other = known.records.get(link.work)
            doc_id, title = (other.doc_id, other.title) if other else ("", _find_title(link))
            paper = LinkedPaper(name=link.work, doc_id=doc_id, title=title, **shown)
            papers.setdefault(doc_id or paper.name, paper)
    code.sort(key=lambda one: (one.kind == "archive", LIVENESS_ORDER.index(one.liveness), -one.confidence, one.name))
    return tuple(code[:MOST_LINKS]), tuple(papers.values())[:MOST_LINKS]


def _find_title(link: CodeLink) -> str:
    """A title that a citation file names; a name `title:...` is one without its capitals."""
    titles = (one.words for one in link.evidence if one.field == "preferred-citation")
    return next(titles, "") or (link.work.removeprefix("title:") if link.work.startswith("title:") else "")


@dataclass(frozen=True, slots=True)
class CodeState:
    """What is known of the code of one work."""

    has_code: bool
    liveness: Liveness
    why: str = ""

    @classmethod
    def of(cls, candidate: Candidate, now: float) -> CodeState:
        """A repository is its own code."""
        if isinstance(candidate.record, Repository):
            return cls(True, *judge_liveness(candidate.record, now))
        own = [one for one in candidate.code if one.kind in OWN]
        liveness = best_liveness(one.liveness for one in own)
        why = next((f"{one.name.partition(':')[2]}: {one.why}" for one in own if one.liveness == liveness), "")
        return cls(bool(own), liveness, why)


def check_conditions(candidate: Candidate, conditions: CodeConditions, now: float) -> list[tuple[str, bool | None, str]]:
    """Checks of the coarse filter: name, whether it is broken (None: unknown), reason."""
    if not conditions:
        return []
    known = CodeState.of(candidate, now)
    checks: list[tuple[str, bool | None, str]] = []
    if conditions.has_code is not None or conditions.code_alive:
        wanted = conditions.has_code is not False
        checks.append(("has_code", known.has_code is not wanted, NO_CODE if wanted else "it has code"))
    if conditions.code_alive is not None:
        is_dead = known.liveness == "dead"
        broken = None if known.liveness == "unknown" else is_dead is conditions.code_alive
        reason = f"{DEAD} ({known.why})" if is_dead else f"its code is not dead ({known.why})"
        checks.append(("code_alive", broken, reason))
    return checks


def rank_liveness(candidate: Candidate, conditions: CodeConditions, now: float) -> int:
    """The place before all scores where the request asks for code: alive code before dead code."""
    if not conditions:
        return 0
    liveness = CodeState.of(candidate, now).liveness
    if conditions.code_alive:
        return {"alive": 0, "dead": 2}.get(liveness, 1)
    return int(liveness == "dead")


def explain_left_out(reasons: Sequence[str]) -> Bypass | None:
    """How many works the conditions on code left out."""
    without = sum(reason == NO_CODE for reason in reasons)
    dead = sum(reason.startswith(DEAD) for reason in reasons)
    parts = [f"{without:,} of which no code is known" if without else "", f"{dead:,} whose code is dead" if dead else ""]
    said = " and ".join(filter(None, parts))
    if not said:
        return None
    command = "`outrider library links ID --read` asks GitHub for the code of a work"
    return Bypass(step="filters", why=f"works left out: {said}; unknown is not none: {command}")
