"""Edges are written with their records, in one spelling, and go with them."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outrider.library import edges
from outrider.library.entity_names import Entity, make_entity, normal_author, normal_name, parse_entity
from outrider.library.graph_neighbours import LibraryGraph
from outrider.library.inspection import FIX_EDGES, FIX_STALE_EDGES, FIX_STRANGERS
from outrider.library.library import Library
from outrider.state.errors import LibraryError
from outrider.state.records import Edge, Identifiers, Paper, Record, Repository

ALL = "true"


def targets(record: Record) -> set[tuple[str, str]]:
    return {(relation, f"{kind}:{name}") for _, relation, kind, name in edges.list_edges(record)}


def test_a_record_names_itself_and_what_it_shares() -> None:
    record = Paper(
        doc_id="A 1",
        identifiers=Identifiers(doi="10.1000/X", pmcid="PMC7"),
        authors=("Knuth, Donald E.",),
        tags=("Time-Sharing ", "c++"),
        mesh=("Aspirin/adverse effects",),
        venue="Journal  of X",
        edges=(Edge(relation="Adverse effect", target="Hepatotoxicity"), Edge(relation="cites", target="doi:https://doi.org/10.1000/Y")),
        metadata={"mesh_qualified": ["Liver/drug effects", 3]},
    )
    assert targets(record) == {
        ("is", "doc:A 1"), ("is", "doi:10.1000/x"), ("is", "pmcid:PMC7"),
        ("author", "author:knuth, d"), ("keyword", "keyword:time sharing"), ("keyword", "keyword:c++"),
        ("mesh", "mesh:aspirin adverse effects"), ("mesh", "mesh:aspirin"),
        ("mesh", "mesh:liver drug effects"), ("mesh", "mesh:liver"),
        ("venue", "venue:journal of x"), ("adverse_effect", "adverse_effect:hepatotoxicity"), ("cites", "doi:10.1000/y"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("Knuth, D. E.", "knuth, d"),
        ("Donald E. Knuth", "knuth, d"),
        ("Knuth DE", "knuth, d"),
        ("D.E. Knuth", "knuth, d"),
        ("Müller, Jörg", "muller, j"),
        ("Johannes van der Waals", "van der waals, j"),
        ("John Smith Jr.", "smith, j"),
        ("World Health Organization Global Study Group", "world health organization global study group"),
        ("王伟", "王伟"),
        ("WHO", "who"),
        (" ", ""),
    ],
)
def test_one_person_has_one_name(name: str, normal: str) -> None:
    assert normal_author(name) == normal


@example("//", "pypi")
@given(st.text(max_size=40), st.sampled_from(["author", "keyword", "mesh", "venue", "pypi", "doi", "protein"]))
def test_a_normal_name_stays_as_it_is(text: str, kind: str) -> None:
    """A name that is shown can be looked up."""
    node = make_entity(kind, text)
    if node is not None and kind != "author":
        assert parse_entity(str(node)) == node
    assert normal_name(normal_name(text)) == normal_name(text)


def test_an_entity_has_a_type() -> None:
    assert parse_entity("mesh: Aspirin") == Entity("mesh", "aspirin")
    assert parse_entity("aspirin") is None
    assert parse_entity("https://x.test") is None
    assert parse_entity("doc:A b") == Entity("doc", "A b")
    assert make_entity("keyword", "x" * 300) is None


async def test_a_changed_record_loses_its_old_edges(library: Library) -> None:
    await library.upsert([Paper(doc_id="a", tags=("old",)), Paper(doc_id="b", tags=("old",))])
    await library.upsert([Paper(doc_id="a", tags=("new",)), Paper(doc_id="c")])
    assert sorted(await library.edges("relation = 'keyword'")) == [("a", "keyword", "keyword", "new"), ("b", "keyword", "keyword", "old")]
    before = await library.edges_version()
    await library.upsert([Paper(doc_id="a", tags=("new",))])
    assert await library.edges_version() == before


@settings(max_examples=8, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from(["x y", "z", "é", "o'k"]), max_size=3), min_size=1),
    st.sets(st.sampled_from("abcdefg")),
)
def test_removed_records_leave_no_edge(tags: dict[str, list[str]], removed: set[str]) -> None:
    async def read_edges() -> tuple[list[edges.EdgeRow], list[edges.EdgeRow]]:
        with tempfile.TemporaryDirectory() as folder:
            library = await Library.open(Path(folder) / "library", create=True)
            records = [Paper(doc_id=doc_id, tags=tuple(names)) for doc_id, names in tags.items()]
            await library.upsert(records)
            await library.remove(sorted(removed))
            stored = await library.edges(ALL)
            library.close()
        return sorted(stored), sorted(row for record in records if record.doc_id not in removed for row in edges.list_edges(record))

    stored, expected = asyncio.run(read_edges())
    assert stored == expected


async def test_a_library_without_a_graph_reports_it_and_gets_one(library: Library) -> None:
    """As one of an earlier Outrider; its edges are written anew from the records."""
    records: list[Record] = [
        Paper(doc_id="a", tags=("x",), text="y" * 5_000),
        Repository(doc_id="pypi:h", identifiers=Identifiers(pypi="h"), edges=(Edge(relation="depends_on", target="pypi:k"),)),
    ]
    await library.upsert(records)
    before = sorted(await library.edges(ALL))
    await library._connection.drop_table(edges.NAME)
    reopened = await Library.open(library.uri)
    with pytest.raises(LibraryError, match="no graph yet; 'outrider library reindex'"):
        await LibraryGraph(reopened).around(["a"], 5)
    assert any("2 records have no edges" in problem for problem in await reopened.check())
    done: list[tuple[int, int]] = []
    assert await reopened.mend_edges(lambda now, of: done.append((now, of))) == 2
    assert done == [(2, 2)]
    assert await reopened.mend_edges() == 0
    assert sorted(await reopened.edges(ALL)) == before
    assert await reopened.check() == ()
    reopened.close()


async def test_one_missing_record_is_reported(library: Library) -> None:
    await library.upsert([Paper(doc_id="a"), Paper(doc_id="b")])
    await library._edges.remove(["a"])
    assert await library.check() == (f"1 records have no edges: the graph does not find them; {FIX_EDGES}",)
    assert await library.mend_edges() == 1
    assert await library.check() == ()


class Killed(Exception):
    """Ends a write where a kill would; a real one is met in test_processes."""


def raise_killed(*_: object) -> NoReturn:
    raise Killed


def citing(doc_id: str, target: str) -> Paper:
    return Paper(doc_id=doc_id, edges=(Edge(relation="cites", target=f"doi:10.1/{target}"),))


OLD, NEW = citing("a", "old"), citing("a", "new")


@pytest.mark.parametrize("step", ["record_table.merge_rows", "edges.EdgeTable.add", "edges.EdgeTable.drop"])
async def test_a_kill_never_leaves_a_record_without_edges(library: Library, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    await library.upsert([OLD])
    with monkeypatch.context() as patched:
        patched.setattr(f"outrider.library.{step}", raise_killed)
        with pytest.raises(Killed):
            await library.upsert([NEW])
    records = await library.fetch(["a"])
    assert {*edges.list_edges(records[0])} <= {*await library.edges(ALL)}
    assert "no edges" not in "".join(await library.check())
    await library.mend_edges()
    assert sorted(await library.edges(ALL)) == sorted(edges.list_edges(records[0]))
    assert await library.check() == ()


async def test_a_kill_while_edges_are_taken_away_leaves_the_new_ones(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    await library.upsert([OLD])
    with monkeypatch.context() as patched:
        patched.setattr("outrider.library.edges.EdgeTable.drop", raise_killed)
        with pytest.raises(Killed):
            await library.upsert([NEW])
    assert await library.check() == ("1 records have edges that they do not name; " + FIX_STALE_EDGES,)
    await library.upsert([citing("a", "newer")])
    assert sorted(await library.edges(ALL)) == sorted(edges.list_edges(citing("a", "newer")))


async def test_edges_of_a_record_that_was_never_written_do_not_stay(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before the record, which is then ingested as something else, or never."""
    await library.upsert([Paper(doc_id="z")])
    with monkeypatch.context() as patched:
        patched.setattr("outrider.library.record_table.merge_rows", raise_killed)
        with pytest.raises(Killed):
            await library.upsert([OLD, citing("gone", "x")])
    assert await library.check() == (f"2 missing records have edges; {FIX_STRANGERS}",)
    await library.upsert([NEW])
    assert sorted(row for row in await library.edges(ALL) if row[0] == "a") == sorted(edges.list_edges(NEW))
    await library.mend_edges()
    assert {row[0] for row in await library.edges(ALL)} == {"a", "z"}
    assert await library.check() == ()


async def test_the_same_edges_twice_are_no_problem(library: Library) -> None:
    """As two writers leave them that share no lock."""
    await library.upsert([OLD])
    await library._edges.add(edges.build_table([OLD]), ["a"])
    assert await library.check() == ()
    assert await library.mend_edges() == 1
    assert sorted(await library.edges(ALL)) == sorted(edges.list_edges(OLD))


async def test_an_empty_library_has_nothing_to_connect(library: Library) -> None:
    graph = LibraryGraph(library)
    assert await graph.around(["a", "mesh:x"], 5) == []
    assert await graph.entities("aspirin") == ()
    await library.upsert([Paper(doc_id="a", tags=("aspirin",))])
    assert await graph.entities("aspirin") == ("keyword:aspirin",)


async def test_maintenance_folds_new_edges_into_the_indexes(library: Library) -> None:
    for number in range(4):
        await library.upsert([Paper(doc_id=f"{number}", tags=("x",))])
    await library.optimize(force=True)
    table = await library._edges.reader()
    assert table is not None
    assert {index.num_unindexed_rows for index in await table.list_indices()} == {0}
    assert sorted(row[0] for row in await library.edges("name = 'x'")) == ["0", "1", "2", "3"]
    assert (await library.info()).edges == 8
