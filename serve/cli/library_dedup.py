"""`outrider library dedup`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.serve.cli.options import JsonOption, LibraryOption, services, wait_for
from outrider.serve.cli.progress import Progress
from outrider.serve.cli.terminal import console, note, plain

if TYPE_CHECKING:
    from outrider.serve.deduplicating import Work
    from outrider.services import Services

SHOWN_REASONS = 3


def dedup_library(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be one work.")] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find records of the library that are one work, and remember it for searches to come. No record changes.

    What was split by hand stays apart. Undo it with `outrider library split ID` or `outrider library decisions --forget ID`.
    """
    from outrider.serve.deduplicating import reading, remember

    made = services(library)
    with Progress("reading", quiet=as_json) as bar, reading(bar.show) as read:
        wait_for(read.read(made))
        works = list(read.works())
    new = sum(not work.remembered for work in works)
    if not dry_run:
        wait_for(remember(made, works))
    if as_json:
        _print_json(works, read.records, remembered=0 if dry_run else new)
        return
    titles = wait_for(_titles(made, works))
    for work in works:
        _show(work, titles)
    several = sum(len(work.ids) for work in works)
    console().print(plain(f"{several:,} of {read.records:,} records are {len(works):,} works.", "bold"))
    note(_told(new, dry_run=dry_run))


async def _titles(made: Services, works: list[Work]) -> dict[str, str]:
    opened = await made.library()
    return {record.doc_id: record.title for record in await opened.brief([work.ids[0] for work in works])}


def _told(new: int, *, dry_run: bool) -> str:
    if not new:
        return "All of that is remembered already." if not dry_run else "Nothing new to remember."
    if dry_run:
        return f"{new:,} works are new; without --dry-run they are remembered."
    return f"{new:,} works are remembered; `outrider library split ID` undoes one."


def _print_json(works: list[Work], records: int, remembered: int) -> None:
    said = {
        "records": records,
        "remembered": remembered,
        "groups": [work.ids for work in works],
        "reasons": [work.reasons for work in works],
    }
    sys.stdout.write(json.dumps(said, ensure_ascii=False) + "\n")


def _show(work: Work, titles: dict[str, str]) -> None:
    out = console()
    known = " (remembered)" if work.remembered else ""
    out.print(plain((titles.get(work.ids[0]) or "without a title") + known, "bold"))
    out.print(plain("  " + ", ".join(work.ids)))
    for reason in work.reasons[:SHOWN_REASONS]:
        out.print(plain(reason, "dim"))
    if len(work.reasons) > SHOWN_REASONS:
        out.print(plain(f"and {len(work.reasons) - SHOWN_REASONS} more", "dim"))
