"""`outrider saved`: searches and protocols that run again and say what changed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.interfaces.cli.options import (
    FiltersOption,
    JsonOption,
    LibraryOption,
    OfflineOption,
    call_services,
    narrow_filters,
    parse_filters,
)
from outrider.interfaces.cli.terminal import Progress, console, count, data_output, note, plain, print_json, report_error, table
from outrider.state.errors import BadRequest, SearchError, did_you_mean

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.state.saved import RunDifference, SavedSearch
    from outrider.usecases.saved import Outcome, SavedInfo

saved_app = typer.Typer(help="Save searches and protocols, run them again, and see what is new, changed or gone.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The saved search's name, as `saved list` shows it.")]
MAX_SHOWN = 50
"""Works of a comparison on the terminal."""
INCOMPLETE = FAILED = 3
"""Exit codes: a protocol's source was not read to its end; a run failed."""


@saved_app.command()
def add(
    name: Annotated[str, typer.Argument(help="A name: letters, digits, dots, - and _.")],
    query: Annotated[str, typer.Argument(help="What to search for; - reads it from standard input.")],
    systematic: Annotated[
        bool, typer.Option("--systematic", help="A Boolean query that is read to its last match, as `outrider systematic` does.")
    ] = False,
    source: Annotated[
        list[str] | None,
        typer.Option("--source", "-s", help="Search only this source; may be repeated. A protocol reads the library alone."),
    ] = None,
    syntax: Annotated[str, typer.Option("--syntax", help="Of a protocol: pubmed, ovid, wos, ...; auto detects it.")] = "auto",
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, max=1_000, help="How many hits of a search are compared.")] = 50,
    search_mode: Annotated[
        str, typer.Option("--search-mode", help="How far to widen the query: focused, balanced or exploratory.")
    ] = "balanced",
    year: Annotated[str | None, typer.Option("--year", metavar="YEARS", help="Only works of these years, such as 2020-.")] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="Only this kind: paper, repository, page or document; may be repeated.")
    ] = None,
    filters: FiltersOption = None,
    schedule: Annotated[
        str,
        typer.Option(
            "--schedule", metavar="WHEN", help="daily, weekly, monthly, 'every 6 h', or a cron expression such as '30 7 * * 1-5'."
        ),
    ] = "",
    timezone: Annotated[str, typer.Option("--timezone", help="Of the schedule, such as Europe/Berlin. Default: saved.timezone.")] = "",
    webhook: Annotated[str, typer.Option("--webhook", metavar="URL", help="Send what changed to this public address, signed.")] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Replace a saved search of this name; its runs stay.")] = False,
    offline: OfflineOption = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Save a search or a protocol with its settings. Nothing runs yet: `saved run NAME`, `saved run --due`, or `outrider serve` does."""
    from outrider.usecases.saved import add_saved

    text = sys.stdin.read() if query == "-" else query
    if systematic:
        ranked = {"--year": year, "--kind": kind, "--filters": filters}
        if given := [option for option, value in ranked.items() if value]:
            raise BadRequest(f"{given[0]} belongs to a ranked search; write it into the Boolean query, such as 2020:2030[dp]")
        request: dict[str, Any] = {"query": text, "sources": source, "syntax": syntax}
    else:
        request = {
            "query": text,
            "sources": ["library"] if offline and not source else source,
            "top_k": top_k,
            "search_mode": search_mode,
            "filters": narrow_filters(parse_filters(filters), year, None, None, kind),
            "distill_enabled": False,  # the works are compared, and no sentence is read
        }

    async def save(services: Services) -> SavedInfo:
        return await add_saved(
            services,
            name,
            request,
            kind="systematic" if systematic else "search",
            schedule=schedule,
            timezone=timezone,
            webhook_address=webhook,
            replace=replace,
        )

    info = call_services(save, library, offline=offline)
    if as_json:
        print_json(info)
        return
    if info.next_run_at is None:
        note(f"Saved. To run it: outrider saved run {info.name}")
    else:
        note(f"Saved. It runs {info.schedule}, next at {_format_time(info.next_run_at)} ({info.timezone}), by outrider serve or a cron job")
        note("of: outrider saved run --due")


@saved_app.command("list")
def list_saved(as_json: JsonOption = False) -> None:
    """List the saved searches with their last run."""
    from outrider.usecases import saved

    infos = call_services(saved.list_saved)
    if as_json:
        print_json([info.model_dump(mode="json") for info in infos])
        return
    listing = table("name", "query", "last run", "changes", "next run")
    for info in infos:
        last = info.runs[0] if info.runs else None
        upcoming = f"{_format_time(info.next_run_at)} ({info.schedule}, {info.timezone})" if info.next_run_at is not None else "by hand"
        began = _format_time(last.started_at) if last else "never"
        listing.add_row(plain(info.name), plain(info.query), began, _changes(last), plain(info.schedule_problem or upcoming))
    console().print(listing)
    note(_count(len(infos)))


@saved_app.command()
def show(
    name: NameArgument,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="DIR", help="Write the PRISMA 2020 flow of an updated review to this folder, from a protocol's last run."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a saved search and its newest runs."""
    from outrider.usecases.saved import read_run, show_saved

    if report is not None:
        from outrider.systematic_search.prisma import make_update_flow, write_update_reports

        last, difference = call_services(lambda services: read_run(services, name))
        note(f"Reports: {', '.join(map(str, write_update_reports(make_update_flow(last, difference), report)))}")
    info = call_services(lambda services: show_saved(services, name))
    if as_json:
        print_json(info)
        return
    for field, value in (("name", info.name), ("kind", info.kind), ("query", info.query), ("library", info.library)):
        console().print(plain(f"{field}: {value}"))
    if info.next_run_at is not None:
        console().print(plain(f"schedule: {info.schedule} ({info.timezone}), next {_format_time(info.next_run_at)}"))
    if info.schedule_problem:
        console().print(plain(f"schedule: {info.schedule} ({info.timezone}): {info.schedule_problem}"))
    if info.webhook:
        console().print(plain(f"webhook: {info.webhook}"))
    listing = table("run", "began", "state", "works", "changes")
    for run in info.runs:
        problems = run.error or "; ".join(f"{source} was not read" for source in run.failed_sources)
        state = f"{'interrupted or under way' if run.status == 'running' else run.status}{f' ({problems})' if problems else ''}"
        listing.add_row(str(run.number), _format_time(run.started_at), plain(state), f"{run.works:,}", _changes(run))
    console().print(listing)


