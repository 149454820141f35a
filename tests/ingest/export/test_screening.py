"""The CSV for screening tools, as read by Python's csv module, pandas and ASReview."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import outrider
from outrider.ingest.export.csv_json import CUT, MAX_CELL_CHARS, SCREENING_COLUMNS, ScreeningWriter
from outrider.state.records import Document, Identifiers, Paper, Record, Repository
from support.systematic_runs import LibraryVersions, make_exact_services

LONG = "word " * 60_000
ASREVIEW = os.environ.get("ASREVIEW_PYTHON", sys.executable)
"""A Python that has ASReview: it needs older packages than Outrider, so it is mostly in an environment of its own."""
READ = """
import json, sys
from asreview.data.loader import load_dataset, load_records
records = load_records(sys.argv[1], dataset_id="test")
database = load_dataset(sys.argv[1])
assert len(database.input) == len(records)
print(json.dumps([[r.title, r.abstract, r.authors, r.keywords, r.year, r.doi, r.url, r.included] for r in records]))
"""


def write(*records: Record) -> tuple[str, int]:
    stream = io.StringIO(newline="")
    writer = ScreeningWriter(stream)
    writer.begin()
    for record in records:
        writer.record(record)
    writer.end()
    return stream.getvalue(), writer.shortened


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


RECORDS: tuple[Record, ...] = (
    Paper(
        doc_id="a", title='Aspirin, "liver"; and\u2028more', abstract="First line.\r\nSecond, line.", authors=("Doe, Jane", "Roe; R"),
        year=2020, tags=("liver", "a; b"), identifiers=Identifiers(doi="10.1000/x"), url="https://example.org/a", text=LONG,
        metadata={"label_included": "1", "notes": LONG},
    ),
    Paper(doc_id="b", title="=HYPERLINK(1)", abstract=LONG, authors=("Doe, Jane",), metadata={"included": 0}),
    Paper(doc_id="c", title="深度学习与图像", authors=tuple(f"Author{number}, A" for number in range(6_000)), metadata={"label": "-1"}),
    Repository(doc_id="d", title="x-client", description="An HTTP client", tags=("http",)),
    Document(doc_id="e", text="no title"),
)  # fmt: skip


def test_no_cell_is_longer_than_a_spreadsheet_holds_and_each_cut_is_counted() -> None:
    text, shortened = write(*RECORDS)
    rows = read(text)
    assert max(len(cell) for row in rows for cell in row.values()) == MAX_CELL_CHARS < csv.field_size_limit()
    assert (shortened, [name for row in rows for name, cell in row.items() if cell.endswith(CUT)]) == (2, ["abstract", "authors"])
    assert "word word" not in text.replace(rows[1]["abstract"], "")
    assert [row["abstract"] for row in rows if row["doc_id"] in "ad"] == ["First line.\nSecond, line.", "An HTTP client"]
    assert [row["included"] for row in rows] == ["1", "0", "", "", ""]
    assert rows[1]["title"] == "'=HYPERLINK(1)"


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@given(
    st.lists(
        st.builds(
            Paper, doc_id=texts, title=texts, abstract=texts | st.just(LONG), authors=st.lists(texts, max_size=3).map(tuple),
            tags=st.lists(texts, max_size=3).map(tuple), text=texts, venue=texts, language=texts, volume=texts,
            metadata=st.dictionaries(texts, texts, max_size=2),
        ),
        max_size=4,
    )
)  # fmt: skip
def test_any_records_are_as_many_rows_of_all_columns(records: list[Paper]) -> None:
    rows = list(csv.reader(io.StringIO(write(*records)[0], newline="")))
    assert [len(row) for row in rows] == [len(SCREENING_COLUMNS)] * (len(records) + 1)
    assert all(len(cell) <= MAX_CELL_CHARS for row in rows for cell in row)


def test_a_run_is_exported_for_screening_and_verified(tmp_path: Path) -> None:
    """A CSV with all fields, as an earlier version wrote it, is verified as well."""
    from outrider.ingest.export import make_writer
    from outrider.systematic_search.ledger_reader import export_hits
    from outrider.usecases.export import make_run_writer

    services = make_exact_services(tmp_path, LibraryVersions(list(RECORDS)))
    list(outrider.systematic("all[sb]", services=services, folder=tmp_path / "run"))
    for name, make in (("hits.csv", make_run_writer), ("whole.csv", make_writer)):
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as stream:
            assert export_hits(tmp_path / "run" / "ledger.jsonl", make("csv", stream)) == len(RECORDS)
        assert outrider.verify(tmp_path / "run", tmp_path / name).sound
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes().replace(b"Doe, Jane", b"Doe, Joan", 1))
        assert not outrider.verify(tmp_path / "run", tmp_path / name).sound


def test_asreview_opens_the_file(tmp_path: Path) -> None:
    if subprocess.run([ASREVIEW, "-c", "import asreview"], capture_output=True, check=False, cwd=tmp_path).returncode:
        pytest.skip("ASReview is not here; set ASREVIEW_PYTHON to the Python of an environment with it (pip install asreview)")
    (tmp_path / "hits.csv").write_bytes(write(*RECORDS)[0].encode())
    answer = subprocess.run([ASREVIEW, "-c", READ, "hits.csv"], capture_output=True, check=True, text=True, cwd=tmp_path)
    rows = json.loads(answer.stdout.splitlines()[-1])
    assert len(rows) == len(RECORDS)
    title, abstract, authors, keywords, year, doi, url, included = rows[0]
    assert (title, abstract) == ('Aspirin, "liver"; and\u2028more', "First line.\nSecond, line.")
    assert (authors, keywords) == (["Doe, Jane", "Roe, R"], ["liver", "a, b"])
    assert (year, doi, url) == (2020, "10.1000/x", "https://example.org/a")
    assert included == 1
    assert [row[-1] for row in rows] == [1, 0, None, None, None]
    assert rows[2][0] == "深度学习与图像"
