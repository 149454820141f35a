"""Candidates of a target: works that citations connect with it, best first.

Three scores are added, each as standard deviations from the mean of the candidates, and the request's as a fourth where there is one:

- **A linear model of the labels** (weight 1): ridge regression of included against excluded works on the words of title and abstract and on
  the works that each is linked to, itself among them. Two works share one of these if one cites the other, both cite it (bibliographic
  coupling; Kessler 1963) or it cites both (co-citation; Small 1973). Both classes count the same, whatever their sizes. All works are
  centred on the mean of the candidates, so that the model tells something before the first exclusion.
- **Similarity** (weight .5): the mean cosine to the target's works and the included ones, on the same features (Rocchio 1971).
- **Direct links** (weight .5) to them, where a work with many links counts less (Adamic and Adar 2003).
- **Fit to the request** (weight 1): BM25.

ADR 44 tells how the weights were chosen and what was tried without effect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from outrider.citations.citation_matrices import NO_INTS, CitationMatrices, Floats, Ints, SparseRows
from outrider.state.citations import BOTH_DIRECTIONS, CitationCandidate, CitationNetwork, Direction
from outrider.state.errors import BadRequest

ITERATIONS, TOLERANCE = 100, 1e-9
DIGITS = 9
"""Of a score: sums in another order differ beyond them."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the scores relative to the model of the labels, and its regularisation."""

    similarity: float = 0.5
    links: float = 0.5
    fit: float = 1.0
    ridge: float = 3.0


DEFAULT_WEIGHTS = Weights()


class CandidateRanker:
    """Ranks the candidates of targets in one network. Make one a network: later rankings reuse its matrices and words.

    A work that the network names only in links connects others, and is no candidate: there is nothing to show of it. Not safe to share
    between threads.
    """

    def __init__(self, network: CitationNetwork, retracted: Collection[str] = (), weights: Weights = DEFAULT_WEIGHTS) -> None:
        self.network = network
        self.weights = weights
        self.retracted = frozenset(retracted)

    @cached_property
    def _matrices(self) -> CitationMatrices:
        return CitationMatrices(self.network)

    def rank(
        self,
        works: Collection[str],
        *,
        included: Collection[str] = (),
        excluded: Collection[str] = (),
        request: str = "",
        directions: Collection[Direction] = BOTH_DIRECTIONS,
        hops: int | None = 1,
        limit: int | None = None,
    ) -> tuple[CitationCandidate, ...]:
        """The candidates, best first; ties by key.

        `works` are the target's, and `included` works extend them: a candidate is at most `hops` links in `directions` from one of either.
        With `hops=None` every work of the network is a candidate. Works of the target and decided ones are none. Unknown keys are ignored:
        the network may not have reached them yet.

        Raises `BadRequest` for a work that is both included and excluded.
        """
        if both := sorted(set(included) & set(excluded)):
            raise BadRequest(f"{both[0]} is both included and excluded; decide for one")
        if hops is not None and hops < 1:
            raise BadRequest(f"hops {hops}: at least 1")
        matrices, weights = self._matrices, self.weights
        positive = self._find({*works, *included} - set(excluded))
        negative = self._find(set(excluded))
        pool = self._find_pool(positive, self._find({*works, *included, *excluded}), directions, hops)
        if not len(pool):
            return ()
        nodes = np.concatenate([pool, positive, negative])
        features = matrices.make_features(nodes)
        labels = np.concatenate([np.ones(len(positive)), -np.ones(len(negative))])
        score = weights.links * _standardize(self._score_links(pool, positive))
        if len(positive):
            similarity = features.times(_mean_row(features.select(np.arange(len(pool), len(pool) + len(positive)))))
            score += _standardize(fit_labels(features, labels, weights.ridge)) + weights.similarity * _standardize(similarity[: len(pool)])
        fits: Floats | None = None
        if request.strip():
            fits = matrices.fit_request(nodes, request)[: len(pool)]
            score += weights.fit * _standardize(fits)
        rounded = np.round(score, DIGITS) + 0.0
        order = np.lexsort((pool, -rounded))[:limit]  # nodes are in the order of their keys
        return self._describe(pool[order], rounded[order], positive, None if fits is None else fits[order])

    def _find(self, keys: Collection[str]) -> Ints:
        index = self._matrices.index
        return np.array(sorted(index[key] for key in keys if key in index), np.int64)

    def _find_pool(self, positive: Ints, decided: Ints, directions: Collection[Direction], hops: int | None) -> Ints:
        matrices = self._matrices
        if hops is None:
            reached = np.ones(len(matrices.keys), np.bool_)
        else:
            reached = np.zeros(len(matrices.keys), np.bool_)
            steps = [matrices.references] * ("references" in directions) + [matrices.citers] * ("citations" in directions)
            edge = positive
            for _ in range(hops):
                ends = np.unique(np.concatenate([NO_INTS, *(links.select(edge).columns for links in steps)]))
                edge = ends[~reached[ends]]
                reached[edge] = True
        reached[decided] = False
        return np.flatnonzero(reached & matrices.has_record)

    def _score_links(self, pool: Ints, positive: Ints) -> Floats:
        weights = np.zeros(len(self._matrices.keys))
        weights[positive] = 1 / np.log(2 + self._matrices.degrees[positive])
        return self._matrices.linked.select(pool).times(weights)

    def _describe(self, nodes: Ints, scores: Floats, positive: Ints, fits: Floats | None) -> tuple[CitationCandidate, ...]:
        matrices = self._matrices
        size = len(matrices.keys)
        is_target = np.zeros(size)
        is_target[positive] = 1
        cited, cites = matrices.references.select(positive), matrices.citers.select(positive)
        cited_by_targets = np.bincount(cited.columns, minlength=size)[nodes]
        cites_targets = np.bincount(cites.columns, minlength=size)[nodes]
        is_citer, is_reference = np.zeros(size), np.zeros(size)
        is_citer[cites.columns] = 1
        is_reference[cited.columns] = 1
        co_cited = matrices.citers.select(nodes).times(is_citer).astype(int)
        shared = matrices.references.select(nodes).times(is_reference).astype(int)
        links = matrices.agreement.select(nodes)
        agreement = np.ones(len(nodes))
        near = is_target[links.columns] > 0
        np.maximum.at(agreement, links.rows[near], links.values[near])
        has_text = matrices.has_text(nodes)
        candidates = []
        for at, node in enumerate(nodes):
            key = matrices.keys[node]
            work = self.network.works[key]
            fit = round(float(fits[at]), DIGITS) if fits is not None and has_text[at] else None
            counts = (int(cited_by_targets[at]), int(cites_targets[at]), int(co_cited[at]), int(shared[at]))
            candidates.append(
                CitationCandidate(
                    key=key, title=work.title, authors=work.authors, year=work.year, venue=work.venue, identifiers=work.identifiers,
                    score=float(scores[at]), cited_by_targets=counts[0], cites_targets=counts[1], co_cited=counts[2],
                    shared_references=counts[3], fit=fit, is_placeholder=key in self.network.placeholders, agreement=int(agreement[at]),
                    retracted=key in self.retracted, why=explain(*counts, fit=fit, retracted=key in self.retracted),
                )
            )  # fmt: skip
        return tuple(candidates)


