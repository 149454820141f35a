"""One hop from anchors: who is found, why, in which order."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.library import graph_neighbours as lookup
from outrider.library.graph_neighbours import DIRECT, LibraryGraph, Routes, _rank_neighbours, explain_paths
from outrider.library.library import Library
from outrider.state.errors import BadRequest
from outrider.state.hits import Path as Way
from outrider.state.ports import Neighbours
from outrider.state.records import Edge, Identifiers, Paper, Record, Repository


def cites(*targets: str) -> tuple[Edge, ...]:
    return tuple(Edge(relation="cites", target=target) for target in targets)


RECORDS: list[Record] = [
    Paper(doc_id="old", identifiers=Identifiers(doi="10.1/old"), authors=("Knuth, D",), tags=("sorting",)),
    Paper(doc_id="mid", identifiers=Identifiers(doi="10.1/mid"), edges=cites("doi:10.1/OLD"), authors=("Donald Knuth",)),
    Paper(doc_id="new", edges=cites("doi:10.1/old", "doi:10.1/mid", "doi:10.1/elsewhere")),
    Paper(doc_id="peer", edges=cites("doi:10.1/elsewhere"), tags=("Sorting", "time sharing")),
    Paper(doc_id="trial 1", mesh=("Aspirin/adverse effects", "Liver"), edges=(Edge(relation="adverse_effect", target="Hepatotoxicity"),)),
    Paper(doc_id="trial 2", mesh=("Aspirin",), edges=(Edge(relation="adverse_effect", target="adverse_effect:hepatotoxicity"),)),
    Paper(doc_id="trial 3", mesh=("Aspirin",), edges=(Edge(relation="adverse_effect", target="Bleeding"),)),
    Repository(doc_id="pypi:app", identifiers=Identifiers(pypi="app"), edges=(Edge(relation="depends_on", target="pypi:httpx"),)),
    Repository(doc_id="pypi:httpx", identifiers=Identifiers(pypi="httpx")),
    Paper(doc_id="alone"),
]


@pytest.fixture
async def graph(library: Library) -> Neighbours:
    await library.upsert(RECORDS[5:])
    await library.upsert(RECORDS[:5])  # cited works come later than those that cite them
    return LibraryGraph(library)


async def paths(graph: Neighbours, *anchors: str) -> dict[str, set[tuple[str, str, str]]]:
    neighbours = await graph.around(anchors, 100)
    return {place.doc_id: {(way.anchor, way.relation, way.through) for way in place.paths} for place in neighbours}


async def test_citations_lead_both_ways_whichever_was_ingested_first(graph: Neighbours) -> None:
    assert await paths(graph, "mid") == {
        "old": {("mid", "cites", ""), ("mid", "author", "author:knuth, d")},
        "new": {("mid", "cited by", ""), ("mid", "cites", "doi:10.1/old")},
    }


async def test_a_work_that_is_not_held_couples_those_that_cite_it(graph: Neighbours) -> None:
    assert (await paths(graph, "peer"))["new"] == {("peer", "cites", "doi:10.1/elsewhere")}


async def test_dependencies_lead_both_ways(graph: Neighbours) -> None:
    """`pypi:httpx` is a record's id before it is an entity."""
    assert await paths(graph, "pypi:httpx") == {"pypi:app": {("pypi:httpx", "needed by", "")}}
    assert await paths(graph, "pypi:app") == {"pypi:httpx": {("pypi:app", "depends on", "")}}


async def test_an_entity_gives_its_records(graph: Neighbours) -> None:
    assert set(await paths(graph, "mesh:ASPIRIN")) == {"trial 1", "trial 2", "trial 3"}
    assert await paths(graph, "adverse_effect:bleeding") == {
        "trial 3": {("adverse_effect:bleeding", "adverse effect", "adverse_effect:bleeding")}
    }
    assert await paths(graph, "mesh:nothing", "nobody", "alone", "https://x.test") == {}


async def test_from_a_drug_by_its_papers_to_adverse_effects(graph: Neighbours) -> None:
    assert await graph.connected("mesh:Aspirin", "adverse_effect", 5) == [
        ("adverse_effect:hepatotoxicity", ("trial 1", "trial 2")),
        ("adverse_effect:bleeding", ("trial 3",)),
    ]
    assert await graph.connected("mesh:aspirin", "Mesh", 1) == [("mesh:aspirin adverse effects", ("trial 1",))]
    assert await graph.connected("mesh:nothing", "mesh", 5) == []
    with pytest.raises(BadRequest, match="'aspirin' is no entity; write it as type:name"):
        await graph.connected("aspirin", "mesh", 5)


