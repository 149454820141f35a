"""Evaluation of a library's search on a user's own judgements, and a suggestion of settings.

Each stage is measured. The library alone is searched, without a chat model, and nothing is written. A judged record that a search merged
into another counts where the hit stands. Only judged records that the library has are counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from pydantic import JsonValue

from outrider.library.fusion import WEIGHTS, order_by_score
from outrider.models.rerank.late_interaction import LATE_INTERACTION
from outrider.nodes.scout import TaskResult, find_depth, fuse_answers, make_ranked_list
from outrider.nodes.translator.rule_plan import list_concept_phrases
from outrider.runtime.threads_and_loops import load_module
from outrider.services import make_fusion
from outrider.services.tracing import keep_traces_local
from outrider.settings.model import RankingSettings
from outrider.state.errors import BadRequest, MissingExtra, ModelError, ModelUnavailable, NoVectors, shorten
from outrider.state.hits import RankedList
from outrider.state.pipeline import RunContext
from outrider.state.ports import SourceQuery
from outrider.state.records import LIBRARY
from outrider.state.request import RetrieverType, check_request
from outrider.training.cross_validation import choose
from outrider.training.measures import CUT, DEPTH, Interval, Scores, bootstrap_interval, score_ranking
from outrider.usecases.match_records import RecordMatches, match_records

if TYPE_CHECKING:
    from outrider.library.search_engine import Engine
    from outrider.services import Services
    from outrider.training.judgements import Judgements

OnProgress = Callable[[str, int, int | None], None]
"""Takes what is done, how many steps are done, and their number, if that is known."""
Ranking = Sequence[Sequence[str]]
"""Hits, best first, each with the ids of all records that it was merged from."""
MIN_QUERIES = 20
"""With fewer queries no setting is suggested: intervals of so few are too narrow."""
MAX_SEARCH_S = 600.0
"""Time limit of a search, instead of that of the settings."""
LISTS = {RetrieverType.LANCE_FTS: "words", RetrieverType.LANCE_DENSE: "meaning", RetrieverType.GRAPH_NEIGHBOR: "related works"}
FUSION, SEARCH, RERANKED = "fusion", "whole search", "reranked"
DENSE_SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
GRAPH_WEIGHTS = (0.05, 0.15, 0.3, 0.6)
RERANKER, RERANKER_SETTING = "reranker", "reranker.model_name"


@dataclass(frozen=True, slots=True)
class StageFigures:
    """The measures of one stage, each as a mean over the queries with its interval."""

    stage: str
    ndcg_10: Interval
    recall_10: Interval
    recall_100: Interval
    mrr: Interval
    unjudged_10: float
    """Mean number of the first ten hits that have no judgement, which count as not relevant."""
    to_search: Interval | None
    """nDCG@10 less that of the whole search, query by query; None for that itself."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Other settings than today's, compared query by query."""

    subject: str
    compared: int
    """How many other settings were tried."""
    settings: dict[str, JsonValue]
    """The best of them, as far as it differs from today's; empty if today's is best."""
    fusion: Interval | None
    """Gain in nDCG@10 of the fused list on held-out queries; None for a reranker."""
    search: Interval | None
    """Gain in nDCG@10 of the whole search, on held-out queries where settings were chosen; None if the fused list gained nothing."""
    suggested: bool
    """Whether every measured gain is above 0 with its whole interval."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    queries: int
    judgements: int
    """Of these queries, on records of the library."""
    relevant: int
    stages: tuple[StageFigures, ...]
    comparisons: tuple[Comparison, ...]
    reranker: str
    """The name of the one that ran; empty for none."""
    seed: int
    unknown: tuple[str, ...]
    """Names of judged records that the library has not."""
    ambiguous: tuple[str, ...]
    """Names of judged records that are ids in several ingested files."""
    without_records: tuple[str, ...]
    """Ids of queries without a judged record in the library; they are left out."""
    without_relevant: tuple[str, ...]
    """Ids of queries that have judged records in the library, none of them relevant; they are left out."""
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    key: str
    text: str
    grades: Mapping[str, int]
    """By judged work."""
    works: Mapping[str, str]
    """The judged work by record id: records with one identifier are one work."""

    def score(self, ranking: Ranking) -> tuple[Scores, int]:
        """The measures, and the unjudged among the first ten hits. A work that comes again counts as not relevant."""
        seen: set[str] = set()
        ranked: list[str] = []
        for doc_ids in ranking:
            works = {self.works[doc_id] for doc_id in doc_ids if doc_id in self.works} - seen
            seen |= works
            ranked.append(max(sorted(works), key=lambda work: self.grades[work], default=""))
        unjudged = sum(all(doc_id not in self.works for doc_id in doc_ids) for doc_ids in ranking[:CUT])
        return score_ranking(ranked, self.grades), unjudged


def select_queries(judgements: Judgements, matches: RecordMatches) -> tuple[list[JudgedQuery], list[str], list[str]]:
    """Queries with a relevant record in the library; ids of those without any judged one, and of those without a relevant one.

    Raises `BadRequest` if two names of one record have two grades for a query.
    """
    queries: list[JudgedQuery] = []
    without_records: list[str] = []
    without_relevant: list[str] = []
    for key, by_name in judgements.grades.items():
        grades: dict[str, int] = {}
        works: dict[str, str] = {}
        names: dict[str, str] = {}
        for name, grade in by_name.items():
            if not (doc_ids := matches.doc_ids.get(name)):
                continue
            work = next((works[doc_id] for doc_id in doc_ids if doc_id in works), doc_ids[0])
            works.update(dict.fromkeys(doc_ids, work))
            if grades.setdefault(work, grade) != grade:
                raise BadRequest(
                    f"{names[work]} and {name} are one record of the library, with the grades {grades[work]} and {grade} for the query "
                    f"{shorten(key)}: keep one of them"
                )
            names.setdefault(work, name)
        if any(grades.values()):
            queries.append(JudgedQuery(key, judgements.queries[key], grades, works))
        else:
            (without_relevant if grades else without_records).append(key)
    return queries, without_records, without_relevant


async def evaluate(
    services: Services, judgements: Judgements, *, rerank: bool = False, seed: int = 0, progress: OnProgress | None = None
) -> Evaluation:
    """Search for every judged query and measure each stage. With `rerank`, also the reranker that a request would get.

    Raises `BadRequest` if no judged record is in the library, or none of them is relevant; `ModelUnavailable` if `rerank` finds no model.
    """
    show = progress or (lambda *_: None)
    for text in judgements.queries.values():
        check_request({"query": text})
    show("matching records", 0, None)
    library = await services.library()
    matches = await match_records(library, (name for by_name in judgements.grades.values() for name in by_name))
    queries, without_records, without_relevant = select_queries(judgements, matches)
    if not queries:
        some = ", ".join((matches.unknown or tuple(judgements.grades))[:3])
        reason = f"none of the judged records, such as {some}," if not matches.doc_ids else "no record that is judged relevant"
        raise BadRequest(f"{reason} is in the library at {library.shown}")
    reranker, why = await services.reranker(asked=rerank)
    if rerank and reranker is None:
        raise ModelUnavailable(f"no reranker can be measured: {why}")
    runs = _Runs(services.of_library(), await services.engine(), queries, show, reranks=reranker is not None, asked=rerank)
    is_on = not rerank or (await services.reranker())[0] is not None
    await load_module("outrider.graph.pipeline")  # in a thread: it takes a second
    with keep_traces_local(services.settings):
        await runs.search_all()
        comparisons = [await runs.compare_fusions(seed)] if len(runs.lists[0]) > 1 else []
    comparisons += [runs.compare_reranker(reranker.name, seed, is_on=is_on)] if reranker else []
    if services.planner is not None:
        scores = [score for score, _ in runs.scores[SEARCH]]
        recalls = {CUT: [one.recall_10 for one in scores], DEPTH: [one.recall_100 for one in scores]}
        await asyncio.to_thread(services.planner.store_recalls, library.library_id, recalls)
    return Evaluation(
        queries=len(queries),
        judgements=sum(len(query.grades) for query in queries),
        relevant=sum(grade > 0 for query in queries for grade in query.grades.values()),
        stages=runs.make_figures(seed),
        comparisons=tuple(comparisons),
        reranker=reranker.name if reranker else "",
        seed=seed,
        unknown=matches.unknown,
        ambiguous=matches.ambiguous,
        without_records=tuple(without_records),
        without_relevant=tuple(without_relevant),
        remarks=tuple(runs.list_remarks()),
    )


@dataclass(slots=True)
class _Runs:
    """The searches of all queries, and their scores."""

    services: Services
    engine: Engine
    queries: Sequence[JudgedQuery]
    show: OnProgress
    reranks: bool
    asked: bool
    lists: list[list[RankedList]] = field(default_factory=list)
    """The lists of each query, without those of strategies that the library has nothing for."""
    scores: dict[str, list[tuple[Scores, int]]] = field(default_factory=dict)
    """By stage, one for each query."""
    remarks: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    async def search_all(self) -> None:
        search = make_search(self.services, self.failures, rerank=False)
        reranked = make_search(self.services, self.failures, rerank=True if self.asked else None) if self.reranks else None
        strategies = await self._select_strategies()
        for place, query in enumerate(self.queries):
            self.show("searching", place, len(self.queries))
            answers = [await self._search(query.text, strategy) for strategy in strategies]
            lists = [answer.ranking for answer in answers]
            self.lists.append(lists)
            for ranking in lists:
                self._add(LISTS[RetrieverType(ranking.strategy)], query, [(hit.doc_id,) for hit in ranking.results])
            self._add(FUSION, query, _make_ranking(fuse_answers(answers, self.services.fuse, self._limit)))
            self._add(SEARCH, query, await search(query.text))
            if reranked:
                self._add(RERANKED, query, await reranked(query.text))
        self.show("searching", len(self.queries), len(self.queries))
        self._drop_empty_lists()

    async def _select_strategies(self) -> list[RetrieverType]:
        """Those that can be searched, by a first query; the others are remarked."""
        strategies: list[RetrieverType] = []
        for strategy, stage in LISTS.items():
            try:
                await self._search(self.queries[0].text, strategy)
            except (NoVectors, ModelError, MissingExtra) as error:
                self.remarks.append(f"Without the stage {stage!r}: {error}")
            else:
                strategies.append(strategy)
        return strategies

    @property
    def _limit(self) -> int:
        return max(DEPTH, self.services.settings.run.candidates)

    async def _search(self, text: str, strategy: RetrieverType) -> TaskResult:
        """What a search gets before it widens the query."""
        phrases = list_concept_phrases(text) if strategy is RetrieverType.LANCE_FTS else ()
        query = SourceQuery(text, strategy, None, self._limit, phrases=phrases, depth=find_depth(strategy, self._limit))
        answer = await self.engine.search(query)
        return TaskResult(answer.results, make_ranked_list(LIBRARY, strategy, text, answer.results), answer.compare_again)

    def _drop_empty_lists(self) -> None:
        """A strategy that found nothing for any query is no stage: in a library without links, related works are none."""
        useful = {ranking.strategy for row in self.lists for ranking in row if ranking.results}
        for strategy, stage in LISTS.items():
            if stage in self.scores and strategy not in useful:
                self.remarks.append(f"Without the stage {stage!r}: it found nothing for any query")
                del self.scores[stage]
        self.lists = [[ranking for ranking in row if ranking.strategy in useful] for row in self.lists]

    def _add(self, stage: str, query: JudgedQuery, ranking: Ranking) -> None:
        self.scores.setdefault(stage, []).append(query.score(ranking))

    def _ndcg(self, stage: str) -> list[float]:
        return [scores.ndcg for scores, _ in self.scores[stage]]

    def make_figures(self, seed: int) -> tuple[StageFigures, ...]:
        figures: list[StageFigures] = []
        for stage, scored in self.scores.items():
            ndcg, recall_10, recall_100, mrr = (
                bootstrap_interval(list(column), seed) for column in zip(*(scores for scores, _ in scored), strict=True)
            )
            unjudged = sum(count for _, count in scored) / len(scored)
            to_search = None if stage == SEARCH else bootstrap_interval(_subtract(self._ndcg(stage), self._ndcg(SEARCH)), seed)
            figures.append(StageFigures(stage, ndcg, recall_10, recall_100, mrr, unjudged, to_search))
        return tuple(figures)

    async def compare_fusions(self, seed: int) -> Comparison:
        """The best other fusion by cross-validation, first of the fused lists, and if these gain, of the whole search.

        The lists are fused once: comparing vectors with the first works again would need the vectors of all queries at a time.
        """
        today = self.services.settings.ranking
        candidates = [today, *list_fusions(today, {ranking.strategy for ranking in self.lists[0]})]
        values: list[list[float]] = []
        for place, candidate in enumerate(candidates):
            self.show("comparing fusions", place, len(candidates))
            values.append(await asyncio.to_thread(self._score_fusion, candidate))
        choice = choose(values, seed)
        fused = bootstrap_interval(_subtract(choice.held_out(values), values[0]), seed)
        settings = _list_changes(today, candidates[choice.best])
        whole: Interval | None = None
        if settings and fused.low > 0 and len(self.queries) >= MIN_QUERIES:
            whole = bootstrap_interval(await self._search_held_out([candidates[at] for at in choice.by_query]), seed)
        suggested = whole is not None and whole.low > 0
        return Comparison(FUSION, len(candidates) - 1, settings, fused, whole, suggested)

    def _score_fusion(self, ranking: RankingSettings) -> list[float]:
        return [query.score(_fuse(lists, ranking))[0].ndcg for query, lists in zip(self.queries, self.lists, strict=True)]

    async def _search_held_out(self, rankings: Sequence[RankingSettings]) -> list[float]:
        """Gains of the whole search over today's, each query with the settings that were chosen without it."""
        today = self.services.settings.ranking
        searches: dict[str, Callable[[str], Awaitable[Ranking]]] = {}
        gains: list[float] = []
        before = self._ndcg(SEARCH)
        for place, (query, ranking) in enumerate(zip(self.queries, rankings, strict=True)):
            self.show("searching with other settings", place, len(self.queries))
            if ranking == today:
                gains.append(0.0)
                continue
            name = ranking.model_dump_json()
            if name not in searches:
                searches[name] = make_search(self.services.with_ranking(ranking), self.failures, rerank=False)
            gains.append(query.score(await searches[name](query.text))[0].ndcg - before[place])
        return gains

    def compare_reranker(self, name: str, seed: int, *, is_on: bool) -> Comparison:
        """The search with and without the reranker, whichever of them is not today's against the other.

        No setting names the model of an endpoint that serves only one: then `settings` is empty.
        """
        without, reranked = self._ndcg(SEARCH), self._ndcg(RERANKED)
        gain = bootstrap_interval(_subtract(without, reranked) if is_on else _subtract(reranked, without), seed)
        settings: dict[str, JsonValue] = {RERANKER_SETTING: "none" if is_on else name}
        if not is_on and self.services.settings.reranker.base_url and not name.startswith(LATE_INTERACTION):
            settings = {}
        return Comparison(RERANKER, 1, settings, None, gain, len(self.queries) >= MIN_QUERIES and gain.low > 0)

    def list_remarks(self) -> list[str]:
        if self.failures:
            self.remarks.append(f"{len(self.failures):,} searches reported a failure, the first: {self.failures[0]}")
        return self.remarks


