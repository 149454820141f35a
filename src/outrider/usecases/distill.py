"""`outrider.distill`: sentences of texts that answer a query; calibration of the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.distiller.calibration import KEEP_RATE, calibrate
from outrider.nodes.distiller import STEP
from outrider.runtime.threads_and_loops import run_in_background, run_in_thread
from outrider.services import open_services
from outrider.services.distiller import distil, prepare_distillers
from outrider.state.distilling import Reading
from outrider.state.errors import BadRequest, UnreadableFile, shorten
from outrider.state.hits import Hit
from outrider.state.records import BaseRecord, Record

if TYPE_CHECKING:
    from outrider.distiller.calibration import LabelledText
    from outrider.ingest.file_walk import InputFile
    from outrider.services import Services
    from outrider.state.distilling import Calibration
    from outrider.state.ports import OnCount
    from outrider.state.response import DistilledContext

Text = str | Mapping[str, Any] | BaseRecord | Hit
PIPED = "standard input"
TAKES = "a text is a str, a mapping with a `text`, a record or a hit"


async def adistill(  # noqa: PLR0913 - the options of one call
    query: str,
    texts: Text | Iterable[Text],
    *,
    engine: str | None = None,
    model: str | None = None,
    max_tokens: int | None = None,
    max_units: int | None = None,
    bypass: bool = True,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> DistilledContext:
    """Only the sentences that answer: `.text`, ready for a prompt, and `.units` with `doc_id`, `start`, `end`, `text`, `score`.

    `texts` are strings, mappings with `text` (and `id`, `title`), records or hits; texts without an id are numbered from 1. `engine` and
    `model` (a folder or hub name) replace those of the settings; an explicitly named engine has no fallback. `max_tokens` is never
    exceeded. Of each text at most `max_units` sentences are kept, or all that the promise requires with 0; by default as many as of a hit.
    `bypass=False` distils also where it is not worth it. Only the embedding model and the calibrations of a library are used.

    Raises `BadRequest` for arguments that cannot be understood; for a named engine also `ModelError`, `MissingExtra`.
    """
    readings = make_readings(texts)
    if not isinstance(query, str) or not query.strip():
        raise BadRequest(f"query takes the question that the texts are to answer, not {shorten(query)}")
    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 0):
        raise BadRequest(f"max_tokens takes a whole number from 0, not {shorten(max_tokens)}")
    if max_units is not None and (isinstance(max_units, bool) or not isinstance(max_units, int) or max_units < 0):
        raise BadRequest(f"max_units takes a whole number from 0, not {shorten(max_units)}")
    async with open_services(services, library) as opened:
        options: dict[str, Any] = {
            "engine": engine or "",
            "model": model or "",
            "max_tokens": max_tokens,
            "max_units": max_units,
            "bypass": bypass,
        }
        return await distil(opened, query, readings, **options)


def distill(query: str, texts: Text | Iterable[Text], **options: Any) -> DistilledContext:
    """`adistill` for callers without an event loop."""
    return run_in_background(adistill(query, texts, **options))


def make_readings(texts: Text | Iterable[Text]) -> list[Reading]:
    """Raises `BadRequest` for values that are no texts, and for two texts of one id."""
    some: Iterable[Any] = [texts] if isinstance(texts, str | Mapping | BaseRecord | Hit) else texts
    if not isinstance(some, Iterable):
        raise BadRequest(f"texts takes a list of texts, not {shorten(texts)}; {TAKES}")
    readings = [_make_reading(text, number) for number, text in enumerate(some, start=1)]
    ids: set[str] = set()
    for reading in readings:
        if reading.doc_id in ids:
            raise BadRequest(f"two texts have the id {reading.doc_id!r}; give each one of its own, or none")
        ids.add(reading.doc_id)
    return readings


def _make_reading(text: Any, number: int) -> Reading:
    key = f"[{number}]"
    if isinstance(text, str):
        return Reading(str(number), text, key=key)
    if isinstance(text, Hit):
        return Reading(text.doc_id, text.original_text, text.title, key)
    if isinstance(text, BaseRecord):
        return Reading(text.doc_id or str(number), text.full_text(), text.title, key)
    if isinstance(text, Mapping) and isinstance(text.get("text"), str):
        return Reading(str(text.get("id") or text.get("doc_id") or number), text["text"], str(text.get("title") or ""), key)
    raise BadRequest(f"text {number} is {shorten(text)}; {TAKES}")


def read_files(paths: Sequence[Path], max_bytes: int, max_pages: int, piped: bytes | None = None) -> tuple[list[Reading], list[str]]:
    """The records of files, each under its file's name, and first the text that was `piped` to a command; then what could not be read of
    files in folders, and of files with other records. Blocking.

    Raises `BadRequest` for a missing path, `UnreadableFile` where a file that is named, or all files of the folders, give no text.
    """
    from outrider.ingest.file_walk import walk

    readings = [] if piped is None else [_read_piped(piped)]
    named = {form for path in paths if not path.is_dir() for form in (path.resolve(), path.absolute())}
    unread: list[str] = []
    counts: dict[str, int] = {}
    for file in walk(paths) if paths else ():
        try:
            records, problems = _read_file(file, max_bytes, max_pages)
        except UnreadableFile as error:
            if file.path in named:
                raise
            records, problems = [], [str(error)]
        unread += problems
        for position, record in enumerate(records, start=1):
            name = file.path.name if len(records) == 1 else f"{file.path.name}#{position}"
            count = counts[name] = counts.get(name, 0) + 1
            doc_id = name if count == 1 else f"{name} ({count})"  # files of one name in several folders
            readings.append(Reading(doc_id, record.full_text(), record.title, f"[{len(readings) + 1}]"))
    if not readings and unread:
        raise UnreadableFile(unread[0])
    if not readings:
        raise BadRequest("no file was found there; hidden files and folders are left out")
    return readings, unread


def _read_piped(data: bytes) -> Reading:
    from outrider.text.encoding import NotText, decode_text

    try:
        text = decode_text(data, None).text
    except NotText as error:
        raise UnreadableFile(f"{PIPED}: {error}; save it as a file with its suffix, such as paper.pdf") from error
    if not text.strip():
        raise UnreadableFile(f"{PIPED}: no text in it")
    return Reading(PIPED, text, key="[1]")


def _read_file(file: InputFile, max_bytes: int, max_pages: int) -> tuple[list[Record], list[str]]:
    """The records with a text, and what is said of entries that could not be read. Raises `UnreadableFile` where there is no text."""
    from outrider.ingest.entry import BadEntry, Entry, ReadOptions
    from outrider.ingest.readers.select_reader import NoReader, select_reader

    records: list[Record] = []
    problems = [f"{file.path}: {why}" for why in (file.problem or file.skip_reason,) if why]
    try:
        reader = select_reader(file.path) if not problems else None
        if isinstance(reader, NoReader):
            problems.append(f"{file.path}: {reader.reason}")
        elif reader:
            for entry in reader.read(file.path, ReadOptions(max_bytes=max_bytes, max_pages=max_pages)):
                if isinstance(entry, BadEntry):
                    problems.append(f"{file.path}: {entry.where}: {entry.why}")
                elif isinstance(entry, Entry) and entry.record.full_text().strip():
                    records.append(entry.record)
    except OSError as error:
        raise UnreadableFile(f"{file.path}: {error.strerror or error}") from error
    if not records:
        raise UnreadableFile(problems[0] if problems else f"{file.path}: no text in it")
    return records, problems


@dataclass(frozen=True, slots=True)
class EngineCalibration:
    """An engine and its calibration, None where there is none, and where that comes from."""

    engine: str
    calibration: Calibration | None
    where: str


async def find_engine_calibrations(services: Services, engine: str = "") -> tuple[EngineCalibration, ...]:
    """Calibrations of the named engine or that of the settings, and of its fallbacks."""
    calibrations: list[EngineCalibration] = []
    for distiller in await prepare_distillers(services, engine=engine):
        calibration = await run_in_thread(distiller.find_calibration, STEP)
        where = "none" if calibration is None else "the library" if calibration in distiller.own else "shipped with the engine"
        calibrations.append(EngineCalibration(distiller.engine, calibration, where))
    return tuple(calibrations)


async def calibrate_distiller(
    services: Services,
    labelled: Sequence[LabelledText],
    fitted_on: str,
    *,
    engine: str = "",
    model: str = "",
    keep_rate: float = KEEP_RATE,
    progress: OnCount | None = None,
) -> Calibration:
    """Fit the threshold of the named engine or that of the settings, and save it in the library. An interrupted fit saves nothing."""
    library = await services.library()
    distiller = (await prepare_distillers(services, engine=engine, model=model))[0]
    fitted = await run_in_thread(lambda: calibrate(distiller.load_engine(), labelled, fitted_on, keep_rate, progress), STEP)
    calibration = replace(fitted, fitted_at=datetime.fromtimestamp(services.clock(), UTC).isoformat(timespec="microseconds"))
    await library.remember_calibrations([calibration])
    return calibration
