"""Which records of the library are one work, found all at once and remembered as merges; records themselves stay as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from outrider.identity.keys import make_keys
from outrider.identity.streamed import OutOfCoreResolver
from outrider.identity.streaming import OnStep, no_progress
from outrider.state.decisions import Decision, Decisions

if TYPE_CHECKING:
    from outrider.services import Services

BY = "outrider library dedup"
MOST_IDS = 100
"""That one decision names; a larger group takes several, which share an id."""
AT_ONCE = 1_000
"""Decisions of one commit."""


@dataclass(frozen=True, slots=True)
class Work:
    """Records of the library that are one work."""

    ids: tuple[str, ...]
    """In the library's order; the first is the smallest."""
    reasons: tuple[str, ...]
    remembered: bool
    """Whether they already are one by earlier decisions."""


class ReadLibrary:
    """What was read of a library: keys on disk, about a KB of memory a record."""

    def __init__(self, folder: Path, on_step: OnStep) -> None:
        self._folder, self._on_step = folder, on_step
        self.records = 0
        self._many: OutOfCoreResolver | None = None
        self._decisions = Decisions()

    async def read(self, services: Services) -> None:
        """Raises `LibraryError`."""
        library = await services.library()
        self._decisions = Decisions.of(await library.decisions())
        self._many = OutOfCoreResolver(self._folder, self._on_step, decisions=self._decisions)
        async for record in library.scan():
            self._many.add(record.doc_id, make_keys(record))
            self.records += 1

    def works(self) -> Iterator[Work]:
        """Those of several records; what a person decided is respected."""
        if self._many is None:
            return
        found = self._many.resolve()
        for group in found.groups():
            if len(group.places) > 1:
                ids = tuple(found.ids[place] for place in group.places)
                homes = {self._decisions.merged.get(one, one) for one in ids}
                yield Work(ids, group.reasons, len(homes) == 1)

    def close(self) -> None:
        if self._many is not None:
            self._many.close()


@contextmanager
def reading(on_step: OnStep = no_progress) -> Iterator[ReadLibrary]:
    with TemporaryDirectory(prefix="outrider-dedup-") as folder, closing(ReadLibrary(Path(folder), on_step)) as read:
        yield read


async def remember(services: Services, works: Sequence[Work]) -> int:
    """The works that are not remembered yet, as merges that `split` and `decisions --forget` undo; how many."""
    library = await services.library()
    now = datetime.fromtimestamp(services.clock(), UTC).isoformat(timespec="seconds")
    new = [work for work in works if not work.remembered]
    decided = [one for work in new for one in _decisions(work, now)]
    for start in range(0, len(decided), AT_ONCE):
        await library.decide(*decided[start : start + AT_ONCE])
    return len(new)


def _decisions(work: Work, now: str) -> Iterator[Decision]:
    first, others = work.ids[0], work.ids[1:]
    for start in range(0, len(others), MOST_IDS - 1):
        why = work.reasons[0] if work.reasons else ""
        yield Decision(what="merge", ids=(first, *others[start : start + MOST_IDS - 1]), by=BY, at=now, why=why)