@saved_app.command("run")
def run_saved(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The saved search's name.")] = None,
    due: Annotated[bool, typer.Option("--due", help="All whose schedule is due; for a cron job.")] = False,
    offline: OfflineOption = False,
    as_json: JsonOption = False,
) -> int:
    """Run a saved search now, or all that are due, and show what changed since the last run.

    Exit code 3 if a run failed, or if a source of a protocol was not read to its end.
    """
    from outrider.usecases.saved import find_due

    if (name is None) is not due:
        raise BadRequest("name a saved search to run, or give --due")
    outcomes, code = [], 0

    def note_problem(saved: SavedSearch, error: SearchError) -> None:
        nonlocal code
        code = FAILED  # the others run
        note(f"{saved.name}:")
        report_error(error)

    found: tuple[SavedSearch, ...]
    if due:
        found = call_services(lambda services: find_due(services, note_problem))
    else:
        found = (call_services(lambda services: _get(services, str(name))),)
    for saved in found:
        try:
            outcome = _run_one(saved, offline=offline, quiet=as_json)
        except SearchError as error:
            if not due:
                raise
            note_problem(saved, error)
            continue
        outcomes.append(outcome)
        if saved.kind == "systematic" and outcome.run.failed_sources:
            code = INCOMPLETE
        if not as_json:
            _show_outcome(outcome)
    if as_json:
        values = [outcome.model_dump(mode="json") for outcome in outcomes]
        print_json(values if due else values[0])
    elif due:
        note(f"{_count(len(outcomes))} run")
    return code


