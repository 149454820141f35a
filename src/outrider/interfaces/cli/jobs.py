"""`outrider jobs`: background jobs, such as reading the citations of a search's works."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, call_services
from outrider.interfaces.cli.terminal import console, count, note, plain, print_json, table
from outrider.state.errors import BadRequest, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from outrider.state.jobs import Job
    from outrider.usecases.jobs import TargetJobs

jobs_app = typer.Typer(help="List, run, pause and stop background jobs.", no_args_is_help=True)
TargetArgument = Annotated[str, typer.Argument(metavar="TARGET", help="The thread, tag, file or query, as `jobs list` shows it.")]
FAILED = 3
"""Exit code of a run in which a job failed."""
NICENESS = 19
"""The lowest priority of a process: jobs compute when nothing else does."""
NAMED = 5
"""Works that a line on them names."""
AUTOGROUP = Path("/proc/self/autogroup")
STANDARD_INPUT = 0
SEARCHING = b"s"
"""What a server writes when a search begins; any other byte when none is left."""


@jobs_app.command("list")
def list_jobs(
    target: Annotated[str, typer.Option("--target", metavar="TARGET", help="Only the jobs of this target.")] = "",
    status: Annotated[
        str, typer.Option("--status", help="Only jobs in this state: queued, running, paused, done, failed or cancelled.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """List the jobs, the newest first."""
    from outrider.jobs.job_table import MOST_LISTED
    from outrider.usecases import jobs

    state: Any = _check_choice("--status", status, "JobStatus") if status else None
    listing = call_services(lambda services: jobs.list_jobs(services, target, state))
    if as_json:
        print_json(listing)
        return
    _show_jobs(listing.jobs)
    is_cut = len(listing.jobs) == MOST_LISTED
    note(f"The newest {MOST_LISTED:,} jobs; --target or --status shows others" if is_cut else count(len(listing.jobs), "job"))
    if listing.paused_targets:
        note(f"Paused: {', '.join(listing.paused_targets)}; to go on: outrider jobs resume TARGET")
    if not listing.is_worked and any(job.is_to_do for job in listing.jobs):
        note("Nothing runs them now; to run them: outrider jobs run (outrider serve does so in the background)")


@jobs_app.command()
def show(
    job: Annotated[str, typer.Argument(metavar="ID", help="The job's number, as `jobs list` shows it.")], as_json: JsonOption = False
) -> None:
    """Show a job: its request, how far it is, its result or its error."""
    from outrider.usecases.jobs import show_job

    found = call_services(lambda services: show_job(services, job))
    if as_json:
        print_json(found)
        return
    fields = found.model_dump(mode="json", exclude_defaults=True)
    described = found.kind in DESCRIBED and fields.pop("result", None)
    for name, value in fields.items():
        console().print(plain(f"{name.replace('_', ' ')}: {value}"))
    for line in DESCRIBED[found.kind](described) if described else ():
        console().print(plain(line))


@jobs_app.command("run")
def run_jobs(
    wait: Annotated[bool, typer.Option("--wait", help="Wait for further jobs until Ctrl-C.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="End after so many jobs.")] = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
    from_server: Annotated[bool, typer.Option("--from-server", hidden=True)] = False,
) -> None:
    """Run the queued jobs, with low priority, until none is left. After Ctrl-C they continue with the next run.

    Exit code 3 if a job failed.
    """
    from outrider.usecases import jobs

    take_lowest_priority()
    server = ServerSignals() if from_server else None
    failed_before = {job.id for job in call_services(lambda services: jobs.list_jobs(services, status="failed")).jobs}
    began = call_services(
        lambda services: jobs.run_jobs(services, wait=wait, limit=limit, is_searching=server.is_searching if server else None), library
    )
    listed = {state: call_services(partial(jobs.list_jobs, status=state)).jobs for state in ("queued", "running", "failed")}
    left = len(listed["queued"]) + len(listed["running"])
    failed = [job for job in listed["failed"] if job.id not in failed_before]
    if as_json:
        print_json({"run": began, "failed": len(failed), "left": left})
    elif not from_server:  # which logs what is written on standard error
        for job in failed:
            note(f"{job.id} failed: {plain(job.error)}")
        note(f"{count(began, 'job')} run, {len(failed)} failed, {left} left; outrider jobs list shows them")
    if failed and not from_server:
        raise typer.Exit(FAILED)


@jobs_app.command()
def pause(target: TargetArgument, as_json: JsonOption = False) -> None:
    """Queue nothing more for a target, and hold its queued jobs. Those of citations, and what runs, complete."""
    from outrider.usecases.jobs import pause_target

    _show_change(call_services(lambda services: pause_target(services, target)), "held", as_json)


@jobs_app.command()
def resume(target: TargetArgument, as_json: JsonOption = False) -> None:
    """Undo a pause."""
    from outrider.usecases.jobs import resume_target

    _show_change(call_services(lambda services: resume_target(services, target)), "queued again", as_json)


@jobs_app.command()
def stop(
    target: Annotated[str, typer.Argument(metavar="TARGET|ID", help="A target, or the number of one job.")],
    scope: Annotated[
        str, typer.Option("--scope", help="all_jobs cancels every job; with target_queue_only citation jobs complete.")
    ] = "all_jobs",
    as_json: JsonOption = False,
) -> None:
    """Cancel the jobs of a target, or one job."""
    from outrider.usecases.jobs import stop_jobs

    checked: Any = _check_choice("--scope", scope, "StopScope")
    _show_change(call_services(lambda services: stop_jobs(services, target, checked)), "cancelled", as_json)


def take_lowest_priority() -> None:
    """Compute only when nothing else does.

    Linux shares the processor among sessions first, if it groups them (`sched_autogroup`), so a niceness counts within a session alone.
    A process that a server started has one of its own, whose niceness is set, too. That of a shell is left as it is.
    """
    if not hasattr(os, "nice"):  # Windows
        return
    os.nice(NICENESS)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            AUTOGROUP.write_text(str(NICENESS), encoding="ascii")


class ServerSignals:
    """What the server that started this process tells it on standard input: whether searches run. Its end ends this process."""

    def __init__(self) -> None:
        self._is_searching = False
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a server in the background of a shell ignores it
        threading.Thread(target=self._read, name="server-signals", daemon=True).start()

    def is_searching(self) -> bool:
        return self._is_searching

    def _read(self) -> None:
        while signal_byte := os.read(STANDARD_INPUT, 1):  # a reader of Python's would hold a lock that the end of the process needs
            self._is_searching = signal_byte == SEARCHING
        os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C: jobs continue later


def _check_choice(option: str, value: str, kind: str) -> str:
    from typing import get_args

    from outrider.state import jobs

    known = get_args(getattr(jobs, kind))
    if value not in known:
        raise BadRequest(f"{option} takes {', '.join(known)}, not {value!r}{did_you_mean(value, known)}")
    return value


def describe_citations(result: dict[str, Any]) -> Iterator[str]:
    """Lines on what a citation job added to the graph, and what it left out."""
    from outrider.state.citations import CitationsResult

    found = CitationsResult.model_validate(result)
    report = found.report
    if report is None:
        return
    yield f"result: {count(report.links, 'new link')} among {count(report.works, 'work')}, in {report.seconds:,.0f} s"
    for use in report.services:
        failed = f"; failed {count(use.failures, 'time')}, first: {use.failure}" if use.failures else ""
        left_alone = f"; left alone: {use.stopped}" if use.stopped else ""
        yield f"  {use.name}: {count(use.calls, 'call')}, {count(use.links, 'new link')}{failed}{left_alone}"
        yield from (f"    {one}" for one in use.notes)
    yield from (f"  left out: {one}" for one in report.cut)
    for what, number, some in (
        ("targets are no works of the library and no identifiers", len(found.missing), found.missing[:NAMED]),
        ("works are known to no service", report.unknown_total, report.unknown[:NAMED]),
        ("works have no identifier that a service knows", report.without_service, ()),
        ("works share an identifier with another one and contradict it", report.contradicting, ()),
        ("works are beyond the budget: only the links to them are kept", report.not_followed, ()),
    ):
        if number:
            listed = f" ({', '.join(some)}{', ...' if number > len(some) else ''})" if some else ""
            yield f"  {what}: {number:,}{listed}"
    if references := report.references_matched + report.references_unmatched:
        yield f"  {report.references_matched:,} of {references:,} references without identifier were matched with a work"


def describe_texts(result: dict[str, Any]) -> Iterator[str]:
    """Lines on the full texts that a job fetched, and why others were not."""
    from collections import Counter

    from outrider.state.full_text import FullTextReport

    report = FullTextReport.model_validate(result)
    counts = Counter(one.status for one in report.works)
    yield f"result: {', '.join(f'{number:,} {status}' for status, number in counts.items()) or 'no work'}"
    for work in report.works:
        if work.status in ("refused", "failed"):
            yield f"  {work.title or work.doc_id}: {work.reason}"


DESCRIBED: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {"citations": describe_citations, "full_text": describe_texts}
"""By the kind of the job."""


def _show_jobs(jobs: Iterable[Job]) -> None:
    listing = table("id", "kind", "target", "state", "created", "progress")
    for job in jobs:
        listing.add_row(job.id, job.kind, plain(job.target), job.status, job.created_at, plain(job.error or job.progress))
    console().print(listing)


def _show_change(change: TargetJobs, what: str, as_json: bool) -> None:
    if as_json:
        print_json(change)
        return
    if change.changed:
        _show_jobs(change.changed)
    others = f"; {count(len(change.unchanged), 'other job')} will complete" if change.unchanged else ""
    note(f"{count(len(change.changed), 'job')} {what}{others}")