async def test_anchors_that_lead_to_each_other_are_neighbours(graph: Neighbours) -> None:
    """The more of them lead to one, the better its place."""
    neighbours = await graph.around(["new", "mid"], 100)
    assert [place.doc_id for place in neighbours] == ["old", "mid", "new", "peer"]


@given(st.permutations(["new", "mid", "peer", "mesh:aspirin", "author:knuth, d"]))
@settings(max_examples=10, deadline=None)
def test_the_order_of_anchors_does_not_matter(anchors: Sequence[str]) -> None:
    async def find_both() -> list[object]:
        with tempfile.TemporaryDirectory() as folder:
            library = await Library.open(Path(folder) / "library", create=True)
            await library.upsert(RECORDS)
            graph = LibraryGraph(library)
            both: list[object] = [await graph.around(anchors, 50), await graph.around(sorted(anchors), 50)]
            library.close()
        return both

    first, second = asyncio.run(find_both())
    assert first == second


ROUTES = st.tuples(st.sampled_from("abc"), st.sampled_from(["cites", "author"]), st.sampled_from("xyz"))
ROUTE_MAPS = st.dictionaries(ROUTES, st.floats(0.01, 2), min_size=1).map(lambda weights: tuple(weights.items()))


@given(st.dictionaries(st.sampled_from("pqrs"), ROUTE_MAPS, min_size=1), st.sampled_from("pqrs"), st.floats(0.01, 2))
def test_a_further_path_never_lowers_a_neighbour(routes: dict[str, Routes], lucky: str, weight: float) -> None:
    before = [place.doc_id for place in _rank_neighbours(routes, 10)]
    more = {**routes, lucky: (*routes.get(lucky, ()), (("d", "cites", ""), weight))}
    after = [place.doc_id for place in _rank_neighbours(more, 10)]
    assert lucky not in before or after.index(lucky) <= before.index(lucky)
    assert [doc_id for doc_id in after if doc_id != lucky] == [doc_id for doc_id in before if doc_id != lucky]


async def test_a_rare_entity_weighs_more_than_a_frequent_one(library: Library) -> None:
    frequent = [Paper(doc_id=f"f{number}", tags=("frequent",)) for number in range(9)]
    await library.upsert([Paper(doc_id="a", tags=("rare", "frequent")), Paper(doc_id="r", tags=("rare",)), *frequent])
    neighbours = await LibraryGraph(library).around(["a"], 3)
    assert [place.doc_id for place in neighbours] == ["r", "f0", "f1"]
    assert neighbours[0].score == pytest.approx(1 / 1.584962500721156)  # log2(1 + 2)


