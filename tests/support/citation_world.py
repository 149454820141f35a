"""A world of works that cite each other, served on loopback as OpenAlex, Semantic Scholar, OpenCitations and Crossref serve theirs.

Every service has its own path below one address, knows only some of the works, and counts what it was asked. `CitationWorld.truth` says
which links the services report together, so a graph that was built from their answers can be compared with it.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from outrider.settings.sections import CrossrefSettings, OpenalexSettings, OpencitationsSettings, SemanticScholarSettings
from outrider.sources.crossref import Crossref
from outrider.sources.http.client import Caller
from outrider.sources.openalex import Openalex
from outrider.sources.opencitations import Opencitations
from outrider.sources.semantic_scholar import SemanticScholar
from outrider.state.citations import LinkSource
from outrider.state.records import Identifiers, Paper
from support.http_server import Answer, Request, as_bytes, as_json, cut, refusal
from support.shared_data import DATA

SERVICES = ("openalex", "semantic_scholar", "opencitations", "crossref")
KEY = "a-key-of-the-world-0001"
FAST: Mapping[str, Any] = {"requests": 10_000, "per_s": 1, "at_once": 50, "timeout_s": 20}
Fault = Callable[[str, Request], Answer | None]


@dataclass(frozen=True, slots=True)
class WorldWork:
    """One work. Without a DOI only OpenAlex knows it."""

    number: int
    doi: str | None
    title: str
    year: int = 2000
    authors: tuple[str, ...] = ()
    cites: tuple[int, ...] = ()
    abstract: str = ""
    openalex: str = ""
    """`W` and digits; by default of its number."""

    @property
    def own(self) -> str:
        return self.openalex or f"W{1_000_000 + self.number}"

    @property
    def s2(self) -> str:
        return f"{self.number:040x}"

    @property
    def key(self) -> str:
        """The name of its node in a network, where it is no record."""
        return f"doi:{self.doi}" if self.doi else f"openalex:{self.own.lower()}"


def make_small_works() -> tuple[WorldWork, ...]:
    """Twelve works: a chain, a circle, one that cites itself, one without a DOI, one that nobody cites."""
    cites = {1: (2, 3), 2: (3, 4), 3: (1,), 4: (5,), 5: (5, 6), 6: (), 7: (1, 2), 8: (1, 7), 9: (8,), 10: (2,), 11: (), 12: (11,)}
    return tuple(
        WorldWork(
            number,
            None if number == 10 else f"10.5555/w.{number}",
            f"The {('first', 'second', 'third', 'fourth')[number % 4]} study of otters in river {number}",
            1990 + number,
            (f"Author{number}, A", "Common, B"),
            cites[number],
        )
        for number in cites
    )


def load_cacm() -> tuple[WorldWork, ...]:
    """CACM's links are undirected; the later number is made to cite the earlier one."""
    works = []
    with gzip.open(DATA / "ir" / "cacm" / "corpus.jsonl.gz", "rt") as lines:
        for row in map(json.loads, lines):
            number = int(row["id"])
            cites = tuple(sorted({int(other) for other in row["linked"] if int(other) < number}))
            works.append(WorldWork(number, f"10.1145/{number}", row["title"], 1960 + number % 20, (row["authors"],), cites, row["text"]))
    return tuple(works)


