"""`outrider review`: screening of records in an order that learns from the decisions"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.interfaces.cli.options import (
    AddressOption,
    JsonOption,
    LibraryOption,
    OfflineOption,
    OnOption,
    call_services,
    open_services,
    parse_columns,
    wait_for,
)
from outrider.interfaces.cli.terminal import Progress, console, count, data_output, note, one_line, plain, print_json, table
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.state.reviews import ConflictList, ImportReport, ReviewStatus

review_app = typer.Typer(help="Screen records for a review, alone or with others.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(metavar="REVIEW", help="The review's name, or its folder.")]
ByOption = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="The reviewer. Default: review.reviewer of the settings, then your name.")
]
MAX_SHOWN = 10


@review_app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="REVIEW", help="A name: letters, digits, dots, - and _.")],
    question: Annotated[
        str,
        typer.Option(
            "--question", "-q", metavar="TEXT", help="What the records should answer. It orders them until both classes are known."
        ),
    ] = "",
    reviewers: Annotated[
        int, typer.Option("--reviewers", metavar="N", help="Reviewers who decide on each record, without seeing each other.")
    ] = 1,
    reason: Annotated[
        list[str] | None, typer.Option("--reason", metavar="TEXT", help="A reason for exclusion to offer; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of everything that is drawn at random.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Begin a review."""
    from outrider.usecases.review import create_review

    def make(services: Services) -> Any:
        return create_review(services, name, question=question, reviewers=reviewers, reasons=reason or (), seed=seed)

    status = call_services(make)
    if as_json:
        print_json(status)
    else:
        note(f"Review {name} begun. To add records: outrider review import {name} FILE")


@review_app.command("import")
def import_(
    name: NameArgument,
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE...", help="A file (RIS, CSV, ... or .asreview), label:NAME, a thread, or a systematic run."),
    ],
    by: ByOption = None,
    labels: Annotated[bool, typer.Option("--labels/--no-labels", help="Whether labels of the records become decisions.")] = True,
    label_column: Annotated[
        str, typer.Option("--label-column", metavar="FIELD", help="The field of the label. Default: those that ASReview and Rayyan use.")
    ] = "",
    keep_duplicates: Annotated[bool, typer.Option("--keep-duplicates", help="Do not link records that describe one work.")] = False,
    columns: Annotated[list[str] | None, typer.Option("--map", metavar="FIELD=COLUMN", help="Columns of a table, as for ingest.")] = None,
    library: LibraryOption = None,
    offline: OfflineOption = False,
    as_json: JsonOption = False,
) -> None:
    """Add records, with the labels that they have. Duplicates are linked, and screened once."""
    from outrider.usecases.review import import_records
    from outrider.usecases.review_sources import SourceOptions

    options = SourceOptions(labels, label_column, parse_columns(columns or []))

    async def add(services: Services) -> list[ImportReport]:
        done: list[ImportReport] = []
        with Progress("reading", quiet=as_json) as bar:
            try:
                for source in sources:
                    bar.show(f"importing {source}", len(done), len(sources) if len(sources) > 1 else None)
                    done.append(await import_records(services, name, source, by=by, options=options, link=not keep_duplicates))
            finally:
                if done and len(done) < len(sources):  # a second import would count their records as identified twice
                    note(f"Imported already: {', '.join(one_line(source) for source in sources[: len(done)])}; do not import them again")
        return done

    reports = call_services(add, library, offline=offline)
    if as_json:
        print_json(reports[0] if len(reports) == 1 else [one.model_dump(mode="json") for one in reports])
        return
    for report in reports:
        parts = [count(report.records, "record"), count(report.duplicates, "duplicate"), count(report.labels, "label")]
        note(f"{report.source}: {', '.join(parts)}")
        for remark in report.remarks:
            note(f"{remark[0].upper()}{remark[1:]}")
    note(f"To decide on them: outrider review screen {name}")


