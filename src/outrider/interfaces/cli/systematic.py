"""`outrider systematic`, `replay` and `verify`: exact Boolean searches and their proof."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from contextlib import aclosing, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from outrider.interfaces.cli.export import check_picture, open_output, write_picture
from outrider.interfaces.cli.options import JsonOption, LibraryOption, OfflineOption, RecordOption, note_recording, open_services, wait_for
from outrider.interfaces.cli.terminal import INTERRUPTION_REPORTED, Progress, console, count, note, note_remarks, plain, print_json, table
from outrider.state.errors import BadRequest
from outrider.text.sanitize import without_control

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.statistics.capture_recapture import RecaptureBound
    from outrider.systematic_search.manifest import Manifest
    from outrider.systematic_search.run import Run

INCOMPLETE = TAMPERED = CHANGED = 3
"""Exit codes: a source was not read to its end; a file is not the one that the run wrote; a recording gives another response."""
MAX_HITS = 10
"""Hits shown on the terminal."""


def systematic(
    query: Annotated[
        str | None,
        typer.Argument(help="A Boolean query as for PubMed, or Ovid's lines, or a JSON object of fields and texts; - reads it from stdin."),
    ] = None,
    sources: Annotated[
        str, typer.Option("--sources", metavar="NAMES", help="Sources to search, separated by commas: library, pubmed, openalex, ...")
    ] = "library",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the hits to this file, by its suffix: .ris, .bib, .csv, .jsonl.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="DIR", help="Write PRISMA 2020 flow and PRISMA-S log to this folder.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the PRISMA 2020 flow of the run, as an .svg file.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show tree, remarks, translations and hits per line, without a run.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what the run is expected to take, as `outrider plan` does, and run nothing.")
    ] = False,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Continue an interrupted run: its folder, name or manifest.")
    ] = None,
    syntax: Annotated[
        str, typer.Option("--syntax", help="pubmed, ovid, wos, scopus, embase, ebsco, proquest or cochrane; auto detects it.")
    ] = "auto",
    folder: Annotated[Path | None, typer.Option("--folder", metavar="DIR", help="The folder of this run. Default: a new one.")] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Also write the hits of a run that is not complete.")] = False,
    record: RecordOption = None,
    offline: OfflineOption = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Find every record that a Boolean query matches and no other, with a manifest to verify it.

    Hits are written to a ledger on disk, page by page; the manifest lists queries, sources and counts. Exit code 3 if a source was not
    read to its last hit.
    """
    from outrider.systematic_search.prisma import flow_diagram, make_flow, write_reports
    from outrider.usecases.export import find_run_format

    if (query is None) == (resume is None):
        raise BadRequest("give a query, such as '\"aspirin\"[ti] AND liver[mh]', or --resume with the run to continue; not both")
    if runs_nothing := "--explain" if explain else "--dry-run" if dry_run else "":
        _check_shown(runs_nothing, query, plot)
    if record is not None and (runs_nothing or resume):
        raise BadRequest("--record records a run from its beginning; leave out --explain, --dry-run and --resume")
    if plot is not None:
        check_picture(plot)
    form = find_run_format(output) if output else ""
    services = open_services(library, offline=offline, record=record)
    parsed = _read_query(query) if query is not None else None
    names = [name.strip() for name in sources.split(",") if name.strip()]
    if explain:
        _explain(services, parsed, names, syntax, as_json=as_json)
        return 0
    if dry_run:
        from outrider.interfaces.cli.plan import show_planned

        request = {"query": parsed, "sources": names, "mode": "systematic"}
        return show_planned(services, request, syntax=syntax, as_json=as_json)
    run = wait_for(_run(services, parsed, names, syntax, folder, resume, quiet=as_json))
    note_recording(services)
    manifest = run.manifest
    assert manifest is not None  # noqa: S101 - the run came to its end
    note_remarks(manifest.remarks[len(manifest.asked.remarks) :])
    if output and (manifest.complete or partial):
        _write_hits(run, output, form)
    elif output:
        note(f"{output} is not written, since the run is not complete; --partial writes the hits so far")
    if report:
        note(f"Reports: {', '.join(map(str, write_reports(manifest, report)))}")
    if plot is not None:
        write_picture(plot, flow_diagram(make_flow(manifest)))
    recall = _bound_recall(run) if len(manifest.sources) > 1 else None
    if as_json:
        fields = {"result_set": run.result_set().model_dump(mode="json"), "manifest": manifest.model_dump(mode="json")}
        print_json(fields | {"recall_of_sources": recall.model_dump(mode="json")} if recall else fields)
    else:
        _show_run(run, manifest)
        if recall:
            note(recall.sentence)
    return 0 if manifest.complete else INCOMPLETE


