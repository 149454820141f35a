from __future__ import annotations

from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from outrider.ingest import installed_packages as module
from outrider.ingest.entry import BadEntry, Entry
from outrider.ingest.installed_packages import make_record, plain_readme, read_installed_packages
from outrider.state.records import Edge, Repository

METADATA = """Metadata-Version: 2.1
Name: Quick_Retry
Version: 1.2
Summary: Retry  calls
Home-page: UNKNOWN
Author-email: "Ann Smith" <ann@example.org>, Bo Lee <bo@example.org>
License: MIT
Keywords: retry,backoff
Project-URL: Documentation, https://example.org/docs
Project-URL: Source, https://github.com/Ann/Quick-Retry.git
Classifier: Topic :: Software Development :: Libraries
Classifier: License :: OSI Approved :: MIT License
Requires-Dist: tenacity (>=8)
Requires-Dist: httpx[http2]>=0.27; python_version >= "3.9"
Requires-Dist: pytest; extra == "test"
Requires-Dist: quick-retry[test]; extra == "all"
Requires-Dist: tenacity; extra == "test"
Provides-Extra: test

# Quick Retry

[![CI](https://img.shields.io/ci.svg)](https://ci.example.org) ![cov](https://x.y/cov.svg)

Calls that fail are tried again.
"""


def distribution(root: Path, metadata: str, name: str = "a") -> PathDistribution:
    folder = root / f"{name}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(metadata, encoding="utf-8")
    return PathDistribution(folder)


def test_a_distribution_is_a_repository_record(tmp_path: Path) -> None:
    """The distribution's own name is the title; PEP 503's form is the id; UNKNOWN is nothing."""
    record = make_record("quick-retry", distribution(tmp_path, METADATA))
    assert (record.doc_id, record.title, record.description) == ("pypi:quick-retry", "Quick_Retry", "Retry calls")
    assert (record.identifiers.pypi, record.identifiers.github) == ("quick-retry", "ann/quick-retry")
    assert (record.authors, record.licence, record.language, record.year) == (("Ann Smith", "Bo Lee"), "MIT License", "Python", None)
    assert record.tags == ("retry", "backoff", "Software Development / Libraries")
    assert record.url == "https://github.com/Ann/Quick-Retry.git"
    assert record.text == "# Quick Retry\n\nCalls that fail are tried again."
    assert record.metadata["version"] == "1.2"


@pytest.mark.parametrize(
    ("author", "email", "people"),
    [
        ("Ann Smith and others", "", ("Ann Smith",)),
        ("", "Ann Smith and Bo Lee <a@example.org>", ("Ann Smith", "Bo Lee")),
        ("The team (past and future) with friends (https://example.org/all, here)", "", ("The team with friends",)),
        ("Example, Inc.", "", ("Example",)),
        ("Anderson Andrew", "", ("Anderson Andrew",)),
    ],
)
def test_people_are_named_one_by_one(tmp_path: Path, author: str, email: str, people: tuple[str, ...]) -> None:
    headers = f"Author: {author}\n" * bool(author) + f"Author-email: {email}\n" * bool(email)
    record = make_record("x", distribution(tmp_path, f"Metadata-Version: 2.1\nName: x\n{headers}"))
    assert record.authors == people


def test_requirements_are_edges(tmp_path: Path) -> None:
    """What an extra asks for is only suggested, unless it is needed anyway; a package does not depend on itself."""
    assert make_record("quick-retry", distribution(tmp_path, METADATA)).edges == (
        Edge(relation="depends_on", target="pypi:tenacity"),
        Edge(relation="depends_on", target="pypi:httpx"),
        Edge(relation="suggests", target="pypi:pytest"),
    )


def test_old_metadata_keeps_the_readme_in_a_header(tmp_path: Path) -> None:
    """Before metadata 2.1 its lines were indented; Keywords were separated by spaces."""
    record = make_record(
        "x",
        distribution(
            tmp_path, "Metadata-Version: 1.1\nName: x\nKeywords: one two\nDescription: First\n        second\n        \n        third\n"
        ),
    )
    assert record.text == "First\nsecond\n\nthird"
    assert record.tags == ("one", "two")


def test_layout_is_dropped_but_not_in_code() -> None:
    readme = '<p align="center"><strong>HTTPX</strong> - a client.</p>\n\n```html\n<p>kept</p>\n```\na < b and <T> stay'
    assert plain_readme(readme) == "HTTPX - a client.\n\n```html\n<p>kept</p>\n```\na < b and <T> stay"


@pytest.mark.parametrize(
    ("readme", "text"),
    [
        (".. image:: https://x/y.svg\n   :alt: badge\n   :target: z\n\nText", "Text"),
        (".. |b| image:: https://x/y.svg\nText", "Text"),
        ('<a href="x"><img src="y"></a> <img src="z"/>\nText', "Text"),
        ("[![a][b]][c]\nText", "Text"),
        ("See ![a](b) here", "See ![a](b) here"),
        ("UNKNOWN", ""),
        ("half \udce9", "half ?"),
    ],
)
def test_lines_of_badges_are_dropped(readme: str, text: str) -> None:
    assert plain_readme(readme) == text


def test_each_name_once_and_broken_metadata_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of a name on the path counts, as for an import; a nameless folder is a bad entry, not a crash."""
    first = distribution(tmp_path / "1", "Name: B.b\nVersion: 1\n")
    again = distribution(tmp_path / "2", "Name: b-b\nVersion: 2\n")
    other = distribution(tmp_path / "3", "Name: a\n")
    (tmp_path / "broken.dist-info").mkdir()
    monkeypatch.setattr(module, "distributions", lambda: [first, PathDistribution(tmp_path / "broken.dist-info"), again, other])
    one, two, bad = read_installed_packages()
    assert isinstance(one, Entry)
    assert isinstance(two, Entry)
    assert isinstance(bad, BadEntry)
    assert (one.record.doc_id, two.record.doc_id, two.record.metadata["version"]) == ("pypi:a", "pypi:b-b", "1")


def test_this_environment() -> None:
    """The packages that we stand on are there, with their summaries and dependencies."""
    by_id = {entry.record.doc_id: entry.record for entry in read_installed_packages() if isinstance(entry, Entry)}
    assert list(by_id) == sorted(by_id)
    assert "pypi:outrider" not in by_id
    pydantic = by_id["pypi:pydantic"]
    assert isinstance(pydantic, Repository)
    assert pydantic.title == "pydantic"
    assert "type hints" in pydantic.description
    assert Edge(relation="depends_on", target="pypi:pydantic-core") in pydantic.edges
    assert pydantic.identifiers.github == "pydantic/pydantic"