@review_app.command()
def screen(
    name: NameArgument,
    by: ByOption = None,
    random: Annotated[bool, typer.Option("--random", help="Decide on records drawn at random, which prove the recall.")] = False,
    on: OnOption = "",
    address: AddressOption = None,
    library: LibraryOption = None,
) -> int:
    """Decide on one record after the other, by single keys. Each decision is saved at once.

    With --on ray the workers of a cluster count the words of the records, which seldom pays (docs/benchmarks.md, ray_batch).
    """
    from outrider.interfaces.cli.screen_review import Screening

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadRequest(f"screening takes a terminal; without one: outrider review label {name} ID DECISION, or --file FILE")
    services = open_services(library, address=address)
    if on or address is not None:
        from outrider.usecases.review import prepare_review

        with Progress("counting words on the cluster"):
            wait_for(prepare_review(services, name, on, address))
    return Screening(services, name, by, "random" if random else "model").run()


@review_app.command()
def label(
    name: NameArgument,
    record: Annotated[str | None, typer.Argument(metavar="[ID]", help="A record: its number, DOI or another identifier.")] = None,
    decision: Annotated[str | None, typer.Argument(metavar="[DECISION]", help="include, exclude, maybe, or undo.")] = None,
    reason: Annotated[str, typer.Option("--reason", "-r", metavar="TEXT", help="Why it is excluded.")] = "",
    text: Annotated[str, typer.Option("--note", metavar="TEXT", help="Add a note to the record.")] = "",
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="A table with the columns id, decision and reason; or lines ID DECISION REASON."),
    ] = None,
    resolve: Annotated[bool, typer.Option("--resolve", help="Resolve conflicts between reviewers.")] = False,
    by: ByOption = None,
    as_json: JsonOption = False,
) -> None:
    """Record decisions without a terminal: one, or those of a file, all or none."""
    from outrider.reviews.labels import read_decisions
    from outrider.usecases.review import add_note, decide, undo

    if (file is None) == (record is None) or (record is not None and decision is None and not text):
        raise BadRequest("give ID DECISION, or --file FILE")
    if (reason and decision in (None, "undo")) or (text and (file is not None or decision == "undo")):
        raise BadRequest("--reason and --note go with the decision on one record; reasons of a file stand in its column reason")

    async def write(services: Services) -> Any:
        if file is not None:
            return await decide(services, name, read_decisions(file, services.settings.ingest.max_bytes), by=by, resolve=resolve)
        if decision is None:
            return await add_note(services, name, record or "", text, by=by)
        if decision == "undo":
            return await undo(services, name, record or "", by=by)
        return await decide(services, name, [(record or "", decision, reason)], by=by, resolve=resolve, note=text)

    report = call_services(write)
    if as_json:
        print_json(report)
        return
    states = getattr(report, "states", {})
    for number, state in list(states.items())[:MAX_SHOWN]:
        note(f"Record {number}: {state}")
    if len(states) > MAX_SHOWN:
        note(f"and {len(states) - MAX_SHOWN:,} more")


