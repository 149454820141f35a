"""Whether what was delivered is what the run wrote: offline, from manifest and ledger alone, with the place of whatever is not.

A manifest is checked byte by byte against its one way to be written, against its seal, its signature and, field by field, against the
ledger; a ledger line by line against its chain, and each record against its content hash; an exported file byte by byte against the
ledger, exported again. Whoever rewrites ledger and manifest together is found by the signature, or by the audit log.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TextIO

from outrider.state.records import BaseRecord
from outrider.systematic_search import ledger, manifest
from outrider.systematic_search.errors import NoSuchRun, Tampered
from outrider.systematic_search.ledger import GENESIS, LONGEST_LINE, Line, file_digest, follows, lines, next_hit
from outrider.systematic_search.ledger_reader import duplicates_in, found
from outrider.systematic_search.manifest import Derived, Manifest, Times, derived, provenance, seal_of, sealed


class RecordWriter(Protocol):
    def begin(self) -> None: ...
    def record(self, record: BaseRecord) -> None: ...
    def end(self) -> None: ...


Export = Callable[[TextIO], RecordWriter]
"""A format's writer over a stream."""


@dataclass(frozen=True, slots=True)
class Fault:
    file: str
    place: str
    """`line 12`, `line 12, column 3`, or the name of a field; empty where it is the file as a whole."""
    what: str

    def __str__(self) -> str:
        return ": ".join(part for part in (f"{self.file}, {self.place}" if self.place else self.file, self.what) if part)


@dataclass(frozen=True, slots=True)
class Verdict:
    faults: tuple[Fault, ...]
    checked: tuple[str, ...]
    """What was looked at, and found to be so."""
    signed_by: str = ""
    """The public key, as hex, where the manifest has a signature that holds."""

    @property
    def sound(self) -> bool:
        return not self.faults


def verified(path: Path, result: Path | None = None, key: str = "", export: Export | None = None) -> Verdict:
    """`path` is a manifest; `result` what was delivered: its ledger, an exported file (with the `export` of its format), the manifest
    itself, or an audit log; by default the ledger beside the manifest. `key` is the public key, as hex, that must have signed it.

    Raises `NoSuchRun` where there is nothing to check, `MissingExtra` for a signature without `cryptography`.
    """
    raw = _raw(path)
    try:
        told = manifest.parsed(raw, path.name)
    except Tampered as error:
        return Verdict((Fault(path.name, _json_place(raw), str(error)),), ())
    faults = list(_of_manifest(path, raw, told, key))
    beside = path.parent / told.ledger.name
    own = result is not None and _is_ledger(result)
    at = result if own and result is not None else beside
    checked = [f"{path.name}: seal and provenance hash"]
    if at.is_file():
        ledger_faults = list(_of_ledger(at, told))
        faults += ledger_faults
        checked.append(f"{at.name}: {told.ledger.lines:,} lines, {told.total:,} hits")
        if not ledger_faults and result is not None and not own:
            faults += _of_result(result, path, at, told, export)
            checked.append(result.name)
    else:
        faults.append(Fault(at.name, "", f"is not beside {path.name}; without it a changed hit cannot be told from the others"))
    signed = told.signature.public_key if told.signature and not any(fault.place == "signature" for fault in faults) else ""
    return Verdict(tuple(faults), tuple(checked), signed)


