"""The keys of many records on disk, and the pairs of them worth judging; what stays in memory is about a KB for each record.

1. Keys go to a file; each record gets its rank in the order of titles.
2. Hashed names of blocks are dealt to files by their first bits, so that each file holds whole blocks (as in a Grace hash join).
3. File by file, pairs are found and screened.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from outrider.identity.blocking import FEW, LARGE, LARGE_WEAK, NEAR, NEAR_WEAK, flat, names_of, paired, united, word_counts
from outrider.identity.encoding import DIGEST_BYTES, TITLE_BYTES, encoded, place_of
from outrider.identity.key_file import KeyFile
from outrider.identity.keys import Keys
from outrider.identity.screening import Screen, marks_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OnStep = Callable[[str, int, int | None], None]
"""What is done, and so many of so many."""
FILES = 16
CHUNK = 20_000
One = TypeVar("One")


def said_nothing(doing: str, done: int, of: int | None) -> None:
    """For those who want no progress."""


@dataclass(slots=True)
class Kept:
    """Records that cannot be told apart are one here; each has a rank, in the order of titles."""

    file: KeyFile
    rank_of: NDArray[np.int64]
    """Of each record, by its place."""
    first: NDArray[np.int64]
    """Of each rank, the first place."""

    def __len__(self) -> int:
        return len(self.first)

    def key(self, rank: int) -> Keys:
        return self.file.at(int(self.first[rank]))

    def each(self) -> Iterator[tuple[int, Keys]]:
        """Every rank with its keys, in the order of the file."""
        ranks = self.rank_of.tolist()
        first = set(self.first.tolist())
        yield from ((ranks[place], key) for place, key in enumerate(self.file) if place in first)


class Keeping:
    """Takes keys one by one, then says what was `kept`."""

    def __init__(self, path: Path, on_step: OnStep) -> None:
        self.file = KeyFile(path)
        self._places, self._on_step = bytearray(), on_step

    def add(self, key: Keys, name: str) -> None:
        """The name sets apart what says the same; mostly ""."""
        said = encoded(key)
        self.file.add(said)
        self._places += place_of(key, name, said)
        if len(self.file) % CHUNK == 0:
            self._on_step("reading", len(self.file), None)

    def kept(self) -> Kept:
        import numpy as np

        order = np.frombuffer(self._places, f"S{TITLE_BYTES + DIGEST_BYTES}")
        _, first, rank_of = np.unique(order, return_index=True, return_inverse=True)
        return Kept(self.file, rank_of, first)


def pairs_of(kept: Kept, folder: Path, on_step: OnStep) -> NDArray[np.int64]:
    """Pairs of ranks worth judging, of shape (pairs, 2), in order."""
    import numpy as np

    if len(kept) <= FEW:
        return np.array(list(combinations(range(len(kept)), 2)), np.int64).reshape(-1, 2)
    dealt = _Dealt(folder)
    screen = dealt.deal(kept, on_step)
    found = [np.empty((0, 2), np.int64)]
    for number in range(FILES):
        on_step("looking for pairs", number, FILES)
        strong, weak = dealt.read("strong", number), dealt.read("weak", number)
        together = united(paired(*strong, dealt.cuts, LARGE, NEAR), paired(*weak, dealt.cuts, LARGE_WEAK, NEAR_WEAK))
        found.append(screen.worth_judging(together))
    return united(*found)


@dataclass(slots=True)
class _Dealt:
    folder: Path
    cuts: NDArray[np.uint64] = field(init=False)

    def deal(self, kept: Kept, on_step: OnStep) -> Screen:
        import numpy as np

        self.cuts = np.zeros((len(kept), 2), np.uint64)
        common = word_counts(key for _, key in kept.each())
        titles, done = _Titles(len(kept)), 0
        screen = Screen.empty(titles, len(kept))
        for chunk in chunks(kept.each(), CHUNK):
            ranks = [rank for rank, _ in chunk]
            named = [(rank, names_of(key, common)) for rank, key in chunk]
            self.cuts[ranks] = np.array([one.cuts for _, one in named], np.uint64)
            self._write("strong", *flat((rank, one.strong) for rank, one in named))
            self._write("weak", *flat((rank, one.weak) for rank, one in named))
            screen.put(ranks, [marks_of(key) for _, key in chunk])
            for rank, key in chunk:
                titles.put(rank, key.title.compact)
            done += len(chunk)
            on_step("putting into blocks", done, len(kept))
        return screen

    def _write(self, kind: str, names: NDArray[np.uint64], ranks: NDArray[np.int64]) -> None:
        import numpy as np

        parts = (names % np.uint64(FILES)).astype(np.int64)
        for number in range(FILES):
            mine = parts == number
            with self._path(kind, number).open("ab") as file:
                np.stack([names[mine], ranks[mine].astype(np.uint64)], axis=1).tofile(file)

    def read(self, kind: str, number: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        import numpy as np

        path = self._path(kind, number)
        both = np.fromfile(path, np.uint64).reshape(-1, 2) if path.exists() else np.empty((0, 2), np.uint64)
        return both[:, 0].copy(), both[:, 1].astype(np.int64)

    def _path(self, kind: str, number: int) -> Path:
        return self.folder / f"{kind}-{number}"


class _Titles:
    """Compact titles by rank, in one piece of memory."""

    def __init__(self, size: int) -> None:
        self._said = bytearray()
        self._starts, self._ends = array("Q", bytes(8 * size)), array("Q", bytes(8 * size))

    def put(self, rank: int, title: str) -> None:
        self._starts[rank] = len(self._said)
        self._said += title.encode("utf-8", "surrogatepass")
        self._ends[rank] = len(self._said)

    def __call__(self, rank: int) -> str:
        return self._said[self._starts[rank] : self._ends[rank]].decode("utf-8", "surrogatepass")


def chunks(each: Iterable[One], size: int) -> Iterator[Sequence[One]]:
    rest = iter(each)
    while chunk := list(islice(rest, size)):
        yield chunk
