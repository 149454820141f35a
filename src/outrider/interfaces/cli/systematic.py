"""`outrider systematic`, `outrider replay`, `outrider verify`."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from outrider.interfaces.cli.export import complete_file
from outrider.interfaces.cli.options import JsonOption, LibraryOption, services, wait_for
from outrider.interfaces.cli.terminal import INTERRUPTED_AND_SAID, Progress, console, note, plain, table
from outrider.state.errors import BadRequest
from outrider.text.sanitize import without_control

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.systematic_search.manifest import Manifest
    from outrider.systematic_search.replay import Replayed
    from outrider.systematic_search.run import Run
    from outrider.usecases.explain_query import QueryExplanation

INCOMPLETE = TAMPERED = 3
"""Exit codes: what came is not all that there is; what was checked is not what was written."""
FIRST = 10
"""Hits that people see at once."""


def systematic(
    query: Annotated[
        str | None,
        typer.Argument(help="A Boolean query as for PubMed, or Ovid's lines, or a JSON object of fields and texts; - reads it from stdin."),
    ] = None,
    sources: Annotated[
        str, typer.Option("--sources", metavar="NAMES", help="Who is asked, with commas between: library, pubmed, openalex, ...")
    ] = "library",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the hits here, by its suffix: .ris, .bib, .csv, .jsonl.")
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", metavar="DIR", help="Write PRISMA 2020 flow and PRISMA-S log there.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show tree, remarks, translations and hits per line; run nothing.")] = False,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Go on with a run that broke off: its folder, name or manifest.")
    ] = None,
    syntax: Annotated[str, typer.Option("--syntax", help="pubmed or ovid; auto sees it by the query's signs.")] = "auto",
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="DIR", help="The folder of this run; by default one of its own.")
    ] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Write the hits of a run that is not complete, too.")] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Find every record that a Boolean query matches and no other, and keep the proof.

    Hits go to a ledger on disk, page by page; a manifest says what was asked of whom and what came. Exit code 3 where a source was not
    read to its last hit.
    """
    from outrider.usecases.systematic import find_run_format

    _require_one(query, resume, explain)
    form = find_run_format(output) if output else ""
    made = services(library)
    asked = _query(query) if query is not None else None
    names = [name.strip() for name in sources.split(",") if name.strip()]
    if explain:
        _show_explained(wait_for(_explained(made, asked, names, syntax, quiet=as_json)), as_json=as_json)
        return 0
    run = wait_for(_run(made, asked, names, syntax, folder, resume, quiet=as_json))
    told = run.manifest
    assert told is not None  # noqa: S101 - the run came to its end
    if output and (told.complete or partial):
        note(f"{_write(run, form, output):,} records written to {output}")
    elif output:
        note(f"{output} is not written, since the run is not complete; --partial writes what came")
    if report:
        from outrider.systematic_search.prisma_reports import write_reports

        note(f"Reports: {', '.join(map(str, write_reports(told, report)))}")
    _show_run(run, told, as_json=as_json)
    return 0 if told.complete else INCOMPLETE


def _require_one(query: str | None, resume: str | None, explain: bool) -> None:
    if (query is None) == (resume is None):
        raise BadRequest("give a query, such as '\"aspirin\"[ti] AND liver[mh]', or --resume with the run to go on with; not both")
    if explain and query is None:
        raise BadRequest("--explain shows a query; give one")


def _query(text: str) -> str | dict[str, str]:
    said = sys.stdin.read() if text == "-" else text
    if not said.lstrip().startswith("{"):
        return said
    try:
        fields = json.loads(said)
    except (ValueError, RecursionError) as error:
        raise BadRequest(
            f'the query begins as a JSON object and is none ({error}); write for example \'{{"title": "aspirin"}}\''
        ) from error
    return dict(fields)


async def _run(made: Services, query: Any, names: list[str], syntax: Any, folder: Path | None, resume: str | None, *, quiet: bool) -> Run:
    """To its end, page by page; Ctrl-C keeps what came, and says how to go on."""
    from outrider.services.systematic import begin_run, resume_run

    if resume is None:
        run = await begin_run(made, query, names, syntax=syntax, folder=folder, say=note)
    else:
        run = await resume_run(made, resume, note)
        note(f"The run is complete: {run.hits:,} hits." if run.is_finished else f"Going on behind hit {run.hits:,}.")
    try:
        with Progress("reading", quiet=quiet) as bar:
            async with aclosing(run), aclosing(run.pages()) as pages:
                async for page in pages:
                    bar.show(f"{page.source}: hits", run.hits, None)
    except asyncio.CancelledError:
        note(f"Interrupted after {run.hits:,} hits, which are kept. Go on with: outrider systematic --resume {run.folder}")
        raise typer.Exit(INTERRUPTED_AND_SAID) from None
    except BaseException:
        note(f"{run.hits:,} hits came, and are kept. Go on with: outrider systematic --resume {run.folder}")
        raise
    finally:
        made.close()
    return run


def _write(run: Run, form: str, output: Path) -> int:
    from outrider.ingest.export import make_writer
    from outrider.systematic_search.ledger_reader import export_hits

    with complete_file(output) as stream:
        return export_hits(run.ledger.path, make_writer(form, stream))


