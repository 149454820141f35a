"""Union-find: disjoint groups of numbers that pairs connect."""

from __future__ import annotations

from collections.abc import Sequence


class Groups:
    """Disjoint groups of the numbers below `size`, each alone at first (Tarjan's union-find with path halving)."""

    def __init__(self, size: int) -> None:
        self._leader = list(range(size))
        self._size = [1] * size

    def root(self, at: int) -> int:
        """The smallest member of the group of `at`."""
        while self._leader[at] != at:
            self._leader[at] = self._leader[self._leader[at]]
            at = self._leader[at]
        return at

    def together(self, one: int, other: int) -> bool:
        return self.root(one) == self.root(other)

    def size(self, at: int) -> int:
        return self._size[self.root(at)]

    def join(self, one: int, other: int) -> None:
        first, second = sorted((self.root(one), self.root(other)))
        if first != second:
            self._leader[second] = first
            self._size[first] += self._size[second]

    def members(self) -> Sequence[list[int]]:
        """Every number once: groups ordered by their smallest member, members in ascending order."""
        groups: dict[int, list[int]] = {}
        for at in range(len(self._leader)):
            groups.setdefault(self.root(at), []).append(at)
        return list(groups.values())
