"""Offline verification of a run's files, with the place of each fault.

A manifest is compared byte by byte with its only spelling, and checked against its seal, its signature and, field by field, the ledger. A
ledger and an audit log are checked line by line against their chains, and each record against its content hash. An exported file is
compared byte by byte with a new export of the ledger. If someone rewrites ledger and manifest together, the signature or the audit log
shows it.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from outrider.state.errors import BadRequest
from outrider.systematic_search import ledger, manifest
from outrider.systematic_search.ledger import GENESIS, LONGEST_LINE, Line, NoSuchRun, Tampered, check_line, file_digest, read_lines
from outrider.systematic_search.ledger_reader import RecordWriter, export_hits, make_run_hit
from outrider.systematic_search.manifest import Manifest, Times, compute_provenance, compute_seal, make_manifest, summarize

Export = Callable[[TextIO], RecordWriter]
"""Makes a format's writer over a stream."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A deviation from what the run wrote."""

    file: str
    place: str
    """`line 12`, `line 12, column 3`, or the name of a field; empty for the file as a whole."""
    what: str

    def __str__(self) -> str:
        return ": ".join(part for part in (f"{self.file}, {self.place}" if self.place else self.file, self.what) if part)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a verification."""

    faults: tuple[Fault, ...]
    checked: tuple[str, ...]
    """The parts that were checked, with or without faults."""
    signed_by: str = ""
    """The public key, as hex, of a valid signature."""

    @property
    def sound(self) -> bool:
        return not self.faults


def verify_run(path: Path, result: Path | None = None, key: str = "", export: Export | None = None) -> Verdict:
    """Check the manifest at `path`, and `result`: its ledger, an exported file (with the `export` of its format), the manifest itself, or
    an audit log; by default the ledger beside the manifest. `key` is the public key, as hex, that must have signed the manifest.

    Raises `NoSuchRun` if a file cannot be read, `NotAManifest` or `BadRequest` if a file is something else, and `MissingExtra` for a
    signature without `cryptography`. What replaced the manifest of a run is a fault.
    """
    raw = _read_start(path, -1)
    try:
        described = manifest.parse_manifest(raw, path.name)
    except (Tampered, manifest.NotAManifest) as error:
        is_replaced = path.name == manifest.NAME and (path.parent / ledger.NAME).is_file()
        if isinstance(error, manifest.NotAManifest) and not is_replaced:
            raise
        return Verdict((Fault(path.name, _find_json_error(raw), str(error)),), ())
    faults = list(_check_manifest(path, raw, described, key))
    checked = [f"{path.name}: seal and provenance hash"]
    is_ledger = result is not None and (_read_start(result).startswith(b'{"asked":') or result.name == ledger.NAME)
    ledger_path = result if is_ledger and result is not None else path.parent / described.ledger.name
    if ledger_path.is_file():
        ledger_faults = list(_check_ledger(ledger_path, described))
        faults += ledger_faults
        checked.append(f"{ledger_path.name}: {described.ledger.lines:,} lines, {described.total:,} hits")
        if not ledger_faults and result is not None and not is_ledger:
            faults += _check_result(result, path, ledger_path, described, export)
            checked.append(result.name)
    else:
        faults.append(Fault(ledger_path.name, "", f"is not beside {path.name}; a changed hit cannot be found without it"))
    is_signed = described.signature is not None and not any(fault.place == "signature" for fault in faults)
    return Verdict(tuple(faults), tuple(checked), described.signature.public_key if described.signature and is_signed else "")


def _read_start(path: Path, size: int = 200) -> bytes:
    """The first `size` bytes; all of them for -1."""
    try:
        with path.open("rb") as stream:
            return stream.read(size)
    except OSError as error:
        raise NoSuchRun(f"{path} cannot be read: {error.strerror or error}") from error


def _find_json_error(raw: bytes) -> str:
    """Place of the first error; empty for JSON without error, and for JSON that is nested too deeply."""
    try:
        json.loads(raw)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}"
    except UnicodeDecodeError as error:
        return f"line {raw[: error.start].count(10) + 1}"
    except RecursionError:
        return ""
    return ""


def _check_manifest(path: Path, raw: bytes, described: Manifest, key: str) -> Iterator[Fault]:
    from outrider.systematic_search.manifest import is_signature_valid

    place = _find_difference(io.BytesIO(raw), io.BytesIO(described.text().encode()))
    if place:
        yield Fault(path.name, place, "is not written as in a manifest")
    if compute_provenance(described) != described.provenance_hash:
        yield Fault(path.name, "provenance_hash", "does not match the manifest's other fields")
    if compute_seal(described) != described.seal:
        yield Fault(path.name, "seal", "does not match the manifest's other fields")
    if described.signature and not is_signature_valid(described):
        yield Fault(path.name, "signature", "is not a signature of its key over this seal")
    if key and (described.signature is None or described.signature.public_key != key):
        yield Fault(path.name, "signature", "is by another key than the given one" if described.signature else "is missing")


def _check_ledger(path: Path, described: Manifest) -> Iterator[Fault]:
    """The first line that was changed; else the fields of the manifest that do not follow from the ledger."""
    try:
        for line in read_lines(path):
            _require_content(line, path)
        summary = summarize(path)
    except Tampered as error:
        place, _, what = str(error).removeprefix(f"{path.name}, ").partition(": ")
        yield Fault(path.name, place, what)
        return
    expected = make_manifest(summary, file_digest(path), Times(started_at="", finished_at=""))
    ours, theirs = (_flatten(one.model_dump(mode="json", exclude={"times", "seal", "signature"})) for one in (expected, described))
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            what = f"the manifest says {_abbreviate(theirs.get(name))}, the ledger {_abbreviate(ours.get(name))}"
            yield Fault(manifest.NAME, name, what)


def _require_content(line: Line, path: Path) -> None:
    """Raise `Tampered` for a hit whose record does not have the id and the hash of its line."""
    hit = make_run_hit(line) if line.kind == "hit" else None
    if hit and (hit.record.content_hash() != hit.content or hit.record.doc_id != line.fields["doc_id"]):
        where = f"{path.name}, line {line.number:,}"
        raise Tampered(f"{where}: the record does not match its hash (hit {hit.number:,}, {hit.record.doc_id!r})")


def _flatten(value: Any, name: str = "") -> dict[str, Any]:
    """Each value inside nested objects and lists by its path, such as `sources[0].hits`."""
    if isinstance(value, dict):
        return {key: leaf for part in value for key, leaf in _flatten(value[part], f"{name}.{part}" if name else part).items()}
    if isinstance(value, list) and value:
        return {key: leaf for index, part in enumerate(value) for key, leaf in _flatten(part, f"{name}[{index}]").items()}
    return {name: value}


def _abbreviate(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _check_result(result: Path, path: Path, ledger_path: Path, described: Manifest, export: Export | None) -> Iterator[Fault]:
    if result.resolve() == path.resolve():
        return
    if _read_start(result).startswith(b'{"event":'):
        yield from _check_audit_log(result, described)
    elif export is None:
        raise BadRequest(f"{result.name} is neither a ledger, an audit log nor a file that a run exports (.ris, .bib, .csv, .jsonl)")
    else:
        # the export is made again and compared
        with tempfile.TemporaryFile() as expected:
            text = io.TextIOWrapper(expected, encoding="utf-8", newline="", write_through=True)
            export_hits(ledger_path, export(text))
            text.flush()
            expected.seek(0)
            with result.open("rb") as delivered:
                place = _find_difference(delivered, expected)
            text.detach()
        if place:
            yield Fault(result.name, place, "differs from the hits of the run")


def _check_audit_log(result: Path, described: Manifest) -> Iterator[Fault]:
    chain, seals = GENESIS, set()
    with result.open("rb") as stream:
        for number, raw in enumerate(stream, 1):
            after = check_line(raw, chain)
            if after is None:
                yield Fault(result.name, f"line {number:,}", "is not the entry that was written there, or one before it is missing")
                return
            chain = after
            seals.add(json.loads(raw).get("seal"))
    if described.seal not in seals:
        yield Fault(result.name, "", "has no run with the manifest's seal")


def _find_difference(delivered: BinaryIO, expected: BinaryIO) -> str:
    """The first line and column (in bytes, from 1) at which two files differ; empty if they are the same."""
    lines = iter(lambda: delivered.readline(LONGEST_LINE), b"")
    for number, (line, other) in enumerate(zip_longest(lines, iter(lambda: expected.readline(LONGEST_LINE), b""), fillvalue=b""), 1):
        if line != other:
            pairs = enumerate(zip(line, other, strict=False), 1)
            column = next((column for column, (ours, theirs) in pairs if ours != theirs), min(len(line), len(other)) + 1)
            return f"line {number:,}, column {column:,}"
    return ""
