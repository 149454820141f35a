"""CITATION.cff, codemeta.json and files of links."""

from __future__ import annotations

from outrider.code_links.metadata_files import read_citation_file, read_codemeta, read_link_rows
from outrider.state.code_links import LinkEvidence

REPOSITORY = "github:lab/snowfall"


def test_the_preferred_citation_is_the_paper_and_the_doi_of_the_file_the_archive() -> None:
    content = {
        "cff-version": "1.2.0", "title": "Snowfall", "doi": "10.5281/zenodo.7",
        "identifiers": [{"type": "doi", "value": "10.5281/zenodo.8"}, {"type": "swh", "value": "swh:1:dir:x"}],
        "preferred-citation": {"type": "article", "title": "Weather at scale", "doi": "10.1000/snow"},
        "references": [{"type": "article", "title": "Winter", "doi": "10.1000/winter"}],
    }  # fmt: skip
    kinds = {one.work: one.kind for one in read_citation_file(content, REPOSITORY, REPOSITORY)}
    assert kinds == {
        "doi:10.1000/snow": "repository's paper",
        "doi:10.5281/zenodo.7": "archive",
        "doi:10.5281/zenodo.8": "archive",
        "doi:10.1000/winter": "mentions",
    }


def test_a_file_copied_from_another_repository_says_nothing() -> None:
    content = {
        "title": "Snowfall",
        "repository-code": "https://github.com/lab/snowfall",
        "preferred-citation": {"title": "x y z", "doi": "10.1000/snow"},
    }
    assert list(read_citation_file(content, "github:someone/snowfall", "x")) == []
    assert len(list(read_citation_file(content, REPOSITORY, "x"))) == 1


def test_a_preferred_citation_of_software_is_an_archive() -> None:
    content = {"title": "Snowfall", "preferred-citation": {"type": "software", "title": "Snowfall", "doi": "10.5281/zenodo.7"}}
    assert [one.kind for one in read_citation_file(content, REPOSITORY, "x")] == ["archive"]


def test_codemeta_names_the_reference_publication() -> None:
    content = {"codeRepository": "https://github.com/lab/snowfall",
               "referencePublication": [{"@id": "https://doi.org/10.1000/snow", "name": "Weather"}],
               "identifier": "https://doi.org/10.5281/zenodo.7"}  # fmt: skip
    assert [(one.work, one.kind) for one in read_codemeta(content, REPOSITORY, "x")] == [
        ("doi:10.1000/snow", "repository's paper"), ("doi:10.5281/zenodo.7", "archive"),
    ]  # fmt: skip


def test_rows_of_a_file_of_links_are_read_and_wrong_ones_named() -> None:
    rows = [
        {"paper_url": "https://paperswithcode.com/paper/x", "paper_arxiv_id": "2101.00001", "repo_url": "https://github.com/lab/snowfall",
         "is_official": True, "mentioned_in_paper": True},
        {"paper_title": "Weather at scale", "repo_url": "https://gitlab.com/a/b", "is_official": False},
        {"paper_title": "Weather at scale"},
        7,
    ]  # fmt: skip
    found = list(read_link_rows(rows, "links.json"))
    assert [one if isinstance(one, str) else (one.work, one.target, one.kind) for one in found] == [
        ("arxiv:2101.00001", "github:lab/snowfall", "paper's own code"),
        ("title:weather at scale", "gitlab:a/b", "based on"),
        "row 3 names no repository (repo_url)",
        "row 4 is no object",
    ]
    assert isinstance(found[0], LinkEvidence)
    assert found[0].line == 1
