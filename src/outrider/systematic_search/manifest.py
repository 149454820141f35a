"""The manifest of a run: its request, results by source, checksums, and signature.

Everything but `times`, `seal` and `signature` follows from the ledger, so the two files verify each other. `provenance_hash` covers what
equal runs have in common (no times, no tag names); `seal` covers the whole file, and a signature signs the seal.

Signatures are Ed25519 (RFC 8032), made with the user's own key. They need the extra package `cryptography`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from outrider.boolean.parser import Syntax
from outrider.state.errors import BadRequest, MissingExtra
from outrider.state.model import Model
from outrider.state.records import LIBRARY
from outrider.state.systematic import PAGE, SentQuery, Slice, Snapshot
from outrider.systematic_search import ledger
from outrider.systematic_search.ledger import GENESIS, Line, NoSuchRun, Tampered, compute_digest, next_hit

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


NAME = "manifest.json"
SIGNS = (b"outrider.manifest/", b'"hits_chain"')
"""Parts of a manifest that show what a file was that is no JSON any more."""
MAKE = "make one with: openssl genpkey -algorithm ed25519 -out key.pem"


class RunRequest(Model):
    """The request of a run, fixed before its first page: the first line of its ledger.

    It holds no time and no file name, so two runs of the same query over the same sources begin with the same line.
    """

    query: str | dict[str, str] = Field(description="As the caller wrote it.")
    syntax: Syntax
    tree: str = Field(description="The parsed query, printed; parsing it again gives the same tree.")
    findings: tuple[str, ...] = Field((), description="The warnings about the query.")
    order: str = Field(description="The total order of the hits.")
    page: int = Field(PAGE, description="Hits of a page at most.")
    tool: dict[str, str] = Field(description="Versions of Outrider and of the Unicode tables that split texts into words.")
    snapshot: Snapshot | None = Field(None, description="The version of the library that is read; None without the library.")
    sources: tuple[SentQuery, ...] = Field((), description="The query sent to each service, in the order in which they are read.")

    @property
    def remarks(self) -> tuple[str, ...]:
        """The warnings about the query, and how the queries of the services differ from it."""
        return (*self.findings, *(f"{query.source}: {remark}" for query in self.sources for remark in describe_query(query)))

    @property
    def names(self) -> tuple[str, ...]:
        """The sources in their order; the library comes first."""
        return (*((LIBRARY,) if self.snapshot else ()), *(query.source for query in self.sources))


class SourceResult(Model):
    """The query that one source received, and its results."""

    source: str
    query: str = Field(description="As it was sent; for the library the printed tree.")
    parameters: tuple[tuple[str, str], ...] = ()
    widened: tuple[str, ...] = Field((), description="Parts that it cannot express; its records were filtered here.")
    lacking: tuple[str, ...] = Field((), description="Alternatives that none of its records can match; they were left out.")
    refused: str = Field("", description="Why no query was sent.")
    native: bool = Field(True, description="Whether it reads the query as written.")
    reproducible: bool = Field(True, description="False where its totals differ between two calls.")
    total: int | None = Field(None, description="Matches that it reports.")
    fetched: int = Field(0, description="Different records that it returned.")
    hits: int = Field(0, description="Those that match; they are in the ledger.")
    verified: int = Field(0, description="Hits checked in the record's own text; for the others only the service says that they match.")
    slices: tuple[Slice, ...] = ()
    complete: bool = False
    remarks: tuple[str, ...] = ()


class LedgerFile(Model):
    """`chain` is the chain of its last line."""

    name: str = ledger.NAME
    sha256: str
    chain: str
    lines: int
    bytes: int


class Times(Model):
    """In UTC. Seconds of processes that were killed are missing."""

    started_at: str
    finished_at: str
    seconds: dict[str, float] = Field(default_factory=dict, description="By source.")
    sessions: int = Field(1, description="How often the run was started or resumed.")


class Signature(Model):
    """A signature over the seal, with the public key of its signer."""

    algorithm: Literal["ed25519"] = "ed25519"
    public_key: str = Field(pattern=r"^[0-9a-f]{64}$")
    value: str = Field(pattern=r"^[0-9a-f]{128}$", description="Over the seal.")


class Manifest(Model):
    """The content of `manifest.json`."""

    format: Literal["outrider.manifest/1"] = "outrider.manifest/1"
    asked: RunRequest
    sources: tuple[SourceResult, ...]
    total: int = Field(description="Hits in the ledger.")
    duplicates: int = Field(0, description="Hits whose work an earlier hit of another source describes.")
    deduplicated_by: str = ""
    complete: bool = Field(description="Whether every source was read to its last hit.")
    missing: tuple[str, ...] = Field((), description="Why it is incomplete.")
    hits_chain: str = Field(description="Ordered chain over the ids and content hashes of all hits, made by `ledger.next_hit`.")
    ledger: LedgerFile
    provenance_hash: str
    times: Times
    seal: str
    signature: Signature | None = None

    def text(self) -> str:
        """The content of the file. A manifest has only one spelling, so every byte of the file can be checked."""
        return json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Those on the request, and what the sources added when they were read."""
        read = (f"{'' if one.source == LIBRARY else f'{one.source}: '}{remark}" for one in self.sources for remark in one.remarks)
        return (*self.asked.remarks, *read)

    @property
    def unique(self) -> int:
        """Hits without duplicates."""
        return self.total - self.duplicates


