"""`outrider cite`: works that citations connect with a target, round by round"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.interfaces.cli.export import find_format, open_output
from outrider.interfaces.cli.options import (
    JsonOption,
    LibraryOption,
    OfflineOption,
    RecordOption,
    call_services,
    note_recording,
    open_services,
    wait_for,
)
from outrider.interfaces.cli.terminal import INTERRUPTION_REPORTED, Progress, console, count, note, one_line, plain, print_json, table
from outrider.state.errors import BadRequest, JobError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from outrider.citations.chase import Chase
    from outrider.services import Services
    from outrider.state.citations import CandidateList, QueueReport
    from outrider.state.jobs import Job
    from outrider.statistics.capture_recapture import RecaptureBound

cite_app = typer.Typer(help="Chase citations: candidates of a target, decisions on them, their state.", no_args_is_help=True)
TARGET_HELP = "A thread, label:NAME (a label of the library), or a file of identifiers, a bibliography or a table."
TargetArgument = Annotated[str, typer.Argument(metavar="TARGET", help=TARGET_HELP)]
POLL_S = 0.5
PRISMA = {".json": "prisma-json", ".md": "prisma-markdown", ".svg": "prisma-svg"}
MAX_SHOWN = 10
"""Works of a report, and failures, that are shown on the terminal."""


@cite_app.command()
def candidates(
    targets: Annotated[list[str], typer.Argument(metavar="TARGET...", help=TARGET_HELP)],
    request: Annotated[
        str, typer.Option("--request", "-r", metavar="TEXT", help="Also rank by how well they fit this. Default: a thread's query.")
    ] = "",
    direction: Annotated[
        str, typer.Option("--direction", help="references: works that the target cites; citations: works that cite it. Default: both.")
    ] = "",
    hops: Annotated[int, typer.Option("--hops", metavar="N", help="Most links between a work of the target and a candidate, 1 to 3.")] = 1,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Candidates to show.")] = 20,
    record: RecordOption = None,
    library: LibraryOption = None,
    offline: OfflineOption = False,
    as_json: JsonOption = False,
) -> None:
    """List works that citations connect with a target, best first, with the reason of each.

    With --json one target gives an object, several give a list.
    """
    from outrider.usecases.cite import list_candidates

    if record is not None and len(targets) > 1:
        raise BadRequest("--record records the candidates of one target; name one")
    given: Any = direction

    async def read(services: Services) -> list[CandidateList]:
        with Progress("reading the citations", quiet=as_json) as bar:
            found = []
            for number, target in enumerate(targets):
                bar.show("reading the citations", number, len(targets))
                found.append(await list_candidates(services, target, request=request, direction=given, hops=hops, limit=limit))
        return found

    services = open_services(library, offline=offline, record=record)
    try:
        listings = wait_for(read(services))
    finally:
        services.close()
    note_recording(services)
    if as_json:
        print_json(listings[0] if len(listings) == 1 else [one.model_dump(mode="json") for one in listings])
        return
    for listing in listings:
        _show_candidates(listing)


@cite_app.command()
def queue(
    target: TargetArgument,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Further candidates, after --include or --exclude.")] = None,
    include: Annotated[list[str] | None, typer.Option("--include", metavar="ID...", help="Fetch these candidates.")] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="ID...", help="Fetch all candidates except these, which are excluded.")
    ] = None,
    all_of: Annotated[bool, typer.Option("--all", help="Fetch all candidates.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be queued.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Run the queued jobs, and wait for their end.")] = False,
    library: LibraryOption = None,
    offline: OfflineOption = False,
    as_json: JsonOption = False,
) -> int:
    """Decide on candidates: queue them to be fetched, or exclude them.

    An ID is a candidate's key, a DOI or another identifier: --include 10.1000/a 10.1000/b. Jobs run in the background (outrider serve,
    outrider jobs run), or here with --wait.
    """
    from outrider.usecases.cite import queue_candidates

    if ids and bool(include) == bool(exclude):
        raise BadRequest(f"{ids[0]!r}: ids belong to --include or to --exclude, one of them")
    chosen = {
        "include": [*(include or ()), *((ids or ()) if include else ())],
        "exclude": [*(exclude or ()), *((ids or ()) if exclude else ())],
    }
    if dry_run and wait:
        raise BadRequest("--dry-run queues nothing to wait for; give one of them")
    services = open_services(library, offline=offline)

    async def run() -> tuple[QueueReport, list[Job]]:
        try:
            report = await queue_candidates(services, target, **chosen, all_of=all_of, dry_run=dry_run)
            if not as_json:
                _show_queued(report, wait=wait)
            return report, await _wait_for_jobs(services, report, quiet=as_json) if wait else []
        finally:
            services.close()

    try:
        report, jobs = wait_for(run())
    except KeyboardInterrupt:
        note("Interrupted. What was queued is kept; to continue: outrider jobs run")
        raise typer.Exit(INTERRUPTION_REPORTED) from None
    if as_json:
        fields = report.model_dump(mode="json")
        print_json(fields | {"results": [job.model_dump(mode="json") for job in jobs]} if wait else fields)
    elif wait:
        _show_results(jobs)
    return JobError.exit_code if any(job.status != "done" for job in jobs) else 0


@cite_app.command()
def status(target: TargetArgument, library: LibraryOption = None, as_json: JsonOption = False) -> None:
    """Show a target's rounds with their yield, its jobs, and what chasing alone cannot find."""
    from outrider.citations.chase import describe_completeness, make_yield_curve
    from outrider.usecases.cite import bound_recall, get_status
    from outrider.usecases.jobs import list_jobs

    async def read(services: Services) -> tuple[Chase, RecaptureBound, tuple[Job, ...]]:
        with Progress("reading the citations", quiet=as_json):
            chase = await get_status(services, target)
            return chase, await bound_recall(services, target), (await list_jobs(services, chase.target)).jobs

    chase, recall, jobs = call_services(read, library)
    curve, completeness = make_yield_curve(chase), describe_completeness(chase)
    if as_json:
        parts = {"yield_curve": [point.model_dump(mode="json") for point in curve], "jobs": [job.model_dump(mode="json") for job in jobs]}
        fields = {"chase": chase.model_dump(mode="json"), **parts, "completeness": completeness}
        print_json({**fields, "recall": recall.model_dump(mode="json")})
        return
    console().print(plain(f"{chase.target}: {count(len(chase.works), 'work')}, {count(len(chase.rounds), 'round')}", "bold"))
    if chase.request:
        console().print(plain(f"request: {one_line(chase.request)}"))
    listing = table("round", "new works", "included", "excluded", "included so far")
    for one, point in zip(chase.rounds, curve, strict=True):
        listing.add_row(str(one.number), f"{one.new_works:,}", f"{len(one.included):,}", f"{len(one.excluded):,}", f"{point.included:,}")
    if chase.rounds:
        console().print(listing)
    if jobs:
        _show_jobs(jobs)
    note(completeness)
    note(recall.sentence)


