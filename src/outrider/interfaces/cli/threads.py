"""`outrider threads`: saved searches that can be continued."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, call_services
from outrider.interfaces.cli.terminal import console, count, exit_code, measure_wait, note, plain, print_answer, print_json, table
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from outrider.services import Services
    from outrider.usecases.threads import Threads

threads_app = typer.Typer(help="List, show, resume and delete threads: searches that can go on.", no_args_is_help=True)
ThreadArgument = Annotated[str, typer.Argument(metavar="THREAD", help="The thread's name, as `threads list` shows it.")]
STATES = {"ended": "ended", "waiting": "waiting for you", "begun": "interrupted or under way", "failed": "interrupted"}


@threads_app.command("list")
def list_threads(as_json: JsonOption = False) -> None:
    """List the threads, most recently used first."""
    from outrider.usecases.threads import describe_run, format_time

    runs = _call_threads(None, lambda threads: threads.latest_runs())
    if as_json:
        print_json([describe_run(run) for run in runs])
        return
    listing = table("thread", "last used", "state", "last query")
    for run in runs:
        listing.add_row(plain(run.thread), format_time(run.touched), STATES[run.status], plain(run.query))
    console().print(listing)
    note(count(len(runs), "thread"))


@threads_app.command()
def show(thread: ThreadArgument, library: LibraryOption = None, as_json: JsonOption = False) -> None:
    """Show a thread's searches and its last answer, even if it is not complete."""
    from outrider.interfaces.cli.answer import show_answer
    from outrider.interfaces.cli.checkpoints import resume_command, show_waiting
    from outrider.usecases.threads import describe_run, format_time

    async def read(threads: Threads) -> tuple[Any, Any]:
        return await threads.runs(thread), await threads.last(thread)

    runs, answer = _call_threads(library, read)
    if as_json:
        print_json({"runs": [describe_run(run) for run in runs], "answer": answer and answer.model_dump(mode="json")})
        return
    listing = table("began", "state", "query", "feedback")
    for run in runs:
        feedback = json.loads(run.asked).get("user_feedback", "")
        listing.add_row(format_time(run.began), STATES[run.status], plain(run.query), plain(feedback))
    console().print(listing)
    if answer is not None and answer.waiting is not None:
        show_waiting(answer.waiting, library)
    elif answer is not None and runs[-1].status == "ended":
        show_answer(answer)
    else:
        note(f"Its last search has not ended; to continue it: {resume_command(thread, library)}")


@threads_app.command()
def resume(
    thread: ThreadArgument,
    answer_file: Annotated[
        str | None,
        typer.Option("--answer", metavar="FILE", help="Answer a search that waits for you with this JSON file; - reads standard input."),
    ] = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Continue a thread's last search, after an interruption or where it waits for you. No model answer is paid for twice."""
    from outrider.interfaces.cli.answer import show_answer
    from outrider.interfaces.cli.checkpoints import WAITS, read_answer, resume_thread, settle, show_waiting

    given = None if answer_file is None else read_answer(answer_file)
    answer = settle(resume_thread(thread, given, library, quiet=as_json), library, quiet=as_json)
    if as_json:
        print_answer(answer)
        if answer.waiting is not None:
            return WAITS
    elif answer.waiting is not None:
        return show_waiting(answer.waiting, library)
    else:
        show_answer(answer, waited_s=measure_wait())
    return exit_code(answer)


@threads_app.command()
def delete(
    thread: Annotated[str | None, typer.Argument(metavar="[THREAD]", help="The thread's name.")] = None,
    expired: Annotated[bool, typer.Option("--expired", help="All that were not used for threads.retention_days.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete a thread with its checkpoints, or those that have expired."""
    if (thread is None) is not expired:
        raise BadRequest("name a thread to delete, or give --expired")

    async def remove(threads: Threads) -> tuple[str, ...]:
        if thread is None:
            return threads.expired
        await threads.delete(thread)
        return (thread,)

    names = _call_threads(None, remove)
    if as_json:
        print_json({"deleted": list(names)})
    else:
        note(f"Deleted: {', '.join(names) or 'none'}")


def _call_threads(library: str | None, work: Callable[[Threads], Awaitable[Any]]) -> Any:
    from outrider.usecases.threads import open_threads

    async def call(services: Services) -> Any:
        async with open_threads(services) as threads:
            return await work(threads)

    return call_services(call, library)
