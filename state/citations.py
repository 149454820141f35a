"""Citations between works: reported links, works known from links alone, candidates"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import Field
from typing_extensions import TypedDict

from outrider.state.model import Model
from outrider.state.ports import SourceAnswer
from outrider.state.records import Identifiers, Paper
from outrider.state.response import Failure

Direction = Literal["references", "citations"]
"""From a work to the works that it cites, or to those that cite it."""
BOTH_DIRECTIONS: frozenset[Direction] = frozenset({"references", "citations"})


class LinkSource(Protocol):
    """A service that reports citations. Raises `SourceError`; an unknown work is an empty answer."""

    @property
    def name(self) -> str: ...

    @property
    def directions(self) -> frozenset[Direction]: ...

    @property
    def schemes(self) -> Sequence[str]:
        """Fields of `Identifiers` by which it knows a work, best first."""
        ...

    async def references(self, scheme: str, value: str, within_s: float, limit: int) -> SourceAnswer:
        """Works that it cites, as far as they have an identifier or a title."""
        ...

    async def citations(self, scheme: str, value: str, within_s: float, limit: int) -> SourceAnswer:
        """Works that cite it."""
        ...


class CitationBudget(Model):
    """Limits of one citation job. What is not reached within them is reported."""

    calls: int = Field(200, ge=1, description="Requests to services.")
    time_s: float = Field(600.0, gt=0, description="Time in seconds.")
    works: int = Field(2_000, ge=1, description="Works at the other end of links.")
    depth: int = Field(1, ge=1, le=3, description="Links from a target to the furthest work that is looked up.")


@dataclass(frozen=True, slots=True)
class CitationLink:
    """One citation as one source reports it. Works are named by their keys in the network."""

    citing: str
    cited: str
    source: str
    """A service, `full text` for a reference that was matched by its words, or `library` for an identifier in a record's reference list."""
    date: str
    """When it was read, ISO 8601."""


@dataclass(frozen=True, slots=True)
class CitationNetwork:
    """Works and the citations among them.

    A key is the `doc_id` of a record of the library, else the strongest identifier as `scheme:value` (a placeholder).
    """

    works: Mapping[str, Paper]
    links: Mapping[tuple[str, str], tuple[str, ...]]
    """(citing, cited) with the sources that report it, sorted."""
    placeholders: frozenset[str] = frozenset()
    """Keys of works that are in no library; they are never hits."""


@dataclass(frozen=True, slots=True)
class ChaseFacts:
    """What the library knows of a target: its chase, and the works around it."""

    target: str
    chase: str
    """As JSON."""
    fetched: frozenset[str]
    """Included works whose records were fetched for the target."""
    network: CitationNetwork
    retracted: frozenset[str]
    remarks: tuple[str, ...] = ()
    unread: str = ""
    """A remark while the citations of some works are unread."""


class ChaseReader(Protocol):
    """The library as the store of chases. Raises `SearchError`."""

    async def read(self, target: str, request: str, directions: tuple[Direction, ...], hops: int) -> ChaseFacts:
        """What is known of a target. Request, directions and hops that differ from the stored ones are stored, and a job is queued for
        works whose citations were not read yet.
        """
        ...


class ServiceUse(Model):
    """What one job had from one service."""

    name: str
    calls: int = Field(0, description="Requests that were sent to it.")
    links: int = Field(0, description="New links.")
    failures: int = 0
    failure: str = Field("", description="The first failure.")
    stopped: str = Field("", description="Why it was not asked to the end.")
    notes: tuple[str, ...] = ()


class GraphReport(Model):
    """What one job added to the graph, and what it left out."""

    seeds: int = 0
    works: int = Field(0, description="Works that were met, seeds included.")
    links: int = Field(0, description="New links; a citation that two services report is two.")
    services: tuple[ServiceUse, ...] = ()
    cut: tuple[str, ...] = Field((), description="What the budget cut off.")
    unknown: tuple[str, ...] = Field((), description="Some works that no service knows.")
    unknown_total: int = 0
    without_service: int = Field(0, description="Works without an identifier that a service knows.")
    to_themselves: int = Field(0, description="Links from a work to itself, left out.")
    contradicting: int = Field(0, description="Works that share an identifier with one that they contradict; they stand for themselves.")
    not_followed: int = Field(0, description="Works beyond the budget: their links are kept, theirs are not looked up.")
    references_matched: int = Field(0, description="References without an identifier whose work was found.")
    references_unmatched: int = Field(0, description="Those whose work was not found for certain.")
    seconds: float = Field(0.0, description="Time that was spent on requests.")


