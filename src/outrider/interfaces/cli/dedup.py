"""`outrider dedup`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.interfaces.cli.export import complete_file, format_of
from outrider.interfaces.cli.ingest import columns_of
from outrider.interfaces.cli.options import JsonOption
from outrider.interfaces.cli.terminal import Progress, console, note, plain

if TYPE_CHECKING:
    from outrider.ingest.deduplicate_files import FileDeduplication
    from outrider.ingest.entry import ReadOptions
    from outrider.linkage.out_of_core import Group
    from outrider.linkage.resolve import Pair, Related

SHOWN, SHOWN_REASONS = 10, 3


def dedup(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files and folders, of any format that `outrider ingest` reads.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write one record for each work: .ris, .bib, .csv, .json, .jsonl, .md."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="FIELD=COLUMN,...", help="Columns of odd tables, for example id=Key,title=Heading; may be repeated."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    r"""Find the records of files that are one work. The files stay as they are, and no library is needed.

    --json prints {"groups": \[\[id, ...], ...], "reasons": \[\[line, ...], ...]} by the records' own ids: each record in exactly one
    group, those without a duplicate alone, reasons in parallel; and "unsure", pairs that stayed apart and may be one work, and "related".
    """
    form = format_of(output) if output else ""
    from outrider.ingest.deduplicate_files import deduplicate_files

    if output:
        _spared(output, files)

    with Progress("reading", quiet=as_json) as bar, deduplicate_files(files, _options(columns), bar.show) as found:
        if output:
            written = _write(found, form, output, bar)
        if as_json:
            _print_json(found)
        elif not output:
            _show(found)
    for said in found.notes:
        note(said)
    if output:
        note(f"{written:,} works of {len(found):,} records written to {output}")


def _spared(output: Path, files: list[Path]) -> None:
    from outrider.ingest.file_walk import walk
    from outrider.state.errors import BadRequest

    if output.resolve() in {found.path for found in walk(files)}:
        raise BadRequest(f"{output} is one of the files that are read, and these stay as they are; give another name to --output")


def _options(columns: list[str] | None) -> ReadOptions:
    from outrider.ingest.entry import ReadOptions
    from outrider.settings.load import load

    bounds = load().settings.ingest
    return ReadOptions(columns=columns_of(columns or []), max_bytes=bounds.max_bytes, max_pages=bounds.max_pages)


def _write(found: FileDeduplication, form: str, output: Path, bar: Progress) -> int:
    from outrider.ingest.export import make_writer

    written = 0
    with complete_file(output) as stream:
        writer = make_writer(form, stream)
        writer.begin()
        for group in found.groups():
            writer.record(found.work(group))
            written += 1
            bar.show("writing", written, None)
        writer.end()
    return written


def _print_json(found: FileDeduplication) -> None:
    """Piece by piece: a large answer is never held whole."""
    out = sys.stdout
    out.write('{"groups": [')
    for at, group in enumerate(found.groups()):
        out.write((", " if at else "") + json.dumps([found.ids[place] for place in group.places], ensure_ascii=False))
    out.write('], "reasons": [')
    for at, group in enumerate(found.groups()):
        out.write((", " if at else "") + json.dumps(group.reasons, ensure_ascii=False))
    unsure, related = [_unsure(found, pair) for pair in found.unsure()], [_related(found, one) for one in found.related()]
    out.write(f'], "unsure": {json.dumps(unsure, ensure_ascii=False)}, "related": {json.dumps(related, ensure_ascii=False)}}}\n')


def _unsure(found: FileDeduplication, pair: Pair) -> dict[str, Any]:
    return {"ids": [found.ids[pair.one], found.ids[pair.other]], "score": round(pair.judgement.score, 2), "why": pair.judgement.why()}


def _related(found: FileDeduplication, one: Related) -> dict[str, Any]:
    first, second = (one.one, one.other) if one.relation.forward else (one.other, one.one)
    return {"ids": [found.ids[first], found.ids[second]], "relation": one.relation.kind, "why": one.relation.why}


def _show(found: FileDeduplication) -> None:
    out = console()
    works = several = 0
    for group in found.groups():
        works += 1
        if len(group.places) > 1:
            several += 1
            if several <= SHOWN:
                _show_group(found, group)
    read = f"{_counted(len(found), 'record')} of {_counted(found.files, 'file')}"
    out.print(plain(f"{read}: {_counted(works, 'work')}, {several:,} of several records.", "bold"))
    if several > SHOWN:
        out.print(f"The first {SHOWN} of these stand above; --json has all.")
    if unsure := len(found.unsure()):
        out.print(f"{_counted(unsure, 'pair')} may be one work and stayed apart: --json lists them as unsure.")
    if related := len(found.related()):
        out.print(f"Related, not one work, such as a preprint and its article: {_counted(related, 'pair')}; --json lists them.")
    note("Write one record for each work with: -o works.ris")


def _show_group(found: FileDeduplication, group: Group) -> None:
    out = console()
    record = found.work(group)
    title = record.title or record.full_text()[:80] or "without a title"
    out.print(plain(title + (f" ({record.year})" if record.year else ""), "bold"))
    out.print(plain("  " + ", ".join(found.ids[place] for place in group.places)))
    for reason in group.reasons[:SHOWN_REASONS]:
        out.print(plain(reason, "dim"))
    if len(group.reasons) > SHOWN_REASONS:
        out.print(plain(f"and {len(group.reasons) - SHOWN_REASONS} more", "dim"))


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
