"""`outrider threads`: searches that are gone on with."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, services, wait_for
from outrider.interfaces.cli.terminal import console, errors, exit_code, note, plain, show_answer, table
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from outrider.services.thread_ledger import ThreadRun
    from outrider.usecases.threads import Part, Threads

threads_app = typer.Typer(help="Searches that are gone on with: list, show, resume, delete.", no_args_is_help=True)
ThreadArgument = Annotated[str, typer.Argument(metavar="THREAD", help="The thread's name, as `threads list` shows it.")]
WORDS = {"ended": "ended", "begun": "interrupted or under way", "failed": "interrupted"}


@threads_app.command("list")
def list_threads(as_json: JsonOption = False) -> None:
    """List the threads, most lately used first."""
    runs = wait_for(_with(None, lambda threads: threads.latest_runs()))
    if as_json:
        _print_json([_told(run) for run in runs])
        return
    listing = table("thread", "last used", "state", "last query")
    for run in runs:
        listing.add_row(plain(run.thread), _time(run.touched), WORDS[run.status], plain(run.query))
    console().print(listing)
    note(f"{len(runs):,} threads")


@threads_app.command()
def show(thread: ThreadArgument, library: LibraryOption = None, as_json: JsonOption = False) -> None:
    """Show a thread's searches, and its last answer as far as it came."""

    async def read(threads: Threads) -> tuple[Any, Any]:
        return await threads.runs(thread), await threads.last(thread)

    runs, answer = wait_for(_with(library, read))
    if as_json:
        _print_json({"runs": [_told(run) for run in runs], "answer": answer and answer.model_dump(mode="json")})
        return
    listing = table("began", "state", "query", "feedback")
    for run in runs:
        listing.add_row(_time(run.began), WORDS[run.status], plain(run.query), plain(json.loads(run.asked).get("user_feedback", "")))
    console().print(listing)
    if answer is not None and runs[-1].status == "ended":
        show_answer(answer)
    else:
        note(f"Its last search has not ended; go on with it: outrider threads resume {thread}")


@threads_app.command()
def resume(thread: ThreadArgument, library: LibraryOption = None, as_json: JsonOption = False) -> int:
    """Go on with a thread's last search where it was interrupted; answers that were paid for are not asked again."""
    answer = wait_for(_with(library, lambda threads: shown(threads.resume(thread), quiet=as_json)))
    if as_json:
        sys.stdout.write(answer.model_dump_json() + "\n")
    else:
        show_answer(answer)
    return exit_code(answer)


@threads_app.command()
def delete(
    thread: Annotated[str | None, typer.Argument(metavar="[THREAD]", help="The thread's name.")] = None,
    expired: Annotated[bool, typer.Option("--expired", help="All that nobody went on with for threads.retention_days.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete a thread with its checkpoints, or those that have expired."""
    if (thread is None) is not expired:
        raise BadRequest("name a thread to delete, or give --expired")

    async def deleted(threads: Threads) -> tuple[str, ...]:
        if thread is None:
            return threads.expired
        await threads.delete(thread)
        return (thread,)

    gone = wait_for(_with(None, deleted))
    if as_json:
        _print_json({"deleted": list(gone)})
    else:
        note(f"Deleted: {', '.join(gone) or 'none'}")


async def shown(parts: AsyncIterator[Part], *, quiet: bool) -> Any:
    """The answer at the end of a run; shows which node is running meanwhile."""
    from outrider.usecases.threads import make_response

    state: Any = {}
    status = errors().status("Going on")
    if not quiet:
        status.start()
    try:
        async for kind, part in parts:
            if kind == "custom" and part.get("event") == "started":
                status.update(f"Searching: {part['node']}")
            state = part if kind == "values" else state
    finally:
        status.stop()
    return make_response(state)


async def _with(library: str | None, work: Callable[[Threads], Awaitable[Any]]) -> Any:
    from outrider.usecases.threads import open_threads

    made = services(library)
    try:
        async with open_threads(made) as threads:
            return await work(threads)
    finally:
        made.close()


def _told(run: ThreadRun) -> dict[str, Any]:
    said = {"thread": run.thread, "query": run.query, "asked": json.loads(run.asked), "state": run.status}
    return said | {"began": _time(run.began), "touched": _time(run.touched)}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
