"""The node that removes candidates by rules, without a model.

A removed candidate carries a reason. A rule on a missing field passes and is reported as unchecked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from pydantic import JsonValue

from outrider.nodes.code_links import attach_code, check_conditions, explain_left_out, find_conditions
from outrider.settings.model import CoarseFilterSettings
from outrider.state.checkpoints import Judgements, list_work_ids
from outrider.state.code_links import LinkFinder
from outrider.state.errors import SearchError, shorten
from outrider.state.filters import NO_CONDITIONS, CodeConditions, parse_filter, split_code, split_retracted
from outrider.state.hits import Candidate, Rejected
from outrider.state.intent import Constraints, NumberRange
from outrider.state.notices import clean_line, describe_notices, is_retracted, list_notices
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock
from outrider.state.records import Paper, Record, Repository
from outrider.state.response import Bypass, Failure
from outrider.text.languages_and_work_types import GENRES, normal_language, normal_type, split_languages

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

MOST_NAMED = 50
"""Retracted works that a response names."""
Verdict = bool | None
"""Whether a record breaks a rule; None if it lacks the field."""
Check = tuple[str, Verdict, str]
"""The name of a rule, its verdict, and the reason if it is broken."""
DROPPED = "you dropped it on this thread"
MONTH = timedelta(days=365.25 / 12)
TYPED_BY = ("type", "subtype", "publication_types", "article_type", "entry_type", "ref-type", "TY")
"""Metadata with a paper's type: of services, JATS, BibTeX, EndNote, RIS."""
DISTINGUISHING = ("publication_types", "article_type")
"""Metadata that distinguish a review from other articles, as OpenAlex's `type` does."""


@dataclass(frozen=True, slots=True)
class CoarseFilter:
    """Reads candidates, strategy, filters, top_k, judged; writes candidates with their code and papers, rejected, further ids of dropped
    works in judged, and in bypassed the retracted works that it left out, and how many for their code.
    """

    settings: CoarseFilterSettings
    clock: Clock
    links: LinkFinder | None = None
    """None to look for no code."""

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        constraints = state.strategy.constraints if state.strategy else Constraints()
        now = self.clock()
        rules = Rules(constraints, self.settings, datetime.fromtimestamp(now, UTC), find_conditions(state))
        _, excludes_retracted = split_retracted(split_code(parse_filter(state.filters or {}))[0])
        wanted, dropped, judged = leave_out_dropped(state.candidates, state.judged)
        sound, retracted = leave_out_retracted(wanted) if excludes_retracted else (wanted, ())
        failures = state.failures
        if self.links is not None:
            try:
                sound = await attach_code(sound, self.links, now)
            except SearchError as error:  # the works stay, with what their records say
                failures = (*failures, Failure(node="coarse_filter", error=type(error).__name__, message=str(error)))
        passed, rejected = apply_rules(sound, rules)
        most = max(self.settings.most_repositories, state.top_k), max(self.settings.most_others, state.top_k)
        candidates, beyond = limit_each_kind(passed, *most)
        remarks = [name_retracted(retracted)] if retracted else []
        left_out = explain_left_out([one.why for one in rejected]) if rules.code else None
        remarks += [left_out] if left_out else []
        update: Update = {"candidates": candidates, "rejected": (*dropped, *retracted, *rejected, *beyond)}
        update = {**update, "failures": failures} if failures != state.failures else update
        update = {**update, "judged": judged} if judged != state.judged else update
        return {**update, "bypassed": (*state.bypassed, *remarks)} if remarks else update


