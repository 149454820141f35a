"""Rules that need no model: what they remove keeps its reason, and a rule on a field that a record lacks passes and is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from outrider.settings.model import CoarseFilterSettings
from outrider.state.hits import Candidate, Rejected
from outrider.state.intent import Constraints, NumberRange
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock
from outrider.state.records import Paper, Record, Repository
from outrider.text.languages_and_work_types import GENRES, normal_language, normal_type

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

Verdict = bool | None
"""Whether a record breaks a rule; None where it lacks what the rule looks at."""
MONTH = timedelta(days=365.25 / 12)
TYPED_BY = ("type", "subtype", "publication_types", "article_type", "entry_type", "ref-type", "TY")
"""Where a paper's metadata say what it is: services, JATS, BibTeX, EndNote, RIS."""
TELLING = ("publication_types", "article_type")
"""Of these, what tells a review from other articles, as OpenAlex's `type` does."""


@dataclass(frozen=True, slots=True)
class CoarseFilter:
    """Reads candidates, strategy, top_k; writes candidates, rejected."""

    settings: CoarseFilterSettings
    clock: Clock

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        rules = Rules(
            state.strategy.constraints if state.strategy else Constraints(), self.settings, datetime.fromtimestamp(self.clock(), UTC)
        )
        passed, rejected = apply_rules(state.candidates, rules)
        most = max(self.settings.most_repositories, state.top_k), max(self.settings.most_others, state.top_k)
        kept, cut = limit_each_kind(passed, *most)
        return {"candidates": kept, "rejected": (*rejected, *cut)}


@dataclass(frozen=True, slots=True)
class Rules:
    """What a record must be like: what the request asks for, and what the settings ask of every repository."""

    constraints: Constraints
    settings: CoarseFilterSettings
    now: datetime

    def check(self, record: Record) -> Iterator[tuple[str, Verdict, str]]:
        """Name of each rule, whether the record breaks it, and what then is wrong."""
        yield _range("year", record.year, self.constraints.years)
        if isinstance(record, Paper):
            yield from self._paper(record)
        if isinstance(record, Repository):
            yield from self._repository(record)

    def _paper(self, record: Paper) -> Iterator[tuple[str, Verdict, str]]:
        if wanted := _listed(self.settings.paper_types, normal_type):
            said = read_work_types(record)
            yield "type", _of_no_type(record, said, wanted), f"its type ({', '.join(sorted(said))}) is not {_either(wanted)}"
        if wanted := _listed(self.settings.paper_languages, normal_language):
            language = normal_language(record.language or "")
            yield "language", None if language is None else language not in wanted, f"its language ({language}) is not {_either(wanted)}"

    def _repository(self, record: Repository) -> Iterator[tuple[str, Verdict, str]]:
        rules = self.settings
        yield _range("stars", record.stars, self.constraints.stars)
        if rules.updated_within_months:
            yield (
                "updated",
                self._older(record.updated_at, rules.updated_within_months),
                f"not updated within {rules.updated_within_months} months",
            )
        if rules.max_age_years:
            yield "age", self._older(_text(record, "created_at"), 12 * rules.max_age_years), f"older than {rules.max_age_years} years"
        if rules.require_readme:
            yield "readme", _without_readme(record), "it has no README"
        if rules.require_licence:
            yield "licence", None if record.licence is None else not record.licence, "it has no licence"
        if not rules.archived:
            yield "archived", record.archived, "the repository is archived"
        yield "fork", self._trivial_fork(record), "a trivial fork"

    def _older(self, said: str | None, months: int) -> Verdict:
        at = _time(said)
        return None if at is None else at < self.now - months * MONTH

    def _trivial_fork(self, record: Repository) -> Verdict:
        """Fewer than so many forks and under such a share of its parent's stars."""
        if record.is_fork is not True:
            return record.is_fork
        if record.forks is None or record.stars is None or record.parent_stars is None:
            return None
        return record.forks < self.settings.trivial_fork_forks and record.stars < self.settings.trivial_fork_share * record.parent_stars


def apply_rules(candidates: Iterable[Candidate], rules: Rules) -> tuple[tuple[Candidate, ...], tuple[Rejected, ...]]:
    """Those that break no rule, each with the rules that could not be applied to it; and the others, with the first that they break."""
    kept: list[Candidate] = []
    rejected: list[Rejected] = []
    for candidate in candidates:
        judged = list(rules.check(candidate.record))
        broken = next((why for _, verdict, why in judged if verdict), None)
        if broken:
            rejected.append(_rejected(candidate, broken))
        else:
            unchecked = tuple(name for name, verdict, _ in judged if verdict is None)
            kept.append(replace(candidate, unchecked=unchecked) if unchecked else candidate)
    return tuple(kept), tuple(rejected)


def limit_each_kind(candidates: Sequence[Candidate], repositories: int, others: int) -> tuple[tuple[Candidate, ...], tuple[Rejected, ...]]:
    """The first so many of each kind, in the fused order in which they come: not by stars, so that a young one that fits stays."""
    left = {True: repositories, False: others}
    kept: list[Candidate] = []
    cut: list[Rejected] = []
    for candidate in candidates:
        kind = candidate.record.kind == "repository"
        left[kind] -= 1
        if left[kind] >= 0:
            kept.append(candidate)
        else:
            named = f"{repositories} repositories" if kind else f"{others} works"
            cut.append(_rejected(candidate, f"beyond the first {named}"))
    return tuple(kept), tuple(cut)


def _rejected(candidate: Candidate, why: str) -> Rejected:
    return Rejected(doc_id=candidate.record.doc_id, title=candidate.record.title, why=why)


def _range(name: str, value: int | None, bounds: NumberRange) -> tuple[str, Verdict, str]:
    if bounds.min is None and bounds.max is None:
        return name, False, ""
    inside = f"{_shown(bounds.min)}-{_shown(bounds.max)}"
    why = f"year {value} is outside {inside}" if name == "year" else f"{value} {name} are outside {inside}"
    return name, None if value is None else not bounds.holds(value), why


def read_work_types(record: Paper) -> frozenset[str]:
    """In our words; empty where the record says none that is known."""
    said = (record.metadata.get(name) for name in TYPED_BY)
    words = (word for one in said for word in (one if isinstance(one, list) else [one]) if isinstance(word, str))
    return frozenset(filter(None, map(normal_type, words)))


def _of_no_type(record: Paper, said: frozenset[str], wanted: frozenset[str]) -> Verdict:
    """Who says no more than `article` may mean a review, unless he would have said so."""
    if said & wanted:
        return False
    tells = record.source == "openalex" or any(record.metadata.get(name) for name in TELLING)
    return None if not said or (said == {"article"} and wanted & GENRES and not tells) else True


def _listed(text: str, normal: Callable[[str], str | None]) -> frozenset[str]:
    return frozenset(filter(None, map(normal, text.split(","))))


def _either(words: Iterable[str]) -> str:
    return " or ".join(sorted(words))


def _without_readme(record: Repository) -> Verdict:
    """A body is its README; a source that looked and found none says so in the metadata."""
    if record.text:
        return False
    said = record.metadata.get("readme")
    return not said if isinstance(said, bool | str) else None


def _text(record: Record, name: str) -> str | None:
    said = record.metadata.get(name)
    return said if isinstance(said, str) else None


def _time(said: str | None) -> datetime | None:
    """None for what is not a date of ISO 8601."""
    try:
        at = datetime.fromisoformat(said) if said else None
    except ValueError:
        return None
    return at if at is None or at.tzinfo else at.replace(tzinfo=UTC)


def _shown(bound: int | None) -> str:
    return "" if bound is None else str(bound)