class CitationsRequest(Model):
    """Targets whose citations are looked up, and the limits."""

    targets: tuple[str, ...] = Field(
        min_length=1, max_length=1_000, description="Ids of records of the library, DOIs, or identifiers such as pmid:31452104."
    )
    directions: tuple[Direction, ...] = Field(("references", "citations"), min_length=1, description="What to look up of each work.")
    budget: CitationBudget = CitationBudget()


class CitationsResult(Model):
    """The answer of the graph `citations`."""

    targets: tuple[str, ...] = ()
    missing: tuple[str, ...] = Field((), description="Targets that name no work.")
    report: GraphReport | None = None
    failures: tuple[Failure, ...] = ()


class CitationsState(CitationsResult):
    """The state of one run."""

    directions: tuple[Direction, ...] = ("references", "citations")
    budget: CitationBudget = CitationBudget()


class CitationsUpdate(TypedDict, total=False):
    """The fields that a node may write."""

    missing: tuple[str, ...]
    report: GraphReport | None
    failures: tuple[Failure, ...]


class CitationCandidate(Model):
    """A work that citations connect with the target's works, and that a person has not decided on yet."""

    key: str
    title: str = ""
    authors: tuple[str, ...] = ()
    year: int | None = None
    venue: str | None = None
    identifiers: Identifiers = Identifiers()
    score: float = Field(0.0, description="Orders the candidates of one target; no probability.")
    cited_by_targets: int = Field(0, description="Works of the target that cite it.")
    cites_targets: int = Field(0, description="Works of the target that it cites.")
    co_cited: int = Field(0, description="Works that cite it together with a work of the target.")
    shared_references: int = Field(0, description="Works that both it and a work of the target cite.")
    fit: float | None = Field(None, description="How well its text fits the request, in [0, 1]; None without text or request.")
    is_placeholder: bool = True
    agreement: int = Field(1, description="The most sources that report one of its links with the target's works.")
    retracted: bool = False
    why: str = Field("", description="One line in plain words.")


@dataclass(frozen=True, slots=True)
class CitationSearchCounts:
    """The boxes of PRISMA 2020 for citation searching ("other methods"). None for counts that only the reviewers know."""

    identified: int
    """Works that were candidates."""
    screened: int
    excluded: int
    sought: int
    """Reports sought for retrieval: the included works."""
    not_screened: int
    not_retrieved: int | None = None
    assessed: int | None = None


class CandidateList(Model):
    """The candidates of a target, best first."""

    target: str = Field(description="A thread's id, `label:NAME`, or the path of a file of identifiers.")
    works: int = Field(description="Works of the target, with those that were included.")
    total: int = Field(description="All candidates; `candidates` may be fewer.")
    round: int = Field(1, description="The number of the round that these candidates would make.")
    candidates: tuple[CitationCandidate, ...] = ()
    stop: str = Field("", description="Why it may be enough; empty while rounds bring something.")
    completeness: str = Field("", description="What chasing alone cannot find, in plain words.")
    remarks: tuple[str, ...] = Field(
        (), description="Such as that the citations of some works were not read yet, and the command that reads them."
    )


class QueueReport(Model):
    """What a decision on candidates did, or would do."""

    target: str
    round: int
    queued: tuple[str, ...] = Field((), description="Keys of the works that are fetched.")
    excluded: tuple[str, ...] = Field((), description="Keys of the works that are no candidates any more.")
    jobs: tuple[str, ...] = Field((), description="Ids of the background jobs that fetch them.")
    dry_run: bool = False


class MapWork(Model):
    """One work of a citation map."""

    key: str
    title: str
    year: int | None = None
    role: Literal["target", "included", "candidate", "excluded"]
    round: int = Field(0, description="The round in which it was decided on; 0 for works of the target and candidates.")
    rank: int | None = Field(None, description="Place among the candidates.")
    retracted: bool = False


class CitationMap(Model):
    """The works around a target, as far as a picture can show them, and the citations among these."""

    target: str
    works: tuple[MapWork, ...] = ()
    links: tuple[tuple[str, str], ...] = Field((), description="(citing, cited), by key.")
    left_out: int = Field(0, description="Works that the picture has no room for.")
