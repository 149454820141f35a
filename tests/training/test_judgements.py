"""Files of judgements and queries: the forms that are read, and what is refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.state.errors import BadRequest
from outrider.training.judgements import Judgements, read_judgements, read_queries


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
    return path


ROWS = {"zinc, lung": {"10.1/x": 2, "b": 0}, 'an "odd" heart': {"b": 1}}
BY_TEXT = [
    '"zinc, lung",10.1/x,2\n"zinc, lung",b,0\n\n"an ""odd"" heart",b,1\n',
    'Query;Record ID;Grade;note\n"zinc, lung";10.1/x;2;\nzinc, lung;b;0;yes\n"an ""odd""\nheart";b;1;\n',
    'zinc, lung\t10.1/x\t2\r\nzinc,  lung\tb\t0\r\n"an ""odd"" heart"\tb\t1\r\n',
    'relevance\tqid\tquery\tdoc\n2\t1\tzinc, lung\t10.1/x\n0\t1\tzinc, lung\tb\n1\t2\tan "odd" heart\tb\n',
    (
        '{"query": "zinc, lung", "doi": "10.1/x", "relevance": 2}\n{"question": "zinc, lung", "id": "b", "grade": 0}\n'
        '{"query": "an \\"odd\\" heart", "doc_id": "b", "relevance": 1}'
    ),
]


@pytest.mark.parametrize("text", BY_TEXT)
def test_judgements_name_queries_by_their_text(tmp_path: Path, text: str) -> None:
    assert read_judgements(write(tmp_path / "judged", "\ufeff" + text)) == Judgements({query: query for query in ROWS}, ROWS)


QUERIES = [
    "1\tzinc lung\n7\tthe heart\n9\tnot judged\n",
    'id,text\n1,zinc lung\n7,"the heart"\n',
    '{"_id": 1, "text": "zinc lung"}\n{"id": "7", "query": "the heart"}\n',
]
BY_ID = [
    "1 0 a 2\n7 0 b 1\n1 0 c 0\n",
    "1\t0\ta\t2\n7\tQ0\tb\t1\n1\t0\tc\t0\n",
    "query doc relevance".replace(" ", "\t") + "\n1\ta\t2\n7\tb\t1\n1\tc\t0\n",
]


@pytest.mark.parametrize("queries", QUERIES)
@pytest.mark.parametrize("text", [*BY_ID, "query-id,corpus-id,score\n1,a,2\n7,b,1\n1,c,0\n"])
def test_qrels_take_the_texts_of_their_queries_from_another_file(tmp_path: Path, text: str, queries: str) -> None:
    own = read_judgements(write(tmp_path / "qrels", text), write(tmp_path / "queries", queries))
    assert own == Judgements({"1": "zinc lung", "7": "the heart"}, {"1": {"a": 2, "c": 0}, "7": {"b": 1}})


@pytest.mark.parametrize("text", [*BY_ID, "qid,doc,rel\nq1,a,1\n"])
def test_ids_without_texts_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadRequest, match=r"names its queries by id, such as q?1: give a file of their texts with --queries"):
        read_judgements(write(tmp_path / "qrels", text))


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85"])
def test_only_line_feeds_end_a_line(tmp_path: Path, mark: str) -> None:
    """A query of two words of which the second is a number is no line of TREC qrels."""
    for text in (f'{{"query": "a", "doc_id": "1{mark}2", "relevance": 1}}\n', f"covid 19\t1{mark}2\t1\n", f"covid 19,1{mark}2,1\n"):
        (grades,) = read_judgements(write(tmp_path / "judged", text)).grades.values()
        assert grades == {f"1{mark}2": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"query": "a", "doc_id": "1", "relevance": 1}\nnonsense', "judged:2: not JSON"),
        ('{"query": "a", "doc_id": "1"}', "judged:1: relevance: Field required"),
        ('{"query": "a", "doc_id": "1", "relevance": 1, "note": "x"}', "judged:1: note"),
        ('{"query": "a", "doc_id": "1", "relevance": -1}', "judged:1: relevance"),
        ('{"query": "a", "doc_id": "1", "relevance": 0.5}', "judged:1: relevance"),
        ('{"query": "a", "doc_id": "1", "relevance": true}', "judged:1: relevance"),
        ('{"query": " ", "doc_id": "1", "relevance": 1}', "judged:1: query"),
        ("[1]", "judged:1: not a JSON object"),
        ("x\n" * 9, "(and 4 more)"),
        ("1 0 a 1\n1 0 a\n", "judged:2: 3 columns, not the 4"),
        ("1 0 a 1\n\n1 0 b -1\n", "judged:3: relevance: Input should be greater than or equal to 0, not -1"),
        ("1 0 a high\n", "judged:1: relevance: Input should be a valid integer, not 'high'"),
        ("1 0 a 99999999999\n", "judged:1: relevance"),
        ("1 0 a 1\n2 0 a 2\n1 0 b 1\n1 0 a 2\n", "judged:4: a has grade 2 here and 1 in line 1 for the same query"),
        ("query,grade\nzinc,1\n", "judged:1: the header has no column doc_id"),
        ('zinc,a,1\n"lung,b,2\n', "judged:2: its quotes"),
        ("zinc,a,1\nlung,b\n", "judged:2: 2 columns, not 3"),
        ("", "holds no judgement"),
        (" \n", "holds no judgement"),
        ("query,doc,grade\n", "holds no judgement"),
        (b"zinc,a,1\nl\xfcng,b,1\n", "judged:2: not UTF-8 text"),
        ("zinc,a,1\n".encode("utf-16"), "judged:1: not UTF-8 text"),
    ],
)
def test_wrong_judgements_are_named_with_file_and_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_judgements(write(tmp_path / "judged", text))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\tzinc\n2\t\n", "queries:2: no text"),
        ("1\tzinc\n2\n", "queries:2: 1 column, not an id and a text"),
        ("1\tzinc\n2\tlung\n1\tcopper\n", "queries:3: the query '1' has another text in line 1"),
        ('{"id": "1"}\n', "queries:1: no text"),
        ('{"text": "zinc"}\n', "queries:1: no id"),
        ("1,zinc, and lung\n", "queries:1: 3 columns, not an id and a text"),
        ('1,"zinc\n', "queries:1: its quotes"),
        ("", "holds no query"),
        (b"1\t\xff\n", "queries:1: not UTF-8 text"),
    ],
)
def test_wrong_queries_are_named_with_file_and_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_queries(write(tmp_path / "queries", text))
    assert message in str(caught.value)


def test_a_judged_query_needs_a_text(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"qrels:2: .*queries has no text for the query '2'"):
        read_judgements(write(tmp_path / "qrels", "1 0 a 1\n2 0 a 1\n"), write(tmp_path / "queries", "1\tzinc\n"))


def test_the_same_judgement_twice_is_one(tmp_path: Path) -> None:
    assert read_judgements(write(tmp_path / "judged", "zinc,a,1\nzinc,a,1\n")).grades == {"zinc": {"a": 1}}


def test_a_missing_file(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(BadRequest, match=r"the judgements .* cannot be read"):
            read_judgements(path)
        with pytest.raises(BadRequest, match=r"the queries .* cannot be read"):
            read_judgements(write(tmp_path / "judged", "1 0 a 1\n"), path)


def test_queries_of_one_text_share_their_grades() -> None:
    judged = Judgements({"1": "zinc", "2": "zinc"}, {"1": {"a": 1, "b": 2}, "2": {"b": 1, "c": 0}})
    assert judged.by_text() == {"zinc": {"a": 1, "b": 2, "c": 0}}
