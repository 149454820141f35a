"""`resolve` for libraries that do not fit into memory: the same groups, with keys on disk (`streaming.py`).

What chains of pairs connect is grouped by itself, as `resolve` groups all: no group reaches beyond. Reasons are told when asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.identity.clustering import Clustering
from outrider.identity.deciding import FixedClustering, fixed_by
from outrider.identity.groups import Groups
from outrider.identity.judging import Judgement, Weights, judged
from outrider.identity.keys import Keys
from outrider.identity.relations import Relation, links
from outrider.identity.resolving import Pair, Related
from outrider.identity.streaming import Keeping, Kept, OnStep, pairs_of, said_nothing
from outrider.identity.weights import WEIGHTS
from outrider.state.decisions import NO_DECISIONS, Decisions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EACH = 5_000
COPIES = "they say the same in every field"


@dataclass(frozen=True, slots=True)
class Group:
    places: tuple[int, ...]
    """Ascending, of the records given."""
    reasons: tuple[str, ...]
    """A line for each join; none for a single."""


class Many:
    """Takes records one by one, as (id, keys); `folder` needs about 2 KB for each, and must stay until the result was closed."""

    def __init__(
        self, folder: Path, on_step: OnStep = said_nothing, weights: Weights = WEIGHTS, decisions: Decisions = NO_DECISIONS
    ) -> None:
        self._folder, self._on_step, self._weights, self._decisions = folder, on_step, weights, decisions
        self._keeping = Keeping(folder / "keys", on_step)
        self._named = decisions.names()
        self._ids: list[str] = []

    def add(self, doc_id: str, key: Keys) -> None:
        self._ids.append(doc_id)
        self._keeping.add(key, doc_id if doc_id in self._named or self._decisions.alone else "")

    def resolved(self) -> Streamed:
        whole = self._keeping.kept()
        noted = _noted(whole, pairs_of(whole, self._folder, self._on_step), self._weights, self._on_step)
        grouping = _Grouping(whole, noted, self._ids, self._weights, self._decisions).run(self._on_step)
        return Streamed(whole, noted, grouping, self._ids, self._weights)

    def close(self) -> None:
        self._keeping.file.close()


@dataclass(frozen=True, slots=True)
class _Noted:
    """Pairs of ranks that are or may be one work, in parallel arrays, and those that belong together otherwise."""

    pairs: NDArray[np.int64]
    scores: NDArray[np.float64]
    same: NDArray[np.bool_]
    related: tuple[tuple[int, int, Relation], ...]


def _noted(whole: Kept, pairs: NDArray[np.int64], weights: Weights, on_step: OnStep) -> _Noted:
    import numpy as np

    ranks, scores, same = array("q"), array("d"), array("b")
    related: list[tuple[int, int, Relation]] = []
    for number, (one, other) in enumerate(pairs.tolist()):
        if number % EACH == 0:
            on_step("comparing", number, len(pairs))
        judgement = judged(whole.key(one), whole.key(other), weights)
        if judgement.relation:
            related.append((one, other, judgement.relation))
        if judgement.verdict != "different":
            ranks.extend((one, other))
            scores.append(judgement.score)
            same.append(judgement.verdict == "same")
    return _Noted(np.array(ranks, np.int64).reshape(-1, 2), np.array(scores), np.array(same, bool), (*_linked(whole), *related))


def _linked(whole: Kept) -> Iterator[tuple[int, int, Relation]]:
    """What records say themselves: of the few that say anything, and those they name."""
    named = {(scheme, value) for _, key in whole.each() for _, scheme, value in key.links}
    if not named:
        return
    concerned = sorted((rank, key) for rank, key in whole.each() if key.links or not named.isdisjoint(key.identifiers))
    for one, other, relation in links([key for _, key in concerned]):
        yield concerned[one][0], concerned[other][0], relation


class _Grouping:
    """Finds the group of each rank, and the pairs that joined it."""

    def __init__(self, whole: Kept, noted: _Noted, ids: Sequence[str], weights: Weights, decisions: Decisions) -> None:
        self._whole, self._noted, self._weights = whole, noted, weights
        self._ids, self._decisions = ids, decisions
        self.group_of = list(range(len(whole)))
        self.joins: dict[int, list[tuple[int, int, str]]] = {}
        self._done = 0

    def run(self, on_step: OnStep) -> _Grouping:
        import numpy as np

        pairs = np.concatenate([self._noted.pairs[self._noted.same], np.array(self._tied(), np.int64).reshape(-1, 2)])
        chained = Groups(len(self._whole))
        for one, other in pairs.tolist():
            chained.join(one, other)
        roots = np.array([chained.root(one) for one in pairs[:, 0].tolist()], np.int64)
        pairs, roots = pairs[(order := np.argsort(roots, kind="stable"))], roots[order]
        for together in np.split(pairs, np.flatnonzero(np.diff(roots)) + 1) if len(pairs) else ():
            self._group(np.unique(together).tolist(), together.tolist())
            self._done += 1
            if self._done % EACH == 0:
                on_step("grouping", self._done, None)
        return self

    def _tied(self) -> list[tuple[int, int]]:
        """Pairs of ranks that a person made one."""
        if not self._decisions.same:
            return []
        wanted = {name for pair in self._decisions.same for name in pair}
        ranks = {doc_id: int(self._whole.rank_of[at]) for at, doc_id in enumerate(self._ids) if doc_id in wanted}
        pairs = ((ranks[one], ranks[other]) for one, other in self._decisions.same if one in ranks and other in ranks)
        return [(one, other) for one, other in pairs if one != other]

    def _group(self, ranks: list[int], pairs: list[list[int]]) -> None:
        place = {rank: at for at, rank in enumerate(ranks)}
        local = sorted({(min(place[one], place[other]), max(place[one], place[other])) for one, other in pairs})
        work = self._clustering([self._whole.key(rank) for rank in ranks], [self._name(rank) for rank in ranks], local)
        work.run()
        for at, rank in enumerate(ranks):
            self.group_of[rank] = ranks[work.group_of[at]]
        for one, other in work.joins:
            home, word = self.group_of[ranks[one]], self._own_word(work, one, other)
            self.joins.setdefault(home, []).append((ranks[one], ranks[other], word))

    def _name(self, rank: int) -> str:
        return self._ids[int(self._whole.first[rank])] if self._decisions else ""

    def _clustering(self, keys: list[Keys], names: list[str], pairs: list[tuple[int, int]]) -> Clustering:
        fixed = fixed_by(self._decisions, names) if self._decisions else None
        if fixed is None:
            return Clustering(keys, pairs, self._weights)
        work = FixedClustering(keys, pairs, self._weights, fixed.names, fixed)
        work.tie(fixed.one)
        return work

    def _own_word(self, work: Clustering, one: int, other: int) -> str:
        """Only what cannot be said again from the keys is kept."""
        return work.said(one, other) if self._decisions else ""


class Streamed:
    """What `Resolution` says, one thing after another, in the same order."""

    def __init__(self, whole: Kept, noted: _Noted, grouping: _Grouping, ids: Sequence[str], weights: Weights) -> None:
        import numpy as np

        self.ids = ids
        self._whole, self._noted, self._weights = whole, noted, weights
        self._joins = grouping.joins
        self._group_of = np.array(grouping.group_of, np.int64)
        """Of each rank."""
        _, first, inverse = np.unique(self._group_of[whole.rank_of], return_index=True, return_inverse=True)
        self._first = first[inverse]
        """Of each place, the first place of its group."""

    def groups(self) -> Iterator[Group]:
        """Every record once, singles included; by their first place."""
        import numpy as np

        order = np.argsort(self._first, kind="stable")
        apart: list[Group] = []
        for together in np.split(order, np.flatnonzero(np.diff(self._first[order])) + 1) if len(order) else ():
            group, *others = self._told(together.tolist())
            while apart and apart[0].places < group.places:
                yield apart.pop(0)
            yield group
            apart = sorted((*apart, *others), key=lambda one: one.places)
        yield from apart

    def _told(self, places: list[int]) -> list[Group]:
        ranks = {int(self._whole.rank_of[at]) for at in places}
        if len(places) == 1:
            return [Group(tuple(places), ())]
        if len(ranks) > 1:
            return [Group(tuple(places), self._reasons(int(self._group_of[min(ranks)])))]
        if self._copies_verdict(min(ranks)) == "same":
            return [Group(tuple(places), (COPIES,))]
        return [Group((at,), ()) for at in places]

    def _copies_verdict(self, rank: int) -> str:
        return self._judged(rank, rank).verdict

    def _reasons(self, group: int) -> tuple[str, ...]:
        return tuple(said or self._said(one, other) for one, other, said in self._joins[group])

    def _said(self, one: int, other: int) -> str:
        judgement = self._judged(one, other)
        return f"{judgement.score:.1f}: {judgement.why()}"

    def _judged(self, one: int, other: int) -> Judgement:
        return judged(self._whole.key(one), self._whole.key(other), self._weights)

    def grey(self) -> list[Pair]:
        """As `Resolution.grey`: between the first records of their groups, the surest first."""
        pairs = [
            Pair(one, other, judged(self._whole.key(ranks[0]), self._whole.key(ranks[1]), self._weights))
            for one, other, ranks in self._between()
        ]
        return sorted((*pairs, *self._copies_apart()), key=lambda pair: (-round(pair.judgement.score, 6), pair.one, pair.other))

    def _between(self) -> Iterator[tuple[int, int, tuple[int, int]]]:
        """The best pair of ranks between two groups, with the first places of these."""
        import numpy as np

        places = np.sort(self._first[self._whole.first[self._noted.pairs]], axis=1)
        order = np.lexsort((-self._noted.scores, places[:, 1], places[:, 0]))
        last = (-1, -1)
        for at in order.tolist():
            one, other = (int(place) for place in places[at])
            if one != other and last != (one, other):
                last = (one, other)
                first, second = self._noted.pairs[at].tolist()
                yield one, other, (first, second)

    def _copies_apart(self) -> Iterator[Pair]:
        import numpy as np

        counts = np.bincount(self._whole.rank_of, minlength=len(self._whole))
        alone = np.bincount(self._first, minlength=len(self._first))[self._first[self._whole.first]] == counts
        for rank in np.flatnonzero((counts > 1) & alone).tolist():
            if (judgement := self._judged(rank, rank)).verdict == "unsure":
                first, *others = np.flatnonzero(self._whole.rank_of == rank).tolist()
                yield from (Pair(first, other, judgement) for other in others)

    def related(self) -> list[Related]:
        """As `Resolution.related`."""
        found: dict[tuple[int, int], Relation] = {}
        for ranks in self._noted.related:
            one, other = (int(self._first[self._whole.first[rank]]) for rank in ranks[:2])
            if one != other:
                found.setdefault((min(one, other), max(one, other)), ranks[2] if one < other else ranks[2].turned())
        return [Related(one, other, relation) for (one, other), relation in sorted(found.items(), key=lambda pair: pair[0])]
