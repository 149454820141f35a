"""Builder of the graph of citations, from several services, in steps that survive crashes.

Breadth first: the links of the seeds, then those of the works found, up to `budget.depth`. Each request of links and the write of its
answer are one step of the job, and so is each batch of metadata. A step's answer is what the next steps follow from: a job that
continues after a crash replays the answers, asks and pays for nothing twice but what was under way, and takes the same way. So everything
that decides on the way is in the answers: calls, seconds, names, failures, never a clock. The steps of one work run at the same time.

A service that fails costs its own links. One that refuses the key, says that it wants a long pause, or fails `MOST_FAILURES` times in
sequence is left alone for the rest of the job. All of that is in the report.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Literal, Protocol

from pydantic import JsonValue

from outrider.citations.match_references import ReferenceMatcher, make_reference
from outrider.library.citation_tables import LinkCounts, work_name
from outrider.linkage.lookup_match import identifiers_contradict, titles_agree
from outrider.sources.http.client import RequestCount, count_requests
from outrider.sources.openalex import Openalex
from outrider.sources.semantic_scholar import SemanticScholar
from outrider.state.citations import CitationBudget, CitationLink, Direction, GraphReport, LinkSource, ServiceUse
from outrider.state.errors import Forbidden, Malformed, RateLimited, SourceError, Unauthorized
from outrider.state.jobs import JobSteps
from outrider.state.ports import BatchSource, Clock
from outrider.state.records import Identifiers, Paper

FULL_TEXT = "full text"
"""The source of a link whose reference names no identifier, and was matched by its words."""
MOST_FAILURES = 3
PATIENCE_S = 60.0
"""A longer pause that a service asks for ends its part of the job."""
STEP_S = 120.0
"""Time limit of one request with all its pages."""
MOST_MISSING = 20
PARTLY = "no links of some works from some services"
OTHER_WORK = "the service has another work under this identifier"
DIRECTIONS: tuple[Direction, ...] = ("references", "citations")


class LinkStore(Protocol):
    """Where works and links are kept."""

    async def add(self, works: Sequence[Paper], links: Sequence[CitationLink]) -> LinkCounts: ...


@dataclass(frozen=True, slots=True)
class Seed:
    """A work whose citations are looked up."""

    name: str
    """Its strongest name, or the id of a record."""
    paper: Paper
    references: tuple[Paper, ...] = ()
    """References of its full text without an identifier."""

    def to_json(self) -> JsonValue:
        """What a job keeps of it. The rest stands in the library."""
        return {
            "name": self.name,
            "paper": _brief(self.paper),
            "references": [one.model_dump(mode="json", exclude_defaults=True) for one in self.references],
        }

    @classmethod
    def from_json(cls, value: JsonValue) -> Seed:
        fields = _mapping(value)
        references = tuple(_restore(one) for one in _list(fields["references"]))
        return cls(str(fields["name"]), _restore(fields["paper"]), references)


def find_lookups(sources: Iterable[object]) -> tuple[BatchSource, ...]:
    """Those of the sources that look up many works at once, the one with the largest batches first.

    OpenAlex is asked for its own ids, which no other service knows; without a key for one at a time, which is free.
    """
    every = tuple(sources)
    scholars = [source for source in every if isinstance(source, SemanticScholar)]
    own = [source for source in every if isinstance(source, Openalex)]
    singly = [source if source.service.params else replace(source, capabilities=replace(source.capabilities, batch=1)) for source in own]
    return (*scholars, *singly)


class DirectSteps:
    """Steps of a job that nobody resumes: each runs at once."""

    async def step(self, name: str, work: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        return await work()

    async def report(self, progress: str) -> None:
        return None


@dataclass(slots=True)
class _Service:
    """What a service was asked so far."""

    calls: int = 0
    links: int = 0
    failures: list[str] = field(default_factory=list)
    in_sequence: int = 0
    stopped: str = ""
    notes: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Question:
    """One list of links of one work from one service."""

    source: LinkSource
    direction: Direction
    scheme: str
    value: str

    @property
    def name(self) -> str:
        return f"{self.source.name} {self.direction} {self.scheme}:{self.value}"


@dataclass(slots=True)
class GraphBuilder:
    """Builds one graph; see the module. `lookups` give works that are known by an identifier alone a title."""

    sources: Sequence[LinkSource]
    lookups: Sequence[BatchSource]
    store: LinkStore
    budget: CitationBudget
    steps: JobSteps
    clock: Clock = time.time
    directions: Sequence[Direction] = DIRECTIONS
    _services: dict[str, _Service] = field(default_factory=dict)
    _works: dict[str, Paper] = field(default_factory=dict)
    """By name, in the order in which they were met."""
    _names: dict[str, str] = field(default_factory=dict)
    """The first name of a work by each of its names."""
    _spent_s: float = 0.0
    _counts: Counter[str] = field(default_factory=Counter)
    _cut: dict[str, str] = field(default_factory=dict)
    _unknown: list[str] = field(default_factory=list)
    _tried: set[tuple[str, str]] = field(default_factory=set)
    """Source and identifier of each look-up."""
    _references: list[tuple[str, str, Paper]] = field(default_factory=list)
    """Citing work, source and reference of those without an identifier."""
    _misleading: set[tuple[str, str, str]] = field(default_factory=set)
    """Source, scheme and value of identifiers under which a source has another work."""

    async def build(self, seeds: Sequence[Seed]) -> GraphReport:
        """Write what the services report, and say what that was."""
        frontier = list(dict.fromkeys(self._remember(seed.paper) for seed in seeds))
        seed_names = tuple(frontier)
        for seed in seeds:
            self._references += [(self._remember(seed.paper), FULL_TEXT, reference) for reference in seed.references]
        done: set[str] = set()
        for depth in range(1, self.budget.depth + 1):
            found: list[str] = []
            for place, name in enumerate(frontier, start=1):
                if limit := self._find_used_up():
                    left = len(frontier) - place + 1
                    line = f"{self._describe_limit(limit)}: {left:,} works at depth {depth} and those behind them were not looked up"
                    self._cut.setdefault(f"{limit} works", line)
                    break
                done.add(self._names[name])
                found += await self._ask_all(name)
                await self.steps.report(f"depth {depth}: {place:,} of {len(frontier):,} works, {len(self._works):,} works found")
            await self._look_up()
            frontier = [name for name in dict.fromkeys(self._names[name] for name in found) if name not in done]
        await self._match_references()
        return self._report(seed_names)

    async def _ask_all(self, name: str) -> list[str]:
        """The names of the works that all services link with this one. The references come first: they tell its other identifiers."""
        found: list[str] = []
        wanted, known = 0, False
        for direction in self.directions:
            key = self._names[name]
            paper, questions = self._works[key], list(self._list_questions(key, direction))
            affordable = questions[: self._calls_left()]
            if len(affordable) < len(questions):
                self._cut["calls"] = f"{self._describe_limit('calls')}: {PARTLY}"
                known = True  # for all that was found out
            if affordable and self._spent_s >= self.budget.time_s:
                self._cut["time"] = f"{self._describe_limit('time')}: no links of some works"
                return found
            # started in one order, so that a job that numbers its steps finds them again
            most = self._calls_left() // max(1, len(affordable))
            answers = await _run_all([self.steps.step(one.name, self._make_step(one, paper, most)) for one in affordable])
            self._spent_s += max((_number(answer, "seconds") for answer in answers), default=0.0)
            wanted += len(questions)
            for question, answer in zip(affordable, answers, strict=True):
                works = self._take_answer(question, answer)
                known = known or bool(works) or any(_mapping(answer).get(name) for name in ("known", "error", "cut"))
                found += works
        if not wanted:
            self._counts["without_service"] += 1
        elif not known:
            self._unknown.append(name)
        return found

    def _list_questions(self, key: str, direction: Direction) -> Iterator[_Question]:
        """An identifier that belongs to a work that this one contradicts is not asked for: its links would be that work's."""
        paper = self._works[key]
        identifiers = {scheme: value for scheme, value in paper.identifiers.pairs() if self._names[f"{scheme}:{value}"] == key}
        for source in self.sources:
            usable = (scheme for scheme in source.schemes if scheme in identifiers)
            scheme = next((scheme for scheme in usable if (source.name, scheme, identifiers[scheme]) not in self._misleading), None)
            if scheme is None or self._service(source.name).stopped:
                continue
            if direction in source.directions:
                yield _Question(source, direction, scheme, identifiers[scheme])
            else:
                self._service(source.name).notes[f"it gives no {direction} here, or only with a key"] = 1

    def _make_step(self, question: _Question, paper: Paper, most: int) -> Callable[[], Awaitable[JsonValue]]:
        """`most` requests are sent."""
        within_s = max(1.0, min(STEP_S, self.budget.time_s - self._spent_s))
        return lambda: self._ask(question, paper, most, within_s)

    async def _ask(self, question: _Question, paper: Paper, most: int, within_s: float) -> JsonValue:
        """One list of links, asked for and written: a step. Its answer is small, as a job keeps it."""
        began = time.monotonic()
        request = question.source.references if question.direction == "references" else question.source.citations
        with count_requests(most) as count:
            try:
                answer = await request(question.scheme, question.value, within_s, self.budget.works)
            except SourceError as error:
                return self._describe_failure(error, count, began)
        subject = answer.subject if isinstance(answer.subject, Paper) else None
        if subject and _are_different(paper, subject):  # services merge works, and registers have mistakes: the links are not this one's
            return {"is_other": True, "message": OTHER_WORK, "cut": count.refused, "calls": count.sent, "seconds": time.monotonic() - began}
        works = [result.record for result in answer.results if isinstance(result.record, Paper)]
        linkable = [work for work in works if work.identifiers.pairs()]
        own = work_name(paper)
        date = datetime.fromtimestamp(self.clock(), UTC).date().isoformat()
        links = []
        for work in linkable:
            citing, cited = (own, work_name(work)) if question.direction == "references" else (work_name(work), own)
            links.append(CitationLink(citing, cited, question.source.name, date))
        counts = await self.store.add([paper, *([subject] if subject else []), *linkable], links)
        return {
            "works": [_brief(work) for work in linkable],
            "references": [_describe(work) for work in works if not work.identifiers.pairs()],
            "subject": _brief(subject) if subject else None,
            "known": bool(works) or answer.subject is not None,
            "links": counts.links,
            "to_themselves": counts.to_themselves,
            "contradicting": counts.contradicting,
            "total": answer.total,
            "message": answer.message if answer.status == "partial" else "",
            "cut": count.refused,
            "calls": count.sent,
            "seconds": time.monotonic() - began,
        }

    def _describe_failure(self, error: SourceError, count: RequestCount, began: float) -> JsonValue:
        if count.refused:
            return {"cut": True, "calls": count.sent, "seconds": time.monotonic() - began}
        return {"error": str(error), "stop": self._must_stop(error), "calls": count.sent, "seconds": time.monotonic() - began}

    def _must_stop(self, error: SourceError) -> str:
        """Why the service is not asked again in this job; empty if it is."""
        if isinstance(error, Unauthorized | Forbidden):
            return str(error)
        if isinstance(error, RateLimited) and error.retry_at is not None and error.retry_at - self.clock() > PATIENCE_S:
            return str(error)
        return ""

    def _take_answer(self, question: _Question, answer: JsonValue) -> list[str]:
        """Take over the answer of a step, of this run or of one before a crash; the names of the works found."""
        fields, service = _mapping(answer), self._service(question.source.name)
        if fields.get("cut"):
            self._cut["calls"] = f"{self._describe_limit('calls')}: {PARTLY}"
        if self._count_answer(question.source.name, question.name, fields):
            return []
        for name in ("links", "to_themselves", "contradicting"):
            self._counts[name] += int(_number(answer, name))
        service.links += int(_number(answer, "links"))
        own = f"{question.scheme}:{question.value}"
        if fields.get("is_other"):
            self._misleading.add((question.source.name, question.scheme, question.value))
        if fields.get("subject"):
            self._remember(_restore(fields["subject"]))
        listed = [_restore(one) for one in _list(fields.get("works"))]
        if message := str(fields.get("message") or ""):
            service.notes[f"{question.name}: {message}"] += 1
        total = fields.get("total")
        if isinstance(total, int) and total > self.budget.works:
            self._cut["works"] = f"the budget of {self.budget.works:,} works: {question.name} has {total:,}"
        names = []
        for work in listed:
            if len(self._works) >= self.budget.works and not self._find_known(work):
                self._cut["works"] = self._cut.get("works") or f"the budget of {self.budget.works:,} works: further ones are not followed"
                self._counts["not_followed"] += 1
                continue
            names.append(self._remember(work))
        for reference in _list(fields.get("references")):
            self._references.append((own, question.source.name, make_reference(_mapping(reference), len(self._references))))
        return names

    def _count_answer(self, name: str, question: str, fields: Mapping[str, JsonValue]) -> bool:
        """Count the requests of an answer and its failure; whether it failed."""
        service = self._service(name)
        service.calls += int(_number(dict(fields), "calls"))
        error = fields.get("error")
        if not error:
            service.in_sequence = 0
            return False
        service.failures.append(f"{question}: {error}")
        service.in_sequence += 1
        service.stopped = str(fields.get("stop") or "")
        if service.in_sequence >= MOST_FAILURES:
            service.stopped = service.stopped or f"it failed {MOST_FAILURES} times in sequence: {error}"
        return True

    async def _look_up(self) -> None:
        """Give works that are known by an identifier alone their title and their other identifiers, in batches."""
        for source in self.lookups:
            for scheme in _order_schemes(source):
                missing = self._list_untitled(source.name, scheme)
                for start in range(0, len(missing), source.capabilities.batch):
                    if self._calls_left() < 1 or self._service(source.name).stopped or self._spent_s >= self.budget.time_s:
                        why = self._service(source.name).stopped or "the budget is used up"
                        self._cut[f"metadata {source.name}"] = f"no title from {source.name} of {len(missing) - start:,} works: {why}"
                        break
                    batch = missing[start : start + source.capabilities.batch]
                    self._tried.update((source.name, value) for value in batch)
                    name = f"{source.name} metadata {scheme} {batch[0]} and {len(batch) - 1} more"
                    answer = await self.steps.step(name, partial(self._look_up_batch, source, scheme, batch, self._calls_left()))
                    self._take_metadata(source.name, answer)

    def _list_untitled(self, source: str, scheme: str) -> list[str]:
        """The identifiers of works without a title that this source was not asked for."""
        values = (getattr(paper.identifiers, scheme) for paper in self._works.values() if not paper.title)
        return [value for value in dict.fromkeys(values) if value and (source, value) not in self._tried]

    async def _look_up_batch(self, source: BatchSource, scheme: str, values: Sequence[str], most: int) -> JsonValue:
        began = time.monotonic()
        with count_requests(most) as count:
            try:
                records = await source.get_many(scheme, values, STEP_S)
            except SourceError as error:
                return self._describe_failure(error, count, began)
        papers = [record for _, record in sorted(records.items()) if isinstance(record, Paper)]
        await self.store.add(papers, [])
        return {"works": [_brief(paper) for paper in papers], "calls": count.sent, "seconds": time.monotonic() - began}

    def _take_metadata(self, name: str, answer: JsonValue) -> None:
        fields = _mapping(answer)
        self._spent_s += _number(answer, "seconds")
        if fields.get("cut"):
            self._cut.setdefault(f"metadata {name}", f"{self._describe_limit('calls')}: no title from {name} of some works")
        self._count_answer(name, f"{name} metadata", fields)
        for work in _list(fields.get("works")):
            self._remember(_restore(work))

    async def _match_references(self) -> None:
        """Link references without an identifier with the works that they name, among those of this graph."""
        if not self._references:
            return
        matcher = await asyncio.to_thread(ReferenceMatcher, {key: self._works[key] for key in dict.fromkeys(self._names.values())})
        date = datetime.fromtimestamp(self.clock(), UTC).date().isoformat()
        works: dict[str, Paper] = {}
        links: dict[tuple[str, str, str], CitationLink] = {}
        for citing, source, reference in self._references:
            key = self._names.get(citing, citing)
            match = matcher.match(reference, citing=key)
            if match is None:
                self._counts["unmatched"] += 1
                continue
            works |= {match.key: self._works[match.key], key: self._works[key]}
            one, other = work_name(self._works[key]), work_name(self._works[match.key])
            links.setdefault((one, other, source), CitationLink(one, other, source, date))

        async def write() -> JsonValue:
            counts = await self.store.add(list(works.values()), list(links.values()))
            return {"links": counts.links}

        if links:
            answer = await self.steps.step("references without identifier", write)
            self._counts["links"] += int(_number(answer, "links"))
            self._counts["matched"] += len(links)

    # Works by their names

    def _find_known(self, work: Paper) -> list[str]:
        """The first names of the known works that it is, as the store joins works: those that share a name and do not contradict it."""
        shared = dict.fromkeys(self._names[name] for name in _list_names(work) if name in self._names)
        return [key for key in shared if not identifiers_contradict(work, self._works[key])]

    def _remember(self, work: Paper) -> str:
        """The first name of a work; what is new of it is added."""
        pairs = work.identifiers.pairs()
        names, known = _list_names(work), self._find_known(work)
        own = [name for name in names if name not in self._names or self._names[name] in known]
        if not own:  # every name of it belongs to a work that it contradicts
            return self._names[names[0]]
        key = next(iter(known), own[0])
        before = self._works.get(key)
        if before is None:
            self._works[key] = work
        else:
            identifiers = {**dict(pairs), **dict(before.identifiers.pairs())}
            gaps = {name: value for name in BRIEF if not getattr(before, name) and (value := getattr(work, name))}
            self._works[key] = before.model_copy(update={**gaps, "identifiers": Identifiers(**identifiers)})
        for name in own:
            self._names.setdefault(name, key)
        for other in known[1:]:  # two works have turned out to be one
            for name, first in self._names.items():
                if first == other:
                    self._names[name] = key
            merged = self._works.pop(other)
            identifiers = {**dict(merged.identifiers.pairs()), **dict(self._works[key].identifiers.pairs())}
            self._works[key] = self._works[key].model_copy(update={"identifiers": Identifiers(**identifiers)})
        return key

    # Budget and report

    def _service(self, name: str) -> _Service:
        return self._services.setdefault(name, _Service())

    def _calls_left(self) -> int:
        return max(0, self.budget.calls - sum(service.calls for service in self._services.values()))

    def _find_used_up(self) -> Literal["calls", "time", ""]:
        """The part of the budget that is used up."""
        if self._calls_left() < 1:
            return "calls"
        return "time" if self._spent_s >= self.budget.time_s else ""

    def _describe_limit(self, limit: Literal["calls", "time"]) -> str:
        return f"the budget of {self.budget.calls:,} calls" if limit == "calls" else f"the budget of {self.budget.time_s:g} s"

    def _report(self, seeds: Sequence[str]) -> GraphReport:
        services = tuple(
            ServiceUse(
                name=name,
                calls=use.calls,
                links=use.links,
                failures=len(use.failures),
                failure=use.failures[0] if use.failures else "",
                stopped=use.stopped,
                notes=tuple(f"{note} ({count:,} times)" if count > 1 else note for note, count in sorted(use.notes.items())[:MOST_MISSING]),
            )
            for name, use in sorted(self._services.items())
        )
        return GraphReport(
            seeds=len(seeds),
            works=len(set(self._names.values())),
            links=self._counts["links"],
            services=services,
            cut=tuple(self._cut[name] for name in sorted(self._cut)),
            unknown=tuple(self._unknown[:MOST_MISSING]),
            unknown_total=len(self._unknown),
            without_service=self._counts["without_service"],
            to_themselves=self._counts["to_themselves"],
            contradicting=self._counts["contradicting"],
            not_followed=self._counts["not_followed"],
            references_matched=self._counts["matched"],
            references_unmatched=self._counts["unmatched"],
            seconds=round(self._spent_s, 3),
        )


