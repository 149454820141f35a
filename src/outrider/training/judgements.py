"""Files of relevance judgements and of query texts.

Judgements are TREC qrels (`query 0 record grade`, with the texts of the queries in a second file), or rows of query, record and grade:
CSV, TSV or JSONL. Grade 0 means not relevant, higher grades are more relevant. A file that is wrong anywhere is refused as a whole, and
its first wrong lines are named as file:line.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from outrider.state.errors import BadRequest, shorten
from outrider.state.model import Model

MOST_PROBLEMS = 5
MAX_GRADE = 100
EXAMPLE = '{"query": "aspirin and the liver", "doc_id": "...", "relevance": 1}'
FORMS = f"TREC qrels (query 0 record grade), CSV or TSV with the columns query, doc_id, relevance, or lines such as {EXAMPLE}"
QUERY_FORMS = 'lines of an id, a tab and the text, or lines such as {"id": "1", "text": "..."}'
FIELDS = {
    "query": ("query", "question", "query_text"),
    "query_id": ("query_id", "qid", "topic"),
    "doc_id": ("doc_id", "docid", "doc", "docno", "document", "corpus_id", "record", "record_id", "id", "doi", "pmid", "arxiv", "package"),
    "relevance": ("relevance", "grade", "score", "rel", "label", "judgement", "judgment", "rating"),
}
"""Names of columns in a header or of keys, in lower case with `_` for blanks and hyphens; of several the first counts."""
QUERY_FIELDS = {"id": ("id", "_id", "query_id", "qid", "topic"), "text": ("text", "query", "query_text", "question", "title")}
WHOLE_NUMBER = re.compile(r"[+-]?\d+")
TREC_COLUMNS = 4
QUOTES = "its quotes are unbalanced, here or in the lines below"
ITERATION = re.compile(r"q?\d+", re.IGNORECASE)
"""The second column of TREC qrels, which nothing uses."""


IDS = ("id", "query_id", "doc_id")


class Judgement(Model):
    """The relevance of a record for a query, as judged by a person."""

    query: str = Field(min_length=1)
    doc_id: str = Field(min_length=1)
    relevance: int = Field(ge=0, le=MAX_GRADE, strict=True)


@dataclass(frozen=True, slots=True)
class Judgements:
    """What the files hold, in the order of the judgements."""

    queries: Mapping[str, str]
    """The text of each judged query by its id; where the file has no ids, the text is the id."""
    grades: Mapping[str, Mapping[str, int]]
    """By query id, then by the record's name in the file."""

    def by_text(self) -> dict[str, dict[str, int]]:
        """Grades by the text of the query; of two queries with one text, the higher grade of a record counts."""
        grades: dict[str, dict[str, int]] = {}
        for key, own in self.grades.items():
            together = grades.setdefault(self.queries[key], {})
            together.update({doc_id: max(grade, together.get(doc_id, 0)) for doc_id, grade in own.items()})
        return grades


class _Row(NamedTuple):
    """One line: its cells by field, or what is wrong with it."""

    line: int
    cells: Mapping[str, Any]
    problem: str = ""


@dataclass(slots=True)
class _Problems:
    """Wrong lines of one file; `raise_any` names the first."""

    path: Path
    forms: str
    texts: list[str] = field(default_factory=list)

    def add(self, line: int, why: str) -> None:
        self.texts.append(f"{self.path}:{line}: {why}")

    def raise_any(self) -> None:
        if not self.texts:
            return
        more = f" (and {len(self.texts) - MOST_PROBLEMS:,} more)" if len(self.texts) > MOST_PROBLEMS else ""
        raise BadRequest("; ".join(self.texts[:MOST_PROBLEMS]) + more + f". It takes {self.forms}")


