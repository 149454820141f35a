"""`outrider library fulltext`: open full texts of the library's records."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.interfaces.cli.library import library_app
from outrider.interfaces.cli.options import JsonOption, LibraryOption, OfflineOption, open_services, wait_for
from outrider.interfaces.cli.terminal import BAD_INPUT, INTERRUPTION_REPORTED, Progress, console, count, note, one_line, plain, print_json
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from outrider.state.full_text import FullTextReport, WorkText

STYLES = {"fetched": "green", "kept": "dim", "own text": "dim", "planned": "cyan"}


@library_app.command("fulltext")
def fetch_full_texts(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Records, by their ids, DOIs, PMIDs or arXiv numbers.")
    ] = None,
    label: Annotated[str, typer.Option("--label", help="All records with this label.")] = "",
    all_of: Annotated[bool, typer.Option("--all", help="All papers of the library.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Also look for better forms of texts that were fetched.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which works would be asked for; nothing is contacted.")] = False,
    queue: Annotated[bool, typer.Option("--queue", help="Queue it as a background job instead: outrider jobs shows it.")] = False,
    library: LibraryOption = None,
    offline: OfflineOption = False,
    as_json: JsonOption = False,
) -> int:
    """Fetch the open full texts of papers, and keep them with licence and place.

    Asks Europe PMC, PubMed Central, arXiv and Unpaywall by identifier, and reads JATS before PDF before HTML. Nothing is fetched that no
    service calls open. Ctrl-C keeps what is done. Exit code 2 if none of the records exists.
    """
    from outrider.state.full_text import FullTextReport
    from outrider.usecases.full_text import afetch_full_text, queue_full_text

    if queue and dry_run:
        raise BadRequest("--dry-run queues nothing; give one of them")
    services = open_services(library, offline=offline)
    options = {"label": label, "all_records": all_of, "again": again}
    if queue:
        queued = wait_for(queue_full_text(services, names or (), **options))  # type: ignore[arg-type]
        if as_json:
            print_json(queued)
        else:
            console().print(plain(f"{count(queued.works, 'work')} queued: {', '.join(queued.jobs) or 'no job'}"))
            if queued.unknown:
                note(f"Not in the library: {', '.join(queued.unknown)}")
        return 0 if queued.jobs else BAD_INPUT
    latest = [FullTextReport()]
    interrupted = False
    with Progress("looking for open texts", quiet=as_json) as bar:

        def show(report: FullTextReport, total: int) -> None:
            latest[0] = report
            bar.show("looking for open texts", len(report.works), total, f"{report.count('fetched')} fetched")

        try:
            latest[0] = wait_for(
                afetch_full_text(*(names or ()), **options, dry_run=dry_run, progress=show, services=services)  # type: ignore[arg-type]
            )
        except KeyboardInterrupt:
            interrupted = True
        finally:
            services.close()
    report = latest[0]
    if as_json:
        print_json(report)
    else:
        for work in report.works:
            _show_work(work)
        counts = Counter(work.status for work in report.works)
        console().print(plain(", ".join(f"{number:,} {status}" for status, number in counts.items()) or "no work", "bold"))
        for remark in dict.fromkeys(one for work in report.works for one in work.notes):
            note(remark)
    if interrupted:
        note("Interrupted. What is listed above is kept.")
        raise typer.Exit(INTERRUPTION_REPORTED)
    return BAD_INPUT if report.works and all(work.status == "unknown" for work in report.works) else 0


def _show_work(work: WorkText) -> None:
    out = console()
    name = one_line(work.title) or work.doc_id
    out.print(plain(name, "bold"), plain(f"({work.doc_id})", "dim"), plain(work.status, STYLES.get(work.status, "yellow")), soft_wrap=True)
    if work.full_text:
        out.print(plain(work.full_text.describe(), "dim", indent=2), soft_wrap=True)
    for attempt in work.attempts:
        if attempt.status != "read":
            out.print(plain(f"{attempt.url}: {attempt.reason}", "dim", indent=2), soft_wrap=True)
    if work.reason and not work.attempts:
        out.print(plain(work.reason, "dim", indent=2), soft_wrap=True)
