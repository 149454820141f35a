"""JSON and JSON Lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.readers import json_lines
from outrider.state.errors import NothingToRead, UnreadableFile
from outrider.state.records import Paper
from support.shared_data import DATA


def entries(tmp_path: Path, text: str | bytes, name: str = "some.jsonl", **columns: str) -> list[Parsed]:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(json_lines.read(path, ReadOptions(columns=columns)))


def paper(parsed: Parsed) -> Paper:
    assert isinstance(parsed, Entry)
    assert isinstance(parsed.record, Paper)
    return parsed.record


def titles(read: list[Parsed]) -> list[str]:
    return [parsed.record.title for parsed in read if isinstance(parsed, Entry)]


def test_an_object_with_everything(tmp_path: Path) -> None:
    """Known names, in any case, fill fields; the own id keeps its type; the rest stays as JSON under its name."""
    row = {
        "id": 7, "Title": " A\ntitle ", "authors": [{"family": "Curie", "given": "Marie"}, "X"], "venue": "J", "year": "c2019",
        "issue": 3, "keywords": ["a; b"], "mesh": "Pain, Acute; Child", "DOI": "doi:10.1000/X", "nested": {"a": [1, None]}, "none": None,
        "body": "Text", "references": ["r1"], "abstract": "", "pmid": 12, "language": "en",
    }  # fmt: skip
    (only,) = entries(tmp_path, json.dumps(row))
    read = paper(only)
    assert isinstance(only, Entry)
    assert only.own_id == "7"
    assert (read.title, read.venue, read.year, read.issue, read.text) == ("A title", "J", 2019, "3", "Text")
    assert (read.authors, read.tags, read.mesh) == (("Curie, Marie", "X"), ("a; b",), ("Pain, Acute", "Child"))
    assert (read.identifiers.doi, read.identifiers.pmid) == ("10.1000/x", "12")
    assert read.metadata == {
        "id": 7, "authors": row["authors"], "year": "c2019", "nested": {"a": [1, None]}, "none": None, "references": ["r1"],
    }  # fmt: skip


def test_text_without_a_title_is_a_record(tmp_path: Path) -> None:
    """A record needs no title; one with nothing but an id is none."""
    text, nothing = entries(tmp_path, '{"id": "a", "text": "T"}\n{"id": "b", "title": ""}\n')
    assert (paper(text).title, paper(text).text) == ("", "T")
    assert isinstance(nothing, BadEntry)
    assert nothing.where == "line 2"


def test_a_broken_line_costs_itself(tmp_path: Path) -> None:
    """Broken lines are named by number and column, the others are read."""
    read = entries(tmp_path, '{"title": "A"}\n\n{"title": \n["x"]\n7\n{"title": "B"}\n{"title": "C')
    assert titles(read) == ["A", "B"]
    bad = [parsed for parsed in read if isinstance(parsed, BadEntry)]
    assert [parsed.where for parsed in bad] == ["line 3", "line 4", "line 5", "line 7"]
    assert "column" in bad[0].why


@pytest.mark.parametrize(
    "text",
    [
        '[{"title": "A"}, {"title": "B"}]',
        ' {"meta": {"title": "no"}, "records": [{"title": "A"}, {"title": "B"}], "n": 2}\n',
        '{"found": [{"title": "A"}, {"title": "B"}], "n": 2}',
        '{"title": "A"}\n{"title": "B"}\n',
        '{"title": "A"}{"title": "B"}',
        '[{"title": "A"}][{"title": "B"}]',
    ],
)
def test_shapes_of_a_json_file(tmp_path: Path, text: str) -> None:
    """A list, an object that holds one, or records one after another."""
    assert titles(entries(tmp_path, text, "some.json")) == ["A", "B"]


def test_a_file_that_is_cut_before_its_first_record_ends_is_broken(tmp_path: Path) -> None:
    """Not one that has nothing to read, as a file of something else than records is."""
    for text in ('{"title": "One"', '[{"title": "One'):
        with pytest.raises(UnreadableFile, match="not JSON") as raised:
            entries(tmp_path, text, "some.json")
        assert not isinstance(raised.value, NothingToRead)
    with pytest.raises(NothingToRead, match="not JSON"):
        entries(tmp_path, '{\n  // of a program that reads more than JSON\n  "strict": true,\n  "lib": ["es2022"]\n}', "tsconfig.json")


def test_one_record_alone(tmp_path: Path) -> None:
    """A record's own lists are not taken for lists of records."""
    (only,) = entries(tmp_path, '{"title": "A", "authors": [{"name": "X"}], "results": [{"a": 1}]}', "some.json")
    assert (paper(only).authors, paper(only).metadata["results"]) == (("X",), [{"a": 1}])