def read_judgements(path: Path, queries: Path | None = None) -> Judgements:
    """The judgements of a file; with `queries`, a file of query texts, its first column holds the ids of queries.

    Raises `BadRequest` for a file that cannot be read, or is wrong in any line: a grade that is no whole number from 0, two grades for one
    record and query, a query without a text.
    """
    text = _read_text(path, "the judgements", FORMS)
    texts = read_queries(queries) if queries else None
    problems = _Problems(path, FORMS)
    grades: dict[str, dict[str, int]] = {}
    lines: dict[tuple[str, str], int] = {}
    has_ids = False
    for row in _split_judgements(text):
        has_ids |= "query_id" in row.cells and "query" not in row.cells
        judgement = _check_row(row, problems, by_id=texts is not None)
        if judgement is None:
            continue
        query, doc_id = " ".join(judgement.query.split()), judgement.doc_id
        if texts is not None and query not in texts:
            problems.add(row.line, f"{queries} has no text for the query {shorten(query)}")
            continue
        first = lines.setdefault((query, doc_id), row.line)
        earlier = grades.setdefault(query, {}).setdefault(doc_id, judgement.relevance)
        if earlier != judgement.relevance:
            problems.add(row.line, f"{doc_id} has grade {judgement.relevance} here and {earlier} in line {first} for the same query")
    problems.raise_any()
    if not grades:
        raise BadRequest(f"{path} holds no judgement. It takes {FORMS}")
    if texts is None and (has_ids or not any(char.isalpha() for query in grades for char in query)):
        raise BadRequest(f"{path} names its queries by id, such as {next(iter(grades))}: give a file of their texts with --queries")
    return Judgements({query: texts[query] if texts else query for query in grades}, grades)


def read_queries(path: Path) -> dict[str, str]:
    """Texts of queries by id. Raises `BadRequest` as `read_judgements` does."""
    text = _read_text(path, "the queries", QUERY_FORMS)
    problems = _Problems(path, QUERY_FORMS)
    texts: dict[str, str] = {}
    lines: dict[str, int] = {}
    rows = _parse_json_lines(text, QUERY_FIELDS) if _is_json(text) else _split_queries(text)
    for row in rows:
        key, query = (" ".join(str(row.cells.get(name, "")).split()) for name in ("id", "text"))
        if row.problem or not (key and query):
            problems.add(row.line, row.problem or f"no {'text' if key else 'id'}")
        elif texts.setdefault(key, query) != query:
            problems.add(row.line, f"the query {shorten(key)} has another text in line {lines[key]}")
        lines.setdefault(key, row.line)
    problems.raise_any()
    if not texts:
        raise BadRequest(f"{path} holds no query. It takes {QUERY_FORMS}")
    return texts


def _read_text(path: Path, name: str, forms: str) -> str:
    try:
        data = path.expanduser().read_bytes()
    except OSError as error:
        raise BadRequest(f"{name} {path} cannot be read: {error.strerror or error}") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BadRequest(f"{path}:{line}: not UTF-8 text; save {name} in UTF-8: {forms}") from error


def _check_row(row: _Row, problems: _Problems, *, by_id: bool) -> Judgement | None:
    """None for a wrong row. If it has both an id and a text of its query, `by_id` decides which of them counts."""
    if row.problem:
        problems.add(row.line, row.problem)
        return None
    cells = {name: cell.strip() if isinstance(cell, str) else cell for name, cell in row.cells.items()}
    if "query_id" in cells:
        query_id = cells.pop("query_id")
        cells["query"] = query_id if by_id else cells.get("query", query_id)
    try:
        return Judgement.model_validate(cells)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        value = "" if first["type"] == "missing" else f", not {shorten(first['input'])}"
        problems.add(row.line, f"{where}: {first['msg']}{value}")
        return None


def _split_judgements(text: str) -> Iterator[_Row]:
    if _is_json(text):
        return _parse_json_lines(text, FIELDS)
    lines = _list_lines(text)
    if lines and _split_trec(lines[0][1]):
        return _parse_trec(lines)
    return _parse_table(text)


def _is_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


def _list_lines(text: str) -> list[tuple[int, str]]:
    """Lines that are not blank, with their numbers. Not splitlines: JSON strings may contain other line separators."""
    return [(number, line.rstrip("\r")) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]


def _parse_json_lines(text: str, fields: Mapping[str, tuple[str, ...]]) -> Iterator[_Row]:
    for number, line in _list_lines(text):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield _Row(number, {}, f"not JSON: {getattr(error, 'msg', error)}")
            continue
        if not isinstance(value, dict):
            yield _Row(number, {}, f"not a JSON object but {shorten(value)}")
            continue
        keys: list[str] = list(value)
        names = {key: key for key in keys} | {keys[at]: name for name, at in _find_columns(keys, fields).items()}
        cells = {names[key]: value[key] for key in keys}
        yield _Row(number, {name: str(cell) if name in IDS and type(cell) is int else cell for name, cell in cells.items()})


