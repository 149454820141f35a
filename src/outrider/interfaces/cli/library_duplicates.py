"""`outrider library dedup`.

`outrider library split`, `merge` and `decisions`: say yourself which records are one work. No record changes.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, services, wait_for
from outrider.interfaces.cli.terminal import Progress, console, note, plain, table

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.state.decisions import Decision
    from outrider.usecases.decisions import RecordedDecision
    from outrider.usecases.deduplicate import Work


SHOWN_REASONS = 3


def dedup_library(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be one work.")] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find records of the library that are one work, and remember it for searches to come. No record changes.

    What was split by hand stays apart. Undo it with `outrider library split ID` or `outrider library decisions --forget ID`.
    """
    from outrider.usecases.deduplicate import remember_works, resolve_library

    made = services(library)
    with Progress("reading", quiet=as_json) as bar, resolve_library(bar.show) as read:
        wait_for(read.read(made))
        works = list(read.works())
    new = sum(not work.remembered for work in works)
    if not dry_run:
        wait_for(remember_works(made, works))
    if as_json:
        _print_works(works, read.records, remembered=0 if dry_run else new)
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


def _print_works(works: list[Work], records: int, remembered: int) -> None:
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


WhyOption = Annotated[str, typer.Option("--why", help="A word on the reason, kept with the decision.")]
ByOption = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who decides; your user name by default.")]


def split(
    doc_id: Annotated[str, typer.Argument(metavar="ID", help="A record that is shown as a duplicate, or that has one.")],
    others: Annotated[list[str] | None, typer.Argument(metavar="[ID...]", help="Keep it apart from these only.")] = None,
    why: WhyOption = "",
    by: ByOption = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep a record apart: from others by their ids, or alone, whatever searches would take for the same work."""
    done = _decided("split", [doc_id, *(others or ())], by, why, library)
    apart = f"kept apart from {', '.join(others)}" if others else "stands alone"
    _tell(done, f"{doc_id} {apart}", as_json)


def merge(
    doc_ids: Annotated[list[str], typer.Argument(metavar="ID ID...", help="Records that are one work.")],
    why: WhyOption = "",
    by: ByOption = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take records for one work from now on, whatever evidence says; `split` undoes it."""
    _tell(_decided("merge", doc_ids, by, why, library), f"{', '.join(doc_ids)} are one work", as_json)


def decisions(
    forget: Annotated[str | None, typer.Option("--forget", metavar="ID", help="Forget all that was decided of a record.")] = None,
    by: ByOption = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what was merged and split, by whom and when; or forget what was decided of a record."""
    if forget is not None:
        _tell(_decided("forget", [forget], by, "", library), f"nothing is decided of {forget} any more", as_json)
        return
    found = _log(library)
    if as_json:
        _print_json([one.model_dump(mode="json") for one in found])
        return
    listing = table("when", "by", "what", "ids", "why")
    for one in found:
        listing.add_row(plain(one.at[:19]), plain(one.by), one.what, plain(", ".join(one.ids)), plain(one.why))
    if found:
        console().print(listing)
    note(f"{len(found):,} decision" + ("s" if len(found) != 1 else ""))


def _log(uri: str | None) -> tuple[Decision, ...]:
    made = services(uri)

    async def read() -> tuple[Decision, ...]:
        return await (await made.library()).decisions()

    return wait_for(read())


def _decided(what: Literal["merge", "split", "forget"], ids: list[str], by: str | None, why: str, uri: str | None) -> RecordedDecision:
    from outrider.usecases.decisions import record_decision

    return wait_for(record_decision(services(uri), what, ids, by, why))


def _tell(done: RecordedDecision, said: str, as_json: bool) -> None:
    if as_json:
        _print_json({**done.decision.model_dump(mode="json"), "unknown": list(done.unknown)})
        return
    console().print(plain(said))
    for doc_id, title in done.titles.items():
        console().print(plain(f"  {doc_id}  {title}", "dim"), soft_wrap=True)
    if done.unknown:
        note(f"Not in the library, remembered for searches that find it: {', '.join(done.unknown)}")


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