@dataclass(slots=True)
class LedgerSummary:
    """The parts of a ledger that the manifest contains, read in one pass."""

    request: RunRequest | None = None
    hits_chain: str = GENESIS
    counts: dict[str, list[int]] = field(default_factory=dict)
    """Hits and verified hits by source."""
    ends: dict[str, dict[str, Any]] = field(default_factory=dict)
    total: int = 0
    duplicates: int = 0
    method: str = ""
    """How the duplicates were recognised."""
    done: bool = False
    last: Line | None = None

    def add(self, line: Line) -> None:
        fields, self.last = line.fields, line
        if line.kind == "hit":
            count = self.counts.setdefault(fields["source"], [0, 0])
            count[0] += 1
            count[1] += fields["proof"] == "verified"
            self.hits_chain = next_hit(self.hits_chain, fields["doc_id"], fields["content"])
            self.total += 1
        elif line.kind == "asked":
            self.request = RunRequest.model_validate(fields["asked"])
        elif line.kind == "end":
            self.ends[fields["end"]] = fields
        elif line.kind == "duplicate":
            self.duplicates += 1
        elif line.kind == "done":
            self.done, self.method = True, fields["by"]


def describe_query(query: SentQuery) -> list[str]:
    """Remarks on how the query for a service differs from the one asked; none if it is refused."""
    if query.refused:
        return []
    remarks = [f"widened, and filtered here: {part}" for part in query.widened]
    remarks += [f"left out, because none of its records can match it: {part}" for part in query.lacking]
    return remarks if query.reproducible else [*remarks, "not reproducible: totals differ between two calls"]


def summarize(path: Path) -> LedgerSummary:
    """Raises `Tampered` with the first line that is not as written, `NoSuchRun` for a ledger without a request."""
    summary = LedgerSummary()
    for line in ledger.read_lines(path):
        try:
            summary.add(line)
        except (ValidationError, KeyError, TypeError) as error:
            raise Tampered(f"{path.name}, line {line.number:,}: no run writes such a line") from error
    if summary.request is None or summary.last is None:
        raise NoSuchRun(f"{path} holds no run that began")
    return summary


def make_manifest(summary: LedgerSummary, sha256: str, times: Times) -> Manifest:
    """The manifest of a ledger with that hash, not signed yet."""
    request, last = summary.request, summary.last
    assert request is not None  # noqa: S101 - `summarize` raises without one
    assert last is not None  # noqa: S101
    sources = tuple(_make_source_result(name, request, summary) for name in request.names)
    missing = []
    for source in sources:
        if not source.complete:
            why = source.refused or "; ".join(source.remarks) or "it was not read to its end"
            reported = "" if source.total is None else f" of {source.total:,}"
            missing.append(f"{source.source}: {source.fetched:,}{reported} fetched: {why}")
    if not missing and not summary.done:
        missing = ["the run did not come to its end"]
    manifest = Manifest(
        asked=request,
        sources=sources,
        total=summary.total,
        duplicates=summary.duplicates,
        deduplicated_by=summary.method,
        complete=not missing,
        missing=tuple(missing),
        hits_chain=summary.hits_chain,
        ledger=LedgerFile(sha256=sha256, chain=last.chain, lines=last.number, bytes=last.end),
        times=times,
        provenance_hash="",
        seal="",
    )
    manifest = manifest.model_copy(update={"provenance_hash": compute_provenance(manifest)})
    return manifest.model_copy(update={"seal": compute_seal(manifest)})


