"""`outrider ingest`: files, targets and installed packages into the library."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.interfaces.cli.options import AddressOption, JsonOption, LibraryOption, OnOption, open_services, parse_columns, wait_for
from outrider.interfaces.cli.terminal import MAX_REASONS, Progress, console, count, note, plain, print_json, resumable, table
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from outrider.ingest.pipeline import IngestProgress, Prune
    from outrider.ingest.report import IngestReport

STYLES = {"failed": "red", "skipped": "yellow", "partial": "yellow"}
MAX_ALIKE = 10
"""Files skipped for one reason that are all named. A folder of code would hide the failures between thousands of lines."""


def ingest(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET...",
            help="Files and folders; doi:10.1000/x, arxiv:2101.00001, pmid:123, pmcid:PMC123, github:owner/name; links.",
        ),
    ] = None,
    installed: Annotated[
        bool, typer.Option("--installed", help="Also the Python packages installed in this environment, as repositories.")
    ] = False,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="FIELD=COLUMN,...",
            help="Columns of unusual tables, such as title=Heading,abstract=Summary; may be repeated.",
        ),
    ] = None,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="List the records that are no longer in these files, or whose files were deleted. Nothing is removed without --yes.",
        ),
    ] = False,
    yes: Annotated[
        bool | None,
        typer.Option("--yes/--dry-run", help="With --prune: remove the records that it lists, or only list them.", show_default="dry-run"),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Contact nothing but this machine: files and folders only.")] = False,
    on: OnOption = "",
    address: AddressOption = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Read papers, bibliographies, pages, repositories and packages into the library, from files or by name.

    PDF, Word (.docx), EPUB, Jupyter notebooks, JATS and PubMed XML, BibTeX, RIS, CSL-JSON, MEDLINE, Web of Science, Ovid, EndNote,
    RefWorks, MODS, CITATION.cff, CSV, TSV, XLSX, JSON, JSONL (also .gz), Markdown, text and HTML. Reading the same files again changes
    nothing. After an interruption, run the same command to continue.

    A renamed file keeps its records. Records that were deleted from a file, and those of deleted files, stay in the library and are
    reported; --prune lists them, --prune --yes removes them.

    An identifier, also one in a link, is looked up in the services that know it; any other link is fetched as a page. A path that
    exists is a path, even if it looks like an identifier.

    With --on ray the workers of a cluster read the files, which they must see under the same paths, and embed the records. The library is
    written by this command alone.
    """
    if not targets and not installed:
        raise BadRequest("nothing to ingest: name files, folders, identifiers or links, or give --installed")
    if yes is not None and not prune:
        raise BadRequest("--yes and --dry-run belong to --prune, which is missing; --prune alone lists what --prune --yes would remove")
    from outrider.cluster.task_map import check_on
    from outrider.usecases.ingest import ingest_targets

    check_on(on, address)
    started = time.monotonic()
    with resumable(), Progress("opening the library", size=True, quiet=as_json) as bar:

        def show(progress: IngestProgress) -> None:
            rate = progress.records / max(time.monotonic() - started, 0.001)
            doing = progress.current.name if isinstance(progress.current, Path) else progress.current
            detail = f"{count(progress.records, 'record')}, {rate:,.0f}/s" if progress.records else ""
            if progress.embedding:
                bar.show("embedding", *progress.embedding, size=False)
            else:
                bar.show(doing or "reading", progress.bytes_done, progress.bytes_total, detail, size=True)

        services, fields = open_services(library, offline=offline, address=address), parse_columns(columns or [])
        mode: Prune = ("remove" if yes else "list") if prune else ""
        report = wait_for(
            ingest_targets(services, targets or [], columns=fields, installed=installed, progress=show, prune=mode, on=on),
        )
    if as_json:
        print_json(report)
    else:
        names = _name_files([*(file.path for file in report.files), *(one.path for one in report.stale)], targets or [])
        _show(report, library, names)
        _show_stale(report, names, listed=prune)
    return 0


def _name_files(paths: Iterable[str], targets: Sequence[str]) -> dict[str, str]:
    """How each path is shown: relative to the folder if that is the only target, else to the working folder if it is in there."""
    only = Path(targets[0]) if len(targets) == 1 else None
    bases = [only.absolute(), only.resolve()] if only is not None and only.is_dir() else []
    bases.append(Path.cwd())
    names = {}
    for path in paths:
        base = next((base for base in bases if base in Path(path).parents), None)
        names[path] = path if base is None else str(Path(path).relative_to(base))
    alike = Counter(names.values())
    return {path: name if alike[name] == 1 else path for path, name in names.items()}