def _raw(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NoSuchRun(f"{path} cannot be read: {error.strerror or error}") from error


def _is_ledger(path: Path) -> bool:
    return _raw_start(path).startswith(b'{"asked":') or path.name == ledger.NAME


def _raw_start(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(200)
    except OSError as error:
        raise NoSuchRun(f"{path} cannot be read: {error.strerror or error}") from error


def _json_place(raw: bytes) -> str:
    try:
        json.loads(raw)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}"
    except UnicodeDecodeError as error:
        return f"line {raw[: error.start].count(10) + 1}"
    except RecursionError:
        return ""
    return ""


def _of_manifest(path: Path, raw: bytes, told: Manifest, key: str) -> Iterator[Fault]:
    from outrider.systematic_search.signing import holds

    place = _first_difference(io.BytesIO(raw), io.BytesIO(told.text().encode()))
    if place:
        yield Fault(path.name, place, "is not written as a manifest is")
    if provenance(told) != told.provenance_hash:
        yield Fault(path.name, "provenance_hash", "does not follow from what the manifest says")
    if seal_of(told) != told.seal:
        yield Fault(path.name, "seal", "does not follow from what the manifest says")
    if told.signature and not holds(told):
        yield Fault(path.name, "signature", "is none of this key over this seal")
    if key and (told.signature is None or told.signature.public_key != key):
        yield Fault(path.name, "signature", "is not of the key that was named" if told.signature else "there is none")


def _of_ledger(path: Path, told: Manifest) -> Iterator[Fault]:
    """The first line that does not hold; else the fields of the manifest that do not follow from the ledger."""
    try:
        hits = GENESIS
        for line in lines(path):
            if line.kind == "hit":
                hits = next_hit(hits, *_said_by(line, path))
        said = derived(path)
    except Tampered as error:
        place, _, what = str(error).removeprefix(f"{path.name}, ").partition(": ")
        yield Fault(path.name, place, what)
        return
    yield from _differing(path, told, said)


def _said_by(line: Line, path: Path) -> tuple[str, str]:
    """Id and content hash of a hit, computed again from its record."""
    one = found(line)
    if one.record.content_hash() != one.content or one.record.doc_id != line.said["doc_id"]:
        raise Tampered(
            f"{path.name}, line {line.number:,}: the record is not the one of its hash (hit {one.number:,}, {one.record.doc_id!r})"
        )
    return one.record.doc_id, one.content


def _differing(path: Path, told: Manifest, said: Derived) -> Iterator[Fault]:
    anew = sealed(said, file_digest(path), Times(started_at="", finished_at=""))
    ours, theirs = (_flat(one.model_dump(mode="json", exclude={"times", "seal", "signature"})) for one in (anew, told))
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            what = f"the manifest says {_brief(theirs.get(name))}, the ledger {_brief(ours.get(name))}"
            yield Fault(manifest.NAME, name, what)


def _flat(said: Any, name: str = "") -> dict[str, Any]:
    if isinstance(said, dict):
        return {key: value for part in said for key, value in _flat(said[part], f"{name}.{part}" if name else part).items()}
    if isinstance(said, list) and said:
        return {key: value for at, part in enumerate(said) for key, value in _flat(part, f"{name}[{at}]").items()}
    return {name: said}


def _brief(said: object) -> str:
    text = repr(said)
    return text if len(text) <= 80 else text[:77] + "..."


def _of_result(result: Path, path: Path, at: Path, told: Manifest, export: Export | None) -> Iterator[Fault]:
    if result.resolve() == path.resolve():
        return
    if _raw_start(result).startswith(b'{"event":'):
        yield from _of_audit(result, told)
    elif export is None:
        yield Fault(result.name, "", "is neither a ledger nor a file that a run exports (.ris, .bib, .csv, .jsonl)")
    else:
        yield from _of_export(result, at, export)


def _of_audit(result: Path, told: Manifest) -> Iterator[Fault]:
    chain, seals = GENESIS, set()
    with result.open("rb") as stream:
        for number, raw in enumerate(stream, 1):
            after = follows(raw, chain)
            if after is None:
                yield Fault(result.name, f"line {number:,}", "is not the entry that was written there, or one before it is missing")
                return
            chain = after
            seals.add(_entry(raw).get("seal"))
    if told.seal not in seals:
        yield Fault(result.name, "", "tells of no run with the manifest's seal")


def _entry(raw: bytes) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(raw)
    return said


def _of_export(result: Path, at: Path, export: Export) -> Iterator[Fault]:
    """The file as it must be, made again beside it."""
    import tempfile

    with tempfile.TemporaryFile() as anew:
        text = io.TextIOWrapper(anew, encoding="utf-8", newline="", write_through=True)
        exported(at, export(text))
        text.flush()
        anew.seek(0)
        with result.open("rb") as given:
            place = _first_difference(given, anew)
        text.detach()
    if place:
        yield Fault(result.name, place, "is not what the run found")


def exported(path: Path, writer: RecordWriter) -> int:
    """The records of a ledger, one by one, into a file, without those that say of a work what another source said before; how many."""
    left_out = duplicates_in(path)
    written = 0
    writer.begin()
    for line in lines(path):
        if line.kind == "hit" and line.said["hit"] not in left_out:
            writer.record(found(line).record)
            written += 1
    writer.end()
    return written


def _first_difference(given: BinaryIO, wanted: BinaryIO) -> str:
    """The first line and column (bytes, from 1) at which two files part; empty where they are the same."""
    pairs = zip_longest(iter(lambda: given.readline(LONGEST_LINE), b""), iter(lambda: wanted.readline(LONGEST_LINE), b""), fillvalue=b"")
    for number, (one, other) in enumerate(pairs, 1):
        if one != other:
            column = next((at for at, (a, b) in enumerate(zip(one, other, strict=False), 1) if a != b), min(len(one), len(other)) + 1)
            return f"line {number:,}, column {column:,}"
    return ""