@review_app.command()
def status(
    name: NameArgument,
    by: ByOption = None,
    recall: Annotated[float, typer.Option("--recall", metavar="SHARE", help="The recall that is to be reached.")] = 0.95,
    confidence: Annotated[float, typer.Option("--confidence", metavar="SHARE", help="Of the statements about recall.")] = 0.95,
    as_json: JsonOption = False,
) -> None:
    """Show the counts of a review, its reviewers and conflicts, what is known of its recall, and what to do next."""
    from outrider.usecases.review import get_status, list_conflicts

    async def read(services: Services) -> tuple[ReviewStatus, ConflictList]:
        found = await get_status(services, name, target_recall=recall, confidence=confidence)
        return found, await list_conflicts(services, name, by=by)

    found, conflicts = call_services(read)
    if as_json:
        print_json(found.model_dump(mode="json") | {"conflicting": [one.model_dump(mode="json") for one in conflicts.conflicts]})
        return
    out = console()
    out.print(plain(f"{found.name}: {count(found.works, 'work')} in {count(found.records, 'record')}", "bold"))
    if found.question:
        out.print(plain(found.question))
    listing = table("state", "works")
    rows = {"included": found.included, "excluded": found.excluded, "maybe": found.maybe, "in conflict": len(found.conflicts)}
    rows |= {"waiting for a reviewer": found.waiting} if found.reviewers > 1 else {}
    for state, number in {**rows, "unscreened": found.unscreened}.items():
        listing.add_row(state, f"{number:,}")
    out.print(listing)
    for why, number in [*found.excluded_by_reason.items()][:MAX_SHOWN]:
        out.print(plain(f"{number:,} excluded: {why}", indent=2))
    if rest := [*found.excluded_by_reason.values()][MAX_SHOWN:]:
        out.print(plain(f"{sum(rest):,} excluded for {count(len(rest), 'other reason')}; --json lists all", indent=2))
    _show_reviewers(found)
    for view in conflicts.conflicts[:MAX_SHOWN]:
        verdicts = ", ".join(f"{one.by} {one.verdict}" for one in view.decisions)
        out.print(plain(f"conflict: {view.number}. {one_line(view.record.title)} ({verdicts})", "red"), soft_wrap=True)
    if len(conflicts.conflicts) > MAX_SHOWN:
        out.print(plain(f"and {len(conflicts.conflicts) - MAX_SHOWN:,} more conflicts; --json lists all", "red"))
    for line in found.stop:
        out.print(plain(line), soft_wrap=True)
    for remark in found.remarks:
        note(f"{remark[0].upper()}{remark[1:]}")
    if found.conflicts:
        note(f"To resolve one: outrider review label {name} ID DECISION --resolve")


def _show_reviewers(state: ReviewStatus) -> None:
    """What each reviewer decided, and how alike each two of them."""
    out = console()
    for one in state.by_reviewer:
        out.print(plain(f"{one.by}: {count(one.decided, 'decision')}, the last at {one.last}", "dim"))
    for pair in state.agreement[:MAX_SHOWN]:
        kappa = "undefined, since both decided the same on each" if pair.kappa is None else f"{pair.kappa:.2f}"
        out.print(
            plain(f"{' and '.join(pair.reviewers)}: alike on {pair.agreed:,} of {count(pair.records, 'record')}, Cohen's kappa {kappa}")
        )


@review_app.command()
def export(
    name: NameArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The file to write: .csv, .ris, .asreview, .bib, .csljson, .jsonl, or .md and .json for PRISMA's counts."
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="STATE", help="include, exclude, maybe, conflict, waiting or unscreened; may be repeated."),
    ] = None,
) -> None:
    """Write the records with their labels, or the counts of screening. Default: CSV to standard output."""
    from outrider.usecases.review import export_review, find_export_format

    form = find_export_format(output) if output else "csv"
    with Progress("reading the records"):
        content = call_services(lambda services: export_review(services, name, form, tuple(only or ())))
    if output is None:
        data_output().write(content.decode())
        return
    from outrider.reviews.decision_log import write_file

    write_file(output, content)
    note(f"Written to {output}")


@review_app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List the reviews."""
    from outrider.usecases.review import list_reviews

    found = call_services(list_reviews)
    if as_json:
        print_json(found)
        return
    listing = table("review", "records", "screened", "question")
    for one in found.reviews:
        listing.add_row(
            plain(one.name), f"{one.records:,}", f"{one.screened:,}", plain(one.problem or one.question, "red" if one.problem else "")
        )
    if found.reviews:
        console().print(listing)
    note(count(len(found.reviews), "review"))


@review_app.command()
def delete(
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Delete it, with all its decisions.")] = False,
) -> None:
    """Delete a review with its records and decisions."""
    from outrider.usecases.review import delete_review, get_status

    if not yes:
        call_services(lambda services: get_status(services, name))  # a wrong name is told first
        raise BadRequest(f"this deletes {name} with all its decisions; to confirm: outrider review delete {name} --yes")
    call_services(lambda services: delete_review(services, name))
    note(f"Review {name} deleted")
