"""The graph of citations from several services: equal to the truth, within budgets, across faults and crashes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from outrider.citations.build_graph import DirectSteps, GraphBuilder, Seed, find_lookups
from outrider.library.citation_network import load_network
from outrider.library.citation_tables import LinkCounts, work_name
from outrider.library.library import Library
from outrider.services.citations import parse_identifier
from outrider.state.citations import CitationBudget, CitationLink, CitationNetwork, GraphReport
from outrider.state.records import Identifiers, Paper
from support.citation_world import (
    KEY,
    SERVICES,
    CitationWorld,
    load_cacm,
    load_local_network,
    load_synergy,
    make_small_works,
)
from support.http_server import Answer, Request, as_bytes, cut, dripping, refusal, serving
from support.shared_data import DATA

LARGE = CitationBudget(calls=100_000, works=100_000, depth=2, time_s=600)


@pytest.fixture
async def library(tmp_path: Path) -> Library:
    return await Library.open(tmp_path / "library", create=True)


def make_seeds(world: CitationWorld, *numbers: int) -> list[Seed]:
    papers = [world.paper(number) for number in numbers]
    return [Seed(work_name(paper), paper) for paper in papers]


async def build(
    world: CitationWorld, library: Library, *numbers: int, budget: CitationBudget = LARGE, steps: Any = None, key: str = KEY, **limits: Any
) -> GraphReport:
    async with serving(world.handle) as server:
        sources = world.make_sources(server.base_url, key=key, **limits)
        builder = GraphBuilder(sources, find_lookups(sources), library.citations, budget, steps or DirectSteps())
        return await builder.build(make_seeds(world, *numbers))


async def network_of(world: CitationWorld, library: Library, *numbers: int, depth: int = 2) -> CitationNetwork:
    return await load_network(library, [world.by_number[number].key for number in numbers], depth)


@pytest.mark.parametrize("coverage", [1.0, 0.6])
@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_the_graph_equals_the_truth(library: Library, depth: int, coverage: float) -> None:
    world = CitationWorld(make_small_works(), coverage)
    report = await build(world, library, 1, budget=LARGE.model_copy(update={"depth": depth}))
    network = await network_of(world, library, 1, depth=depth)
    assert dict(network.links) == world.truth([1], depth)
    assert report.links == sum(map(len, network.links.values()))
    assert (report.cut, [service.failure for service in report.services if service.failure]) == ((), [])
    assert {use.name: use.calls for use in report.services} == Counter(line.split(" ")[0] for line in world.asked.elements())
    assert all(work.title for work in network.works.values())


async def test_links_to_itself_and_circles_end_and_are_reported(library: Library) -> None:
    world = CitationWorld(make_small_works())
    report = await build(world, library, 5)
    assert report.to_themselves > 0
    assert dict((await network_of(world, library, 5)).links) == world.truth([5], 2)


async def test_a_seed_that_no_service_knows_is_reported(library: Library) -> None:
    world = CitationWorld(make_small_works())
    async with serving(world.handle) as server:
        sources = world.make_sources(server.base_url)
        seeds = [
            Seed("doi:10.404/none", Paper(doc_id="x", title="None", identifiers=Identifiers(doi="10.404/none"))),
            *make_seeds(world, 6),
        ]
        report = await GraphBuilder(sources, (), library.citations, CitationBudget(), DirectSteps()).build(seeds)
    assert report.unknown == ("doi:10.404/none",)
    assert dict((await network_of(world, library, 6, depth=1)).links) == world.truth([6], 1)


@pytest.mark.parametrize(
    ("title", "identifiers"),
    [
        ("A history of lighthouses", Identifiers(openalex="W1000001")),
        ("The second study of otters in river 1", Identifiers(openalex="W1000001", doi="10.5555/other")),
    ],
)
async def test_links_of_another_work_under_the_identifier_are_left_out(library: Library, title: str, identifiers: Identifiers) -> None:
    world = CitationWorld(make_small_works())
    seed = Paper(doc_id="x", title=title, identifiers=identifiers)
    async with serving(world.handle) as server:
        sources = world.make_sources(server.base_url)[:1]
        report = await GraphBuilder(sources, (), library.citations, LARGE, DirectSteps()).build([Seed(work_name(seed), seed)])
    assert (report.links, report.works, report.unknown_total) == (0, 1, 1)
    assert "another work" in report.services[0].notes[0]
    assert not [line for line in world.asked if "cites" in line], "its citations are the other work's, too"


async def test_works_that_share_an_identifier_and_contradict_each_other_stay_two(library: Library) -> None:
    world = CitationWorld(make_small_works())
    one = world.paper(1).model_copy(update={"identifiers": Identifiers(doi="10.5555/w.1", pmid="1", openalex="W1000001")})
    other = world.paper(7).model_copy(update={"identifiers": Identifiers(doi="10.5555/w.7", pmid="1", openalex="W1000007")})
    without_doi = world.paper(9).model_copy(update={"identifiers": Identifiers(pmid="1", openalex="W1000009")})
    async with serving(world.handle) as server:
        openalex, _, opencitations, _ = world.make_sources(server.base_url)
        builder = GraphBuilder([openalex, opencitations], find_lookups([openalex]), library.citations, LARGE, DirectSteps())
        builder.budget = LARGE.model_copy(update={"depth": 1})
        report = await builder.build([Seed(work_name(paper), paper) for paper in (one, other, without_doi)])
    assert report.seeds == 3
    links = (await network_of(world, library, 1, 7, 9, depth=1)).links
    assert {pair for pair, services in links.items() if "openalex" in services} == world.truth([1, 7, 9], 1).keys()
    assert not [line for line in world.asked if "pmid" in line], "the first work's, which has a DOI"


async def test_without_a_key_no_list_of_openalex_is_read(library: Library) -> None:
    world = CitationWorld(make_small_works())
    report = await build(world, library, 1, budget=LARGE.model_copy(update={"depth": 1}), key="")
    use = next(use for use in report.services if use.name == "openalex")
    assert any("key" in note for note in use.notes)
    assert not [line for line in world.asked if "cites" in line]
    assert world.paid == 0
    assert dict((await network_of(world, library, 1, depth=1)).links) == world.truth([1], 1, frozenset({"crossref", "openalex"}))


async def test_a_reference_without_a_doi_is_matched_by_its_words(library: Library) -> None:
    world = CitationWorld(make_small_works(), nameless=frozenset({2, 3}))
    report = await build(world, library, 1, budget=LARGE.model_copy(update={"depth": 1}))
    assert (report.references_matched, report.references_unmatched) == (2, 0)
    assert dict((await network_of(world, library, 1, depth=1)).links) == world.truth([1], 1)


def answer_with(service: str, answer: Answer, times: int = 10_000) -> Callable[[str, Request], Answer | None]:
    left = [times]

    def fault(asked: str, request: Request) -> Answer | None:
        if asked != service or not left[0]:
            return None
        left[0] -= 1
        return answer

    return fault


FAULTS = {
    "503": refusal(503),
    "429 for an hour": refusal(429, headers={"Retry-After": "3600"}),
    "truncated": cut(as_bytes(b'{"data": [' + b" " * 400, "application/json")),
    "half a JSON": as_bytes(b'{"results": [{"id"', "application/json"),
    "slow drip": dripping(as_bytes(b'{"data": []}' + b" " * 500, "application/json"), 0.05),
    "401": refusal(401),
}


@pytest.mark.parametrize(
    ("service", "fault"),
    [*(("opencitations", fault) for fault in FAULTS), ("semantic_scholar", "half a JSON"), ("semantic_scholar", "401")],
)
async def test_a_service_that_fails_costs_its_own_links(library: Library, service: str, fault: str) -> None:
    world = CitationWorld(make_small_works(), fault=answer_with(service, FAULTS[fault]))
    budget = LARGE.model_copy(update={"depth": 1, "time_s": 30.0})
    report = await build(world, library, 1, budget=budget, timeout_s=0.5)
    use = next(use for use in report.services if use.name == service)
    assert use.failures > 0
    assert service in use.failure
    truth = {pair: tuple(one for one in sources if one != service) for pair, sources in world.truth([1], 1).items()}
    assert dict((await network_of(world, library, 1, depth=1)).links) == truth


async def test_a_short_pause_is_kept_and_costs_nothing(library: Library) -> None:
    world = CitationWorld(make_small_works(), fault=answer_with("opencitations", refusal(429, headers={"Retry-After": "1"}), 1))
    report = await build(world, library, 1, budget=LARGE.model_copy(update={"depth": 1}))
    assert not any(use.failures for use in report.services)
    assert dict((await network_of(world, library, 1, depth=1)).links) == world.truth([1], 1)


async def test_a_service_that_refuses_is_left_alone(library: Library) -> None:
    world = CitationWorld(make_small_works(), fault=answer_with("crossref", refusal(403)))
    report = await build(world, library, 1, 7, 8)
    use = next(use for use in report.services if use.name == "crossref")
    assert (use.failures, use.calls) == (1, 1)
    assert "403" in use.stopped


@pytest.mark.parametrize("calls", [1, 5, 9])
async def test_no_more_calls_than_the_budget_has(library: Library, calls: int) -> None:
    world = CitationWorld(make_small_works())
    report = await build(world, library, 1, 7, budget=LARGE.model_copy(update={"calls": calls}))
    assert sum(use.calls for use in report.services) == sum(world.asked.values()) <= calls
    assert any("calls" in line for line in report.cut)
    truth, names = world.truth([1, 7], 2), {f"openalex:{work.own.lower()}": work.key for work in world.works}
    for pair, sources in (await network_of(world, library, 1, 7)).links.items():  # works without metadata have OpenAlex's name
        assert set(sources) <= set(truth[names.get(pair[0], pair[0]), names.get(pair[1], pair[1])])


async def test_works_that_the_budget_leaves_out_are_counted_and_not_called_unknown(library: Library) -> None:
    world = CitationWorld(make_small_works())
    steps = CountedReports()
    report = await build(world, library, 1, 7, 8, 9, budget=LARGE.model_copy(update={"calls": 9}), steps=steps)
    assert (report.unknown, report.unknown_total) == ((), 0)
    assert any("2 works at depth 1 " in line for line in report.cut), report.cut
    assert len(steps.reports) == 2, "what is left out is not gone through work by work"


class CountedReports(DirectSteps):
    def __init__(self) -> None:
        self.reports: list[str] = []

    async def report(self, progress: str) -> None:
        self.reports.append(progress)


async def test_no_more_works_are_followed_than_the_budget_has(library: Library) -> None:
    world = CitationWorld(make_small_works())
    report = await build(world, library, 1, budget=LARGE.model_copy(update={"works": 3, "depth": 3}))
    assert any("works" in line for line in report.cut)
    assert report.works <= 4
    assert report.not_followed > 0


class Killed(Exception):
    """The process dies."""


class KeptSteps:
    """The answers of a job's steps, kept as JSON. At one place the process dies, within a step or after it."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.names: list[str] = []
        self.die_at = -1
        self.after = False
        self.is_dead = False

    async def step(self, name: str, work: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        if name not in self.kept:
            self.die_at -= 1
            dies = self.die_at == 0
            if dies and not self.after:
                self.is_dead = True
                raise Killed
            answer = await work()
            if dies:
                self.is_dead = True  # it was written, and the job does not know
            if self.is_dead:
                raise Killed
            self.kept[name] = json.dumps(answer)
            self.names.append(name)
        return json.loads(self.kept[name])  # type: ignore[no-any-return]

    async def report(self, progress: str) -> None:
        return None


@pytest.mark.parametrize("after", [False, True])
async def test_a_job_that_dies_anywhere_continues_and_asks_nothing_twice(tmp_path: Path, after: bool) -> None:
    world = CitationWorld(make_small_works(), 0.8, nameless=frozenset({3}))
    undisturbed = await Library.open(tmp_path / "undisturbed", create=True)
    expected = await build(world, undisturbed, 1, 8)
    alone = Counter(world.asked)
    world.asked.clear()
    library, steps = await Library.open(tmp_path / "killed", create=True), KeptSteps()
    steps.after = after
    deaths = 0
    for die_at in (1, 2, 3, 5, 8, 13, 2, 4, 6, 1):
        steps.die_at, steps.is_dead = die_at, False
        try:
            await build(world, library, 1, 8, steps=steps)
        except Killed:
            deaths += 1
    steps.die_at, steps.is_dead = -1, False
    report = await build(world, library, 1, 8, steps=steps)
    assert deaths >= 5
    links = (await network_of(world, library, 1, 8)).links
    assert dict(links) == dict((await network_of(world, undisturbed, 1, 8)).links) == world.truth([1, 8], 2)
    assert report.works == expected.works
    assert len(set(steps.names)) == len(steps.names)
    twice = {line: count for line, count in world.asked.items() if count > alone[line]}
    under_way = deaths * len(SERVICES)
    assert sum(world.asked.values()) - sum(alone.values()) <= under_way, twice
    assert set(world.asked) == set(alone)


needs_data = pytest.mark.skipif(not (DATA / "citations").exists(), reason=f"{DATA}/citations is not here; set OUTRIDER_DATA")


@needs_data
@pytest.mark.parametrize("place", [0, 1])
async def test_saved_networks_are_built_as_they_are(library: Library, place: int) -> None:
    world = CitationWorld(load_local_network(place), 0.9)
    seed = max(world.works, key=lambda work: len(work.cites)).number
    await build(world, library, seed)
    assert dict((await network_of(world, library, seed)).links) == world.truth([seed], 2)


@needs_data
async def test_works_of_a_review_are_built_as_they_are(library: Library) -> None:
    world = CitationWorld(load_synergy("Nelson_2002"), 0.7)
    seeds = [work.number for work in world.works if len(work.cites) > 20][:3]
    report = await build(world, library, *seeds, budget=LARGE.model_copy(update={"depth": 1}))
    assert dict((await network_of(world, library, *seeds, depth=1)).links) == world.truth(seeds, 1)
    assert report.works > 60


@needs_data
async def test_works_of_cacm_are_built_as_they_are(library: Library) -> None:
    world = CitationWorld(load_cacm())
    seeds = [work.number for work in world.works if len(work.cites) > 4][:2]
    await build(world, library, *seeds, budget=LARGE.model_copy(update={"depth": 1}))
    assert dict((await network_of(world, library, *seeds, depth=1)).links) == world.truth(seeds, 1)


async def test_metadata_that_the_budget_cut_off_or_a_service_failed_to_give_is_reported() -> None:
    builder = GraphBuilder((), (), NoStore(), CitationBudget(calls=5), DirectSteps())
    failure: dict[str, JsonValue] = {"error": "it is down", "calls": 1, "seconds": 0.1}
    for answer in (failure, failure, {"works": [], "calls": 1, "seconds": 0.1}, failure, failure):  # not three in sequence
        builder._take_metadata("a", answer)
    builder._take_metadata("b", {"cut": True, "calls": 0, "seconds": 0.1})
    report = await builder.build(())
    assert report.cut == ("the budget of 5 calls: no title from b of some works",)
    assert [(one.name, one.calls, one.failures, one.stopped) for one in report.services] == [("a", 5, 4, ""), ("b", 0, 0, "")]


class NoStore:
    async def add(self, works: Sequence[Paper], links: Sequence[CitationLink]) -> LinkCounts:
        raise AssertionError("nothing was found")


@pytest.mark.parametrize("text", ["openalex:w2020123164", "https://openalex.org/W2020123164", "openalex.org/works/W2020123164"])
def test_a_work_of_openalex_is_named_by_its_number_or_its_link(text: str) -> None:
    assert parse_identifier(text) == ("openalex:w2020123164", Identifiers(openalex="W2020123164"))