def load_synergy(name: str) -> tuple[WorldWork, ...]:
    """Works of one review with their references, also to works outside of it, which have an OpenAlex id alone."""
    with gzip.open(DATA / "synergy" / f"{name}.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    numbers: dict[str, int] = {}
    for row in rows:
        numbers.setdefault(row["openalex"].rsplit("/", 1)[1], len(numbers) + 1)
    inside = len(numbers)
    for row in rows:
        for other in row["referenced_works"]:
            numbers.setdefault(other.rsplit("/", 1)[1], len(numbers) + 1)
    works, dois = [], set()
    for row in rows:
        own = row["openalex"].rsplit("/", 1)[1]
        doi = (row["doi"] or "").removeprefix("https://doi.org/").lower() or None
        doi = None if doi in dois else doi
        dois.add(doi)
        cites = tuple(dict.fromkeys(numbers[other.rsplit("/", 1)[1]] for other in row["referenced_works"]))
        works.append(WorldWork(numbers[own], doi, row["title"] or "", row["year"] or 2000, (), cites, openalex=own))
    outside = [WorldWork(number, None, f"Work {own}", openalex=own) for own, number in numbers.items() if number > inside]
    return (*works, *outside)


def load_local_network(place: int) -> tuple[WorldWork, ...]:
    """A saved network of Local Citation Network: its works, and the references among them."""
    saved = json.loads((DATA / "citations" / "local_networks.json").read_text())[place]
    listed = (saved["source"], *saved["input"], *saved["incomingSuggestions"], *saved["outgoingSuggestions"])
    entries = {entry["id"]: entry for entry in listed if entry.get("id")}
    numbers = {own: number for number, own in enumerate(sorted(entries), start=1)}
    works = []
    for own, entry in sorted(entries.items()):
        cites = tuple(dict.fromkeys(numbers[other] for other in entry.get("references") or () if other in numbers))
        doi = (entry.get("doi") or "").lower() or None
        works.append(WorldWork(numbers[own], doi, entry.get("title") or f"Work {own}", entry.get("year") or 2000, (), cites))
    return tuple(works)


@dataclass
class CitationWorld:
    """The services' answers. `coverage` is the share of the works with a DOI that each service but OpenAlex knows."""

    works: Sequence[WorldWork]
    coverage: float = 1.0
    fault: Fault | None = None
    nameless: frozenset[int] = frozenset()
    """Works that are cited at Crossref without their DOI."""
    asked: Counter[str] = field(default_factory=Counter)
    """Requests by service, method, path and query."""
    paid: int = 0
    """Pages of lists at OpenAlex."""

    def __post_init__(self) -> None:
        self.by_number = {work.number: work for work in self.works}
        self._cited_by: defaultdict[int, list[int]] = defaultdict(list)
        for work in self.works:
            for other in work.cites:
                self._cited_by[other].append(work.number)
        self._by_name = {name: work for work in self.works for name in (work.own, work.s2, f"doi:{work.doi}")}

    # What is true

    def knows(self, service: str, work: WorldWork) -> bool:
        if service == "openalex":
            return True
        return work.doi is not None and crc32(f"{service} {work.number}".encode()) % 1000 < 1000 * self.coverage

    def list_links(self, service: str) -> set[tuple[int, int]]:
        """The links that a service reports, from citing to cited, without those to itself."""
        return {
            (work.number, other)
            for work in self.works
            for other in work.cites
            if work.number != other and self.knows(service, work) and self.knows(service, self.by_number[other])
        }

    def truth(
        self, seeds: Iterable[int], depth: int, references_only: frozenset[str] = frozenset({"crossref"})
    ) -> dict[tuple[str, str], tuple[str, ...]]:
        """The links of a graph of this depth with the services that report them, by the keys of the network.

        `references_only` names services that do not list what cites a work.
        """
        links = {service: self.list_links(service) for service in SERVICES}
        neighbours: defaultdict[int, set[int]] = defaultdict(set)
        for service, pairs in links.items():
            for citing, cited in pairs:
                neighbours[citing].add(cited)
                if service not in references_only:
                    neighbours[cited].add(citing)
        looked_up, frontier = set[int](), set(seeds)
        for _ in range(depth):
            looked_up |= frontier
            frontier = {other for one in frontier for other in neighbours[one]} - looked_up
        reported: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for service, pairs in links.items():
            for citing, cited in pairs:
                if citing in looked_up or (cited in looked_up and service not in references_only):
                    reported[self.by_number[citing].key, self.by_number[cited].key].add(service)
        return {pair: tuple(sorted(services)) for pair, services in reported.items()}

    def paper(self, number: int) -> Paper:
        """A work as a seed."""
        work = self.by_number[number]
        identifiers = Identifiers(doi=work.doi) if work.doi else Identifiers(openalex=work.own)
        return Paper(doc_id=work.key, title=work.title, identifiers=identifiers, source="world")

    # How it is asked

    def handle(self, request: Request) -> Answer:
        service, _, path = request.path.removeprefix("/").partition("/")
        self.asked[f"{service} {request.method} {request.target} {request.body.decode()}"] += 1
        if self.fault is not None and (answer := self.fault(service, request)) is not None:
            return answer
        answers = {
            "openalex": self._answer_openalex,
            "semantic_scholar": self._answer_semantic_scholar,
            "opencitations": self._answer_opencitations,
            "crossref": self._answer_crossref,
        }
        return answers[service](f"/{path}", request)

    def _find(self, service: str, name: str) -> WorldWork | None:
        work = self._by_name.get(name)
        return work if work is not None and self.knows(service, work) else None

    def _ends(self, service: str, work: WorldWork, direction: str) -> list[WorldWork]:
        numbers = work.cites if direction == "references" else self._cited_by[work.number]
        return [other for number in numbers if self.knows(service, other := self.by_number[number])]

    def _answer_openalex(self, path: str, request: Request) -> Answer:
        """https://developers.openalex.org: lists have pages of at most 100, beyond 10,000 by cursor, and cost money."""
        if path != "/works":
            work = self._find("openalex", path.removeprefix("/works/"))
            return refusal(404) if work is None else as_json(self._openalex_work(work))
        self.paid += 1
        if request.query.get("api_key") != KEY:
            return refusal(403, "a list needs a key")
        scheme, _, value = request.query["filter"].partition(":")
        if scheme == "cites":
            listed = self._ends("openalex", self._by_name[value], "citations")
        else:
            listed = [work for name in value.split("|") if (work := self._find("openalex", name))]
        per_page = int(request.query["per_page"])
        assert per_page <= 100
        cursor = request.query.get("cursor", "")
        start = int(cursor.removeprefix("c")) if cursor.startswith("c") else 0
        page = listed[start : start + per_page]
        meta: dict[str, Any] = {"count": len(listed), "per_page": per_page}
        if cursor:
            meta["next_cursor"] = f"c{start + per_page}" if page else None
        return as_json({"meta": meta, "results": [self._openalex_work(work) for work in page]})

    def _openalex_work(self, work: WorldWork) -> dict[str, Any]:
        address = f"https://openalex.org/{work.own}"
        return {
            "id": address,
            "doi": f"https://doi.org/{work.doi}" if work.doi else None,
            "title": work.title,
            "publication_year": work.year,
            "ids": {"openalex": address},
            "authorships": [{"author": {"display_name": name}} for name in work.authors],
            "abstract_inverted_index": _invert(work.abstract),
            "referenced_works": [f"https://openalex.org/{self.by_number[other].own}" for other in work.cites],
        }

    def _answer_semantic_scholar(self, path: str, request: Request) -> Answer:
        """https://api.semanticscholar.org/api-docs/graph: 1,000 links a page, 500 ids a batch."""
        if path.endswith("/batch"):
            ids = request.json["ids"]
            assert len(ids) <= 500
            found = [self._find("semantic_scholar", one.replace("DOI:", "doi:")) for one in ids]
            return as_json([None if work is None else self._s2_paper(work) for work in found])
        own, _, direction = path.removeprefix("/graph/v1/paper/").rpartition("/")
        work = self._find("semantic_scholar", own.replace("DOI:", "doi:"))
        if work is None:
            return refusal(404)
        listed = self._ends("semantic_scholar", work, direction)
        offset, limit = int(request.query["offset"]), int(request.query["limit"])
        assert limit <= 1_000
        within = "citedPaper" if direction == "references" else "citingPaper"
        page = listed[offset : offset + limit]
        following = {"next": offset + limit} if offset + limit < len(listed) else {}
        return as_json({"offset": offset, **following, "data": [{within: self._s2_paper(one)} for one in page]})

    def _s2_paper(self, work: WorldWork) -> dict[str, Any]:
        authors = [{"name": name} for name in work.authors]
        return {"paperId": work.s2, "externalIds": {"DOI": work.doi}, "title": work.title, "year": work.year, "authors": authors}

    def _answer_opencitations(self, path: str, request: Request) -> Answer:
        """https://api.opencitations.net/index/v2: one list, no pages; an unknown id is an empty list."""
        direction, _, name = path.removeprefix("/index/v2/").partition("/")
        work = self._find("opencitations", name)
        listed = [] if work is None else self._ends("opencitations", work, direction)
        far, near = ("cited", "citing") if direction == "references" else ("citing", "cited")
        names = {one.number: f"omid:br/06{one.number} doi:{one.doi}" for one in (*listed, *([work] if work else []))}
        return as_json([{"oci": "06-06", far: names[one.number], near: names[work.number], "creation": "2020"} for one in listed if work])

    def _answer_crossref(self, path: str, request: Request) -> Answer:
        """https://api.crossref.org: the references that were deposited."""
        work = self._find("crossref", f"doi:{path.removeprefix('/works/')}")
        if work is None:
            return refusal(404, "Resource not found.")
        references = [self._crossref_reference(one) for one in self._ends("crossref", work, "references")]
        message = {"DOI": work.doi, "title": [work.title], "reference": references, "issued": {"date-parts": [[work.year]]}}
        return as_json({"status": "ok", "message-type": "work", "message": message})

    def _crossref_reference(self, work: WorldWork) -> dict[str, Any]:
        if work.number not in self.nameless:
            return {"key": f"ref{work.number}", "DOI": work.doi}
        author = work.authors[0].split(",")[0] if work.authors else ""
        return {"key": f"ref{work.number}", "author": author, "year": str(work.year), "article-title": work.title}

    # The adapters

    def make_sources(self, base_url: str, *, key: str = KEY, caller: Caller | None = None, **limits: Any) -> tuple[LinkSource, ...]:
        caller = caller or Caller()
        own = {**FAST, **limits}
        return (
            Openalex.of(OpenalexSettings(base_url=f"{base_url}/openalex", api_key=key, **own), caller),  # type: ignore[arg-type]
            SemanticScholar.of(SemanticScholarSettings(base_url=f"{base_url}/semantic_scholar", **own), caller),
            Opencitations.of(OpencitationsSettings(base_url=f"{base_url}/opencitations", **own), caller),
            Crossref.of(CrossrefSettings(base_url=f"{base_url}/crossref", **own), caller),
        )


def _invert(text: str) -> dict[str, list[int]] | None:
    """An abstract as OpenAlex gives it: the places of each word."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(text.split()):
        places[word].append(place)
    return dict(places) or None


SCALE = 50
"""A second of the services' clocks lasts a fiftieth of ours: their limits are as documented, and waiting for them is short."""
DOCUMENTED: Mapping[str, Mapping[str, float]] = {
    "openalex": {"requests": 10, "per_s": 1 / SCALE},
    "semantic_scholar": {"requests": 1, "per_s": 1 / SCALE},
    "opencitations": {"requests": 3, "per_s": 1 / SCALE},
    "crossref": {"requests": 1, "per_s": 1 / SCALE, "at_once": 1},
}
"""Requests a second, as the services document them and as our settings have them."""
FAULTS = (
    refusal(429, headers={"Retry-After": ".1"}),
    refusal(503),
    cut(as_bytes(b'{"data": [' + b" " * 400, "application/json")),
    Answer(after_s=0.2, reset=True),
)
"""What `StrictServices` answer at first to some requests: too many of them, down, truncated, slow and then reset."""


@dataclass
class StrictServices:
    """A world whose services refuse what exceeds their limits, fail now and then, and see the process that asks them die.

    A fault comes once for a request: the next try is answered. Requests are logged in the order of their coming.
    """

    world: CitationWorld
    faults: Sequence[Answer] = ()
    faulty_of: int = 11
    """Of so many different requests one fails at first."""
    log: list[str] = field(default_factory=list)
    """Each request that was answered: service, method, path, query, body."""
    failed: set[str] = field(default_factory=set)
    too_fast: Counter[str] = field(default_factory=Counter)
    kill_at: int = -1
    """The number of the answered request at which `kill` is called; -1 for none."""
    kill: Callable[[], None] = lambda: None
    starts: list[int] = field(default_factory=list)
    """Lengths of the log at each start of a process that asks, noted by whoever starts it."""
    _seen: dict[str, int] = field(default_factory=dict)
    _recent: defaultdict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))

    def handle(self, request: Request) -> Answer:
        service = request.path.removeprefix("/").partition("/")[0]
        limits, recent = DOCUMENTED[service], self._recent[service]
        while recent and recent[0] <= request.at - limits["per_s"]:
            recent.popleft()
        recent.append(request.at)
        if len(recent) > limits["requests"]:
            self.too_fast[service] += 1
            return refusal(429, headers={"Retry-After": "1"})
        line = f"{service} {request.method} {request.target} {request.body.decode()}"
        self._seen.setdefault(line, len(self._seen) + 1)
        failing, rest = divmod(self._seen[line], self.faulty_of)
        if self.faults and not rest and line not in self.failed:
            self.failed.add(line)
            return self.faults[failing % len(self.faults)]
        self.log.append(line)
        if len(self.log) == self.kill_at:
            self.kill()
        return self.world.handle(request)

    def find_repeated(self) -> dict[str, int]:
        """Requests that were answered again, and how many requests before the end of their process each of them was asked, at most."""
        places = defaultdict(list)
        for place, line in enumerate(self.log):
            places[line].append(place)
        ends = [*self.starts[1:], len(self.log)]
        return {
            line: max(min(end for end in ends if end > place) - place for place in own[:-1]) for line, own in places.items() if len(own) > 1
        }
