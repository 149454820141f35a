"""`outrider ingest`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, services, wait_for
from outrider.interfaces.cli.terminal import Progress, console, going_on, note, plain, table
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from outrider.ingest.pipeline import IngestProgress
    from outrider.ingest.report import IngestReport, VectorReport
    from outrider.services import Services

SHOWN_REASONS = 3
STYLES = {"failed": "red", "skipped": "yellow", "partial": "yellow"}


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
            "--map", metavar="FIELD=COLUMN,...", help="Columns of odd tables, for example title=Heading,abstract=Summary; may be repeated."
        ),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no service: files and folders only.")] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Read papers, bibliographies, pages, repositories and packages into the library, from files or by name.

    PDF, JATS and PubMed XML, BibTeX, RIS, EndNote XML, CSV, TSV, XLSX, JSON, JSONL (also .gz), Markdown, text and HTML. Reading the
    same files again changes nothing; what was interrupted is completed by running it again.

    An identifier is asked of the services that know it, also where a link holds one; any other link is fetched as a page. A path that
    exists is a path, whatever it looks like.
    """
    if not targets and not installed:
        raise BadRequest("nothing to ingest: name files, folders, identifiers or links, or give --installed")
    with going_on():
        made = services(library, offline=offline)
        report = wait_for(_ingest(made, targets or [], columns_of(columns or []), installed=installed, quiet=as_json))
    if as_json:
        sys.stdout.write(report.model_dump_json() + "\n")
    else:
        _show(report)
    return 0


async def _ingest(made: Services, targets: list[str], columns: Mapping[str, str], *, installed: bool, quiet: bool) -> IngestReport:
    from outrider.usecases.ingest import ingest_targets

    with Progress(size=True, quiet=quiet) as bar:
        return await ingest_targets(made, targets, columns=columns, installed=installed, progress=_drawn(bar))


def columns_of(texts: list[str]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for part in (part for text in texts for part in text.split(",")):
        field, equals, column = (piece.strip() for piece in part.partition("="))
        if not (field and equals and column):
            raise BadRequest(f"--map takes FIELD=COLUMN pairs such as title=Heading,year=Published, not {part!r}")
        if columns.setdefault(field, column) != column:
            raise BadRequest(f"--map names two columns for {field!r}: {columns[field]!r} and {column!r}")
    return columns


def _drawn(bar: Progress) -> Callable[[IngestProgress], None]:
    started = time.monotonic()

    def draw(now: IngestProgress) -> None:
        rate = now.records / max(time.monotonic() - started, 0.001)
        reading = now.current.name if isinstance(now.current, Path) else now.current
        what = f"embedding {now.embedding[0]:,} of {now.embedding[1]:,}" if now.embedding else reading
        bar.show(what or "reading", now.bytes_done, now.bytes_total, f"{now.records:,} records, {rate:,.0f}/s")

    return draw


def _show(report: IngestReport) -> None:
    odd = [file for file in report.files if file.status in STYLES or (file.target and file.reasons)]
    if odd:
        listing = table("file or target", "status", "why")
        for file in odd:
            why = "; ".join(file.reasons[:SHOWN_REASONS]) + ("; ..." if len(file.reasons) > SHOWN_REASONS else "")
            listing.add_row(plain(file.path), plain(file.status, STYLES.get(file.status, "")), plain(why))
        console().print(listing)
    counts = ", ".join(f"{getattr(report, name):,} {name}" for name in ("added", "updated", "unchanged", "skipped", "failed"))
    took = f"in {report.took_ms / 1000:.1f} s ({report.records_per_s:,.0f} records/s)"
    console().print(plain(f"{counts} from {_counted(report)} {took}", "bold"))
    _show_vectors(report.vectors)
    if not report.files:
        note("No file was found there; hidden files and folders are left out.")
    if report.failed:
        note("What failed is listed above; the rest is in the library. Mend it and run the same command again.")


def _counted(report: IngestReport) -> str:
    """`2 files and 1 target`; without targets the files, be there any or none."""
    targets = sum(file.target for file in report.files)
    counts = [(len(report.files) - targets, "file"), (targets, "target")]
    shown = [f"{count:,} {what}{'s' * (count != 1)}" for count, what in counts if count or (what == "file" and not targets)]
    return " and ".join(shown)


def _show_vectors(vectors: VectorReport) -> None:
    if vectors.embedded or vectors.reused:
        counts = ", ".join(f"{count:,} {what}" for what, count in (("embedded", vectors.embedded), ("unchanged", vectors.reused)) if count)
        cut = f"; {vectors.cut:,} are longer than the model reads" if vectors.cut else ""
        console().print(plain(f"vectors of {vectors.model}: {counts}{cut}"))
    for reason in vectors.reasons:
        note(f"Without vector: {reason}")
    if vectors.off and vectors.without:
        note(f"{vectors.without:,} records have no vector ({vectors.off}); words find them. `outrider library reindex` embeds them later.")