def _bound_recall(run: Run) -> RecaptureBound:
    from outrider.statistics.capture_recapture import bound_recall_of_routes  # imports NumPy, which a run of one source does not need
    from outrider.systematic_search.ledger_reader import read_routes

    return bound_recall_of_routes(read_routes(run.ledger.path))


def _check_shown(option: str, query: str | None, plot: Path | None) -> None:
    """Raises `BadRequest` where an option that runs nothing has no query, or something to draw."""
    if query is None:
        raise BadRequest(f"{option} {'shows' if option == '--explain' else 'plans'} a query; give one")
    if plot is not None:
        raise BadRequest(f"--plot draws a run, and {option} runs nothing; leave one of them out")


def _write_hits(run: Run, output: Path, form: str) -> None:
    from outrider.ingest.export.csv_json import MAX_CELL_CHARS
    from outrider.systematic_search.ledger_reader import export_hits
    from outrider.usecases.export import make_run_writer

    with open_output(output) as stream:
        writer = make_run_writer(form, stream)
        written = export_hits(run.ledger.path, writer)
    note(f"{written:,} records written to {output}")
    if writer.shortened:
        note(f"{count(writer.shortened, 'cell')} of more than {MAX_CELL_CHARS:,} characters cut; the ledger has the whole text")


_JSON_START = re.compile(r"\s*\{\s*(?:[\"'}]|\Z|\w+\s*:)")
"""Other texts may begin with a brace, too: `{OR #1-#3}` of the Cochrane Library, `{heart attack}` of Scopus."""


def _read_query(text: str) -> str | dict[str, str]:
    query = sys.stdin.read() if text == "-" else text
    if not _JSON_START.match(query):
        return query
    try:
        fields = json.loads(query)
    except (ValueError, RecursionError) as error:
        raise BadRequest(
            f'the query begins as a JSON object and is not one ({error}); write for example \'{{"title": "aspirin"}}\''
        ) from error
    return dict(fields)


async def _run(
    services: Services, query: Any, names: list[str], syntax: Any, folder: Path | None, resume: str | None, *, quiet: bool
) -> Run:
    """Read all pages. After an interruption the hits so far are kept, and a note shows how to continue."""
    from asyncio import CancelledError

    from outrider.services.systematic import begin_run, resume_run
    from outrider.usecases.recorded_run import RecordedRun, make_systematic_response

    recorded = None
    if resume is None:
        recorded = RecordedRun(services, "systematic", {"query": query, "sources": names, "syntax": syntax})
        with recorded.on_tape():
            run = await begin_run(services, query, names, syntax=syntax, folder=folder, say=note)
    else:
        run = await resume_run(services, resume, note)
        note(f"The run is complete: {run.hits:,} hits." if run.is_finished else f"Continuing after hit {run.hits:,}.")
    note_remarks(run.request.remarks)
    try:
        with Progress("reading", quiet=quiet) as bar, recorded.on_tape() if recorded else nullcontext():
            async with aclosing(run), aclosing(run.pages()) as pages:
                async for page in pages:
                    bar.show(f"{page.source}: hits", run.hits, None)
        if recorded is not None:
            await recorded.finish(make_systematic_response(run))
    except CancelledError:
        note(f"Interrupted after {run.hits:,} hits, which are saved. To continue: outrider systematic --resume {run.folder}")
        raise typer.Exit(INTERRUPTION_REPORTED) from None
    except BaseException:
        note(f"{run.hits:,} hits are saved. To continue: outrider systematic --resume {run.folder}")
        raise
    finally:
        services.close()
    return run