def _show(report: IngestReport, library: str | None, names: Mapping[str, str]) -> None:
    listed = [file for file in report.files if file.status in STYLES or file.remarks or (file.target and file.reasons)]
    if listed:
        listing = table("file or target", "status", "why")
        alike = Counter(file.reasons for file in listed if file.status == "skipped")
        shown: Counter[tuple[str, ...]] = Counter()
        for file in listed:
            name = names[file.path]
            if file.status == "skipped" and alike[file.reasons] > MAX_ALIKE:
                shown[file.reasons] += 1
                if shown[file.reasons] > MAX_REASONS + 1:
                    continue
                if shown[file.reasons] > MAX_REASONS:
                    name = f"and {alike[file.reasons] - MAX_REASONS:,} more files, which --json lists"
            reasons = (*file.remarks, *file.reasons) if file.status in STYLES or file.target else file.remarks
            why = "; ".join(reasons[:MAX_REASONS]) + ("; ..." if len(reasons) > MAX_REASONS else "")
            listing.add_row(plain(name), plain(file.status, STYLES.get(file.status, "")), plain(why))
        console().print(listing)
    counts = ", ".join(f"{getattr(report, name):,} {name}" for name in ("added", "updated", "unchanged", "skipped", "failed"))
    took = f"in {report.took_ms / 1000:.1f} s ({report.records_per_s:,.0f} records/s)"
    targets = sum(file.target for file in report.files)
    files = len(report.files) - targets
    sources = ([count(files, "file")] if files or not targets else []) + ([count(targets, "target")] if targets else [])
    console().print(plain(f"{counts} from {' and '.join(sources)} {took}", "bold"))
    if report.untitled:
        note(f"{count(report.untitled, 'record')} of those read now {'has' if report.untitled == 1 else 'have'} no title.")
    vectors = report.vectors
    if vectors.embedded or vectors.reused:
        figures = [f"{number:,} {name}" for number, name in ((vectors.embedded, "embedded"), (vectors.reused, "unchanged")) if number]
        cut = f"; {vectors.cut:,} are longer than the model reads" if vectors.cut else ""
        console().print(plain(f"vectors of {vectors.model}: {', '.join(figures)}{cut}"))
    for reason in vectors.reasons:
        note(f"Without vector: {reason}")
    if vectors.off and vectors.without:
        records = "record has" if vectors.without == 1 else "records have"
        command = "outrider library reindex" + (f" --library {shlex.quote(library)}" if library else "")
        note(f"{vectors.without:,} {records} no vector ({vectors.off}); word search finds them. To embed them: {command}")
    if not report.files:
        note("No file was found there; hidden files and folders are left out.")
    if report.failed:
        note("The failures are listed above; the rest is in the library. Correct them and run the same command again.")


def _show_stale(report: IngestReport, names: Mapping[str, str], *, listed: bool) -> None:
    """Records that files no longer hold: listed by `--prune`, else counted."""
    if listed and report.stale:
        listing = table("file", "id", "title")
        for one in report.stale:
            rest = len(one.doc_ids) - len(one.titles)
            for doc_id, title in zip(one.doc_ids, one.titles, strict=False):
                listing.add_row(plain(names[one.path]), plain(doc_id), plain(title))
            if rest > 0:
                listing.add_row(plain(names[one.path]), "", f"and {rest:,} more; --json has all")
        console().print(listing)
    lost = sum(len(one.doc_ids) for one in report.stale if not one.gone)
    deleted = sum(len(one.doc_ids) for one in report.stale if one.gone)
    parts = [f"{count(lost, 'record')} no longer in the file they came from"] if lost else []
    parts += [f"{count(deleted, 'record')} of deleted files"] if deleted else []
    if parts and all(one.removed for one in report.stale):
        console().print(plain(f"Removed: {' and '.join(parts)}.", "bold"))
    elif parts:
        remedy = "Nothing was removed; to remove them, add --yes" if listed else "--prune lists them, --prune --yes removes them"
        files = ", ".join(f"{names[one.path]} ({len(one.doc_ids):,})" for one in report.stale[:MAX_REASONS])
        more = f" and {len(report.stale) - MAX_REASONS:,} more" if len(report.stale) > MAX_REASONS else ""
        note(f"Still in the library: {' and '.join(parts)}: {files}{more}. {remedy}.")
    elif listed:
        console().print("Every record of these files is still in them: nothing to remove.")
    if elsewhere := report.gone_elsewhere:
        more = f" and {len(elsewhere) - MAX_REASONS:,} more" if len(elsewhere) > MAX_REASONS else ""
        note(
            f"{count(len(elsewhere), 'other file')} with records in the library no longer exist here: "
            f"{', '.join(elsewhere[:MAX_REASONS])}{more}. To list their records: outrider ingest PATH --prune"
        )
