from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.ingest.entry import Entry, FileNote, ReadOptions
from outrider.ingest.readers.text_documents import first_heading, read_markdown, split_front
from outrider.state.records import Document


def document(path: Path, text: str) -> Document:
    path.write_text(text, encoding="utf-8")
    *_, entry = read_markdown(path, ReadOptions())
    assert isinstance(entry, Entry)
    assert isinstance(entry.record, Document)
    return entry.record


def test_front_matter_names_the_document(tmp_path: Path) -> None:
    """Known fields have their places, the rest stays in the metadata; the text is what follows."""
    front = "title: On lysis\nauthors: [Ann Smith, {name: Bo Lee}]\ntags: phage, lysis\ndate: 2021-03-04\n"
    front += "doi: 10.1000/X\nlang: en\nseries: {part: 2, seen: 2020-01-01}"
    record = document(tmp_path / "a.md", f"---\n{front}\n---\n\n# Heading\n\nText.\n")
    assert (record.title, record.authors, record.tags, record.year) == ("On lysis", ("Ann Smith", "Bo Lee"), ("phage", "lysis"), 2021)
    assert (record.identifiers.doi, record.language, record.text) == ("10.1000/x", "en", "# Heading\n\nText.")
    assert record.metadata == {"series": {"part": 2, "seen": "2020-01-01"}}


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# A *fine* [title](x.md) #\n", "A fine title"),
        ("intro\n\nUnder\n=====\n", "Under"),
        ("```\n# code\n```\n## Real\n", "Real"),
        ("~~~~\n```\n# code\n~~~~\n# Real", "Real"),
        ("#hashtag\nno heading", "notes"),
    ],
)
def test_the_first_heading_is_the_title(tmp_path: Path, text: str, title: str) -> None:
    """Outside code; without one the file's name."""
    assert document(tmp_path / "notes.md", text).title == title


@pytest.mark.parametrize(
    ("front", "why"),
    [
        ("title: [unclosed", "not valid YAML"), ("a: &x [1]\nb: *x", "uses aliases"), ("- list", "not a mapping"), ("!!null null", "empty"),
        ("a: " + "[" * 5_000, "nested more than 20 deep"), ("- " * 5_000 + "a", "nested more than 20 deep"),
        ("d: 2020-13-45", "not valid YAML"), ("a: !!python/object:os.system x", "not valid YAML"),
    ],
)  # fmt: skip
def test_front_matter_that_cannot_be_used_stays_in_the_text(tmp_path: Path, front: str, why: str) -> None:
    """Nothing is lost, nothing is executed or expanded, and the record gives the reason."""
    record = document(tmp_path / "a.md", f"---\n{front}\n---\n# Title\n")
    assert record.title == "Title"
    assert front in record.text
    assert str(record.metadata["front_matter"]).startswith(why)


@pytest.mark.parametrize(("front", "notes"), [("title: Bees: a history", 1), ("between two rules", 0), ("", 0), ("title: Bees", 0)])
def test_front_matter_that_is_not_valid_is_reported(tmp_path: Path, front: str, notes: int) -> None:
    path = tmp_path / "a.md"
    path.write_text(f"---\n{front}\n---\n# Title\n")
    texts = [one.text for one in read_markdown(path, ReadOptions()) if isinstance(one, FileNote)]
    assert len(texts) == notes
    assert all("not valid YAML" in text for text in texts)


def test_a_rule_is_no_front_matter() -> None:
    assert split_front("text\n---\na: b\n---\n") == ({}, "text\n---\na: b\n---\n", "")


@given(st.text())
def test_any_text_has_at_most_a_heading(text: str) -> None:
    """No text breaks the search for one, and a heading is one line."""
    assert "\n" not in first_heading(text)
