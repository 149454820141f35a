"""Encodings of files of many records: detected, and named in the record."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.ingest.entry import Entry, ReadOptions
from outrider.ingest.readers.select_reader import FileReader, select_reader
from outrider.state.records import BaseRecord
from outrider.text.encoding import SAMPLE_BYTES, Sample

RUSSIAN = "Влияние витамина D на плотность костной ткани у пожилых людей"
CHINESE = "这是一个关于机器学习的中文文本，用于测试编码检测。"
GERMAN = "Über die Länge der Straße: größere Häuser für ältere Mütter in München"


def records(path: Path, name: str, content: bytes) -> list[BaseRecord]:
    path.write_bytes(content)
    reader = select_reader(path)
    assert isinstance(reader, FileReader)
    assert reader.name == name
    return [parsed.record for parsed in reader.read(path, ReadOptions()) if isinstance(parsed, Entry)]


FORMS = [
    ("bibtex", "a.bib", "@article{{k, title = {{{}}}}}\n"), ("ris", "a.ris", "TY  - JOUR\nTI  - {}\nER  - \n"),
    ("tables", "a.csv", "title,year\n{},2019\n"), ("json_lines", "a.jsonl", '{{"title": "{}"}}\n'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "file", "form"), FORMS)
@pytest.mark.parametrize(("title", "encoding", "guess"), [(RUSSIAN, "cp1251", "cp1251"), (GERMAN, "latin-1", "cp1252")])
def test_a_guess_is_right_and_named(tmp_path: Path, name: str, file: str, form: str, title: str, encoding: str, guess: str) -> None:
    """Cyrillic and Latin-1, in every format that is read as a stream."""
    (read,) = records(tmp_path / file, name, form.format(title).encode(encoding))
    assert (read.title, read.metadata["encoding"]) == (title, f"{guess} (guessed)")


@pytest.mark.parametrize(("encoding", "encoding_note"), [("utf-8", None), ("utf-8-sig", None), ("utf-16", "utf-16")])
def test_what_is_certain_is_not_called_a_guess(tmp_path: Path, encoding: str, encoding_note: str | None) -> None:
    (read,) = records(tmp_path / "a.ris", "ris", FORMS[1][2].format(RUSSIAN).encode(encoding))
    assert (read.title, read.metadata.get("encoding")) == (RUSSIAN, encoding_note)


def test_bytes_beyond_ascii_may_come_late_and_packed(tmp_path: Path) -> None:
    """Wherever they stand, also where the whole file is one line."""
    rows = [{"title": f"Title {number}", "abstract": "plain " * 10} for number in range(3_000)] + [{"title": RUSSIAN}]
    *_, last = records(tmp_path / "a.json.gz", "json_lines", gzip.compress(json.dumps(rows, ensure_ascii=False).encode("cp1251")))
    assert (last.title, last.metadata["encoding"]) == (RUSSIAN, "cp1251 (guessed)")


def test_values_of_the_file_under_the_same_name_stay(tmp_path: Path) -> None:
    (read,) = records(
        tmp_path / "a.jsonl", "json_lines", json.dumps({"title": GERMAN, "encoding": "own"}, ensure_ascii=False).encode("cp1252")
    )
    assert (read.title, read.metadata["encoding"]) == (GERMAN, "own")


@pytest.mark.parametrize(("text", "encoding"), [(RUSSIAN, "cp1251"), (CHINESE, "gb18030")])
@given(size=st.integers(1, 200))
def test_the_guess_does_not_depend_on_how_the_file_is_cut(text: str, encoding: str, size: int) -> None:
    """A character that lies over two pieces is put together again."""
    data = f"title: {text}\nnothing\n{text} and so on\n".encode(encoding)
    sample = Sample()
    for start in range(0, len(data), size):
        sample.feed(data[start : start + size])
    assert sample.guess().name == encoding


def test_much_text_gives_a_bounded_sample() -> None:
    """However dense; and the guess stays right."""
    sample = Sample()
    for _ in range(200):
        sample.feed(f"{RUSSIAN}\n".encode("cp1251") * 200)
    assert sum(map(len, sample._parts)) < 2 * SAMPLE_BYTES
    assert sample.guess().name == "cp1251"
