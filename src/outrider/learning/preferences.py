"""Weights of venues, authors and keywords from feedback on hits, and their proof

A feature's weight is (for - against) / (for + against + SHRINK) over the works that have it: +1 for a work that was kept, +0.3 for one that
was opened, -1 for one that was dropped, -0.15 for one that was passed over, because a later one was kept or opened. One search alone gives
no weight. The proof is leave-one-out: each recorded search is ordered by the weights of the others; searches of its own query are left out,
too.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from outrider.state.learning import Feature, FeedbackList, JudgedWork, Preferences, Proof

WORTH = {"keep": 1.0, "open": 0.3, "drop": -1.0}
PASSED_OVER = -0.15
SHRINK = 3.0
NEEDED = 10
"""Searches for a proof."""
DEPTH = 10
Z = 1.645
"""One-sided at .95."""

Votes = dict[Feature, tuple[float, float]]
"""For and against."""


def fit(lists: Sequence[FeedbackList]) -> Preferences:
    """The weights of all recorded searches."""
    by_query = _count_by_query(lists)
    total, searches = _add_up(by_query.values())
    weights = _make_weights(total, searches)
    text = json.dumps(sorted([*feature, round(weight, 6)] for feature, weight in weights.items()))
    return Preferences(weights, hashlib.sha256(text.encode()).hexdigest()[:16])


def prove(lists: Sequence[FeedbackList]) -> Proof:
    """Whether the weights order a search better that they were not learned from."""
    by_query = _count_by_query(lists)
    total, searches = _add_up(by_query.values())
    pairs = []
    for one in lists:
        gains = [max(0.0, WORTH.get(work.action or "", 0.0)) for work in one.works]
        if not (any(gains) and min(gains) < max(gains)):
            continue
        own = by_query[_normalize(one.query)]
        none = (0.0, 0.0)
        pairs_left = ((feature, votes, own.get(feature, none)) for feature, votes in total.items())
        left = {feature: (votes[0] - mine[0], votes[1] - mine[1]) for feature, votes, mine in pairs_left}
        others = {feature: count - (feature in own) for feature, count in searches.items()}
        preferences = Preferences(_make_weights(left, others))
        pairs.append((_measure(one.works, gains, Preferences()), _measure(one.works, gains, preferences)))
    if not pairs:
        return Proof(searches=0, needed=NEEDED)
    count = len(pairs)
    differences = [after - before for before, after in pairs]
    mean = sum(differences) / count
    spread = math.sqrt(sum((one - mean) ** 2 for one in differences) / max(1, count - 1) / count)
    return Proof(
        searches=count,
        needed=NEEDED,
        before=sum(before for before, _ in pairs) / count,
        after=sum(after for _, after in pairs) / count,
        at_least=mean - Z * spread,
    )


def _normalize(query: str) -> str:
    return " ".join(query.lower().split())


def _count_by_query(lists: Sequence[FeedbackList]) -> dict[str, Votes]:
    votes: dict[str, Votes] = {}
    for one in lists:
        own = votes.setdefault(_normalize(one.query), {})
        last = max((at for at, work in enumerate(one.works) if work.action in ("keep", "open")), default=-1)
        for at, work in enumerate(one.works):
            worth = WORTH.get(work.action or "", PASSED_OVER if at < last else 0.0)
            for feature in work.features if worth else ():
                pro, contra = own.get(feature, (0.0, 0.0))
                own[feature] = (pro + max(worth, 0.0), contra + max(-worth, 0.0))
    return votes


def _add_up(votes: Iterable[Votes]) -> tuple[Votes, dict[Feature, int]]:
    total: dict[Feature, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    searches: dict[Feature, int] = defaultdict(int)
    for own in votes:
        for feature, (pro, contra) in own.items():
            total[feature] = (total[feature][0] + pro, total[feature][1] + contra)
            searches[feature] += 1
    return dict(total), dict(searches)


def _make_weights(votes: Votes, searches: Mapping[Feature, int]) -> dict[Feature, float]:
    return {
        feature: weight
        for feature, (pro, contra) in votes.items()
        if searches.get(feature, 0) > 1 and (weight := (pro - contra) / (pro + contra + SHRINK))
    }


def _measure(works: Sequence[JudgedWork], gains: Sequence[float], preferences: Preferences) -> float:
    """NDCG of a list that is ordered by score and preferences; ties stay as they stood."""
    boosted = [(work.score + preferences.weigh(work.features)[0], at) for at, work in enumerate(works)]
    order = [at for _, at in sorted(boosted, key=lambda pair: (-pair[0], pair[1]))]
    best = _sum_gains(sorted(gains, reverse=True))
    return _sum_gains([gains[at] for at in order]) / best if best else 0.0


def _sum_gains(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains[:DEPTH], start=1))
