"""Keys on disk and their candidate pairs, with about 1 KB of memory a record.

1. Keys are written to a file; each distinct key gets a rank in the order of titles.
2. Hashes of block names are partitioned into files, so that each file holds whole blocks (as in a Grace hash join).
3. Pairs are generated and screened one partition at a time.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from outrider.linkage.blocking import (
    FEW,
    LARGE,
    LARGE_WEAK,
    NEAR,
    NEAR_WEAK,
    flatten_names,
    make_block_names,
    merge_pairs,
    pair_within_blocks,
)
from outrider.linkage.normalized_record import (
    DIGEST_BYTES,
    TITLE_BYTES,
    Keys,
    decode_content,
    decode_keys,
    encode_keys,
    make_keys,
    sort_key,
)
from outrider.linkage.prefilter import Marks, Screen, make_marks
from outrider.runtime.task_map import TaskMap
from outrider.state.records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OnStep = Callable[[str, int, int | None], None]
"""Called with the step, the number of items done, and their total if known."""
PARTITIONS, PARTITION_KEYS = 16, 8_192
"""Most partitions, and keys below which one is enough: each takes a millisecond or two, however few keys it has."""
CHUNK = 20_000
"""Records between two reports while they are read."""
BLOCKED_AT_ONCE = 2_000
"""Keys that are put into blocks together."""
One = TypeVar("One")
CACHED_KEYS = 20_000
"""Size of the cache of decoded keys, about 3 KB each."""


def no_progress(step: str, count: int, total: int | None) -> None:
    """Default for callers that show no progress."""


class KeyFile:
    """A file that is written once, in order, and then read at any place. The caller closes it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b")
        self._starts = array("Q", [0])
        self.at = lru_cache(maxsize=CACHED_KEYS)(self._read)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def add(self, encoded_key: bytes) -> None:
        """Append the bytes that `encode_keys` returned."""
        self._file.write(encoded_key)
        self._starts.append(self._starts[-1] + len(encoded_key))

    def __iter__(self) -> Iterator[bytes]:
        """The bytes that were added, in order; nothing may be read at a place meanwhile."""
        self._file.seek(0)
        for start, end in pairwise(self._starts):
            yield self._file.read(end - start)

    def read(self, at: int) -> bytes:
        """The bytes that were added at this place."""
        self._file.seek(self._starts[at])
        return self._file.read(self._starts[at + 1] - self._starts[at])

    def _read(self, at: int) -> Keys:
        return decode_keys(self.read(at))

    def close(self) -> None:
        self.at.cache_clear()
        self._file.close()


@dataclass(slots=True)
class SortedKeys:
    """Distinct keys in a file. Records with equal keys share a rank; ranks follow the order of titles."""

    file: KeyFile
    rank_of: NDArray[np.int64]
    """The rank of each place."""
    first: NDArray[np.int64]
    """The first place of each rank."""
    linked: frozenset[tuple[str, str]]
    """(scheme, value) of every record that another one states a relation to."""

    def __len__(self) -> int:
        return len(self.first)

    def key(self, rank: int) -> Keys:
        return self.file.at(int(self.first[rank]))

    def read_encoded(self, rank: int) -> bytes:
        return self.file.read(int(self.first[rank]))

    def each(self) -> Iterator[tuple[int, Keys]]:
        """Every rank with its keys, in file order."""
        yield from ((rank, decode_keys(encoded_key)) for rank, encoded_key in self.each_encoded())

    def each_encoded(self) -> Iterator[tuple[int, bytes]]:
        """Every rank with its encoded keys, in file order."""
        first = set(self.first.tolist())
        yield from ((int(self.rank_of[place]), encoded_key) for place, encoded_key in enumerate(self.file) if place in first)


class EncodedKey(NamedTuple):
    encoded: bytes
    sort_key: bytes
    links: tuple[tuple[str, str, str], ...]


def encode_record_keys(records: Sequence[tuple[str, Record]], _: None) -> list[EncodedKey]:
    """The keys of records, each with the name that distinguishes it from equal ones, usually ""; a task of a `TaskMap`."""
    keys = []
    for name, record in records:
        key = make_keys(record)
        encoded_key = encode_keys(key)
        keys.append(EncodedKey(encoded_key, sort_key(key, name, encoded_key), key.links))
    return keys


class KeyCollector:
    """Collects keys one by one; `sort` then ranks them."""

    def __init__(self, path: Path, on_step: OnStep) -> None:
        self.file = KeyFile(path)
        self._sort_keys, self._on_step = bytearray(), on_step
        self._linked = set[tuple[str, str]]()

    def add(self, key: EncodedKey) -> None:
        self._linked.update((scheme, value) for _, scheme, value in key.links)
        self.file.add(key.encoded)
        self._sort_keys += key.sort_key
        if len(self.file) % CHUNK == 0:
            self._on_step("reading", len(self.file), None)

    def sort(self) -> SortedKeys:
        import numpy as np

        order = np.frombuffer(self._sort_keys, f"S{TITLE_BYTES + DIGEST_BYTES}")
        _, first, rank_of = np.unique(order, return_index=True, return_inverse=True)
        return SortedKeys(self.file, rank_of, first, frozenset(self._linked))