def make_search(services: Services, failures: list[str], *, rerank: bool | None) -> Callable[[str], Awaitable[Ranking]]:
    """`outrider search` for `DEPTH` hits, without distillation. Failures of a run are added to the list."""
    from outrider.graph.pipeline import build

    graph = build(services, checkpointer=False)
    context = RunContext(run_timeout_s=MAX_SEARCH_S)  # a search that ends early on a busy machine would count as a bad one

    async def search(text: str) -> Ranking:
        state = await graph.ainvoke(
            {"query": text, "top_k": DEPTH, "distill_enabled": False, "answer_enabled": False, "rerank_enabled": rerank}, context=context
        )
        failures.extend(f"{failure.node}: {failure.message}" for failure in state["failures"])
        return [(hit.doc_id, *(one.doc_id for one in hit.duplicates)) for hit in state["hits"]]

    return search


def list_fusions(today: RankingSettings, strategies: set[str]) -> list[RankingSettings]:
    """Other settings that fuse these lists: a grid of weights, and fusion by rank. Only the ratio of weights matters."""
    default = {name: RankingSettings.model_fields[name].default for name in WEIGHTS}
    dense = [{"dense_weight": share, "sparse_weight": round(1 - share, 2)} for share in DENSE_SHARES]
    graph = [{"graph_weight": weight} for weight in GRAPH_WEIGHTS]
    parts = [
        dense if RetrieverType.LANCE_DENSE in strategies else [{}],
        graph if RetrieverType.GRAPH_NEIGHBOR in strategies else [{}],
    ]
    weights = [{name: value for part in combination for name, value in part.items()} for combination in product(*parts)]
    changes: list[dict[str, object]] = [{"fusion": "rrf", **default}, *({"fusion": "min_max", **one} for one in weights)]
    others = [today.model_copy(update=change) for change in changes]
    return [ranking for ranking in others if _list_changes(today, ranking)]


def _list_changes(today: RankingSettings, other: RankingSettings) -> dict[str, JsonValue]:
    """The settings that differ, by their full names; weights only where the fusion reads them."""
    names = ("fusion", *(WEIGHTS if other.fusion == "min_max" else ()))
    return {f"ranking.{name}": getattr(other, name) for name in names if getattr(other, name) != getattr(today, name)}


def _fuse(lists: Sequence[RankedList], ranking: RankingSettings) -> Ranking:
    return _make_ranking(make_fusion(ranking)(lists))


def _make_ranking(scores: Mapping[str, float]) -> Ranking:
    return [(doc_id,) for doc_id in order_by_score(scores)]


def _subtract(values: Sequence[float], others: Sequence[float]) -> list[float]:
    return [value - other for value, other in zip(values, others, strict=True)]
