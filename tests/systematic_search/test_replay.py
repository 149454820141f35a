"""A replayed run: no difference, or each hit gained, lost or changed, with its cause."""

from __future__ import annotations

from pathlib import Path

import outrider
from outrider.services import Services
from outrider.systematic_search import manifest
from support.systematic_runs import LibraryVersions, MemorySource, make_exact_services, make_papers

QUERY = "aspirin[ti]"


def _first(tmp_path: Path, shelves: LibraryVersions, **world: MemorySource) -> Services:
    made = make_exact_services(tmp_path, shelves, world)
    sources = ["library", *world]
    list(outrider.systematic(QUERY, services=made, sources=sources, folder=tmp_path / "run"))
    return made


def test_the_same_library_gives_an_empty_difference(tmp_path: Path) -> None:
    made = _first(tmp_path, LibraryVersions(make_papers(30)))
    replayed = outrider.replay(tmp_path / "run", services=made)
    assert replayed.empty
    assert replayed.before == replayed.now == 20
    assert replayed.provenance_hash == manifest.read(tmp_path / "run" / manifest.NAME).provenance_hash


def test_each_gained_or_lost_hit_has_its_cause(tmp_path: Path) -> None:
    shelves = LibraryVersions(make_papers(30))
    made = _first(tmp_path, shelves)
    held = {one.doc_id: one for one in shelves.records}
    held.pop("p00001")
    held["p00002"] = held["p00002"].model_copy(update={"title": "Ibuprofen"})
    held["p00003"] = held["p00003"].model_copy(update={"title": "Aspirin now"})
    held["p00004"] = held["p00004"].model_copy(update={"abstract": "said otherwise"})
    held["p00100"] = make_papers(1, first=100)[0]
    shelves.records = list(held.values())
    replayed = outrider.replay(tmp_path / "run", services=made)
    assert [(one.change, one.doc_id, one.cause) for one in replayed.differences] == [
        ("lost", "p00001", "record removed"),
        ("lost", "p00002", "record changed"),
        ("gained", "p00003", "record changed"),
        ("changed", "p00004", "record changed"),
        ("gained", "p00100", "record added"),
    ]
    assert outrider.replay(tmp_path / "run", services=made, pinned=True).empty


def test_without_the_old_version_some_causes_are_unknown(tmp_path: Path) -> None:
    shelves = LibraryVersions(make_papers(30))
    made = _first(tmp_path, shelves)
    shelves.records, shelves.versions = [*shelves.records[2:], *make_papers(1, first=100)], {}
    replayed = outrider.replay(tmp_path / "run", services=made)
    assert [(one.change, one.cause) for one in replayed.differences] == [("lost", "record removed"), ("gained", "record added or changed")]
    assert "of the library is gone" in replayed.remarks[0]


def test_a_service_that_moved_is_named(tmp_path: Path) -> None:
    world = MemorySource("pubmed", list(make_papers(9, first=50)))
    made = _first(tmp_path, LibraryVersions([]), pubmed=world)
    world.records = [*world.records[1:], *make_papers(1, first=70)]
    causes = {one.cause for one in outrider.replay(tmp_path / "run", services=made).differences}
    assert causes == {"source moved"}


def test_another_tokenizer_is_named(tmp_path: Path) -> None:
    """The record is the same, and is found no more: its words are cut otherwise."""
    shelves = LibraryVersions(make_papers(6))
    made = _first(tmp_path, shelves)
    before, shelves.tokenizer, shelves.blind = shelves.tokenizer, "test words 2", frozenset({"p00004"})
    replayed = outrider.replay(tmp_path / "run", services=made)
    assert [(one.change, one.doc_id, one.cause) for one in replayed.differences] == [
        ("lost", "p00004", f"tokenizer or version changed ({before} -> test words 2)"),
    ]


def test_a_hit_that_an_index_loses_is_no_change_of_anything(tmp_path: Path) -> None:
    shelves = LibraryVersions(make_papers(6))
    made = _first(tmp_path, shelves)
    shelves.blind = frozenset({"p00004"})
    assert "please report it" in outrider.replay(tmp_path / "run", services=made).differences[0].cause
