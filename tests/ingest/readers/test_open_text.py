"""Encodings of files of many records: detected, and named in the record."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.ingest.entry import Entry, ReadOptions
from outrider.ingest.readers.open_text import read_text
from outrider.ingest.readers.select_reader import FileReader, select_reader
from outrider.state.records import BaseRecord
from outrider.text.encoding import SAMPLE_BYTES, Encoding, Evidence, Sample, decode_text

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
    assert sample.guess() == encoding


def test_much_text_gives_a_bounded_sample() -> None:
    """However dense; and the guess stays right."""
    sample = Sample()
    for _ in range(200):
        sample.feed(f"{RUSSIAN}\n".encode("cp1251") * 200)
    assert sum(map(len, sample._parts)) < 2 * SAMPLE_BYTES
    assert sample.guess() == "cp1251"


TITLES = ["Über Müdigkeit", "Naïve Bayes – a survey", "Étude de l’œdème", "Łódź", "β-lactam", "機械学習", "Влияние"]


def read_all(path: Path, name: str, content: bytes) -> tuple[list[BaseRecord], Encoding]:
    path.write_bytes(content)
    encodings: list[Encoding] = []
    reader = select_reader(path)
    assert isinstance(reader, FileReader)
    assert reader.name == name
    read = list(reader.read(path, ReadOptions(on_encoding=encodings.append)))
    (encoding,) = encodings
    return [parsed.record for parsed in read if isinstance(parsed, Entry)], encoding


@pytest.mark.parametrize("separator", [b"\n", b"\r\n"])
@pytest.mark.parametrize(("name", "file", "form"), FORMS)
def test_a_damaged_byte_costs_its_character_only(tmp_path: Path, name: str, file: str, form: str, separator: bytes) -> None:
    """The other 299 titles are read as they are; the report counts the byte and names its line."""
    titles = [f"{TITLES[number % 7]} {number}" for number in range(300)]
    rows = [form.format(title).encode().removeprefix(b"title,year\n" if number else b"") for number, title in enumerate(titles)]
    rows[200] = rows[200].replace(b"200", b"2\xff00")
    read, encoding = read_all(tmp_path / file, name, b"".join(rows).replace(b"\n", separator))
    expected = [title.replace("200", "2\ufffd00") for title in titles]
    assert [record.title for record in read] == expected
    assert (encoding.name, encoding.evidence, encoding.invalid) == ("utf-8", Evidence.FIT, 1)
    assert b"\xff" in b"".join(rows).split(b"\n")[encoding.first_line - 1]
    assert "1 invalid byte replaced by U+FFFD" in encoding.describe()


@given(st.lists(st.sampled_from(TITLES), min_size=8), st.integers(0, 10**6), st.integers(0x80, 0xFF))
def test_a_byte_anywhere_keeps_utf_8(titles: list[str], place: int, byte: int) -> None:
    """Wherever it is put; what is not beside it stays."""
    text = "\n".join(titles)
    data = text.encode()
    cut = place % (len(data) + 1)
    decoded = decode_text(data[:cut] + bytes([byte]) + data[cut:])
    assert decoded.encoding.name == "utf-8"
    assert decoded.text.startswith(data[: max(0, cut - 4)].decode(errors="ignore")[:-1].strip("\ufffd"))
    assert decoded.encoding.invalid <= 4


@pytest.mark.parametrize(
    ("data", "name", "evidence", "invalid"),
    [
        (GERMAN.encode() * 3 + b"\xe4", "utf-8", Evidence.FIT, 1), (CHINESE.encode()[:-1], "utf-8", Evidence.FIT, 2),
        (GERMAN.encode("cp1252") * 3, "cp1252", Evidence.GUESS, 0), (GERMAN.encode("cp1252") * 4 + b"\x81", "cp1252", Evidence.GUESS, 1),
        (RUSSIAN.encode("utf-16-le"), "utf-16-le", Evidence.NULLS, 0), (GERMAN.encode("utf-16-be"), "utf-16-be", Evidence.NULLS, 0),
        (GERMAN.encode("utf-16") + b"\x00\xd8", "utf-16", Evidence.MARK, 2),
        (GERMAN.encode("utf-8-sig") + b"\xff", "utf-8-sig", Evidence.MARK, 1),
        (b"plain", "utf-8", Evidence.VALID, 0), (GERMAN.encode(), "utf-8", Evidence.VALID, 0),
        (CHINESE.encode("gb18030") * 9, "gb18030", Evidence.GUESS, 0), (RUSSIAN.encode("koi8_r") * 3, "koi8_r", Evidence.GUESS, 0),
    ],
)  # fmt: skip
def test_the_whole_text_decides(tmp_path: Path, data: bytes, name: str, evidence: Evidence, invalid: int) -> None:
    """And the number of replaced bytes is counted in whatever encoding it is."""
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    encoding = read_text(path).encoding
    assert (encoding.name, encoding.evidence, encoding.invalid) == (name, evidence, invalid)


@pytest.mark.parametrize("declared", ["idna", "punycode", "unicode_escape", "utf-16", "no-such", "hex"])
def test_what_is_no_encoding_is_not_believed(declared: str) -> None:
    assert decode_text(GERMAN.encode("cp1252"), declared).text == GERMAN
