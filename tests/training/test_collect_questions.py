from __future__ import annotations

from pathlib import Path

import pytest

from outrider.state.errors import BadRequest
from outrider.training.collect_questions import read_judgements


def write_file(folder: Path, text: str) -> Path:
    file = folder / "judged.jsonl"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    return file


def test_judgements_are_read_in_order_and_later_ones_override(tmp_path: Path) -> None:
    file = write_file(
        tmp_path,
        '\ufeff{"query": "b  c", "doc_id": "1", "relevance": 2}\n\n{"query": "a", "doc_id": "1", "relevance": 0}\n'
        '{"query": "b c", "doc_id": "1", "relevance": 1}\r\n',
    )
    assert read_judgements(file) == {"b c": {"1": 1}, "a": {"1": 0}}
    assert list(read_judgements(file)) == ["b c", "a"]


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85"])
def test_unicode_line_separators_inside_json_end_no_line(tmp_path: Path, mark: str) -> None:
    file = write_file(tmp_path, f'{{"query": "a", "doc_id": "1{mark}2", "relevance": 1}}\n')
    assert read_judgements(file) == {"a": {f"1{mark}2": 1}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"query": "a", "doc_id": "1", "relevance": 1}\nnonsense', ":2: "),
        ('{"query": "a", "doc_id": "1"}', ":1: relevance"),
        ('{"query": "a", "doc_id": "1", "relevance": 1, "note": "x"}', ":1: note"),
        ('{"query": "a", "doc_id": "1", "relevance": -1}', ":1: relevance"),
        ('{"query": "a", "doc_id": "1", "relevance": 0.5}', ":1: relevance"),
        ('{"query": "a", "doc_id": "1", "relevance": true}', ":1: relevance"),
        ('{"query": "", "doc_id": "1", "relevance": 1}', ":1: query"),
        ("[1]", ":1: "),
        ("x\n" * 9, "(and 4 more)"),
        ("\n", "holds no judgement"),
        ("\udcff", "UTF-8"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_judgements(write_file(tmp_path, text))
    assert message in str(caught.value)
    assert "judged.jsonl" in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(BadRequest, match="cannot be read"):
            read_judgements(path)
