"""CITATION.cff: the software, and the article to cite for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.ingest.entry import Entry, ReadOptions
from outrider.ingest.readers import citation_file
from outrider.ingest.record_ids import NamedRecord, Namer
from outrider.state.errors import UnreadableFile
from outrider.state.records import Paper, Repository

CFF = """cff-version: 1.2.0
message: Please cite it.
title: Some Software
version: "2.1"
type: software
authors:
  - family-names: Berg
    name-particle: van
    given-names: Ada
  - name: The Team
repository-code: https://github.com/Team/Software
license: Apache-2.0
date-released: 2021-03-04
keywords: [testing, software]
abstract: |
  It does things.
identifiers:
  - type: doi
    value: 10.5281/zenodo.1
references:
  - type: article
    title: Cited
    doi: 10.1000/cited
preferred-citation:
  type: article
  title: The article
  authors:
    - family-names: Berg
      given-names: Ada
  journal: Journal of Testing
  year: 2020
  volume: 93
  issue: 14
  start: 1
  end: 9
  doi: 10.1000/x.1
"""


def read(tmp_path: Path, text: str) -> list[Entry]:
    path = tmp_path / "CITATION.cff"
    path.write_text(text, encoding="utf-8")
    return [entry for entry in citation_file.read(path, ReadOptions()) if isinstance(entry, Entry)]


def test_software_and_its_article(tmp_path: Path) -> None:
    entries = read(tmp_path, CFF)
    software, article = (entry.record for entry in entries)
    assert isinstance(software, Repository)
    assert (software.title, software.year, software.licence, software.tags) == (
        "Some Software",
        2021,
        "Apache-2.0",
        ("testing", "software"),
    )
    assert software.authors == ("van Berg, Ada", "The Team")
    assert (software.identifiers.doi, software.identifiers.github) == ("10.5281/zenodo.1", "team/software")
    assert [edge.target for edge in software.edges] == ["doi:10.1000/cited"]
    assert software.metadata["version"] == "2.1"
    assert isinstance(article, Paper)
    assert (article.title, article.venue, article.year, article.volume, article.issue) == (
        "The article",
        "Journal of Testing",
        2020,
        "93",
        "14",
    )
    assert (article.pages, article.authors, article.identifiers.doi) == ("1-9", ("Berg, Ada",), "10.1000/x.1")
    named = [one.record for one in Namer("CITATION.cff", single=False).name_all(entries) if isinstance(one, NamedRecord)]
    assert named[1].edges[0].target == f"doc:{named[0].doc_id}"


def test_a_data_set_is_no_repository(tmp_path: Path) -> None:
    (entry,) = read(tmp_path, "cff-version: 1.2.0\ntitle: Some data\ntype: dataset\ndoi: 10.5281/zenodo.2\n")
    assert isinstance(entry.record, Paper)
    assert entry.record.metadata["type"] == "dataset"


@pytest.mark.parametrize("text", ["title: [", "- a\n- b\n", "a: &x 1\nb: *x\n", "colour: red\n"])
def test_what_is_no_citation_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnreadableFile, match=r"CITATION\.cff"):
        read(tmp_path, text)
