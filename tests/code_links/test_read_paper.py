"""Which repositories a paper makes its own code, and which it only uses or names."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.code_links.combine import combine_evidence
from outrider.code_links.names import find_repositories
from outrider.code_links.read_record import read_evidence
from outrider.state.code_links import OWN, LinkEvidence
from outrider.state.records import Identifiers, Page, Paper


def read_own(abstract: str = "", text: str = "", title: str = "Weather at scale", **fields: Any) -> set[str]:
    record = Paper(doc_id="p", title=title, abstract=abstract, text=text, identifiers=Identifiers(doi="10.1000/snow"), **fields)
    return {one.target for one in read_evidence(record) if one.kind in OWN}


@pytest.mark.parametrize(
    "abstract",
    [
        "We model snow. Our code is available at https://github.com/lab/Snowfall.",
        "We model snow. Code and models will be made publicly available at https://github.com/lab/snowfall",
        "We release our implementation (https://github.com/lab/snowfall).",
        "We model snow. Availability: https://github.com/lab/snowfall",
        "Using PyTorch, we train a network; the source code can be found at https://github.com/lab/snowfall.",
        "The software is written in C++ and it is available at https://github.com/lab/snowfall/.",
        "All scripts are available from github.com/lab/snowfall.git.",
        "All original code has been deposited at https://github.com/lab/snowfall and is publicly available.",
        "We present Snowfall. Snowfall is available at https://github.com/lab/snowfall.",
    ],
)
def test_a_statement_of_availability_makes_code_own(abstract: str) -> None:
    assert read_own(abstract) == {"github:lab/snowfall"}


@pytest.mark.parametrize(
    "text",
    [
        "We used Winter (https://github.com/other/winter) to align reads.",
        "Our model is based on the implementation of Winter (https://github.com/other/winter).",
        "As a baseline we took the official code available at https://github.com/other/winter.",
        "Training used the publicly available implementation by Ho et al. (https://github.com/other/winter).",
        "Winter is available at https://github.com/other/winter.",
        "Reads were trimmed with Trimmer [12] (https://github.com/other/winter).",
        "See https://github.com/other/winter for a list.",
        "We adapted the code of Frost et al., available at https://github.com/other/winter.",
        "The data used in this study are available at https://github.com/other/winter.",
        "All experiments were run with software available at https://github.com/other/winter.",
        "# Code availability\n\nAll software used in this study is publicly available: Winter (https://github.com/other/winter).",
        "# Code availability\n\nNo custom code was used. Winter is available at https://github.com/other/winter.",
        "# Code availability\n\n• Original data are available.\n• Winter is available at https://github.com/other/winter.",
    ],
)
def test_what_a_paper_uses_or_names_is_not_its_own(text: str) -> None:
    assert read_own(text=f"# Methods\n\n{text}\n") == set()


@pytest.mark.parametrize("title", ["A survey of winter", "Evaluating Winter on images", "Winter"])
def test_a_paper_about_others_code_does_not_own_it(title: str) -> None:
    text = "The Winter library is available at https://github.com/other/winter."
    assert read_own(text, title=title) == ({"github:other/winter"} if title == "Winter" else set())


def test_the_acronym_of_the_title_names_the_repository() -> None:
    assert read_own(text="See https://github.com/lab/ECHO; it is open source and available.", title="ECHO: snow in echoes")


def test_a_section_of_availability_makes_code_own() -> None:
    text = "# Introduction\n\nSnow.\n\n# Code availability\n\nSnow models: https://gitlab.com/lab/group/snowfall.\n\n# References\n\n1. Ho. https://github.com/other/winter\n"
    assert read_own(text=text) == {"gitlab:lab/group/snowfall"}


def test_addresses_in_references_are_not_own() -> None:
    text = "Snow. " * 50 + "\nReferences\n1. Frost J. Our code is available at https://github.com/other/winter\n"
    assert read_own(text=text) == set()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("see https://github.com/lab/snow-\nfall for code", "github:lab/snow-fall"),
        ("see https://github.com/lab/\nsnow_fall2 for code", "github:lab/snow_fall2"),
        ("https://github.com/allenai/ openie-standalone", "github:allenai/openie-standalone"),
        ("(https://github.com/lab/snowfall).", "github:lab/snowfall"),
        ("[code](https://github.com/lab/snowfall)", "github:lab/snowfall"),
        ("<https://github.com/Lab/Snowfall.git>", "github:lab/snowfall"),
        ("git@github.com:lab/snowfall.git", "github:lab/snowfall"),
        ("https://github.com/lab/snowfall/tree/main/src", "github:lab/snowfall"),
        ("https://github.com/lab/snow.py.", "github:lab/snow.py"),
        ("https://codeberg.org/lab/snowfall", "codeberg:lab/snowfall"),
        ("https://bitbucket.org/lab/snowfall/src", "bitbucket:lab/snowfall"),
        ("https://gitlab.com/a/b/c/-/tree/main", "gitlab:a/b/c"),
        ("https://gitlab.inria.fr/a/b", "git:gitlab.inria.fr/a/b"),
        ("https://raw.githubusercontent.com/lab/snowfall/main/x.png", "github:lab/snowfall"),
        ("https://github.com/lab/snowfall#readme", "github:lab/snowfall"),
        ("\\url{https://github.com/lab/snowfall}}", "github:lab/snowfall"),
    ],
)
def test_addresses_are_read_as_texts_have_them(text: str, name: str) -> None:
    assert [one.name for one in find_repositories(text)] == [name]


@pytest.mark.parametrize(
    "text",
    [
        "https://github.com/lab/\nThe data set", "https://github.com/lab", "https://github.com/topics/snow", "https://github.com/orgs/lab/repositories",
        "https://github.com/sponsors/frost", "https://notgithub.com/lab/snowfall", "https://gist.github.com/lab/0123",
    ],
)  # fmt: skip
def test_what_is_no_repository_is_left_out(text: str) -> None:
    assert list(find_repositories(text)) == []


def test_an_archive_at_zenodo_names_its_repository() -> None:
    record = Paper(doc_id="z", title="lab/Snowfall: v1.0", identifiers=Identifiers(doi="10.5281/zenodo.99"))
    assert [(one.work, one.target, one.kind) for one in read_evidence(record)] == [
        ("doi:10.5281/zenodo.99", "github:lab/snowfall", "archive")
    ]


def test_offsets_are_those_of_the_address() -> None:
    abstract = "We model snow. Our code is available at https://github.com/lab/snowfall."
    (evidence,) = read_evidence(Paper(doc_id="p", abstract=abstract))
    assert abstract[evidence.start : evidence.end].startswith("https://github.com/lab/snowfall")
    assert evidence.place == "abstract"
    assert evidence.words in " ".join(abstract.split())


def test_both_directions_agreeing_count_more() -> None:
    common = {"work": "doi:10.1/x", "target": "github:a/b"}
    paper = LinkEvidence(kind="paper's own code", read_in="p", place="abstract", confidence=0.8, **common)
    repository = LinkEvidence(kind="repository's paper", read_in="r", place="README", confidence=0.8, **common)
    (one,) = combine_evidence([paper])
    (both,) = combine_evidence([paper, repository])
    (twice,) = combine_evidence([paper, paper.model_copy(update={"place": "text"})])
    assert (one.agree, both.agree, twice.agree) == (False, True, False)
    assert both.confidence > one.confidence == twice.confidence


def test_a_hostile_text_is_read_in_linear_time() -> None:
    for text in ("github.com/a/" * 20_000, "github.com/a-\n" * 20_000, "our code is " * 20_000 + "https://github.com/a/b"):
        read_own(text=text)


def test_a_project_page_is_a_page_of_the_paper() -> None:
    abstract = "We test models. Code and results are available at https://lab.github.io/REST."
    assert [(one.kind, one.target) for one in read_evidence(Paper(doc_id="p", abstract=abstract))] == [("page", "page:lab.github.io/REST")]


def test_a_page_named_after_its_repository_is_a_page_of_it() -> None:
    page = Page(doc_id="w", title="Snowfall: weather", url="https://snowfall.example/", text="Get it at https://github.com/lab/snowfall.")
    assert [(one.work, one.target) for one in read_evidence(page)] == [("github:lab/snowfall", "page:snowfall.example")]
    assert read_evidence(page.model_copy(update={"title": "A list of tools"})) == ()
