"""Targets of citation chasing: a thread, a label of the library, a file of identifiers"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from os.path import lexists
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.ingest.entry import Entry, ReadOptions
from outrider.ingest.readers.select_reader import FileReader, select_reader
from outrider.jobs.job_table import MAX_TARGET_CHARS
from outrider.library.citation_network import find_nodes
from outrider.library.entity_names import make_entity
from outrider.runtime.threads_and_loops import load_module
from outrider.services.citation_queue import OWNER
from outrider.services.citations import find_seeds
from outrider.state.errors import BadRequest, NoSuchThread, UnreadableFile, did_you_mean, shorten
from outrider.text.encoding import NotText, decode_text
from outrider.usecases.jobs import is_visible
from outrider.usecases.library import MAX_LABEL_CHARS

if TYPE_CHECKING:
    from outrider.library.library import Library
    from outrider.services import Services
    from outrider.state.records import Identifiers

LABEL = "label:"
FORMS = "name a thread, label:NAME, or a file of identifiers"
COMMENT = "#"
DIGEST_CHARS = 8
MAX_SHOWN = 3


@dataclass(frozen=True, slots=True)
class CitationTarget:
    """The works of a target."""

    name: str
    """Under which its chase and its jobs are stored."""
    label: str
    """Of the records that are fetched for it."""
    works: tuple[str, ...]
    """Keys in the network."""
    request: str = ""
    """The query of a thread."""
    remarks: tuple[str, ...] = ()


async def find_target(services: Services, library: Library, text: str) -> CitationTarget:
    """The target that a text names. Raises `BadRequest` for an unknown one, and for one without works.

    A file is a place of this machine: a request to a server names none.
    """
    text = text.strip()
    if not text:
        raise BadRequest(f"a target is required: {FORMS}")
    if text.startswith(LABEL):
        return await _find_label(library, text.removeprefix(LABEL).strip())
    if (thread := await _find_thread(services, library, text)) is not None:
        return thread
    if await is_file(text):
        return await _read_file(library, await asyncio.to_thread(Path(text).resolve), services.settings.ingest.max_bytes)
    labels = sorted({name for names in (await library.labels()).values() for name in names})
    hint = f"; did you mean {LABEL}{text}?" if text in labels else ""
    raise BadRequest(f"there is no target {shorten(text)}: {FORMS}{hint}")


async def is_file(text: str) -> bool:
    """Whether a target is a place of this machine: never for a request to a server."""

    def exists() -> bool:
        try:
            return lexists(text.strip())
        except ValueError:  # a null character
            return False

    return OWNER.get() is None and await asyncio.to_thread(exists)


def make_label(name: str) -> str:
    """A label for the works that are fetched for a thread or a file."""
    label = f"cited: {name}"
    if len(label) <= MAX_LABEL_CHARS and label.isprintable():
        return label
    digest = hashlib.sha256(name.encode()).hexdigest()[:DIGEST_CHARS]
    printable = "".join(char for char in Path(name).name if char.isprintable())
    return f"cited: {printable[: MAX_LABEL_CHARS - DIGEST_CHARS - 8]} {digest}"


async def _find_label(library: Library, name: str) -> CitationTarget:
    labels = await library.labels()
    ids = sorted(doc_id for doc_id, names in labels.items() if name in names)
    if not ids:
        known = sorted({one for names in labels.values() for one in names})
        listed = f"; it has {', '.join(known[:MAX_SHOWN])}{', ...' if len(known) > MAX_SHOWN else ''}" if known else ""
        raise BadRequest(f"no record of the library has the label {shorten(name)}{did_you_mean(name, known) or listed}")
    return CitationTarget(_check_length(f"{LABEL}{name}"), name, await _find_keys(library, ids))


async def _find_thread(services: Services, library: Library, name: str) -> CitationTarget | None:
    """None where there is no such thread, or where it is another owner's."""
    if not is_visible(services, name, OWNER.get()):
        return None
    usecase = await load_module("outrider.usecases.threads")  # it loads the graph, which no other target needs
    with suppress(NoSuchThread):
        async with usecase.open_threads(services) as threads:
            await threads.runs(name)
            answer = await threads.last(name)
        hits = [hit for hit in answer.hits if hit.kind == "paper"] if answer else []
        if answer is None or not hits:
            raise BadRequest(f"the last search of thread {name!r} has no papers yet")
        names = {hit.doc_id: (hit.doc_id, *(f"{scheme}:{value}" for scheme, value in hit.identifiers.pairs())) for hit in hits}
        nodes = await find_nodes(library, {one for own in names.values() for one in own})
        known = {doc_id: next((nodes[one] for one in own if one in nodes), "") for doc_id, own in names.items()}
        # a work that was not saved has its strongest identifier as its key, once its citations are read
        keys = {known[hit.doc_id] or _name_work(hit.identifiers) for hit in hits} - {""}
        request = answer.query if isinstance(answer.query, str) else ""
        return CitationTarget(_check_length(name), make_label(name), tuple(sorted(keys)), request)
    return None