BRIEF = ("title", "authors", "year", "venue", "volume", "issue", "pages")
"""Fields of a work that the matching of references reads. The rest stands in the store."""


def _list_names(work: Paper) -> list[str]:
    return [f"{scheme}:{value}" for scheme, value in work.identifiers.pairs()] or [f"doc:{work.doc_id}"]


def _are_different(one: Paper, other: Paper) -> bool:
    """Whether titles or identifiers show two works."""
    return bool(one.title and other.title and not titles_agree(one.title, other.title)) or identifiers_contradict(one, other)


def _brief(work: Paper) -> dict[str, JsonValue]:
    fields = work.model_dump(mode="json", include={"doc_id", "source", "identifiers", *BRIEF}, exclude_defaults=True)
    return {**fields, "authors": fields.get("authors", [])[:5]}


def _restore(payload: JsonValue) -> Paper:
    return Paper.model_validate(payload)


def _describe(work: Paper) -> dict[str, JsonValue]:
    """A reference without an identifier."""
    fields = work.model_dump(mode="json", include={*BRIEF}, exclude_defaults=True)
    line = work.metadata.get("unstructured")
    return {**fields, **({"unstructured": line} if line else {})}


def _order_schemes(source: BatchSource) -> tuple[str, ...]:
    """The schemes by which a source looks up many works. Of OpenAlex its own ids only: its pages cost money, and others know the rest."""
    schemes = ("openalex",) if source.name == "openalex" else ("doi", "pmid", "pmcid", "arxiv", "s2")
    return tuple(scheme for scheme in schemes if scheme in source.capabilities.identifiers)


async def _run_all(steps: Sequence[Awaitable[JsonValue]]) -> list[JsonValue]:
    """The answers of steps that run at once, in order. If one of them raises, none is left running."""
    tasks = [asyncio.ensure_future(step) for step in steps]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    if not isinstance(value, dict):
        raise Malformed("a step of the job has an answer of another form")
    return value


def _list(value: JsonValue) -> Iterable[JsonValue]:
    return value if isinstance(value, list) else []


def _number(value: JsonValue, name: str) -> float:
    number = _mapping(value).get(name)
    return float(number) if isinstance(number, int | float) else 0.0