@saved_app.command()
def diff(
    name: NameArgument,
    before: Annotated[int | None, typer.Option("--from", metavar="RUN", help="The earlier run. Default: the one before.")] = None,
    after: Annotated[int | None, typer.Option("--to", metavar="RUN", help="The later run. Default: the last one.")] = None,
    form: Annotated[str, typer.Option("--format", help="markdown for a digest; atom or rss for a feed of the newest runs.")] = "",
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write that to this file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is new, changed and gone between two runs, each work with its cause."""
    from outrider.usecases.saved import DIGESTS, diff_runs, write_digest

    if form and form not in DIGESTS:
        raise BadRequest(f"--format takes {', '.join(DIGESTS)}, not {form!r}{did_you_mean(form, DIGESTS)}")
    if output is not None and not form:
        form = "markdown"
    if form:
        chosen: Any = form
        text = call_services(lambda services: write_digest(services, name, chosen, before, after))
        if output is None:
            data_output().write(text)
            return
        from outrider.interfaces.cli.export import open_output

        with open_output(output) as stream:
            stream.write(text)
        note(f"Written to {output}")
        return
    difference = call_services(lambda services: diff_runs(services, name, before, after))
    if as_json:
        print_json(difference)
    else:
        _show_difference(difference)


@saved_app.command()
def remove(name: NameArgument, as_json: JsonOption = False) -> None:
    """Delete a saved search with its runs. Ledgers and manifests of systematic runs stay."""
    from outrider.usecases.saved import remove_saved

    runs = call_services(lambda services: remove_saved(services, name))
    if as_json:
        print_json({"removed": name, "runs": runs})
    else:
        note(f"Removed {name} with {count(runs, 'run')}")


async def _get(services: Services, name: str) -> SavedSearch:
    import asyncio

    from outrider.services.saved_queue import find_saved_store

    return await asyncio.to_thread(find_saved_store(services.settings).get, name)


def _run_one(saved: SavedSearch, *, offline: bool, quiet: bool) -> Outcome:
    """Run over the library that it was saved with."""
    from outrider.usecases.saved import run_now

    with Progress("reading", quiet=quiet) as bar:
        return call_services(
            lambda services: run_now(services, saved.name, lambda source, hits: bar.show(f"{source}: hits", hits, None)),
            saved.library,
            offline=offline,
        )


def _show_outcome(outcome: Outcome) -> None:
    if outcome.difference is None:
        note(f"{outcome.name}: {count(outcome.run.works, 'work')}; the next run is compared with this one")
        for name, why in outcome.run.failed_sources.items():
            note(f"{name} was not read to its end: {why or 'it failed'}")
    else:
        _show_difference(outcome.difference)
    if outcome.run.webhook:
        note(f"Webhook: {outcome.run.webhook}")


def _show_difference(difference: RunDifference) -> None:
    if difference.works:
        listing = table("", "work", "cause")
        for work in difference.works[:MAX_SHOWN]:
            fields = f" ({', '.join(work.fields)})" if work.fields else ""
            cause = f"{work.cause}{fields}{f': {work.why}' if work.why else ''}"
            listing.add_row(work.change, plain(f"{work.title or work.doc_id}{f' ({work.year})' if work.year else ''}"), plain(cause))
        console().print(listing)
        if len(difference.works) > MAX_SHOWN:
            note(f"{len(difference.works) - MAX_SHOWN:,} more; all of them: outrider saved diff {difference.name} --format markdown")
    counts = [f"{difference.count(change):,} {change}" for change in ("new", "changed", "gone", "missing")]
    note(f"{difference.name}: run {difference.before} to run {difference.after}: {', '.join(counts)}")
    if difference.counts_only:
        note(f"Only counts, such as citations, changed in {difference.counts_only:,} more")
    if difference.still_missing:
        note(f"{difference.still_missing:,} more were missing before, and still are: their source failed again")
    for remark in difference.remarks:
        note(remark)


def _changes(run: Any) -> str:
    if run is None or run.status != "complete":
        return ""
    if run.changes is None:
        return "first run"
    return ", ".join(f"{number:,} {change}" for change, number in run.changes.items() if number) or "none"


def _count(number: int) -> str:
    return f"{number:,} saved search{'es' * (number != 1)}"


def _format_time(moment: float) -> str:
    from outrider.usecases.threads import format_time

    return format_time(moment)