def _show_run(run: Run, manifest: Manifest) -> None:
    from outrider.state.notices import list_notices
    from outrider.systematic_search.ledger_reader import read_pages

    out = console()
    first = next(read_pages(run.ledger.path), None)
    hits = first.hits[:MAX_HITS] if first else ()
    for hit in hits:
        year = f"{hit.record.year} " if hit.record.year else ""
        out.print(plain(f"{hit.number}. {year}{hit.record.title or hit.record.doc_id} ({hit.record.doc_id})"), soft_wrap=True)
        for notice in list_notices(hit.record):
            out.print(plain(f"   {notice.describe()}", "bold red"), soft_wrap=True)
    if manifest.total > len(hits):
        out.print(plain(f"... and {manifest.total - len(hits):,} more", "dim"))
    works = f", {manifest.unique:,} different works" if manifest.duplicates else ""
    out.print(plain(f"{count(manifest.total, 'hit')}{works}. {'Complete.' if manifest.complete else 'NOT COMPLETE.'}", "bold"))
    for missing in manifest.missing:
        out.print(plain(f"missing {missing}", "red"), soft_wrap=True)
    if snapshot := manifest.asked.snapshot:
        out.print(plain(f"library {snapshot.library} version {snapshot.version} (tag {snapshot.tag})"), soft_wrap=True)
    out.print(plain(f"run {run.folder}"), soft_wrap=True)
    check = f"outrider verify {run.folder / 'manifest.json'}"
    out.print(plain(f"proof provenance {manifest.provenance_hash}; check with: {check}"), soft_wrap=True)


def _explain(services: Services, query: Any, names: list[str], syntax: Any, *, as_json: bool) -> None:
    from outrider.boolean.printer import format_history, outline
    from outrider.usecases.explain_query import explain_query

    try:
        with Progress("counting", quiet=as_json) as bar:
            show = partial(bar.show, "counting lines")
            explanation = wait_for(explain_query(services, query, names, syntax, show))
    finally:
        services.close()
    if as_json:
        print_json(explanation.as_json())
        return
    sections = [("Parsed tree", outline(explanation.parsed.tree)), ("Search history", format_history(explanation.rows))]
    sections += [(f"Query for {name}", text) for name, text in explanation.translations()]
    if explanation.findings:
        sections.append(("Remarks", "\n".join(f"{finding.code}: {finding}" for finding in explanation.findings)))
    for title, text in sections:
        console().print(plain(title, "bold"))
        for line in text.splitlines():
            console().print(Text("  " + without_control(line)), soft_wrap=True)
    if explanation.why_not_counted:
        note(f"Hits are not counted: {explanation.why_not_counted}")


