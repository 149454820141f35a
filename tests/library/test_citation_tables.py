"""Works known only from links, and links: joined by identifiers, idempotent, never hits, followed to records."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from outrider.library import citation_tables
from outrider.library.citation_network import OWN_LISTS, load_network
from outrider.library.citation_tables import work_name
from outrider.library.graph_neighbours import LibraryGraph, explain_paths
from outrider.library.library import Library
from outrider.library.search_engine import Engine
from outrider.runtime.run_reads import share_reads
from outrider.sources.library import LibrarySource
from outrider.state.citations import CitationLink
from outrider.state.ports import SourceQuery
from outrider.state.records import Edge, Identifiers, Paper
from outrider.state.request import RetrieverType
from support.word_embedder import WordEmbedder

DATE = "2026-11-01"


def work(title: str = "", **identifiers: str) -> Paper:
    known = Identifiers(**identifiers)
    return Paper(doc_id=f"x:{title or next(iter(known.pairs()))}", title=title, identifiers=known, source="x")


def cites(citing: Paper, cited: Paper, source: str = "openalex") -> CitationLink:
    return CitationLink(work_name(citing), work_name(cited), source, DATE)


@pytest.fixture
async def library(tmp_path: Path) -> Library:
    library = await Library.open(tmp_path / "library", create=True)
    await library.upsert(
        [
            Paper(
                doc_id="a", title="Otters swim", identifiers=Identifiers(doi="10.1/a"), edges=(Edge(relation="cites", target="pmid:33"),)
            ),
            Paper(doc_id="b", title="Beavers build", identifiers=Identifiers(pmid="2")),
            Paper(doc_id="c", title="Newts glow", identifiers=Identifiers(doi="10.1/c")),
        ]
    )
    return library


async def test_links_of_two_services_meet_in_a_shared_identifier_and_agree(library: Library) -> None:
    a, by_doi, by_both = work(doi="10.1/a"), work(doi="10.9/x"), work("The X", doi="10.9/x", openalex="W9")
    await library.citations.add([a, by_doi], [cites(a, by_doi, "opencitations")])
    await library.citations.add([a, by_both], [cites(a, by_both, "openalex")])
    network = await load_network(library, ["a"])
    assert network.links == {("a", "doi:10.9/x"): ("openalex", "opencitations"), ("a", "pmid:33"): (OWN_LISTS,)}
    assert network.placeholders == {"doi:10.9/x", "pmid:33"}
    assert (network.works["doi:10.9/x"].title, network.works["doi:10.9/x"].identifiers.openalex) == ("The X", "W9")
    assert network.works["a"].title == "Otters swim"


async def test_two_works_that_turn_out_to_be_one_share_their_links(library: Library) -> None:
    a, c = work(doi="10.1/a"), work(doi="10.1/c")
    first, second, both = work(openalex="W5"), work(pmid="55"), work("Five", openalex="W5", pmid="55")
    await library.citations.add([a, c, first, second], [cites(a, first), cites(c, second, "pubmed")])
    before = await load_network(library, ["a", "c"])
    assert {"openalex:w5", "pmid:55"} <= before.placeholders
    await library.citations.add([both], [])
    after = await load_network(library, ["a", "c"])
    assert set(after.links) == {("a", "pmid:55"), ("c", "pmid:55"), ("a", "pmid:33")}
    assert await library.citations.count() == (3, 2)


async def test_writing_again_changes_nothing_and_links_to_itself_are_left_out(library: Library) -> None:
    a, x = work(doi="10.1/a"), work("X", doi="10.9/x")
    links = [cites(a, x), cites(x, x)]
    first = await library.citations.add([a, x], links)
    assert first == (2, 1, 1, 0)
    again = await library.citations.add([a, x], links)
    assert again == (0, 0, 1, 0)
    assert await library.citations.count() == (2, 1)


async def test_works_whose_dois_differ_stay_apart_although_they_share_a_number(library: Library) -> None:
    one, other = work("Main paper", doi="10.9/x", pmid="7"), work("A supplement", doi="10.9/x.s1", pmid="7")
    a = work(doi="10.1/a")
    counts = await library.citations.add([a, one, other], [cites(a, one), cites(a, other)])
    assert counts.contradicting == 1
    network = await load_network(library, ["a"])
    assert {cited for _, cited in network.links} == {"doi:10.9/x", "doi:10.9/x.s1", "pmid:33"}


async def test_a_placeholder_that_becomes_a_record_is_followed_to_it(library: Library) -> None:
    a, x = work(doi="10.1/a"), work("X", doi="10.9/x", pmid="9")
    await library.citations.add([a, x], [cites(a, x)])
    await library.upsert([Paper(doc_id="new", title="X in full", identifiers=Identifiers(pmid="9"))])
    network = await load_network(library, ["a"])
    assert ("a", "new") in network.links
    assert "new" not in network.placeholders
    neighbours = await LibraryGraph(library).around(["a"], 10)
    assert [(one.doc_id, explain_paths(one.paths)) for one in neighbours] == [("new", "cited by 1 of your best hits")]


async def test_the_graph_follows_reported_links_in_both_directions_to_records_only(library: Library) -> None:
    a, b, c, far = work(doi="10.1/a"), work(pmid="2", doi="10.1/b"), work(doi="10.1/c"), work("Otters swim far", doi="10.9/far")
    await library.citations.add([a, b, c, far], [cites(a, b), cites(c, a), cites(far, a), cites(far, c)])
    neighbours = {one.doc_id: explain_paths(one.paths) for one in await LibraryGraph(library).around(["a"], 10)}
    assert neighbours == {"b": "cited by 1 of your best hits", "c": "cites 1 of your best hits"}


async def test_two_hops_reach_what_one_does_not(library: Library) -> None:
    a, x, y = work(doi="10.1/a"), work(doi="10.9/x"), work(doi="10.9/y")
    await library.citations.add([a, x, y], [cites(a, x), cites(y, x), cites(x, a)])
    near, far = await load_network(library, ["a"], 1), await load_network(library, ["doi:10.1/A"], 2)
    assert ("doi:10.9/y", "doi:10.9/x") not in near.links
    assert far.links[("doi:10.9/y", "doi:10.9/x")] == ("openalex",)
    assert ("doi:10.9/x", "a") in far.links


async def test_an_unknown_target_is_not_in_the_network(library: Library) -> None:
    network = await load_network(library, ["nothing", "doi:10.404/none"], 2)
    assert (dict(network.works), dict(network.links)) == ({}, {})


async def test_without_stored_links_the_graph_opens_no_table(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    inner = library._connection.open_table

    async def open_table(name: str, *args: object, **options: object) -> object:
        opened.append(name)
        return await inner(name, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(library._connection, "open_table", open_table)
    with share_reads({}):
        await LibraryGraph(library).around(["a"], 10)
    assert not [name for name in opened if name.startswith("citation")]


async def test_the_graph_reads_stored_links_twice_a_lookup(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = work(doi="10.1/a"), work(pmid="2")
    await library.citations.add([a, b], [cites(a, b)])
    reads: list[str] = []
    inner = citation_tables._read

    async def read(table: Any, where: str, columns: Any) -> Any:
        reads.append(where)
        return await inner(table, where, columns)

    monkeypatch.setattr(citation_tables, "_read", read)
    assert await LibraryGraph(library).around(["a"], 10)
    assert len(reads) == 2


PLACEHOLDER = "Zymurgy of otters"


async def test_a_placeholder_is_a_hit_of_no_strategy_and_in_no_list(library: Library) -> None:
    a, b, x = work(doi="10.1/a"), work(pmid="2"), work(PLACEHOLDER, doi="10.9/zymurgy")
    abstract = x.model_copy(update={"abstract": f"{PLACEHOLDER} swim."})
    await library.citations.add([a, b, abstract], [cites(a, abstract), cites(b, abstract), cites(abstract, a)])
    embedder = WordEmbedder()
    await library.reindex(embedder)
    engine = Engine(library, lambda space: embedder, LibraryGraph(library))
    for strategy in RetrieverType:
        for text in (PLACEHOLDER, "Otters swim", "doi:10.9/zymurgy", "author:nobody, n"):
            answer = await engine.search(SourceQuery(text, strategy, None, 50))
            assert {hit.record.doc_id for hit in answer.results} <= {"a", "b", "c"}
    assert "doi:10.9/zymurgy" not in await LibraryGraph(library).entities("doi:10.9/zymurgy")
    assert await library.match(PLACEHOLDER) == []
    assert await library.count() == 3
    assert {record.doc_id async for record in library.scan()} == {"a", "b", "c"}
    assert [record.doc_id for record in await library.page()] == ["a", "b", "c"]
    found = await LibrarySource(lambda: _give(engine)).get("doi", "10.9/zymurgy", 5.0)
    assert found is None


async def _give(engine: Engine) -> Engine:
    return engine


async def test_a_write_that_dies_anywhere_leaves_no_loose_citation_and_the_next_one_completes_it(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two stored works turn out to be one, whose links move: the process dies after each commit in turn."""
    by_doi, by_id, other, both = work(doi="10.9/x"), work(openalex="W9"), work(doi="10.9/y"), work("X", doi="10.9/x", openalex="W9")
    tables = library.citations
    await tables.add([by_doi, by_id, other], [cites(by_doi, other), cites(other, by_id)])
    commits = [0, 0]  # made, and allowed

    class Dies:
        def __init__(self, commit: Any) -> None:
            self.commit = commit

        async def execute(self, rows: Any) -> Any:
            if commits[0] == commits[1]:
                raise KilledHere
            commits[0] += 1
            return await self.commit.execute(rows)

        def __getattr__(self, name: str) -> Any:
            return lambda: Dies(getattr(self.commit, name)())

    real_open = tables._open
    for allowed in range(3):
        commits[:] = [0, allowed]
        monkeypatch.setattr(tables, "_open", dying(real_open, Dies))
        with pytest.raises(KilledHere) if allowed < 2 else nullcontext():
            await tables.add([both], [])
        monkeypatch.undo()
        assert await library.check() == (), f"after {allowed} commits"
    links = (await load_network(library, ["doi:10.9/y"])).links
    assert set(links) == {("doi:10.9/x", "doi:10.9/y"), ("doi:10.9/y", "doi:10.9/x")}


class KilledHere(Exception):
    """The process dies."""


def dying(real: Any, dies: Any) -> Any:
    """A table whose merges die where they should."""

    async def open_table(*arguments: Any) -> Any:
        table = await real(*arguments)
        if table is None:
            return None
        merge = table.merge_insert
        wrapped = MagicMock(wraps=table)
        wrapped.merge_insert = lambda *keys: dies(merge(*keys))
        return wrapped

    return open_table
