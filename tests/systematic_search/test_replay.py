"""A replayed run: no difference, or each hit gained, lost or changed, with its cause."""

from __future__ import annotations

from pathlib import Path

import outrider
from outrider.services import Services
from outrider.systematic_search import manifest
from support.systematic_runs import LibraryVersions, MemorySource, make_exact_services, make_papers

QUERY = "aspirin[ti]"


def run_first_search(tmp_path: Path, shelves: LibraryVersions, **remote_sources: MemorySource) -> Services:
    services = make_exact_services(tmp_path, shelves, remote_sources)
    sources = ["library", *remote_sources]
    list(outrider.systematic(QUERY, services=services, sources=sources, folder=tmp_path / "run"))
    return services


def test_the_same_library_gives_an_empty_difference(tmp_path: Path) -> None:
    services = run_first_search(tmp_path, LibraryVersions(make_papers(30)))
    replayed = outrider.replay(tmp_path / "run", services=services)
    assert replayed.empty
    assert replayed.before == replayed.now == 20
    assert replayed.provenance_hash == manifest.read(tmp_path / "run" / manifest.NAME).provenance_hash


def test_each_gained_or_lost_hit_has_its_cause(tmp_path: Path) -> None:
    shelves = LibraryVersions(make_papers(30))
    services = run_first_search(tmp_path, shelves)
    records = {one.doc_id: one for one in shelves.records}
    records.pop("p00001")
    records["p00002"] = records["p00002"].model_copy(update={"title": "Ibuprofen"})
    records["p00003"] = records["p00003"].model_copy(update={"title": "Aspirin now"})
    records["p00004"] = records["p00004"].model_copy(update={"abstract": "said otherwise"})
    records["p00100"] = make_papers(1, first=100)[0]
    shelves.records = list(records.values())
    replayed = outrider.replay(tmp_path / "run", services=services)
    assert [(one.change, one.doc_id, one.cause) for one in replayed.differences] == [
        ("lost", "p00001", "record removed"),
        ("lost", "p00002", "record changed"),
        ("gained", "p00003", "record changed"),
        ("changed", "p00004", "record changed"),
        ("gained", "p00100", "record added"),
    ]
    assert outrider.replay(tmp_path / "run", services=services, pinned=True).empty


def test_without_the_old_version_some_causes_are_unknown(tmp_path: Path) -> None:
    shelves = LibraryVersions(make_papers(30))
    services = run_first_search(tmp_path, shelves)
    shelves.records, shelves.versions = [*shelves.records[2:], *make_papers(1, first=100)], {}
    replayed = outrider.replay(tmp_path / "run", services=services)
    assert [(one.change, one.cause) for one in replayed.differences] == [("lost", "record removed"), ("gained", "record added or changed")]
    assert "of the library is gone" in replayed.remarks[0]


def test_a_changed_service_is_named(tmp_path: Path) -> None:
    pubmed = MemorySource("pubmed", list(make_papers(9, first=50)))
    services = run_first_search(tmp_path, LibraryVersions([]), pubmed=pubmed)
    pubmed.records = [*pubmed.records[1:], *make_papers(1, first=70)]
    causes = {one.cause for one in outrider.replay(tmp_path / "run", services=services).differences}
    assert causes == {"source moved"}


def test_another_tokenizer_is_named(tmp_path: Path) -> None:
    """The same record is no longer found, because its words are split differently."""
    shelves = LibraryVersions(make_papers(6))
    services = run_first_search(tmp_path, shelves)
    before, shelves.tokenizer, shelves.blind = shelves.tokenizer, "test words 2", frozenset({"p00004"})
    replayed = outrider.replay(tmp_path / "run", services=services)
    assert [(one.change, one.doc_id, one.cause) for one in replayed.differences] == [
        ("lost", "p00004", f"tokenizer or version changed ({before} -> test words 2)"),
    ]


def test_a_hit_lost_by_the_index_alone_is_reported_as_a_bug(tmp_path: Path) -> None:
    shelves = LibraryVersions(make_papers(6))
    services = run_first_search(tmp_path, shelves)
    shelves.blind = frozenset({"p00004"})
    assert "please report it" in outrider.replay(tmp_path / "run", services=services).differences[0].cause