def replay(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A recording (.zip), or a systematic run: its manifest, folder or name.")],
    other: Annotated[str | None, typer.Argument(metavar="[OTHER]", help="With --diff: another recording to compare with.")] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Of a recording: list node by node what changed.")] = False,
    pinned: Annotated[bool, typer.Option("--pinned", help="Read the library at the version of the run, not at the present one.")] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run it again: a recording offline, byte for byte; a systematic run against its sources, with each hit gained, lost or changed.

    A recording holds all answers of models, services and library: exit code 3 if the nodes make another response of them now.
    """
    from outrider.recorder.recording import is_recording

    if is_recording(Path(run)):
        if pinned or library is not None:
            raise BadRequest("a recording is replayed without a library; leave out --pinned and --library")
        return _replay_recording(Path(run), other, diff=diff, as_json=as_json)
    if diff or other is not None:
        raise BadRequest(f"--diff compares recordings (.zip files), and {run} is none")
    from outrider.usecases.systematic import replay_run

    services = open_services(library)
    try:
        with Progress("reading", quiet=as_json) as bar:

            def show(source: str, hits: int) -> None:
                bar.show(f"{source}: hits", hits, None)

            result = wait_for(replay_run(services, run, pinned=pinned, on_page=show, say=note))
    finally:
        services.close()
    note_remarks(result.run_remarks)
    if as_json:
        fields: dict[str, Any] = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
        fields["differences"] = [dataclasses.asdict(difference) for difference in result.differences]
        for name in ("snapshot_before", "snapshot_now"):
            fields[name] = fields[name].model_dump(mode="json") if fields[name] else None
        print_json({"empty": result.empty, **fields, "tool_before": dict(result.tool_before), "tool_now": dict(result.tool_now)})
        return 0
    if result.empty:
        console().print(plain(f"No difference: {result.before:,} hits then, the same {result.now:,} now."))
    else:
        listing = table("", "source", "id", "cause", "title")
        for row in result.differences:
            listing.add_row(row.change, row.source, plain(row.doc_id), plain(row.cause), plain(row.title))
        console().print(listing)
        counts = [(sum(row.change == change for row in result.differences), change) for change in ("gained", "lost", "changed")]
        changes = ", ".join(f"{number:,} {change}" for number, change in counts if number)
        console().print(plain(f"{result.before:,} hits then, {result.now:,} now: {changes}", "bold"))
    for remark in result.remarks:
        note(remark)
    return 0


def _replay_recording(file: Path, other: str | None, *, diff: bool, as_json: bool) -> int:
    from outrider.usecases.replay_recording import replay_recording

    if other is not None and not diff:
        raise BadRequest(f"two recordings are compared with --diff: outrider replay {file} {other} --diff")
    result = replay_recording(file, other)
    if as_json:
        print_json(result.to_json())
        return 0 if result.same or other else CHANGED
    out = console()
    if result.same:
        out.print(plain(f"The same response, byte for byte: sha256 {result.sha256_now}"), soft_wrap=True)
    else:
        where = f" First difference at node {result.first_node}." if result.first_node else ""
        out.print(plain(f"Another response.{where}", "bold"))
    if diff:
        # a text that the recording leaves out makes a node differ, though not the response
        different = "different, without effect on the response" if result.same else "different"
        listing = table("node", "compared")
        for node, same in result.nodes:
            listing.add_row(plain(node), plain("the same" if same else different))
        out.print(listing)
    for difference in result.differences if diff else result.differences[:MAX_HITS]:
        out.print(plain(difference.describe()), soft_wrap=True)
    if not diff and len(result.differences) > MAX_HITS:
        note(f"{len(result.differences) - MAX_HITS:,} more differences: --diff")
    for missing in result.lacks:
        note(f"The recording lacks the {missing}")
    for remark in result.remarks:
        note(remark)
    return 0 if result.same or other else CHANGED


def verify(
    manifest: Annotated[Path, typer.Argument(metavar="MANIFEST", help="The manifest of a run, or its folder.")],
    result: Annotated[
        Path | None, typer.Argument(metavar="[RESULT]", help="The delivered file: the ledger, an exported file, an audit log.")
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="PEM", help="The key that must have signed the manifest.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Check offline that a manifest, its ledger and a delivered file are those that the run wrote. Exit code 3 if they are not."""
    from outrider.usecases.systematic import verify as verify_files

    verdict = verify_files(manifest, result, key=key)
    if as_json:
        faults = [dataclasses.asdict(fault) for fault in verdict.faults]
        print_json({"sound": verdict.sound, "faults": faults, "checked": list(verdict.checked), "signed_by": verdict.signed_by})
        return 0 if verdict.sound else TAMPERED
    for fault in verdict.faults:
        console().print(plain(str(fault), "red"))
    if verdict.sound:
        console().print(plain(f"Sound: {'; '.join(verdict.checked)}."))
        console().print(plain(f"Signed by the Ed25519 key {verdict.signed_by}." if verdict.signed_by else "It is not signed.", "dim"))
    return 0 if verdict.sound else TAMPERED
