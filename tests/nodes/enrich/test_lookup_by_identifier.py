"""Lookup of a work by identifier: sources, their order, merged answers and failures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.enrich.lookup_by_identifier import OWN_SCHEMES, SOURCE_ORDER, Lookup, LookupBatcher, LookupResult, look_up
from outrider.state.errors import RateLimited, SourceUnavailable
from outrider.state.ports import Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Record, Repository
from support.fakes import doi, paper
from support.patience import BUSY_S

X = "10.1000/x"
TITLE = "Liver injury by common drugs"


@dataclass
class One:
    """A source with at most one record."""

    name: str
    record: Record | None = None
    schemes: frozenset[str] = frozenset({"doi"})
    error: Exception | None = None
    delay_s: float = 0.0
    timeout_s: float = 30.0
    strategies: tuple[str, ...] = ()
    lookups: list[tuple[str, str, float]] = field(default_factory=list)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(frozenset({"paper"}), self.schemes)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        raise AssertionError("nobody searches")

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        self.lookups.append((scheme, value, within_s))
        await asyncio.sleep(self.delay_s)
        if self.error:
            raise self.error
        return self.record


def work_from(name: str, **fields: object) -> Record:
    return paper(f"{name}:1", **{"title": TITLE, "source": name, "identifiers": doi(X), **fields})


async def look_up_work(sources: Sequence[One], within_s: float = 30.0) -> LookupResult:
    return await look_up(sources, "doi", X, within_s)


async def test_the_first_with_an_abstract_ends_it_and_gaps_are_filled() -> None:
    sources = [
        One("crossref", work_from("crossref", abstract="Never asked.")),
        One("semantic_scholar", work_from("semantic_scholar", abstract="Drugs harm livers.", year=2020)),
        One("openalex", work_from("openalex", citations=7, venue="Hepatology", authors=("Doe, Jane",), tags=("liver",))),
    ]
    answer = await look_up_work(sources)
    assert answer.sources == ("openalex", "semantic_scholar")
    assert sources[0].lookups == []
    assert answer.record
    assert (answer.record.abstract, answer.record.citations, answer.record.year) == ("Drugs harm livers.", 7, 2020)
    assert answer.problems == ()


async def test_only_sources_that_know_the_scheme_are_called() -> None:
    arxiv = One("arxiv", work_from("arxiv"), schemes=frozenset({"arxiv"}))
    assert await look_up_work([arxiv]) == LookupResult(None, (), ())
    assert arxiv.lookups == []


async def test_who_fails_is_named_and_costs_nothing_else() -> None:
    sources = [
        One("openalex", error=SourceUnavailable("openalex answered 500")),
        One("pubmed", error=RateLimited("wait", 9.0)),
        One("crossref", work_from("crossref")),
    ]
    answer = await look_up_work(sources)
    assert answer.record
    assert answer.record.source == "crossref"
    assert answer.problems == ("openalex: answered 500", "pubmed: wait")


async def test_a_bug_passes_through() -> None:
    with pytest.raises(KeyError):
        await look_up_work([One("openalex", error=KeyError("x"))])


async def test_one_that_hangs_leaves_time_to_the_others() -> None:
    sources = [One("openalex", delay_s=600), One("crossref", work_from("crossref"))]
    began = time.monotonic()
    answer = await look_up_work(sources, within_s=0.4)
    assert time.monotonic() - began < 0.4 + BUSY_S
    assert answer.record
    assert answer.problems == ("openalex: no answer within 0.2 s",)
    assert sources[1].lookups[0][2] <= 0.4


async def test_a_record_of_another_work_fills_nothing() -> None:
    """Services know an identifier wrongly now and then: another title, or another PMID."""
    sources = [
        One("openalex", work_from("openalex", year=2020, venue="Hepatology", authors=("Doe, Jane",), tags=("a", "b"))),
        One("pubmed", work_from("pubmed", title="Proceedings of a meeting", abstract="All talks.")),
    ]
    answer = await look_up_work(sources)
    assert answer.record
    assert (answer.record.source, answer.record.abstract) == ("openalex", "")


async def test_a_repository_needs_no_abstract() -> None:
    github = One("github", Repository(doc_id="github:a/b", title="a/b", source="github"))
    other = One("other", work_from("other"))
    answer = await look_up_work([github, other])
    assert (answer.sources, other.lookups) == (("github",), [])


@given(st.lists(st.sampled_from([*SOURCE_ORDER, "other", "third"]), unique=True), st.integers(0, 6))
def test_sources_are_called_in_one_order_until_there_is_an_abstract(names: list[str], at: int) -> None:
    """However they are given, and each at most once."""
    first = [name for name in SOURCE_ORDER if name not in OWN_SCHEMES]  # for a DOI, which belongs to no service
    order = [name for name in first if name in names] + [name for name in names if name not in first]
    having = order[at] if at < len(order) else ""
    sources = [One(name, work_from(name, abstract="Yes." if name == having else "")) for name in names]
    answer = asyncio.run(look_up_work(sources))
    assert list(answer.sources) == (order[: at + 1] if having else order)
    assert [source.name for source in sources if source.lookups] == [name for name in names if name in answer.sources]
    assert all(len(source.lookups) <= 1 for source in sources)
    assert (answer.record is None) == (not names)


@dataclass
class Many(One):
    """A source that takes three identifiers at once."""

    had: dict[str, Record] = field(default_factory=dict)
    calls: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(frozenset({"paper"}), self.schemes, batch=3)

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        return (await self.get_many(scheme, (value,), within_s)).get(value)

    async def get_many(self, scheme: str, values: Sequence[str], within_s: float) -> dict[str, Record]:
        self.calls.append(tuple(values))
        await asyncio.sleep(self.delay_s)
        if self.error:
            raise self.error
        return {value: self.had[value] for value in values if value in self.had}


@given(
    values=st.lists(st.sampled_from([f"10.1/{letter}" for letter in "abcdefgh"]), max_size=12), known=st.sets(st.sampled_from("abcdefgh"))
)
async def test_lookups_of_one_moment_go_with_as_few_calls_as_there_can_be(values: list[str], known: set[str]) -> None:
    source = Many("openalex", had={f"10.1/{letter}": paper(f"openalex:{letter}") for letter in known})
    together = LookupBatcher()
    got = await asyncio.gather(*(together.get(Lookup(source, "doi", value), 1.0) for value in values))
    assert got == [source.had.get(value) for value in values]
    assert sorted({value for call in source.calls for value in call}) == sorted(set(values))
    assert all(len(call) <= 3 for call in source.calls)
    if len(set(values)) <= 3:
        assert len(source.calls) <= 1


async def test_a_call_that_fails_fails_for_all_who_wait_and_ends_with_them() -> None:
    together = LookupBatcher()
    failing = Many("openalex", error=RateLimited("wait", 9.0))
    got = await asyncio.gather(*(together.get(Lookup(failing, "doi", value), 1.0) for value in "ab"), return_exceptions=True)
    assert [type(one) for one in got] == [RateLimited, RateLimited]
    assert failing.calls == [("a", "b")]
    hanging = Many("pubmed", delay_s=60)
    waiting = [asyncio.create_task(together.get(Lookup(hanging, "doi", value), 1.0)) for value in "ab"]
    await asyncio.sleep(0.05)
    waiting[0].cancel()
    assert waiting[1] in (await asyncio.wait(waiting, timeout=0.01))[1]
    for one in waiting:
        one.cancel()
    await together.stop()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert len(asyncio.all_tasks()) == 1