def compute_provenance(manifest: Manifest) -> str:
    """Digest of all that equal runs have in common."""
    fields = manifest.model_dump(mode="json", exclude={"times", "seal", "signature", "provenance_hash"})
    if fields["asked"]["snapshot"]:
        fields["asked"]["snapshot"].pop("tag")
    for name in ("sha256", "chain", "bytes"):  # the ledger's first line names the tag
        fields["ledger"].pop(name)
    return compute_digest(fields)


def compute_seal(manifest: Manifest) -> str:
    """Digest of the whole manifest without seal and signature."""
    return compute_digest(manifest.model_dump(mode="json", exclude={"seal", "signature"}))


def _make_source_result(name: str, request: RunRequest, summary: LedgerSummary) -> SourceResult:
    hits, verified = summary.counts.get(name, (0, 0))
    end = summary.ends.get(name, {})
    sent_query = next((query for query in request.sources if query.source == name), SentQuery(name, request.tree, native=True))
    return SourceResult(
        **asdict(sent_query),
        hits=hits,
        verified=verified,
        total=end.get("total"),
        fetched=end.get("fetched", hits),
        slices=end.get("slices", ()),
        complete=bool(end.get("complete")),
        remarks=end.get("remarks", ()),
    )


def read(path: Path) -> Manifest:
    """The manifest of a file. Raises `NoSuchRun` without a file, `NotAManifest`, and `Tampered` for a manifest that was changed."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise NoSuchRun(f"{path} cannot be read: {error.strerror or error}") from error
    return parse_manifest(raw, path.name)


class NotAManifest(NoSuchRun):
    """A file that is something else, rather than a manifest that was changed."""


def parse_manifest(raw: bytes, name: str) -> Manifest:
    """The manifest of a file's bytes; its seal is not checked. Messages begin with `name`.

    Raises `NotAManifest`, or `Tampered` for a file that was a manifest, as the rest of it shows.
    """
    fields, problem = None, "is not the manifest of a systematic run"
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError) as error:
        problem = f"is not a manifest: {error}"
    if not isinstance(fields, dict) or fields.get("format") != "outrider.manifest/1":
        known = fields.keys() & Manifest.model_fields.keys() if isinstance(fields, dict) else ()
        if len(known) > len(Manifest.model_fields) // 2 or (fields is None and any(sign in raw for sign in SIGNS)):
            raise Tampered(f"{name} {problem}")
        hint = "it is a ledger; name the manifest beside it" if raw.startswith(b'{"asked":') else f"name a run's {NAME}, or its folder"
        raise NotAManifest(f"{name} is not the manifest of a systematic run; {hint}")
    try:
        return Manifest.model_validate(fields)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise Tampered(f"{name}: {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from error


def signer(path: Path) -> Callable[[Manifest], Manifest]:
    """A function that signs manifests with the private key of a PEM file. The file is read at once, so a bad key fails before the run."""
    key = _load_private_key(path)
    public = key.public_key().public_bytes_raw().hex()

    def sign(manifest: Manifest) -> Manifest:
        value = key.sign(manifest.seal.encode()).hex()
        return manifest.model_copy(update={"signature": Signature(public_key=public, value=value)})

    return sign


def is_signature_valid(manifest: Manifest) -> bool:
    """Whether the signature fits its public key and the seal; the caller must know whose key it is."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise MissingExtra("a signed manifest", "sign") from error
    signature = manifest.signature
    if signature is None:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(signature.public_key)).verify(
            bytes.fromhex(signature.value), manifest.seal.encode()
        )
    except (InvalidSignature, ValueError):
        return False
    return True


def load_public_key(path: Path) -> str:
    """The public key, as hex, of a PEM file with a public or a private key."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise MissingExtra("a signed manifest", "sign") from error
    raw = _read_key(path)
    if b"PRIVATE KEY" in raw:
        return _load_private_key(path).public_key().public_bytes_raw().hex()
    try:
        key = serialization.load_pem_public_key(raw)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadRequest(f"{path} holds no public key in PEM form") from error
    if not isinstance(key, Ed25519PublicKey):
        raise BadRequest(f"{path} holds a key of another kind; only Ed25519 keys sign manifests")
    return key.public_bytes_raw().hex()


def _load_private_key(path: Path) -> Ed25519PrivateKey:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise MissingExtra("signing a manifest", "sign") from error
    raw = _read_key(path)
    try:
        key = serialization.load_pem_private_key(raw, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadRequest(f"{path} holds no private key in PEM form without a password; {MAKE}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BadRequest(f"{path} holds a key of another kind; only Ed25519 keys sign manifests; {MAKE}")
    return key


def _read_key(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadRequest(f"the key {path} cannot be read ({error.strerror or error}); {MAKE}") from error