def _split_trec(line: str) -> list[str]:
    """The four columns of a line of qrels, which are separated by blanks or by tabs; empty for another line."""
    columns = line.split()
    by_tabs = len(columns) == len(line.split("\t")) or "\t" not in line
    return columns if len(columns) == TREC_COLUMNS and by_tabs and ITERATION.fullmatch(columns[1]) else []


def _parse_trec(lines: Iterable[tuple[int, str]]) -> Iterator[_Row]:
    for number, line in lines:
        columns = line.split()
        if len(columns) != TREC_COLUMNS:
            yield _Row(number, {}, f"{len(columns)} columns, not the {TREC_COLUMNS} of TREC qrels")
            continue
        yield _Row(number, {"query_id": columns[0], "doc_id": columns[2], "relevance": _parse_grade(columns[3])})


def _parse_grade(cell: str) -> int | str:
    """A whole number; another text is returned as it is, for the report."""
    return int(cell) if WHOLE_NUMBER.fullmatch(cell) and len(cell) < 10 else cell


def _parse_table(text: str) -> Iterator[_Row]:
    """Rows of CSV or TSV; without a header, the columns are query, record and grade."""
    columns: dict[str, int] = {}
    width = 0
    for number, cells in _split_cells(text):
        if cells is None:
            yield _Row(number, {}, QUOTES)
            return
        if not columns:
            columns, width = _find_columns(cells, FIELDS), len(cells)
            if columns:
                lacking = [name for name in ("query", "doc_id", "relevance") if name not in columns and f"{name}_id" not in columns]
                if lacking:
                    yield _Row(number, {}, f"the header has no column {' and no column '.join(lacking)}")
                    return
                continue
            columns, width = {"query": 0, "doc_id": 1, "relevance": 2}, 3
        if len(cells) != width:
            yield _Row(number, {}, f"{len(cells)} {'column' if len(cells) == 1 else 'columns'}, not {width}")
            continue
        row = {name: cells[at].strip() for name, at in columns.items()}
        yield _Row(number, {**row, "relevance": _parse_grade(row["relevance"])})


def _split_queries(text: str) -> Iterator[_Row]:
    """An id and a text a line, with or without a header."""
    for place, (number, cells) in enumerate(_split_cells(text)):
        if cells is None:
            yield _Row(number, {}, QUOTES)
        elif place == 0 and _find_columns(cells, QUERY_FIELDS) == {"id": 0, "text": 1}:
            continue
        elif len(cells) == 2:
            yield _Row(number, dict(zip(("id", "text"), cells, strict=True)))
        else:
            yield _Row(number, {}, f"{len(cells)} {'column' if len(cells) == 1 else 'columns'}, not an id and a text")


def _split_cells(text: str) -> Iterator[tuple[int, list[str] | None]]:
    """Cells of lines that are not blank, with the number of their first line; None, at the end, where quotes are wrong.

    The separator is the one of the first line: a tab, else a semicolon or a comma, whichever occurs more often there.
    """
    lines = _list_lines(text)
    head = lines[0][1] if lines else ""
    if "\t" in head:
        yield from ((number, [_unquote(cell) for cell in line.split("\t")]) for number, line in lines)
        return
    delimiter = ";" if head.count(";") > head.count(",") else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error:
            yield number, None
            return
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield number, cells


def _unquote(cell: str) -> str:
    """Without the quotes that spreadsheets put around a cell with quotes of its own."""
    cell = cell.strip()
    is_quoted = len(cell) > 1 and cell[0] == cell[-1] == '"'
    return cell[1:-1].replace('""', '"') if is_quoted else cell


def _find_columns(names: Sequence[str], fields: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """The position of each field, by the first of its names that occurs."""
    normal = [re.sub(r"[\s-]+", "_", name.strip().casefold()) for name in names]
    present = {own: [name for name in known if name in normal] for own, known in fields.items()}
    return {own: normal.index(known[0]) for own, known in present.items() if known}
