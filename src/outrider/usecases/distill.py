"""`outrider.distill`: the sentences of some texts that answer a query, and what is promised about them; and texts from files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.runtime.background_loop import run_in_background
from outrider.services.distiller import distil
from outrider.state.distilling import Reading
from outrider.state.errors import BadRequest, UnreadableFile, shorten
from outrider.state.hits import Hit
from outrider.state.records import BaseRecord, Record

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.state.response import DistilledContext

Text = str | Mapping[str, Any] | BaseRecord | Hit
TAKES = "a text is a str, a mapping with a `text`, a record or a hit"


async def adistill(  # noqa: PLR0913 - what one call may say
    query: str,
    texts: Text | Iterable[Text],
    *,
    engine: str | None = None,
    model: str | None = None,
    max_tokens: int | None = None,
    bypass: bool = True,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> DistilledContext:
    """Only what answers: `.text`, ready to be pasted into a prompt, and `.units` with `doc_id`, `start`, `end`, `text`, `score`.

    `texts` are strings, mappings with `text` (and `id`, `title`), records or hits; those without an id are numbered from 1. `engine` and
    `model` (a folder or hub name) replace those of the settings, and nothing stands in for an engine that is named so. `max_tokens` is
    never exceeded. `bypass=False` distils also where it is not worth it. A library is needed for nothing but its embedding model and
    calibrations.

    Raises `BadRequest` for what cannot be understood; of an engine that is named `ModelError`, `MissingExtra`.
    """
    readings = readings_of(texts)
    if not isinstance(query, str) or not query.strip():
        raise BadRequest(f"query takes the question that the texts are to answer, not {shorten(query)}")
    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 0):
        raise BadRequest(f"max_tokens takes a whole number from 0, not {shorten(max_tokens)}")
    made = services or services_at(library)
    try:
        return await distil(made, query, readings, engine=engine or "", model=model or "", max_tokens=max_tokens, bypass=bypass)
    finally:
        if services is None:
            made.close()


def distill(query: str, texts: Text | Iterable[Text], **given: Any) -> DistilledContext:
    """`adistill` for callers without an event loop."""
    return run_in_background(adistill(query, texts, **given))


def services_at(library: str | PathLike[str] | None) -> Services:
    from outrider.services import Services

    return Services.from_file({"library.uri": None if library is None else str(library)})


def readings_of(texts: Text | Iterable[Text]) -> list[Reading]:
    """`BadRequest` for what is no text, and for two texts of one id."""
    some: Iterable[Any] = [texts] if isinstance(texts, str | Mapping | BaseRecord | Hit) else texts
    if not isinstance(some, Iterable):
        raise BadRequest(f"texts takes a list of texts, not {shorten(texts)}; {TAKES}")
    found = [_reading(one, number) for number, one in enumerate(some, start=1)]
    seen: set[str] = set()
    for one in found:
        if one.doc_id in seen:
            raise BadRequest(f"two texts have the id {one.doc_id!r}; give each one of its own, or none")
        seen.add(one.doc_id)
    return found


def _reading(one: Any, number: int) -> Reading:
    key = f"[{number}]"
    if isinstance(one, str):
        return Reading(str(number), one, key=key)
    if isinstance(one, Hit):
        return Reading(one.doc_id, one.original_text, one.title, key)
    if isinstance(one, BaseRecord):
        return Reading(one.doc_id or str(number), one.full_text(), one.title, key)
    if isinstance(one, Mapping) and isinstance(one.get("text"), str):
        return Reading(str(one.get("id") or one.get("doc_id") or number), one["text"], str(one.get("title") or ""), key)
    raise BadRequest(f"text {number} is {shorten(one)}; {TAKES}")


def readings_of_files(paths: Sequence[Path], max_bytes: int, max_pages: int) -> list[Reading]:
    """The records in some files, each under its file's name. Blocking.

    `BadRequest` where a path is not there, `UnreadableFile` for a file that no reader takes or that holds no text.
    """
    from outrider.ingest.file_walk import walk

    found: list[tuple[str, Record]] = []
    for file in walk(paths):
        if file.problem or file.skip_reason:
            raise UnreadableFile(f"{file.path}: {file.problem or file.skip_reason}")
        records = [one for one in _records(file.path, max_bytes, max_pages) if one.full_text().strip()]
        if not records:
            raise UnreadableFile(f"{file.path}: no text in it")
        found += [(file.path.name if len(records) == 1 else f"{file.path.name}#{at}", one) for at, one in enumerate(records, start=1)]
    if not found:
        raise BadRequest("no file was found there; hidden files and folders are left out")
    return [Reading(name, one.full_text(), one.title, f"[{number}]") for number, (name, one) in enumerate(_apart(found), start=1)]


def _records(path: Path, max_bytes: int, max_pages: int) -> Iterator[Record]:
    from outrider.ingest.entry import BadEntry, ReadOptions
    from outrider.ingest.readers.select_reader import NoReader, select_reader

    try:
        reader = select_reader(path)
        if isinstance(reader, NoReader):
            raise UnreadableFile(f"{path}: {reader.reason}")
        for entry in reader.read(path, ReadOptions(max_bytes=max_bytes, max_pages=max_pages)):
            if isinstance(entry, BadEntry):
                raise UnreadableFile(f"{path}: {entry.where}: {entry.why}")
            yield entry.record
    except OSError as error:
        raise UnreadableFile(f"{path}: {error.strerror or error}") from error


def _apart(found: Sequence[tuple[str, Record]]) -> Iterator[tuple[str, Record]]:
    """Files of one name in several folders get numbers."""
    seen: dict[str, int] = {}
    for name, record in found:
        seen[name] = seen.get(name, 0) + 1
        yield (name if seen[name] == 1 else f"{name} ({seen[name]})"), record
