"""Evaluation of rerankers on a library, by known items and a paired significance test.

A sample of the library is copied into a temporary library. A title used as a query is removed from its record there, so that first stage
and reranker must match the other text; words used as a query are not removed. Each kind of query alone is misleading, so a gain counts
only if neither kind loses. Rerankers are evaluated one after the other, so that only one model is in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from outrider.models.rerank.cross_encoder import CrossEncoderReranker
from outrider.models.rerank.select import find_revision
from outrider.state.errors import BadRequest, MissingExtra, ModelError, ModelUnavailable
from outrider.state.hits import Scored
from outrider.state.ports import Clock, OnCount, Reranker
from outrider.state.records import Record
from outrider.state.reranking import Effect, Verdict, blend_scores, make_reranker_text, order_by_score, verdict_order
from outrider.training.measures import ndcg
from outrider.training.model_card import read_trained_ids
from outrider.training.questions import KnownItem, known_items

if TYPE_CHECKING:
    from outrider.library.library import Library

FirstStage = Callable[[str, int], Awaitable[Sequence[Scored]]]
"""Takes a query and a limit; returns records with scores, best first."""
MakeFirstStage = Callable[["Library"], Awaitable[FirstStage]]
"""Prepares a library that has only records: embeds them if the first stage searches by vectors."""

QUERIES = 200
MIN_QUERIES = 20
"""With fewer queries no relevant difference would be significant."""
SAMPLE_RECORDS = 2_000
"""Size of the searched sample. A larger one makes a probe harder and slower: embedding this one without a GPU takes a minute."""
SIGNIFICANT = 0.05
TOLERATED_LOSS = 0.01
"""Mean nDCG@10 that one kind of query may lose, the cost of one answer in 37 that drops from rank 1 to rank 2.

Without a tolerance, a kind that a reranker does not affect would reject it by chance in every other probe.
"""
ROUNDS = 10_000
BLOCK = 2**20
"""Random signs per batch: 8 MiB of numbers."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Verdicts, the chosen one first, and the errors of rerankers that failed."""

    verdicts: tuple[Verdict, ...]
    failed: dict[str, str] = field(default_factory=dict)


async def probe(  # noqa: PLR0913 - subject, data and parameters
    library: Library,
    first_stage: MakeFirstStage,
    rerankers: Sequence[Reranker],
    *,
    depth: int,
    weight: float,
    clock: Clock,
    queries: int = QUERIES,
    seed: int = 0,
    progress: OnCount | None = None,
) -> ProbeResult:
    """Evaluate each reranker on the same queries and save the verdicts in the library, in one commit at the end.

    `depth` and `weight` are those of the searches (see `blend_scores`). Raises `BadRequest` if the library yields too few queries,
    `ModelUnavailable` if no reranker could be run. Records that one of the rerankers was trained on are excluded.
    """
    snapshot = await library.snapshot()
    records = await library.sample(max(SAMPLE_RECORDS, 2 * queries), seed)
    learned = frozenset[str]().union(*(read_trained_ids(one.name) for one in rerankers))
    items = known_items([record for record in records if record.doc_id not in learned], queries, seed)
    if len(items) < MIN_QUERIES:
        raise BadRequest(
            f"the library gives {len(items)} known items, a probe needs {MIN_QUERIES}: records with a title and a text of several words"
            + (", which none of the rerankers was trained on" if learned else "")
        )
    trial = _Trial(depth, weight, progress or (lambda *_: None), len(items) * (1 + len(rerankers)))
    async with _copy(records, items) as copy:
        await trial.search(items, await first_stage(copy))
    for reranker in rerankers:
        await trial.rerank(reranker)
    if not trial.after:
        why = "; ".join(trial.failed.values()) or "none is available; set reranker.model_name"
        raise ModelUnavailable(f"no reranker could be probed: {why}")
    trial.progress(trial.steps, trial.steps)
    judged_at = datetime.fromtimestamp(clock(), UTC).isoformat()
    verdicts = make_verdicts(trial, seed, snapshot, judged_at)
    await library.remember_verdicts(verdicts)
    return ProbeResult(verdicts, trial.failed)


@asynccontextmanager
async def _copy(records: Sequence[Record], items: Sequence[KnownItem]) -> AsyncIterator[Library]:
    """A temporary library with the records; those of the items lack the text that is their query."""
    from outrider.library.library import Library

    hidden = {item.record.doc_id: item.record for item in items}
    with TemporaryDirectory(prefix="outrider-probe-") as folder:
        copy = await Library.open(folder)
        try:
            await copy.upsert([hidden.get(record.doc_id, record) for record in records])
            await copy.optimize(force=True)
            yield copy
        finally:
            copy.close()


@dataclass(frozen=True, slots=True)
class _EvaluatedQuery:
    """A query, its answer, and the ids and scores of the first stage, best first."""

    query: str
    answer: str
    whole: bool
    """Whether the query is a whole title, not just words."""
    ids: tuple[str, ...]
    scores: tuple[float, ...]

    def ndcg(self, ranking: Sequence[str]) -> float:
        """nDCG@10 of a ranking of ids with one right record."""
        return ndcg((doc_id == self.answer for doc_id in ranking), [1])