def leave_out_dropped(
    candidates: tuple[Candidate, ...], judged: Judgements
) -> tuple[tuple[Candidate, ...], tuple[Rejected, ...], Judgements]:
    """The candidates without the works that a person dropped on this thread, whatever record of them leads now; those works; and the
    judgements with the further ids that they have now: the next search may know them by these alone.
    """
    works = {work_id: work for work in judged.select("drop") for work_id in work.ids}
    if not works:
        return candidates, (), judged
    wanted: list[Candidate] = []
    rejected: list[Rejected] = []
    further: dict[str, tuple[str, ...]] = {}
    for candidate in candidates:
        ids = list_work_ids(candidate)
        work = next((works[work_id] for work_id in ids if work_id in works), None)
        if work is None:
            wanted.append(candidate)
            continue
        rejected.append(Rejected(doc_id=candidate.record.doc_id, title=candidate.record.title, why=DROPPED))
        further[work.doc_id] = tuple(dict.fromkeys((*work.ids, *further.get(work.doc_id, ()), *ids)))
    return tuple(wanted), tuple(rejected), judged.add_ids(further)


@dataclass(frozen=True, slots=True)
class Rules:
    """The request's constraints, and the settings' rules for papers and repositories."""

    constraints: Constraints
    settings: CoarseFilterSettings
    now: datetime
    code: CodeConditions = NO_CONDITIONS

    def check(self, record: Record) -> Iterator[Check]:
        yield _check_range("year", record.year, self.constraints.years)
        if isinstance(record, Paper):
            yield from self._check_paper(record)
        if isinstance(record, Repository):
            yield from self._check_repository(record)

    def _check_paper(self, record: Paper) -> Iterator[Check]:
        if allowed := _parse_list(self.settings.paper_types, normal_type):
            types = read_work_types(record)
            reason = f"its type ({', '.join(sorted(types))}) is not {' or '.join(sorted(allowed))}"
            # `article` alone may mean a review, unless the source distinguishes them.
            distinguishes = record.source == "openalex" or any(record.metadata.get(name) for name in DISTINGUISHING)
            unknown = not types or (types == {"article"} and bool(allowed & GENRES) and not distinguishes)
            yield "type", False if types & allowed else None if unknown else True, reason
        if allowed := _parse_list(self.settings.paper_languages, normal_language):
            languages = set(filter(None, map(normal_language, split_languages(record.language or ""))))
            reason = f"its language ({', '.join(sorted(languages))}) is not {' or '.join(sorted(allowed))}"
            yield "language", allowed.isdisjoint(languages) if languages else None, reason

    def _check_repository(self, record: Repository) -> Iterator[Check]:
        rules = self.settings
        yield _check_range("stars", record.stars, self.constraints.stars)
        if rules.updated_within_months:
            months = rules.updated_within_months
            yield "updated", self._is_older(record.updated_at, months), f"not updated within {months} months"
        if rules.max_age_years:
            created_at = record.metadata.get("created_at")
            yield "age", self._is_older(created_at, 12 * rules.max_age_years), f"older than {rules.max_age_years} years"
        if rules.require_readme:
            # The body is the README; a source that looked for one and found none says so in the metadata.
            readme = True if record.text else record.metadata.get("readme")
            yield "readme", not readme if isinstance(readme, bool | str) else None, "it has no README"
        if rules.require_licence:
            yield "licence", None if record.licence is None else not record.licence, "it has no licence"
        if not rules.archived:
            yield "archived", record.archived, "the repository is archived"
        # A trivial fork has few forks and a small share of its parent's stars.
        fork = record.is_fork
        if fork and (record.forks is None or record.stars is None or record.parent_stars is None):
            fork = None
        elif fork and record.forks is not None and record.stars is not None and record.parent_stars is not None:
            fork = record.forks < rules.trivial_fork_forks and record.stars < rules.trivial_fork_share * record.parent_stars
        yield "fork", fork, "a trivial fork"

    def _is_older(self, date: JsonValue, months: int) -> Verdict:
        """None for a value that is not a date in ISO 8601."""
        try:
            at = datetime.fromisoformat(date) if isinstance(date, str) and date else None
        except ValueError:
            return None
        return None if at is None else (at if at.tzinfo else at.replace(tzinfo=UTC)) < self.now - months * MONTH


