"""`outrider library dedup`, `split`, `merge` and `decisions`.

They record which records of the library are one work. No record changes.
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, call_library, open_services, wait_for
from outrider.interfaces.cli.terminal import Progress, console, count, note, plain, print_json, show_work, table

WhyOption = Annotated[str, typer.Option("--why", help="The reason, stored with the decision.")]
ByOption = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who decides. Default: your user name.")]


def dedup_library(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which records would be one work.")] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find records of the library that are one work, and remember it for later searches. No record changes.

    Records that were split by hand stay apart. Undo it with `outrider library split ID` or `outrider library decisions --forget ID`.
    """
    from outrider.usecases.deduplicate import remember_works, resolve_library

    services = open_services(library)
    with Progress("reading", quiet=as_json) as bar, resolve_library(bar.show) as source:
        wait_for(source.read(services))
        works = list(source.works())
    new = sum(not work.remembered for work in works)
    if not dry_run:
        wait_for(remember_works(services, works))
    if as_json:
        groups, reasons = [work.ids for work in works], [work.reasons for work in works]
        print_json({"records": source.records, "remembered": 0 if dry_run else new, "groups": groups, "reasons": reasons})
        return

    async def read_titles() -> dict[str, str]:
        opened = await services.library()
        return {record.doc_id: record.title for record in await opened.brief([work.ids[0] for work in works])}

    titles = wait_for(read_titles())
    for work in works:
        remembered = " (remembered)" if work.remembered else ""
        show_work((titles.get(work.ids[0]) or "without a title") + remembered, work.ids, work.reasons)
    records = sum(len(work.ids) for work in works)
    console().print(plain(f"{records:,} of {source.records:,} records are {len(works):,} works.", "bold"))
    if not new:
        note("Nothing new to remember." if dry_run else "All of that is remembered already.")
    elif dry_run:
        note(f"{new:,} works are new; without --dry-run they are remembered.")
    else:
        note(f"{new:,} works are remembered; `outrider library split ID` undoes one.")


def split(
    doc_id: Annotated[str, typer.Argument(metavar="ID", help="A record that is shown as a duplicate, or that has one.")],
    others: Annotated[list[str] | None, typer.Argument(metavar="[ID...]", help="Separate it from these records only.")] = None,
    why: WhyOption = "",
    by: ByOption = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Separate a record from others by their ids, or from all, even if searches would take them for the same work."""
    outcome = f"separated from {', '.join(others)}" if others else "separated from all other records"
    _decide("split", [doc_id, *(others or ())], by, why, library, f"{doc_id} {outcome}", as_json=as_json)


def merge(
    doc_ids: Annotated[list[str], typer.Argument(metavar="ID ID...", help="Records that are one work.")],
    why: WhyOption = "",
    by: ByOption = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Treat records as one work from now on, whatever the evidence; `split` undoes it."""
    _decide("merge", doc_ids, by, why, library, f"{', '.join(doc_ids)} are one work", as_json=as_json)


def decisions(
    forget: Annotated[str | None, typer.Option("--forget", metavar="ID", help="Forget all decisions about a record.")] = None,
    by: ByOption = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """List merges and splits, who made them and when; or forget those of a record."""
    if forget is not None:
        _decide("forget", [forget], by, "", library, f"no decision about {forget} is left", as_json=as_json)
        return
    log = call_library(library, lambda opened: opened.decisions())
    if as_json:
        print_json([decision.model_dump(mode="json") for decision in log])
        return
    listing = table("when", "by", "what", "ids", "why")
    for entry in log:
        listing.add_row(plain(entry.at[:19]), plain(entry.by), entry.what, plain(", ".join(entry.ids)), plain(entry.why))
    if log:
        console().print(listing)
    note(count(len(log), "decision"))


def _decide(
    what: Literal["merge", "split", "forget"], ids: list[str], by: str | None, why: str, uri: str | None, message: str, *, as_json: bool
) -> None:
    from outrider.usecases.deduplicate import record_decision

    result = wait_for(record_decision(open_services(uri), what, ids, by, why))
    if as_json:
        print_json({**result.decision.model_dump(mode="json"), "unknown": list(result.unknown)})
        return
    console().print(plain(message))
    for doc_id, title in result.titles.items():
        console().print(plain(f"{doc_id} {title}", "dim", indent=2), soft_wrap=True)
    if result.unknown:
        note(f"Not in the library, remembered for searches that find it: {', '.join(result.unknown)}")