@cite_app.command()
def export(
    target: TargetArgument,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file to write, by its suffix: .ris, .bib, .csv, ... Default: RIS to standard output."),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option("--round", metavar="N", help="A past round: what it included; the next one: its candidates. Default: the last one."),
    ] = None,
    prisma: Annotated[
        bool, typer.Option("--prisma", help="Write PRISMA's boxes for citation searching instead: .svg, .md or .json, by the suffix.")
    ] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a round for screening, or the counts of the chase for a PRISMA flow diagram."""
    from outrider.usecases.cite import export_round

    if prisma and output is not None and output.suffix.lower() not in PRISMA:
        raise BadRequest(f"{output} has no suffix of a flow diagram: {', '.join(PRISMA)}")
    form = PRISMA[output.suffix.lower() if output else ".md"] if prisma else find_format(output)
    text = call_services(lambda services: export_round(services, target, form, number), library)
    if as_json and output is None:
        print_json({"format": form, "text": text})
        return
    with open_output(output) as stream:
        stream.write(text)
    if as_json:
        print_json({"format": form, "file": str(output)})
    elif output:
        note(f"Written to {output}")


async def _wait_for_jobs(services: Services, report: QueueReport, *, quiet: bool) -> list[Job]:
    """Run the jobs here, or wait while another process runs them; the jobs afterwards."""
    import asyncio

    from outrider.usecases.jobs import list_jobs, run_jobs, show_job

    async def follow(bar: Progress) -> list[Job]:
        """Until none of them is left that may run."""
        while True:
            jobs = [await show_job(services, number) for number in report.jobs]
            left = sum(job.is_to_do for job in jobs)
            doing = next((job.progress for job in jobs if job.status == "running"), "")
            bar.show("fetching", len(jobs) - left, len(jobs), doing)
            if not left:
                return jobs
            await asyncio.sleep(POLL_S)

    with Progress("fetching", quiet=quiet) as bar:
        following = asyncio.create_task(follow(bar))
        try:
            try:
                await run_jobs(services)
            except JobError:
                if not (await list_jobs(services, report.target)).is_worked:  # no other process runs them
                    raise
            return await following
        finally:
            following.cancel()


def _show_candidates(listing: CandidateList) -> None:
    out = console()
    works = count(listing.works, "work")
    out.print(plain(f"{listing.target}: {works}, {count(listing.total, 'candidate')}; round {listing.round}", "bold"), soft_wrap=True)
    for number, one in enumerate(listing.candidates, start=1):
        details = ", ".join(filter(None, (one.authors[0] if one.authors else "", str(one.year or ""), one_line(one.venue or ""))))
        named = plain(f"{number}. {one_line(one.title) or '(no title known)'}", "bold")
        out.print(named, plain(f"({details})" if details else "", "dim"), soft_wrap=True)
        out.print(plain(one.key, indent=3), soft_wrap=True)
        out.print(plain(one.why, "bold red" if one.retracted else "dim", indent=3), soft_wrap=True)
    if listing.total > len(listing.candidates):
        note(f"{listing.total - len(listing.candidates):,} more; --limit shows them")
    for remark in listing.remarks:
        note(f"{remark[0].upper()}{remark[1:]}")
    if listing.stop:
        note(f"It may be enough: {listing.stop}.")
    note(listing.completeness)


def _show_queued(report: QueueReport, *, wait: bool) -> None:
    verb = "would be fetched" if report.dry_run else "queued"
    note(f"Round {report.round}: {count(len(report.queued), 'work')} {verb}, {len(report.excluded):,} excluded")
    shown = report.queued if report.dry_run else ()
    for key in shown[:MAX_SHOWN]:
        console().print(plain(key, indent=2))
    if len(shown) > MAX_SHOWN:
        note(f"and {len(shown) - MAX_SHOWN:,} more; --json lists all")
    if report.jobs:
        numbers = f"{', '.join(report.jobs[:MAX_SHOWN])}{', ...' if len(report.jobs) > MAX_SHOWN else ''}"
        note(f"{count(len(report.jobs), 'job')}: {numbers}{'' if wait else '; to run them: outrider jobs run'}")


def _show_results(jobs: Sequence[Job]) -> None:
    """Works with the sentences that answer, and what failed."""
    from outrider.services.fetch_works import FetchResult

    works = [work for job in jobs if job.result for work in FetchResult.model_validate(job.result).works]
    for work in works[:MAX_SHOWN]:
        if work.status == "failed":
            console().print(plain(f"{work.key}: {one_line(work.reason)}", "red"), soft_wrap=True)
            continue
        console().print(plain(f"{'RETRACTED: ' if work.retracted else ''}{one_line(work.title) or work.key}", "bold"), soft_wrap=True)
        for sentence in work.sentences:
            console().print(plain(one_line(sentence), indent=2), soft_wrap=True)
    if len(works) > MAX_SHOWN:
        note(f"and {len(works) - MAX_SHOWN:,} more; outrider jobs show ID lists all")
    failed = sum(work.status == "failed" for work in works)
    note(f"{len(works) - failed:,} of {count(len(works), 'work')} fetched")
    for job in jobs:
        if job.error:
            note(f"Job {job.id} failed: {one_line(job.error)}")


def _show_jobs(jobs: Iterable[Job]) -> None:
    listing = table("job", "kind", "state", "progress")
    for job in jobs:
        listing.add_row(job.id, job.kind, job.status, plain(job.error or job.progress))
    console().print(listing)
