"""Deduplicating files from a program: what `outrider dedup --json` prints, as an object.

Which records of the library are one work, found all at once and remembered as merges; records themselves stay as they are.

Merging and splitting works by hand, for the command and the Python functions. Records stay as they are; a decision is remembered.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from outrider.ingest.deduplicate_files import deduplicate_files
from outrider.ingest.entry import ReadOptions
from outrider.linkage.disk_keys import OnStep, no_progress
from outrider.linkage.keys import make_keys
from outrider.linkage.out_of_core import OutOfCoreResolver
from outrider.linkage.resolve import Related
from outrider.settings.load import load
from outrider.state.decisions import Decision, Decisions
from outrider.state.errors import BadRequest
from outrider.state.records import Record

if TYPE_CHECKING:
    from outrider.services import Services


@dataclass(frozen=True, slots=True)
class FilesDeduplicated:
    """Ids are the records' own, as `outrider dedup` prints them."""

    groups: tuple[tuple[str, ...], ...]
    """Every record once, singles included, in the order of the files."""
    reasons: tuple[tuple[str, ...], ...]
    """In parallel: why each group is one work; empty for a single."""
    works: tuple[Record, ...]
    """In parallel: each group as one record; `metadata["merged"]` names all of several."""
    unsure: tuple[tuple[str, str], ...]
    """Pairs that stayed apart and may be one work, the surest first."""
    related: tuple[tuple[str, str, str], ...]
    """(id, relation, id) of what belongs together and is not one work, such as a preprint and its article."""
    notes: tuple[str, ...]
    """What could not be read, and how ids were made."""


def files_deduplicated(files: Sequence[str | PathLike[str]], columns: Mapping[str, str]) -> FilesDeduplicated:
    """Raises `BadRequest`."""
    bounds = load().settings.ingest
    options = ReadOptions(columns=dict(columns), max_bytes=bounds.max_bytes, max_pages=bounds.max_pages)
    with deduplicate_files([Path(file) for file in files], options) as found:
        groups = list(found.groups())
        return FilesDeduplicated(
            groups=tuple(tuple(found.ids[place] for place in group.places) for group in groups),
            reasons=tuple(group.reasons for group in groups),
            works=tuple(found.work(group) for group in groups),
            unsure=tuple((found.ids[pair.one], found.ids[pair.other]) for pair in found.unsure()),
            related=tuple(_related(found.ids, one) for one in found.related()),
            notes=found.notes,
        )


def _related(ids: Sequence[str], said: Related) -> tuple[str, str, str]:
    first, second = (said.one, said.other) if said.relation.forward else (said.other, said.one)
    return ids[first], said.relation.kind, ids[second]


BY = "outrider library dedup"
_IDS_A_DECISION = 100
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
        self._decisions = Decisions.from_log(await library.decisions())
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
    for start in range(0, len(others), _IDS_A_DECISION - 1):
        why = work.reasons[0] if work.reasons else ""
        yield Decision(what="merge", ids=(first, *others[start : start + _IDS_A_DECISION - 1]), by=BY, at=now, why=why)


MOST_IDS, MOST_CHARS = 100, 1_000
FEWEST = {"merge": 2, "split": 1, "forget": 1}


@dataclass(frozen=True, slots=True)
class Decided:
    """What is remembered now."""

    decision: Decision
    titles: dict[str, str]
    """By id, of those that the library holds."""
    unknown: tuple[str, ...]
    """Ids that the library does not hold: the decision counts for what searches find under them."""


async def decided(
    services: Services, what: Literal["merge", "split", "forget"], ids: Sequence[str], by: str | None = None, why: str = ""
) -> Decided:
    """Remembers a decision in the library of the services.

    Raises `BadRequest` for ids that cannot be ones, and for a merge that would bring together what was split; `LibraryMissing` where
    there is no library.
    """
    _check(what, ids)
    library = await services.library()
    now = datetime.fromtimestamp(services.clock(), UTC).isoformat(timespec="seconds")
    decision = Decision(what=what, ids=tuple(ids), by=_user() if by is None else by, at=now, why=why)
    before = await library.decisions()
    conflicts = Decisions.from_log((*before, decision)).conflicts()
    if conflicts and conflicts != Decisions.from_log(before).conflicts():
        raise BadRequest(f"this would go against {conflicts[0]}; undo one of them first with: outrider library decisions --forget ID")
    held = {record.doc_id: record.title for record in await library.fetch(list(ids))}
    await library.decide(decision)
    return Decided(decision, held, tuple(one for one in ids if one not in held))


def _check(what: str, ids: Sequence[str]) -> None:
    if len({*ids}) < FEWEST[what]:
        raise BadRequest(
            f"{what} takes {'the ids of two or more different records' if what == 'merge' else 'the id of a record'}, not {_shown(ids)}"
        )
    if len({*ids}) < len(ids):
        raise BadRequest(f"{what} was given one id twice: {_shown(ids)}")
    if len(ids) > MOST_IDS:
        raise BadRequest(f"{what} takes {MOST_IDS} ids at most, not {len(ids)}")
    for one in ids:
        if not one.strip() or len(one) > MOST_CHARS or not one.isprintable():
            raise BadRequest(f"{one[:80]!r} is no id of a record; search and `outrider library list` show them")


def _shown(ids: Sequence[str]) -> str:
    return ", ".join(f"{one[:80]!r}" for one in ids) or "nothing"


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may have no name for who runs it
        return ""
