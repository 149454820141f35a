"""`outrider export`: an answer's hits or the library as a file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from outrider.interfaces.cli.options import FiltersOption, LibraryOption, open_services, parse_filters, wait_for
from outrider.interfaces.cli.terminal import count, data_output, note
from outrider.state.errors import BadRequest, explain_limit
from outrider.usecases.export import SUFFIXES, make_record

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.state.filters import Filter
    from outrider.state.records import Record


def export(
    result: Annotated[
        Path | None, typer.Argument(metavar="[ANSWER]", help="An answer saved from `outrider search --json`. Default: the library.")
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="bibtex, ris, csl, csv, json, jsonl or markdown. Default: by the suffix of -o, else ris.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The file to write. Default: standard output.")] = None,
    filters: FiltersOption = None,
    library: LibraryOption = None,
) -> None:
    """Write an answer's hits or the whole library for a reference manager, a spreadsheet or a program."""
    name = form.lower() if form else find_format(output, or_else=", or give --format")
    from outrider.state.filters import parse_filter

    where = parse_filter(parse_filters(filters) or {})
    if result is not None and where is not None:
        raise BadRequest("--filters narrows the library; an answer is exported as it is")
    source = _read_answer(result) if result is not None else open_services(library)
    written = wait_for(_write(source, where, name, output))
    if output:
        note(f"{count(written, 'record')} written to {output}")


def find_format(output: Path | None, or_else: str = "") -> str:
    """The format by the file's suffix; RIS without a file. Raises `BadRequest` for an unknown suffix."""
    if output is None:
        return "ris"
    if output.suffix.lower() not in SUFFIXES:
        raise BadRequest(f"{output} has no known suffix; use one of {', '.join(SUFFIXES)}{or_else}")
    return SUFFIXES[output.suffix.lower()]


def check_output(output: Path) -> str:
    """The format of a file that is written later. Raises `BadRequest` where it cannot be, before the work begins."""
    name = find_format(output)
    _check_place(output)
    return name


def check_picture(picture: Path) -> None:
    """The same for a picture, which is always SVG."""
    if picture.suffix.lower() != ".svg":
        raise BadRequest(f"--plot draws an SVG file; {picture} does not end in .svg")
    _check_place(picture)


def write_picture(picture: Path, svg: str) -> None:
    """Write it, replace an existing file, and say so. Raises `BadRequest`."""
    with open_output(picture) as stream:
        stream.write(svg)
    note(f"Picture written to {picture}")


def _check_place(output: Path) -> None:
    """Raises `BadRequest` unless a file can be made in its folder, which a nameless one tries."""
    import tempfile

    folder = output.resolve().parent
    try:
        what = "is a folder" if output.is_dir() else ""
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        what = what or ("cannot be written" if folder.is_dir() else f"needs the folder {output.parent}")
    if what:
        raise BadRequest(f"{output} {what}; name another file")


async def _write(source: list[Record] | Services, where: Filter | None, name: str, output: Path | None) -> int:
    from outrider.ingest.export import make_writer

    written = 0
    with open_output(output) as stream:
        writer = make_writer(name, stream)
        writer.begin()
        if isinstance(source, list):
            for record in source:
                writer.record(record)
            written = len(source)
        else:
            library = await source.library()
            async for record in library.scan(where):
                writer.record(record)
                written += 1
        writer.end()
    return written


def _read_answer(path: Path) -> list[Record]:
    from pydantic import ValidationError

    from outrider.state.response import SearchResponse

    try:
        answer = SearchResponse.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror or error}") from error
    except ValidationError as error:
        raise BadRequest(f"{path} is not an answer of `outrider search --json`: {error.errors()[0]['msg']}") from error
    return [make_record(hit) for hit in answer.hits]


@contextlib.contextmanager
def open_output(output: Path | None) -> Iterator[TextIO]:
    """Standard output in UTF-8, or a file that takes its name only when it is complete. Raises `BadRequest` if it cannot be written."""
    if output is None:
        yield data_output()
        return
    import tempfile

    output = output.resolve() if output.is_symlink() else output  # else the link itself would be replaced
    try:
        handle, part = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
    except OSError as error:
        raise BadRequest(f"cannot write to {output.parent}: {error.strerror or error}") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            yield stream
        umask = os.umask(0o022)  # it can only be read by setting it
        os.umask(umask)
        Path(part).chmod(0o666 & ~umask)
        Path(part).replace(output)
    except OSError as error:
        Path(part).unlink(missing_ok=True)
        raise BadRequest(f"cannot write {output}: {explain_limit(error) or error.strerror or error}") from error
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
