"""`outrider dedup`: deduplication of files, without a library."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.interfaces.cli.export import find_format, open_output
from outrider.interfaces.cli.options import AddressOption, JsonOption, OnOption, parse_columns
from outrider.interfaces.cli.terminal import Progress, console, count, data_output, note, plain, show_work
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from outrider.ingest.deduplicate_files import FileDeduplication

MAX_WORKS = 10


def dedup(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files and folders, of any format that `outrider ingest` reads.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write one record for each work: .ris, .bib, .csv, .json, .jsonl, .md."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="FIELD=COLUMN,...", help="Columns of unusual tables, such as id=Key,title=Heading; may be repeated."),
    ] = None,
    review: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A CSV of the pairs in doubt: written, read back with your decisions (same, different), and completed."
        ),
    ] = None,
    on: OnOption = "",
    address: AddressOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Find the records of files that are one work. The files are not changed, and no library is needed.

    --json prints {"groups": \[\[id, ...], ...], "reasons": \[\[line, ...], ...]} by the records' own ids: each record in exactly one
    group, one without a duplicate alone, reasons in parallel; and "unsure", pairs that stay apart and may be one work, and "related".
    """
    form = find_format(output) if output else ""
    from outrider.cluster.task_map import open_task_map
    from outrider.ingest.deduplicate_files import check_input, deduplicate_files, read_review
    from outrider.ingest.entry import ReadOptions
    from outrider.ingest.file_walk import walk
    from outrider.settings.load import load
    from outrider.state.duplicate_decisions import NO_DECISIONS

    gc.freeze()  # what the imports made lives as long as the process: the collector need not walk through it again and again
    for option, target in (("--output", output), ("--review", review)):
        if target and target.resolve() in {file.path for file in walk(files)}:
            raise BadRequest(f"{target} is one of the input files, which are not changed; give another name to {option}")
    if review and (output == review or any(review.resolve().is_relative_to(path.resolve()) for path in files if path.is_dir())):
        raise BadRequest(f"{review} would be among the input or output files; put it somewhere else with --review")
    decided = read_review(review) if review else None
    limits = load().settings.ingest
    options = ReadOptions(columns=parse_columns(columns or []), max_bytes=limits.max_bytes, max_pages=limits.max_pages)
    check_input(files, options)
    written = 0
    keep_records = not as_json or output is not None or review is not None  # JSON has ids alone
    decisions = decided.decisions if decided else NO_DECISIONS
    with (
        Progress("reading", quiet=as_json) as bar,
        open_task_map(on, address) as tasks,
        deduplicate_files(files, options, bar.show, decisions, tasks, keep_records=keep_records) as deduplication,
    ):
        if output:
            from outrider.ingest.export import make_writer

            with open_output(output) as stream:
                writer = make_writer(form, stream)
                writer.begin()
                for written, group in enumerate(deduplication.groups(), 1):
                    writer.record(deduplication.work(group))
                    bar.show("writing", written, None)
                writer.end()
        if as_json:
            _print_json(deduplication)
        elif not output:
            _show(deduplication)
        if review and decided:
            with open_output(review) as stream:
                waiting = decided.write(deduplication, stream)
            _report_review(review, len(decided.rows), waiting, deduplication.count_unknown())
    for remark in deduplication.notes:
        note(remark)
    if output:
        note(f"{written:,} works of {len(deduplication):,} records written to {output}")


def _report_review(review: Path, decided: int, waiting: int, unknown: int) -> None:
    if unknown:
        note(f"{count(unknown, 'record')} with a decision in {review} not in these files")
    what = f"{count(waiting, 'pair')} in doubt, {decided:,} decided: {review}"
    note(f"{what}. Write same or different in the column decision, and run the command again." if waiting else what)


def _print_json(deduplication: FileDeduplication) -> None:
    """Piece by piece, so that a large answer is never in memory as a whole."""
    from shutil import copyfileobj
    from tempfile import TemporaryFile

    out, ids, encode = data_output(), deduplication.ids, json.JSONEncoder(ensure_ascii=False).encode
    with TemporaryFile("w+", encoding="utf-8", errors="surrogatepass", newline="") as reasons:
        out.write('{"groups": [')
        for at, group in enumerate(deduplication.groups()):
            comma = ", " if at else ""
            out.write(comma + encode([ids[place] for place in group.places]))
            reasons.write(comma + encode(group.reasons))
        out.write('], "reasons": [')
        reasons.seek(0)
        copyfileobj(reasons, out)
    unsure = [
        {"ids": [ids[pair.one], ids[pair.other]], "score": round(pair.judgement.score, 2), "why": pair.judgement.why()}
        for pair in deduplication.unsure_pairs()
    ]
    related = []
    for pair in deduplication.related_pairs():
        first, second = (pair.one, pair.other) if pair.relation.forward else (pair.other, pair.one)
        related.append({"ids": [ids[first], ids[second]], "relation": pair.relation.kind, "why": pair.relation.why})
    out.write(f'], "unsure": {encode(unsure)}, "related": {encode(related)}}}\n')


def _show(deduplication: FileDeduplication) -> None:
    out = console()
    works = shared = 0
    for group in deduplication.groups():
        works += 1
        shared += len(group.places) > 1
        if len(group.places) > 1 and shared <= MAX_WORKS:
            record = deduplication.work(group)
            title = record.title or record.full_text()[:80] or "without a title"
            year = f" ({record.year})" if record.year else ""
            show_work(title + year, [deduplication.ids[place] for place in group.places], group.reasons)
    read = f"{count(len(deduplication), 'record')} of {count(deduplication.files, 'file')}"
    out.print(plain(f"{read}: {count(works, 'work')}, {shared:,} of several records.", "bold"))
    if shared > MAX_WORKS:
        out.print(f"The first {MAX_WORKS} of these are listed above; --json has all.")
    if unsure := len(deduplication.unsure_pairs()):
        out.print(f"{count(unsure, 'pair')} may be one work but were not merged: --review FILE.csv writes them for your decision.")
    if related := len(deduplication.related_pairs()):
        out.print(f"Related, not one work, such as a preprint and its article: {count(related, 'pair')}; --json lists them.")
    note("Write one record for each work with: -o works.ris")