async def test_hubs_are_not_followed_but_what_they_are_the_name_of_is(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal connects nothing; a work that very many cite is reached all the same."""
    monkeypatch.setattr(lookup, "HUB", 5)
    monkeypatch.setattr(lookup, "FIRST_ROWS", 8)
    many = [Paper(doc_id=f"m{number}", venue="Nature", edges=cites("doi:10.1/known")) for number in range(20)]
    known = Paper(doc_id="known", identifiers=Identifiers(doi="10.1/known"), tags=("t",))
    await library.upsert([*many, known, Paper(doc_id="like", tags=("t",))])
    graph = LibraryGraph(library)
    for _ in range(2):  # before and after it is known which names are hubs
        assert await paths(graph, "m3") == {"known": {("m3", "cites", "")}}
        assert set(await paths(graph, "known")) == {"like"}
    assert len(await graph.around(["venue:nature"], 100)) == 20
    await library.remove([f"m{number}" for number in range(2, 20)])
    assert set(await paths(graph, "m0")) == {"known", "m1"}


async def test_a_frequent_entity_does_not_crowd_out_a_rare_one(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "MOST_RECORDS", 5)
    await library.upsert([*(Paper(doc_id=f"m{number}", tags=("many",)) for number in range(9)), Paper(doc_id="z", tags=("few",))])
    neighbours = await LibraryGraph(library).around(["keyword:many", "keyword:few"], 100)
    assert len(neighbours) == 6
    assert "z" in {place.doc_id for place in neighbours}


ENTITIES = [
    Paper(doc_id="a", tags=("time sharing", "time sharing systems", "sorting"), authors=("Knuth, D.", "Box, B."), mesh=("Aspirin",)),
    Paper(doc_id="b", tags=("operating systems", "of the", "C++"), venue="Communications of the ACM"),
    Repository(doc_id="pypi:requests", identifiers=Identifiers(pypi="requests")),
    Paper(doc_id="d", identifiers=Identifiers(doi="10.1000/d.1", arxiv="1706.03762")),
]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What is known of Time-Sharing Systems for IBM machines?", ["keyword:time sharing systems", "keyword:time sharing"]),
        ("sorting", ["keyword:sorting"]),
        ("side effects of aspirin", ["mesh:aspirin"]),
        ("a long question in which sorting is hardly what matters to anybody", []),
        ("retry requests with a growing delay between them", []),
        ("papers by D. Knuth about compilers", ["author:knuth, d"]),
        ("what did Donald Knuth write", ["author:knuth, d"]),
        ("Knuth, D", ["author:knuth, d"]),
        ("black box testing of programs", []),
        ("c++", ["keyword:c++"]),
        ("mesh:aspirin", ["mesh:aspirin"]),
        ("papers in Communications of the ACM on pypi:requests", ["venue:communications of the acm", "pypi:requests"]),
        ("10.1000/d.1", ["doi:10.1000/d.1"]),
        ("is https://doi.org/10.1000/D.1 right", ["doi:10.1000/d.1"]),
        ("doi: 10.1000/d.1", ["doi:10.1000/d.1"]),
        ("1706.03762v3", ["arxiv:1706.03762"]),
        ("keyword:aspirin", []),
        ("of the", ["keyword:of the"]),
        ("", []),
        ("'; DROP--", []),
    ],
)
async def test_entities_that_a_text_names(library: Library, text: str, named: list[str]) -> None:
    await library.upsert(ENTITIES)
    assert list(await LibraryGraph(library).entities(text)) == named


async def test_entities_are_found_among_very_frequent_ones(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "FIRST_ROWS", 4)
    await library.upsert([*(Paper(doc_id=f"m{number}", tags=("data base",)) for number in range(9)), *ENTITIES])
    assert await LibraryGraph(library).entities("data base for operating systems") == (
        "keyword:operating systems",
        "keyword:data base",
    )


async def test_names_are_looked_up_and_mistyped_ones_compared(graph: Neighbours) -> None:
    assert await graph.named("aspirin") == ("mesh:aspirin",)
    assert await graph.named("Knuth, D. E.") == ("author:knuth, d",)
    assert await graph.named("10.1/OLD") == ("doi:10.1/old",)
    assert await graph.named("mesh:aspirin") == ("mesh:aspirin",)
    assert await graph.named("keyword:aspirin") == ()
    assert await graph.named("") == ()
    assert "mesh:aspirin" in await graph.alike("asprin")
    assert await graph.alike("?") == ()


@pytest.mark.parametrize(
    ("links", "reason"),
    [
        ([("1", "cited by", ""), ("2", "cited by", "")], "cites 2 of your top 10"),
        ([("1", "cites", "")], "cited by 1 of your top 10"),
        ([("1", "needed by", "")], "depends on 1 of your top 10"),
        ([("1", "author", "author:knuth, d"), ("2", "author", "author:knuth, d")], "shares author knuth, d with 2 of your top 10"),
        ([("1", "cites", "doi:10.1/x")], "cites doi:10.1/x like 1 of your top 10"),
        ([("mesh:Aspirin", "mesh", "mesh:aspirin"), ("1", "cites", "")], "mesh aspirin; cited by 1 of your top 10"),
        ([("1", "retraction in", "")], "retraction in 1 of your top 10"),
        ([], ""),
    ],
)
def test_reasons_describe_the_record(links: list[tuple[str, str, str]], reason: str) -> None:
    assert explain_paths([Way(*way) for way in links], of="of your top 10") == reason


def test_only_the_first_reasons_are_named() -> None:
    links = [Way("1", "keyword", f"keyword:{name}") for name in "abcde"]
    assert explain_paths(links, of="") == "shares keyword a with it; shares keyword b with it; shares keyword c with it; and 2 more"


async def test_duplicates_by_identifier_are_neighbours(library: Library) -> None:
    same = Identifiers(doi="10.1/x")
    await library.upsert([Paper(doc_id="a", identifiers=same), Paper(doc_id="b", identifiers=same)])
    (neighbour,) = await LibraryGraph(library).around(["a"], 5)
    assert (neighbour.doc_id, neighbour.score, explain_paths(neighbour.paths, of="")) == ("b", DIRECT, "shares doi:10.1/x with it")


DEVELOPERS = "Intended Audience :: Developers"


def packages(number: int = 60) -> list[Record]:
    """Packages for developers, four in five with the keyword `python`; the first ten cite one work, the last three share an author."""
    return [
        Repository(
            doc_id=f"pypi:p{place:02}",
            identifiers=Identifiers(pypi=f"p{place:02}"),
            authors=("Hopper, Grace",) if place >= number - 3 else (),
            tags=("Developers", *(("python",) if place % 5 else ()), *(("retry",) if place % 4 == 0 else ())),
            edges=cites("doi:10.1/method") if place < 10 else (),
            metadata={"classifiers": [DEVELOPERS, "Programming Language :: Python"]},
        )
        for place in range(number)
    ]


async def test_classifiers_and_universal_keywords_neither_rank_nor_explain(library: Library) -> None:
    """`python` is on 48 of 60 packages, `developers` on all: neither says why two belong together. `retry` is on 15, and on all anchors."""
    await library.upsert(packages())
    graph = LibraryGraph(library)
    anchors = [f"pypi:p{place:02}" for place in range(0, 60, 12)]
    neighbours = await graph.around(anchors, 100)
    throughs = {path.through for place in neighbours for path in place.paths}
    assert throughs == {"keyword:retry", "doi:10.1/method"}
    assert {place.doc_id for place in neighbours} == {f"pypi:p{place:02}" for place in range(60) if place % 4 == 0 or place < 10}
    assert (
        explain_paths(neighbours[0].paths, "of your top 5")
        == "cites doi:10.1/method like 1 of your top 5; shares keyword retry with 5 of your top 5"
    )
    assert await graph.around(["pypi:p19"], 100) == []


async def test_extras_that_require_the_same_package_connect_no_packages(library: Library) -> None:
    """They name the tools of the developers. The package itself is a neighbour of both, and a dependency that two share connects them."""

    def needs(name: str, **targets: str) -> Repository:
        edges = tuple(Edge(relation=relation, target=target) for relation, target in targets.items())
        return Repository(doc_id=f"pypi:{name}", identifiers=Identifiers(pypi=name), edges=edges)

    await library.upsert([needs("a", suggests="pypi:ruff", depends_on="pypi:core"), needs("b", suggests="pypi:ruff"), needs("ruff")])
    await library.upsert([needs("c", depends_on="pypi:core"), needs("d", depends_on="pypi:ruff")])
    found = await paths(LibraryGraph(library), "pypi:a")
    assert found == {"pypi:ruff": {("pypi:a", "suggests", "")}, "pypi:c": {("pypi:a", "depends on", "pypi:core")}}
    (way,) = (Way(*way) for way in found["pypi:c"])
    assert explain_paths([way], "of your results") == "depends on core like 1 of your results"


async def test_a_request_names_a_rare_classifier_but_no_universal_keyword(library: Library) -> None:
    await library.upsert([*packages(), Repository(doc_id="pypi:wx", tags=("AsyncIO",), metadata={"classifiers": ["Framework :: AsyncIO"]})])
    graph = LibraryGraph(library)
    assert await graph.entities("python developers") == ()
    assert await graph.entities("asyncio client") == ("keyword:asyncio",)
    assert len(await graph.around(["keyword:developers"], 100)) == 60, "asked for by its name, such as in `outrider library neighbours`"


@given(st.integers(1, 50), st.integers(1, 500), st.data())
def test_what_every_record_shares_is_never_telling(anchors: int, extra: int, data: st.DataObject) -> None:
    size = max(anchors, lookup.FEW + 1) + extra
    assert not lookup._is_telling(size, anchors, size, anchors)
    named_by = data.draw(st.integers(1, size))
    shared_by = data.draw(st.integers(1, min(named_by, anchors)))
    if lookup._is_telling(named_by, shared_by, size, anchors):
        assert lookup._is_telling(named_by - 1, shared_by, size, anchors), "a rarer one tells more"
        assert lookup._is_telling(named_by, shared_by + 1, size, anchors), "one of more anchors tells more"


def test_reasons_name_works_and_persons_before_subjects() -> None:
    """The most frequent keyword is not the best reason."""
    keywords = [Way(str(anchor), "keyword", "keyword:http") for anchor in range(6)]
    links = [
        *keywords,
        Way("1", "author", "author:knuth, d"),
        Way("2", "cites", "doi:10.1/x"),
        Way("3", "cites", ""),
        Way("4", "cites", ""),
    ]
    assert explain_paths(links, "of your top 10") == (
        "cited by 2 of your top 10; cites doi:10.1/x like 1 of your top 10; shares author knuth, d with 1 of your top 10; and 1 more"
    )
