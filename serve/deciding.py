"""Merging and splitting works by hand, for the command and the Python functions. Records stay as they are; a decision is remembered."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from outrider.state.decisions import Decision, Decisions
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from outrider.services import Services

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
    conflicts = Decisions.of((*before, decision)).conflicts()
    if conflicts and conflicts != Decisions.of(before).conflicts():
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
