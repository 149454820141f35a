"""The manifest of a run: what was asked of whom, what came, and hashes by which anyone can check it.

All but `times`, `seal` and `signature` follows from the ledger, so that each can be checked by the other. `provenance_hash` covers what
equal runs have in common (no times, no tag's name); `seal` covers the whole file, and is what a signature signs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from outrider.state.model import Model
from outrider.state.systematic import Slice, Snapshot
from outrider.systematic_search import ledger
from outrider.systematic_search.errors import NoSuchRun, Tampered
from outrider.systematic_search.ledger import GENESIS, Line, digest, next_hit
from outrider.systematic_search.request import Asked

NAME = "manifest.json"


class SourceResult(Model):
    """What one source was asked and what it gave."""

    source: str
    query: str = Field(description="As it was sent; of the library the printed tree.")
    parameters: tuple[tuple[str, str], ...] = ()
    widened: tuple[str, ...] = Field((), description="What could not be said to it, and was filtered here.")
    lacking: tuple[str, ...] = Field((), description="Alternatives that none of its records can fulfil, and were left out.")
    refused: str = Field("", description="Why it was not asked.")
    native: bool = Field(True, description="Whether it reads the query as it was written.")
    reproducible: bool = Field(True, description="False where its totals differ between two calls.")
    total: int | None = Field(None, description="Records that it says match.")
    fetched: int = Field(0, description="Different records that came.")
    hits: int = Field(0, description="Those that match, and stand in the ledger.")
    verified: int = Field(0, description="Hits whose text was checked; of the others the service's word is all there is.")
    slices: tuple[Slice, ...] = ()
    complete: bool = False
    remarks: tuple[str, ...] = ()


class LedgerFile(Model):
    """`chain` is that of its last line."""

    name: str = ledger.NAME
    sha256: str
    chain: str
    lines: int
    bytes: int


class Times(Model):
    """In UTC. Seconds are those of the processes that ended by themselves."""

    started_at: str
    finished_at: str
    seconds: dict[str, float] = Field(default_factory=dict, description="By source.")
    sessions: int = Field(1, description="How often the run was begun or gone on with.")


class Signature(Model):
    algorithm: Literal["ed25519"] = "ed25519"
    public_key: str = Field(pattern=r"^[0-9a-f]{64}$")
    value: str = Field(pattern=r"^[0-9a-f]{128}$", description="Over the seal.")


class Manifest(Model):
    format: Literal["outrider.manifest/1"] = "outrider.manifest/1"
    asked: Asked
    sources: tuple[SourceResult, ...]
    total: int = Field(description="Hits in the ledger.")
    duplicates: int = Field(0, description="Of them, those that say of a work what another source's hit said before.")
    deduplicated_by: str = ""
    complete: bool = Field(description="Whether every source was read to its last hit.")
    missing: tuple[str, ...] = Field((), description="What makes it incomplete.")
    hits_chain: str = Field(description="Ordered chain over the ids and content hashes of all hits; how it is made: `chain.next_hit`.")
    ledger: LedgerFile
    provenance_hash: str
    times: Times
    seal: str
    signature: Signature | None = None

    def text(self) -> str:
        """The file; there is one way to write it, so that every byte of it can be checked."""
        return json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"

    @property
    def unique(self) -> int:
        return self.total - self.duplicates


@dataclass(slots=True)
class Derived:
    """What a ledger says of its run, read once from its first line to its last."""

    asked: Asked | None = None
    hits_chain: str = GENESIS
    counts: dict[str, list[int]] = field(default_factory=dict)
    """Hits and verified ones by source."""
    ends: dict[str, dict[str, Any]] = field(default_factory=dict)
    total: int = 0
    duplicates: int = 0
    by: str = ""
    done: bool = False
    last: Line | None = None

    def take(self, line: Line) -> None:
        said, self.last = line.said, line
        if line.kind == "hit":
            count = self.counts.setdefault(said["source"], [0, 0])
            count[0] += 1
            count[1] += said["proof"] == "verified"
            self.hits_chain = next_hit(self.hits_chain, said["doc_id"], said["content"])
            self.total += 1
        elif line.kind == "asked":
            self.asked = Asked.model_validate(said["asked"])
        elif line.kind == "end":
            self.ends[said["end"]] = said
        elif line.kind == "duplicate":
            self.duplicates += 1
        elif line.kind == "done":
            self.done, self.by = True, said["by"]


def derived(path: Path) -> Derived:
    """`Tampered` names the first line that is not what was written."""
    found = Derived()
    for line in ledger.lines(path):
        try:
            found.take(line)
        except (ValidationError, KeyError, TypeError) as error:
            raise Tampered(f"{path.name}, line {line.number:,}: says what no run writes") from error
    if found.asked is None or found.last is None:
        raise NoSuchRun(f"{path} holds no run that began")
    return found


def sealed(found: Derived, sha256: str, times: Times) -> Manifest:
    """The manifest of what a ledger says, not signed yet."""
    asked, last = found.asked, found.last
    assert asked is not None  # noqa: S101 - `derived` has it, or raises
    assert last is not None  # noqa: S101
    sources = tuple(_result(name, asked, found) for name in asked.names)
    missing = tuple(_missing(sources, done=found.done))
    said: dict[str, Any] = {
        "asked": asked,
        "sources": sources,
        "total": found.total,
        "duplicates": found.duplicates,
        "deduplicated_by": found.by,
        "complete": not missing,
        "missing": missing,
        "hits_chain": found.hits_chain,
        "ledger": LedgerFile(sha256=sha256, chain=last.chain, lines=last.number, bytes=last.end),
        "times": times,
    }
    made = Manifest(**said, provenance_hash="", seal="")
    made = made.model_copy(update={"provenance_hash": provenance(made)})
    return made.model_copy(update={"seal": seal_of(made)})


def provenance(manifest: Manifest) -> str:
    """Over all that equal runs have in common."""
    said = manifest.model_dump(mode="json", exclude={"times", "seal", "signature", "provenance_hash"})
    if said["asked"]["snapshot"]:
        said["asked"]["snapshot"].pop("tag")
    for name in ("sha256", "chain", "bytes"):  # its first line names the tag
        said["ledger"].pop(name)
    return digest(said)


def seal_of(manifest: Manifest) -> str:
    return digest(manifest.model_dump(mode="json", exclude={"seal", "signature"}))


def _result(name: str, asked: Asked, found: Derived) -> SourceResult:
    hits, verified = found.counts.get(name, (0, 0))
    end = found.ends.get(name, {})
    sent = next((one for one in asked.sources if one.source == name), None)
    told: dict[str, Any] = {"query": asked.tree}
    if sent is not None:
        told = {field: getattr(sent, field) for field in ("query", "parameters", "widened", "lacking", "refused", "native", "reproducible")}
    fetched = end.get("fetched", hits)
    return SourceResult(
        source=name,
        **told,
        hits=hits,
        verified=verified,
        total=end.get("total"),
        fetched=fetched,
        slices=end.get("slices", ()),
        complete=bool(end.get("complete")),
        remarks=end.get("remarks", ()),
    )


def _missing(sources: tuple[SourceResult, ...], *, done: bool) -> list[str]:
    said = []
    for one in sources:
        if not one.complete:
            why = one.refused or "; ".join(one.remarks) or "it was not read to its end"
            of = "" if one.total is None else f" of {one.total:,}"
            said.append(f"{one.source}: {one.fetched:,}{of} fetched: {why}")
    return said if said or done else ["the run did not come to its end"]


def read(path: Path) -> Manifest:
    """The manifest at a path, as it says; `NoSuchRun` where there is none, `Tampered` where it is none that was written so."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise NoSuchRun(f"{path} cannot be read: {error.strerror or error}") from error
    return parsed(raw, path.name)


def parsed(raw: bytes, name: str) -> Manifest:
    try:
        said: Mapping[str, Any] = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Tampered(f"{name} is no manifest: {error}") from error
    if not isinstance(said, dict) or said.get("format") != "outrider.manifest/1":
        raise Tampered(f"{name} is no manifest of a systematic run")
    try:
        return Manifest.model_validate(said)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise Tampered(f"{name}: {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from error


def snapshot_of(manifest: Manifest) -> Snapshot | None:
    return manifest.asked.snapshot