def find_pairs(keys: SortedKeys, folder: Path, on_step: OnStep, tasks: TaskMap) -> NDArray[np.int64]:
    """Candidate pairs of ranks, of shape (pairs, 2), in order. `tasks` puts the keys into blocks."""
    import numpy as np

    if len(keys) <= FEW:
        return np.array(list(combinations(range(len(keys)), 2)), np.int64).reshape(-1, 2)
    blocks = _PartitionedBlocks(folder, min(PARTITIONS, 1 + len(keys) // PARTITION_KEYS))
    screen = blocks.write(keys, on_step, tasks)
    candidates = [np.empty((0, 2), np.int64)]
    for number in range(blocks.count):
        on_step("looking for pairs", number, blocks.count)
        strong, weak = blocks.read("strong", number), blocks.read("weak", number)
        pairs = merge_pairs(
            pair_within_blocks(*strong, blocks.cuts, LARGE, NEAR), pair_within_blocks(*weak, blocks.cuts, LARGE_WEAK, NEAR_WEAK)
        )
        candidates.append(screen.filter_pairs(pairs))
    return merge_pairs(*candidates)


class _BlockedKeys(NamedTuple):
    """What pairs are found by, of some keys; names with their ranks, the others parallel to `ranks`."""

    ranks: list[int]
    cuts: NDArray[np.uint64]
    strong: tuple[NDArray[np.uint64], NDArray[np.int64]]
    weak: tuple[NDArray[np.uint64], NDArray[np.int64]]
    marks: list[Marks]
    titles: list[str]
    hashed: int
    """The hash of a constant: names of processes that hash differently do not compare."""


def _block_keys(keys: Sequence[tuple[int, bytes]], common: Mapping[str, int]) -> _BlockedKeys:
    """Of encoded keys with their ranks; `common` is the number of titles with each word. A task of a `TaskMap`."""
    import numpy as np

    decoded = [(rank, decode_keys(encoded_key)) for rank, encoded_key in keys]
    names = [(rank, make_block_names(key, common)) for rank, key in decoded]
    return _BlockedKeys(
        [rank for rank, _ in keys],
        np.array([one.cuts for _, one in names], np.uint64),
        flatten_names((rank, one.strong) for rank, one in names),
        flatten_names((rank, one.weak) for rank, one in names),
        [make_marks(key) for _, key in decoded],
        [key.title.compact for _, key in decoded],
        hash("outrider"),
    )


@dataclass(slots=True)
class _PartitionedBlocks:
    folder: Path
    count: int
    """Of partitions."""
    cuts: NDArray[np.uint64] = field(init=False)

    def write(self, keys: SortedKeys, on_step: OnStep, tasks: TaskMap) -> Screen:
        import numpy as np

        self.cuts = np.zeros((len(keys), 2), np.uint64)
        common = Counter(word for _, encoded_key in keys.each_encoded() for word in decode_content(encoded_key))
        titles, done, hashes = _TitleTable(len(keys)), 0, set[int]()
        screen = Screen.empty(titles, len(keys))
        for chunk in tasks(_block_keys, split_chunks(keys.each_encoded(), BLOCKED_AT_ONCE), common):
            hashes.add(chunk.hashed)
            if len(hashes) > 1:
                raise RuntimeError("the processes that look for duplicates hash texts differently; start them with one PYTHONHASHSEED")
            self.cuts[chunk.ranks] = chunk.cuts
            self._write("strong", *chunk.strong)
            self._write("weak", *chunk.weak)
            screen.put(chunk.ranks, chunk.marks)
            for rank, title in zip(chunk.ranks, chunk.titles, strict=True):
                titles.put(rank, title)
            done += len(chunk.ranks)
            on_step("putting into blocks", done, len(keys))
        return screen

    def _write(self, kind: str, names: NDArray[np.uint64], ranks: NDArray[np.int64]) -> None:
        import numpy as np

        parts = (names % np.uint64(self.count)).astype(np.int64)
        for number in range(self.count):
            mine = parts == number
            with self._path(kind, number).open("ab") as file:
                # not `tofile`, whose error on a full disk has no number
                file.write(np.stack([names[mine], ranks[mine].astype(np.uint64)], axis=1).tobytes())

    def read(self, kind: str, number: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        import numpy as np

        path = self._path(kind, number)
        both = np.fromfile(path, np.uint64).reshape(-1, 2) if path.exists() else np.empty((0, 2), np.uint64)
        return both[:, 0].copy(), both[:, 1].astype(np.int64)

    def _path(self, kind: str, number: int) -> Path:
        return self.folder / f"{kind}-{number}"


class _TitleTable:
    """Compact titles by rank in one buffer, without the overhead of one `str` object each."""

    def __init__(self, size: int) -> None:
        self._text = bytearray()
        self._starts, self._ends = array("Q", bytes(8 * size)), array("Q", bytes(8 * size))

    def put(self, rank: int, title: str) -> None:
        self._starts[rank] = len(self._text)
        self._text += title.encode("utf-8", "surrogatepass")
        self._ends[rank] = len(self._text)

    def __call__(self, rank: int) -> str:
        return self._text[self._starts[rank] : self._ends[rank]].decode("utf-8", "surrogatepass")


def split_chunks(each: Iterable[One], size: int) -> Iterator[Sequence[One]]:
    rest = iter(each)
    while chunk := list(islice(rest, size)):
        yield chunk
