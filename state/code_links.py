"""Links between papers, repositories and pages, with evidence; whether code is maintained"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from pydantic import Field

from outrider.state.model import Model
from outrider.state.records import Record, WebLink

LinkKind = Literal["paper's own code", "repository's paper", "archive", "uses", "based on", "mentions", "page"]
"""`paper's own code`: the paper says so; `repository's paper`: the repository says so. `archive`: a DOI under which the repository itself
is archived, such as Zenodo's. `based on`: the repository implements or extends the paper of others. `page`: a page of the work."""
OWN: frozenset[LinkKind] = frozenset({"paper's own code", "repository's paper"})
EvidencePlace = Literal[
    "abstract", "description", "text", "README", "CITATION.cff", "codemeta.json", "metadata", "topics", "link file", "record",
]  # fmt: skip
READ_AT: Final = "read_at"
"""In the metadata of a repository that is no record: when its host described it."""
Liveness = Literal["alive", "quiet", "unknown", "dead"]
LIVENESS_ORDER: tuple[Liveness, ...] = ("alive", "quiet", "unknown", "dead")


class LinkEvidence(Model):
    """One place that says how a paper and a repository belong together."""

    work: str = Field(description="Name of the paper, such as `doi:10.1/x`; of the paper or repository that a page is of.")
    target: str = Field(description="Name of the repository, such as `github:owner/name`, or of the page.")
    kind: LinkKind
    read_in: str = Field(description="The record, file or repository that says so.")
    place: EvidencePlace
    field: str = Field("", description="The field, heading or label that it stands in.")
    line: int | None = Field(None, description="Line of the file or text, from 1.")
    start: int | None = Field(None, description="Character offsets [start, end) in the text that `place` names.")
    end: int | None = None
    words: str = Field("", description="The words around it.")
    confidence: float = Field(ge=0, le=1)


class CodeLink(Model):
    """A paper and its repository, or a work and its page, with all evidence, the strongest first."""

    work: str
    target: str
    kind: LinkKind = Field(description="Of the strongest evidence.")
    confidence: float = Field(ge=0, le=1, description="Both directions agreeing count more.")
    agree: bool = Field(False, description="Whether the paper and the repository each name the other as their own.")
    evidence: tuple[LinkEvidence, ...] = ()

    @property
    def is_own(self) -> bool:
        return self.kind in OWN


class LinkedCode(Model):
    """A repository of a hit."""

    name: str = Field(description="Such as `github:owner/name`.")
    doc_id: str = Field("", description="Of its record, if one is known.")
    url: WebLink = None
    liveness: Liveness = "unknown"
    why: str = Field("", description="Why it counts as alive, quiet, unknown or dead.")
    kind: LinkKind
    confidence: float = Field(ge=0, le=1)
    agree: bool = False
    evidence: tuple[LinkEvidence, ...] = ()


class LinkedPaper(Model):
    """A paper of a repository."""

    name: str = Field(description="Such as `doi:10.1/x`.")
    doc_id: str = Field("", description="Of its record, if one is known.")
    title: str = ""
    kind: LinkKind
    confidence: float = Field(ge=0, le=1)
    agree: bool = False
    evidence: tuple[LinkEvidence, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownLinks:
    """Links of some records."""

    links: Mapping[str, tuple[CodeLink, ...]] = field(default_factory=dict)
    """By the id of the record that is an end."""
    records: Mapping[str, Record] = field(default_factory=dict)
    """By name: the ends that are known as records, or as repositories that a code host described."""


class LinkFinder(Protocol):
    """Finds the links of records. Raises `SearchError`."""

    async def find(self, records: Sequence[Record]) -> KnownLinks: ...


class CodeLinksRequest(Model):
    """What a job of the kind `code_links` reads."""

    targets: tuple[str, ...] = Field(min_length=1, max_length=200, description="Ids of records, or identifiers of papers and repositories.")
    requests: int = Field(60, ge=0, le=5_000, description="Most requests to GitHub; an hour has 60 without a token.")


class CodeLinksResult(Model):
    """What such a job read and wrote."""

    targets: tuple[str, ...] = ()
    repositories: int = Field(0, description="Repositories whose files were read.")
    evidence: int = Field(0, description="Pieces of evidence that are stored for them.")
    requests: int = 0
    missing: tuple[str, ...] = Field((), description="Targets that name nothing known.")
    remarks: tuple[str, ...] = ()


def best_liveness(kinds: Iterable[Liveness]) -> Liveness:
    """The best of several repositories; unknown for none."""
    return min(kinds, key=LIVENESS_ORDER.index, default="unknown")