def leave_out_retracted(candidates: Iterable[Candidate]) -> tuple[tuple[Candidate, ...], tuple[Rejected, ...]]:
    """The works that are neither retracted nor withdrawn, and the others with the notices that say so."""
    passed: list[Candidate] = []
    rejected: list[Rejected] = []
    for candidate in candidates:
        notices = list_notices(candidate.record, candidate.related)
        if is_retracted(notices):
            rejected.append(_reject(candidate, describe_notices(one for one in notices if one.kind in ("retracted", "withdrawn"))))
        else:
            passed.append(candidate)
    return tuple(passed), tuple(rejected)


def name_retracted(rejected: Sequence[Rejected]) -> Bypass:
    """Which works the request left out because they are retracted, for every interface."""
    names = [f"{shorten(clean_line(one.title) or one.doc_id)}: {one.why}" for one in rejected[:MOST_NAMED]]
    more = [f"and {len(rejected) - MOST_NAMED:,} more"] if len(rejected) > MOST_NAMED else []
    works = f"{len(rejected):,} retracted or withdrawn work{'s were' if len(rejected) != 1 else ' was'} left out"
    return Bypass(step="filters", why=f"{works}: {'; '.join([*names, *more])}")


def apply_rules(candidates: Iterable[Candidate], rules: Rules) -> tuple[tuple[Candidate, ...], tuple[Rejected, ...]]:
    """Candidates that break no rule, with the rules that could not be checked; and the others, with the first rule that they break."""
    passed: list[Candidate] = []
    rejected: list[Rejected] = []
    for candidate in candidates:
        checks = [*rules.check(candidate.record), *check_conditions(candidate, rules.code, rules.now.timestamp())]
        broken = next((reason for _, verdict, reason in checks if verdict), None)
        if broken:
            rejected.append(_reject(candidate, broken))
        else:
            unchecked = tuple(name for name, verdict, _ in checks if verdict is None)
            passed.append(replace(candidate, unchecked=unchecked) if unchecked else candidate)
    return tuple(passed), tuple(rejected)


def limit_each_kind(candidates: Sequence[Candidate], repositories: int, others: int) -> tuple[tuple[Candidate, ...], tuple[Rejected, ...]]:
    """The first of each kind in fused order, not by stars, so that a young repository that fits stays."""
    remaining = {True: repositories, False: others}
    passed: list[Candidate] = []
    beyond: list[Rejected] = []
    for candidate in candidates:
        is_repository = candidate.record.kind == "repository"
        remaining[is_repository] -= 1
        if remaining[is_repository] >= 0:
            passed.append(candidate)
        else:
            beyond.append(_reject(candidate, f"beyond the first {f'{repositories} repositories' if is_repository else f'{others} works'}"))
    return tuple(passed), tuple(beyond)


def _reject(candidate: Candidate, why: str) -> Rejected:
    return Rejected(doc_id=candidate.record.doc_id, title=candidate.record.title, why=why)


def _check_range(name: str, value: int | None, bounds: NumberRange) -> Check:
    if bounds.min is None and bounds.max is None:
        return name, False, ""
    inside = "-".join("" if bound is None else str(bound) for bound in (bounds.min, bounds.max))
    reason = f"year {value} is outside {inside}" if name == "year" else f"{value} {name} are outside {inside}"
    return name, None if value is None else not bounds.holds(value), reason


def read_work_types(record: Paper) -> frozenset[str]:
    """The paper's types in our words (see `normal_type`); empty if its metadata name no known type."""
    values = (record.metadata.get(name) for name in TYPED_BY)
    words = (word for value in values for word in (value if isinstance(value, list) else [value]) if isinstance(word, str))
    return frozenset(filter(None, map(normal_type, words)))


@lru_cache(maxsize=64)
def _parse_list(text: str, normalize: Callable[[str], str | None]) -> frozenset[str]:
    return frozenset(filter(None, map(normalize, text.split(","))))
