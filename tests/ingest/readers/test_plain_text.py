from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.ingest.entry import Entry, ReadOptions
from outrider.ingest.readers.open_text import read_text
from outrider.ingest.readers.text_documents import read_plain_text
from outrider.state.errors import UnreadableFile
from outrider.state.records import Document


def document(path: Path, content: bytes) -> Document:
    path.write_bytes(content)
    (entry,) = read_plain_text(path, ReadOptions())
    assert isinstance(entry, Entry)
    assert isinstance(entry.record, Document)
    return entry.record


def test_a_text_is_one_document(tmp_path: Path) -> None:
    """Whole, with line feeds, titled by its file."""
    record = document(tmp_path / "field notes.txt", b"\n one\r\ntwo\rthree \n")
    assert (record.title, record.text, record.metadata) == ("field notes", "one\ntwo\nthree", {})


@pytest.mark.parametrize(
    ("text", "encoding", "encoding_note"),
    [
        ("naïve café, 5 µm", "utf-8-sig", None),
        ("naïve café, 5 µm", "utf-16", "utf-16"),
        ("naïve café", "cp1252", "cp1252 (guessed)"),
        ("Über die Länge der Straße in München schrieb Jörg Müller später ausführlich.", "cp1252", "cp1252 (guessed)"),
        ("Привет, как дела? Это обычный русский текст о науке.", "cp1251", "cp1251 (guessed)"),
        ("这是一个关于机器学习的中文文本，用于测试编码检测。", "gb18030", "gb18030 (guessed)"),
    ],
)
def test_encodings(tmp_path: Path, text: str, encoding: str, encoding_note: str | None) -> None:
    """A guess is named as one."""
    record = document(tmp_path / "a.txt", text.encode(encoding))
    assert record.text == text
    assert record.metadata.get("encoding") == encoding_note


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"), (b" \n\t", "is empty"), (b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe" * 20, "binary"),
        (bytes(range(32)) * 50, "binary"),
        (b"\xff\xfea", "starts as utf-16 but is not"),
        (b"\xef\xbb\xbf\xff\xff", "starts as utf-8-sig but is not"), (b"\xef\xbb\xbf", "is empty"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_not_read_as_text(tmp_path: Path, content: bytes, why: str) -> None:
    with pytest.raises(UnreadableFile, match=rf"a\.txt: {why}"):
        document(tmp_path / "a.txt", content)


@given(st.binary(min_size=1, max_size=300))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """No bytes crash the decoder, and what it gives can be stored."""
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_bytes(content)
    try:
        text = read_text(path).text
    except UnreadableFile:
        return
    assert text.encode().decode() == text
    assert "\x00" not in text
