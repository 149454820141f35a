"""`outrider.merge` and `split`: decisions of a person about which records are one work."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from outrider.runtime.background_loop import run_in_background
from outrider.services import open_services
from outrider.state.decisions import Decision, Decisions
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from outrider.services import Services

MAX_IDS, MAX_CHARS = 100, 1_000
MIN_IDS = {"merge": 2, "split": 1, "forget": 1}


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A decision as the library remembers it. Records stay as they are."""

    decision: Decision
    titles: dict[str, str]
    """By id, of records in the library."""
    unknown: tuple[str, ...]
    """Ids without a record in the library: the decision counts for records that searches find under them."""


async def asplit(
    doc_id: str,
    *others: str,
    why: str = "",
    by: str | None = None,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> RecordedDecision:
    """Do the same as `outrider library split`: keep a record separate from `others`, or, without them, from every other record.

    The library remembers who decided (`by`, the user's name by default) and when; records stay as they are. Raises `BadRequest`,
    `LibraryMissing`.
    """
    with open_services(services, library) as opened:
        return await record_decision(opened, "split", [doc_id, *others], by, why)


def split(doc_id: str, *others: str, **options: Any) -> RecordedDecision:
    """`asplit` for callers without an event loop."""
    return run_in_background(asplit(doc_id, *others, **options))


async def amerge(
    *doc_ids: str,
    why: str = "",
    by: str | None = None,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> RecordedDecision:
    """Do the same as `outrider library merge`: take records for one work from now on, whatever the evidence; `asplit` undoes it.

    Raises `BadRequest`, also for a merge of records that were split, and `LibraryMissing`.
    """
    with open_services(services, library) as opened:
        return await record_decision(opened, "merge", doc_ids, by, why)


def merge(*doc_ids: str, **options: Any) -> RecordedDecision:
    """`amerge` for callers without an event loop."""
    return run_in_background(amerge(*doc_ids, **options))


async def record_decision(
    services: Services, what: Literal["merge", "split", "forget"], ids: Sequence[str], by: str | None = None, why: str = ""
) -> RecordedDecision:
    """Record a decision in the library of the services; `by` is the user's name where it is None.

    Raises `BadRequest` for invalid ids, and for a merge of records that were split; `LibraryMissing` where there is no library.
    """
    _check_ids(what, ids)
    library = await services.library()
    if by is None:
        by = ""
        with suppress(OSError, KeyError, ImportError):  # a container may have no name for its user
            by = getpass.getuser()
    now = datetime.fromtimestamp(services.clock(), UTC).isoformat(timespec="seconds")
    decision = Decision(what=what, ids=tuple(ids), by=by, at=now, why=why)
    before = await library.decisions()
    conflicts = Decisions.from_log((*before, decision)).conflicts()
    if conflicts and conflicts != Decisions.from_log(before).conflicts():
        raise BadRequest(f"this would go against {conflicts[0]}; undo one of them first with: outrider library decisions --forget ID")
    titles = {record.doc_id: record.title for record in await library.fetch(list(ids))}
    await library.decide(decision)
    return RecordedDecision(decision, titles, tuple(doc_id for doc_id in ids if doc_id not in titles))


def _check_ids(what: str, ids: Sequence[str]) -> None:
    shown = ", ".join(f"{doc_id[:80]!r}" for doc_id in ids) or "nothing"
    if len({*ids}) < MIN_IDS[what]:
        needs = "the ids of two or more different records" if what == "merge" else "the id of a record"
        raise BadRequest(f"{what} takes {needs}, not {shown}")
    if len({*ids}) < len(ids):
        raise BadRequest(f"{what} was given one id twice: {shown}")
    if len(ids) > MAX_IDS:
        raise BadRequest(f"{what} takes {MAX_IDS} ids at most, not {len(ids)}")
    for doc_id in ids:
        if not doc_id.strip() or len(doc_id) > MAX_CHARS or not doc_id.isprintable():
            raise BadRequest(f"{doc_id[:80]!r} is no id of a record; search and `outrider library list` show them")