@dataclass(slots=True)
class _Trial:
    """First-stage results of every query, and nDCG@10 before and after each reranker. A failed reranker is excluded."""

    depth: int
    weight: float
    progress: OnCount
    steps: int
    done: int = 0
    queries: list[_EvaluatedQuery] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    """Texts for the rerankers by record id."""
    after: dict[str, list[float]] = field(default_factory=dict)
    revisions: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def before(self) -> list[float]:
        return [one.ndcg(one.ids) for one in self.queries]

    async def search(self, items: Sequence[KnownItem], first_stage: FirstStage) -> None:
        for item in items:
            self._step()
            hits = await first_stage(item.query, self.depth)
            ids = tuple(one.record.doc_id for one in hits)
            self.texts.update((one.record.doc_id, make_reranker_text(one.record)) for one in hits)
            self.queries.append(
                _EvaluatedQuery(item.query, item.record.doc_id, item.kind == "title", ids, tuple(one.score for one in hits))
            )

    async def rerank(self, reranker: Reranker) -> None:
        until = self.done + len(self.queries)
        try:
            after = []
            for one in self.queries:
                self._step()
                scores = await asyncio.to_thread(reranker.scores, one.query, [self.texts[doc_id] for doc_id in one.ids])
                order = order_by_score(blend_scores(one.scores, scores, self.weight))
                after.append(one.ndcg([one.ids[place] for place in order]))
            self.after[reranker.name] = after
            self.revisions[reranker.name] = await asyncio.to_thread(find_revision, reranker)
        except (ModelError, MissingExtra) as error:
            self._fails(reranker, str(error))
        except MemoryError:
            self._fails(reranker, f"{reranker.name} does not fit into this machine's memory")
        finally:
            self.done = until
            if isinstance(reranker, CrossEncoderReranker):
                reranker.release()

    def _step(self) -> None:
        self.progress(self.done, self.steps)
        self.done += 1

    def _fails(self, reranker: Reranker, why: str) -> None:
        self.failed[reranker.name] = why
        self.after.pop(reranker.name, None)


def make_verdicts(trial: _Trial, seed: int, snapshot: str, judged_at: str) -> tuple[Verdict, ...]:
    """A verdict for each reranker, best first. p is multiplied by their number (Bonferroni). The first one is chosen if it is better."""
    verdicts = sorted((_verdict(trial, name, seed, snapshot, judged_at) for name in sorted(trial.after)), key=verdict_order)
    first = verdicts[0]
    return (first.model_copy(update={"chosen": first.effect == "better"}), *verdicts[1:])


def _verdict(trial: _Trial, name: str, seed: int, snapshot: str, judged_at: str) -> Verdict:
    differences = [new - old for new, old in zip(trial.after[name], trial.before, strict=True)]
    p = min(1.0, sign_flip_p(differences, seed) * len(trial.after))
    effect, summary = _effect(differences, [one.whole for one in trial.queries], p)
    count, before, after = len(differences), _mean(trial.before), _mean(trial.after[name])
    figures = f"nDCG@10 {before:.3f} -> {after:.3f} ({after - before:+.3f}, p {p:.2g}) on {count} known items, {judged_at[:10]}"
    return Verdict(
        reranker=name,
        revision=trial.revisions[name],
        effect=effect,
        before=before,
        after=after,
        p=p,
        queries=count,
        depth=trial.depth,
        weight=trial.weight,
        seed=seed,
        snapshot=snapshot,
        judged_at=judged_at,
        why=f"{name} {summary}: {figures}",
    )


def _effect(differences: Sequence[float], whole: Sequence[bool], p: float) -> tuple[Effect, str]:
    """`better` only if the mean gain is significant and neither kind of query loses more than `TOLERATED_LOSS`."""
    if p >= SIGNIFICANT:
        return "unclear", "may or may not make this library's ranking better"
    if _mean(differences) < 0:
        return "worse", "makes this library's ranking worse"
    titles = _mean([one for one, title in zip(differences, whole, strict=True) if title])
    few = _mean([one for one, title in zip(differences, whole, strict=True) if not title])
    if min(titles, few) < -TOLERATED_LOSS:
        return "unclear", f"helps one kind of query and harms the other (titles {titles:+.3f}, a few words {few:+.3f})"
    return "better", "makes this library's ranking better"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def sign_flip_p(differences: Sequence[float], seed: int = 0, rounds: int = ROUNDS) -> float:
    """Two-sided p of the paired randomisation test (Smucker, Allan and Carterette, CIKM 2007), at least 1 / (rounds + 1).

    p is the share of random sign changes of the differences whose mean is at least as far from 0.
    """
    import numpy as np

    values = np.asarray([one for one in differences if one], dtype=np.float64)  # zeros have no sign to flip
    if not values.size:
        return 1.0
    draw = np.random.default_rng(seed)
    at_once = max(1, BLOCK // values.size)
    extreme = 0
    for start in range(0, rounds, at_once):
        signs = draw.integers(0, 2, (min(at_once, rounds - start), values.size), dtype=np.int8) * 2 - 1
        extreme += int(np.count_nonzero(np.abs(signs @ values) >= abs(values.sum()) - 1e-9))
    return (extreme + 1) / (rounds + 1)