def explain(
    cited_by_targets: int, cites_targets: int, co_cited: int, shared_references: int, *, fit: float | None = None, retracted: bool = False
) -> str:
    """One line in plain words: what connects a candidate with the target's works."""
    parts = ["retracted"] * retracted
    if cited_by_targets:
        parts.append(f"cited by {_count(cited_by_targets, 'work')} of the target")
    if cites_targets:
        parts.append(f"cites {_count(cites_targets, 'work')} of the target")
    if shared_references:
        parts.append(f"shares {_count(shared_references, 'reference')} with them")
    if co_cited:
        parts.append(f"cited together with them by {_count(co_cited, 'work')}")
    if fit is not None:
        parts.append(f"fits the request by {fit:.0%}")
    return "; ".join(parts) or "no direct link with the target"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _standardize(values: Floats) -> Floats:
    deviation = values.std()
    standardized: Floats = (values - values.mean()) / deviation if deviation > 10**-DIGITS else np.zeros(len(values))
    return standardized


def _mean_row(rows: SparseRows) -> Floats:
    return rows.transposed_times(np.full(rows.height, 1 / max(1, rows.height)))


def fit_labels(features: SparseRows, labels: Floats, ridge: float) -> Floats:
    """Ridge regression of the last rows' labels, by conjugate gradients in the dual; its scores of the rows before them."""
    first = features.height - len(labels)
    labelled = features.select(np.arange(first, features.height))
    mean = _mean_row(features)
    positive, negative = max(1, int((labels > 0).sum())), max(1, int((labels < 0).sum()))
    classes = 2 if (labels < 0).any() else 1
    weights = np.where(labels > 0, len(labels) / (classes * positive), len(labels) / (classes * negative))

    def to_features(dual: Floats) -> Floats:
        centred: Floats = labelled.transposed_times(dual) - mean * dual.sum()
        return centred

    def apply(dual: Floats) -> Floats:
        primal = to_features(dual)
        return labelled.times(primal) - mean @ primal + ridge * dual / weights

    primal = to_features(_solve(apply, labels))
    scores: Floats = features.times(primal)[:first] - float(mean @ primal)
    return scores


def _solve(apply: Callable[[Floats], Floats], target: Floats) -> Floats:
    """Conjugate gradients for a symmetric positive definite system."""
    solution, rest = np.zeros(len(target)), target.copy()
    direction, size = rest.copy(), float(rest @ rest)
    for _ in range(ITERATIONS):
        if size < TOLERANCE**2 * float(target @ target):
            break
        image = apply(direction)
        step = size / float(direction @ image)
        solution += step * direction
        rest -= step * image
        size, before = float(rest @ rest), size
        direction = rest + size / before * direction
    return solution