def test_a_long_list_is_read_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records, numbers and strings that lie across pieces come out whole."""
    monkeypatch.setattr(json_lines, "CHUNK_CHARS", 7)
    rows = [{"id": n, "title": f'T"{n}" \u00e9', "year": 2000 + n % 20} for n in range(200)]
    read = entries(tmp_path, json.dumps(rows, indent=1), "some.json")
    assert titles(read) == [row["title"] for row in rows]


def test_a_broken_list_gives_what_came_before(tmp_path: Path) -> None:
    """A syntax error ends a JSON file; the message gives the place, and the records before it are kept."""
    first, broken = entries(tmp_path, '[{"title": "A"}, {"title": oops}, {"title": "B"}]', "some.json")
    assert paper(first).title == "A"
    assert isinstance(broken, BadEntry)
    assert broken.where == "after record 1"
    assert "character 28" in broken.why


@pytest.mark.parametrize("depth", [100, 1_000, 100_000])
def test_deep_nesting_is_refused(tmp_path: Path, depth: int) -> None:
    """Nesting that would overflow the stack costs the record, not the run."""
    deep = '{"title": "deep", "x": ' + "[" * depth + "]" * depth + "}"
    read = entries(tmp_path, f'{{"title": "A"}}\n{deep}\n{{"title": "B"}}\n')
    assert titles(read) == ["A", "B"]
    assert any(isinstance(parsed, BadEntry) and parsed.where == "line 2" for parsed in read)
    with pytest.raises(UnreadableFile):
        entries(tmp_path, "[" * depth + "]" * depth, "some.json")


LONG = '{"title": "t", "n": ' + "9" * 5_000 + "}"
DEEP = '{"title": "t", "x": ' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize("value", [LONG, DEEP])
@pytest.mark.parametrize(("name", "form"), [("a.jsonl", "{}\n"), ("a.json", "{}"), ("a.json", "[{}]"), ("a.json", '{{"records": [{}]}}')])
def test_what_is_beyond_the_limits_is_a_failure(tmp_path: Path, value: str, name: str, form: str) -> None:
    """Not a file without records, also where nothing else is in it."""
    with pytest.raises(UnreadableFile) as raised:
        entries(tmp_path, form.format(value), name)
    assert not isinstance(raised.value, NothingToRead)
    read = entries(tmp_path, form.format('{"title": "A"}, ' + value if "[" in form else '{"title": "A"}\n' + value), name)
    assert titles(read) == ["A"]
    assert isinstance(read[-1], BadEntry)
    assert not read[-1].empty


def test_what_json_has_not(tmp_path: Path) -> None:
    """NaN reads as missing; null characters and lone surrogates do not reach the record; huge numbers are no trouble."""
    text = '{"title": "a\\u0000b\\ud800", "year": NaN, "x": [Infinity, 1e999], "n": 1' + "0" * 400 + "}"
    (only,) = entries(tmp_path, text + '\n{"title": "t", "n": ' + "9" * 5_000 + "}\n")[:1]
    assert paper(only).title == "ab\ufffd"
    assert (paper(only).year, paper(only).metadata["x"], paper(only).metadata["n"]) == (None, [None, None], 10**400)
    paper(only).content_hash()


def test_latin_1_and_utf_16(tmp_path: Path) -> None:
    """JSON should be UTF-8; exporters differ."""
    for encoding in ("cp1252", "utf-16", "utf-8-sig"):
        assert titles(entries(tmp_path, '{"title": "Köln"}\n'.encode(encoding))) == ["Köln"]


def test_gzip(tmp_path: Path) -> None:
    """`.jsonl.gz` and `.json.gz` are unpacked on the way."""
    assert titles(entries(tmp_path, gzip.compress(b'{"title": "A"}\n', mtime=0), "some.jsonl.gz")) == ["A"]
    assert titles(entries(tmp_path, gzip.compress(b'[{"title": "A"}]', mtime=0), "some.json.gz")) == ["A"]


def test_a_gzip_bomb_is_refused(tmp_path: Path) -> None:
    """What an archive unpacks to is bounded, before a record is given out."""
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"title": "A"}\n' * 200_000, mtime=0))
    with pytest.raises(UnreadableFile, match="more than the limit of 1,000,000 bytes when unpacked"):
        next(json_lines.read(path, ReadOptions(max_bytes=1_000_000)))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b""), ("a.jsonl", b"\n\n"), ("a.jsonl", b"prose\nmore\n"), ("a.json", b"[]"), ("a.json", b'{"records": []}'),
        ("a.json", b"7"), ("a.json", b"prose"), ("a.json", b'"'), ("a.jsonl", b"\x00\xff" * 90),
        ("a.jsonl.gz", b"no gzip"), ("a.jsonl.gz", gzip.compress(b'{"title": "A"}\n' * 99, mtime=0)[:-9]), ("a.json", b'{"a": 1}'),
    ],
)  # fmt: skip
def test_no_records_in_it(tmp_path: Path, name: str, content: bytes) -> None:
    """An empty list, prose, a truncated archive: refused, each with its reason."""
    with pytest.raises(UnreadableFile):
        entries(tmp_path, content, name)


def test_mapped_fields(tmp_path: Path) -> None:
    """`--map` works for JSON; a field that no row has is named with those there are."""
    text = '{"headline": "H", "x": 1}\n{"x": 2, "lead": "L"}\n'
    assert titles(entries(tmp_path, text, title="headline", abstract="lead")) == ["H", ""]
    with pytest.raises(UnreadableFile, match=r"no column 'head' \(for title\); the columns are: headline, x, lead"):
        entries(tmp_path, text, title="head")


def test_our_own_rows(tmp_path: Path) -> None:
    """A row with our schema keeps its `doc_id`; one that is no record is reported."""
    row = {"schema": "outrider.record/1", "kind": "page", "doc_id": "p1", "title": "T", "metadata": {"id": 7}}
    read, wrong = entries(tmp_path, json.dumps(row) + "\n" + json.dumps({**row, "stars": "many"}) + "\n")
    assert isinstance(read, Entry)
    assert (read.record.doc_id, read.record.kind, read.record.metadata) == ("p1", "page", {"id": 7})
    assert isinstance(wrong, BadEntry)
    assert "stars" in wrong.why


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no shared data at {DATA}")
@pytest.mark.parametrize(("name", "records", "empty"), [("scifact", 5183, 0), ("cranfield", 1398, 2), ("cisi", 1460, 0), ("cacm", 3204, 0)])
def test_real_collections(name: str, records: int, empty: int) -> None:
    """Every document is a record with its own id; Cranfield's two empty documents are reported."""
    read = list(json_lines.read(DATA / "ir" / name / "corpus.jsonl.gz", ReadOptions()))
    own = [parsed.own_id for parsed in read if isinstance(parsed, Entry)]
    assert (len(set(own)), len(read) - len(own)) == (records, empty)