def _show_run(run: Run, told: Manifest, *, as_json: bool) -> None:
    if as_json:
        both = {"result_set": run.result_set().model_dump(mode="json"), "manifest": told.model_dump(mode="json")}
        sys.stdout.write(json.dumps(both, ensure_ascii=False) + "\n")
        return
    from outrider.systematic_search.ledger_reader import read_pages

    out = console()
    first = next(read_pages(run.ledger.path), None)
    shown = first.hits[:FIRST] if first else ()
    for one in shown:
        year = f"{one.record.year} " if one.record.year else ""
        out.print(plain(f"{one.number}. {year}{one.record.title or one.record.doc_id} ({one.record.doc_id})"), soft_wrap=True)
    if told.total > len(shown):
        out.print(plain(f"... and {told.total - len(shown):,} more", "dim"))
    counted = f"{told.total:,} hit{'' if told.total == 1 else 's'}" + (f", {told.unique:,} different works" if told.duplicates else "")
    out.print(plain(f"{counted}. {'Complete.' if told.complete else 'NOT COMPLETE.'}", "bold"))
    for said in told.missing:
        out.print(plain(f"missing {said}", "red"), soft_wrap=True)
    if told.asked.snapshot:
        snapshot = told.asked.snapshot
        out.print(plain(f"library {snapshot.library} version {snapshot.version} (tag {snapshot.tag})"), soft_wrap=True)
    out.print(plain(f"run {run.folder}"), soft_wrap=True)
    check = f"outrider verify {run.folder / 'manifest.json'}"
    out.print(plain(f"proof provenance {told.provenance_hash}; check with: {check}"), soft_wrap=True)


async def _explained(made: Services, query: Any, names: list[str], syntax: Any, *, quiet: bool) -> QueryExplanation:
    from outrider.usecases.explain_query import explain_query

    try:
        with Progress("counting", quiet=quiet) as bar:
            return await explain_query(made, query, names, syntax, lambda done, of: bar.show("counting lines", done, of))
    finally:
        made.close()


def _show_explained(said: QueryExplanation, *, as_json: bool) -> None:
    from outrider.boolean.explain import format_history, outline

    if as_json:
        sys.stdout.write(json.dumps(said.as_json(), ensure_ascii=False) + "\n")
        return
    sections = [("Parsed tree", outline(said.parsed.tree)), ("Search history", format_history(said.rows))]
    sections += [(f"Asked of {name}", text) for name, text in said.translations()]
    if said.findings:
        sections.append(("Remarks", "\n".join(f"{one.code}: {one}" for one in said.findings)))
    for title, text in sections:
        console().print(plain(title, "bold"))
        for line in text.splitlines():
            console().print(Text("  " + without_control(line)), soft_wrap=True)
    if said.why_not_counted:
        note(f"Hits are not counted: {said.why_not_counted}")


def replay(
    run: Annotated[str, typer.Argument(metavar="MANIFEST", help="The manifest of a run, its folder or its name.")],
    pinned: Annotated[bool, typer.Option("--pinned", help="Read the library at the version that the run read, not as it is now.")] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run it again, and name each hit gained, lost or changed, with its cause."""
    found = wait_for(_replayed(services(library), run, pinned=pinned, quiet=as_json))
    if as_json:
        sys.stdout.write(json.dumps(_said(found), ensure_ascii=False) + "\n")
        return 0
    if found.empty:
        console().print(plain(f"No difference: {found.before:,} hits then, the same {found.now:,} now."))
    else:
        listing = table("", "source", "id", "cause", "title")
        for one in found.differences:
            listing.add_row(one.change, one.source, plain(one.doc_id), plain(one.cause), plain(one.title))
        console().print(listing)
        counts = [(sum(one.change == change for one in found.differences), change) for change in ("gained", "lost", "changed")]
        told = ", ".join(f"{count:,} {change}" for count, change in counts if count)
        console().print(plain(f"{found.before:,} hits then, {found.now:,} now: {told}", "bold"))
    for remark in found.remarks:
        note(remark)
    return 0


def _said(found: Replayed) -> dict[str, Any]:
    said: dict[str, Any] = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    said["differences"] = [dataclasses.asdict(one) for one in found.differences]
    for name in ("snapshot_before", "snapshot_now"):
        said[name] = said[name].model_dump(mode="json") if said[name] else None
    return {"empty": found.empty, **said, "tool_before": dict(found.tool_before), "tool_now": dict(found.tool_now)}


async def _replayed(made: Services, run: str, *, pinned: bool, quiet: bool) -> Replayed:
    from outrider.usecases.systematic import replay_run

    try:
        with Progress("reading", quiet=quiet) as bar:
            return await replay_run(
                made, run, pinned=pinned, on_page=lambda source, hits: bar.show(f"{source}: hits", hits, None), say=note
            )
    finally:
        made.close()


def verify(
    manifest: Annotated[Path, typer.Argument(metavar="MANIFEST", help="The manifest of a run, or its folder.")],
    result: Annotated[
        Path | None, typer.Argument(metavar="[RESULT]", help="The delivered file: the ledger, an exported file, an audit log.")
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="PEM", help="The key that must have signed the manifest.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Check offline that a manifest, its ledger and what was delivered are what the run wrote; exit code 3 where they are not."""
    from outrider.usecases.systematic import verify as verify_files

    verdict = verify_files(manifest, result, key=key)
    if as_json:
        said = {"sound": verdict.sound, "faults": [dataclasses.asdict(one) for one in verdict.faults], "checked": list(verdict.checked)}
        sys.stdout.write(json.dumps({**said, "signed_by": verdict.signed_by}, ensure_ascii=False) + "\n")
        return 0 if verdict.sound else TAMPERED
    for fault in verdict.faults:
        console().print(plain(str(fault), "red"))
    if verdict.sound:
        console().print(plain(f"Sound: {'; '.join(verdict.checked)}."))
        console().print(plain(f"Signed by the Ed25519 key {verdict.signed_by}." if verdict.signed_by else "It is not signed.", "dim"))
    return 0 if verdict.sound else TAMPERED