async def _read_file(library: Library, path: Path, max_bytes: int) -> CitationTarget:
    names, unidentified = await asyncio.to_thread(_list_identifiers, path, max_bytes)
    seeds, missing = await find_seeds(library, names)
    if not seeds:
        what = f"; {shorten(missing[0])} is none" if missing else ""
        raise BadRequest(f"{path} holds no identifier{what}; write one a line, such as doi:10.1000/xyz123 or pmid:31452104")
    remarks = [f"{len(missing)} lines of the file name no work: {', '.join(map(shorten, missing[:MAX_SHOWN]))}"] if missing else []
    remarks += [f"{unidentified} entries of the file have no identifier"] if unidentified else []
    keys = await _find_keys(library, [seed.name for seed in seeds])
    return CitationTarget(_check_length(str(path)), make_label(str(path)), keys, remarks=tuple(remarks))


def _list_identifiers(path: Path, max_bytes: int) -> tuple[list[str], int]:
    """The strongest identifier of each entry of a bibliography or table, or each line of a text; and how many entries have none.

    Raises `BadRequest`.
    """
    if not path.is_file():
        raise BadRequest(f"{path} is no file; {FORMS}")
    try:
        if path.stat().st_size > max_bytes:
            raise BadRequest(f"{path} has more than {max_bytes:,} bytes (ingest.max_bytes)")
        reader = select_reader(path)
        if isinstance(reader, FileReader) and not reader.single:
            records = [entry.record for entry in reader.read(path, ReadOptions(max_bytes=max_bytes)) if isinstance(entry, Entry)]
            names = [name for record in records if (name := _name_work(record.identifiers))]
            if names:
                return names, len(records) - len(names)
        lines = [line.strip().strip(",;") for line in decode_text(path.read_bytes(), None).text.splitlines()]
    except (OSError, UnreadableFile, NotText) as error:
        reason = error.strerror if isinstance(error, OSError) else ""
        raise BadRequest(f"{path}: {reason or error}") from error
    return [line for line in lines if line and not line.startswith(COMMENT)], 0


async def _find_keys(library: Library, names: Sequence[str]) -> tuple[str, ...]:
    nodes = await find_nodes(library, names)
    return tuple(sorted({nodes.get(name, name) for name in names}))


def _name_work(identifiers: Identifiers) -> str:
    """The key of a work that is known from links alone; empty without an identifier."""
    return next((str(entity) for pair in identifiers.pairs() if (entity := make_entity(*pair))), "")


def _check_length(name: str) -> str:
    if len(name) > MAX_TARGET_CHARS or not name.isprintable():
        raise BadRequest(
            f"a target has at most {MAX_TARGET_CHARS} printable characters; {shorten(name)} has {len(name)}: use a shorter name or path"
        )
    return name
