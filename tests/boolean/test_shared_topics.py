"""Queries of librarians: PubMed's, Ovid's, and those of CISI by a converter, are parsed and printed."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from outrider.boolean.diagnostics import BooleanSyntaxError
from outrider.boolean.document import Document
from outrider.boolean.evaluator import Evaluator
from outrider.boolean.parser import parse
from outrider.boolean.printer import format_tree
from outrider.state.records import Paper
from support.shared_data import DATA

PUBMED, OVID, CISI = DATA / "boolean" / "pubmed_topics.jsonl.gz", DATA / "boolean" / "ovid_topics", DATA / "ir" / "cisi"


def lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.mark.skipif(not PUBMED.exists(), reason=f"{PUBMED} is not here; set OUTRIDER_DATA")
@pytest.mark.parametrize("form", ["query", "edited_search"])
def test_every_pubmed_topic_is_read_and_prints_back(form: str) -> None:
    """Sixteen of sixteen, curly quotes, missing operators and all, in both of the forms that are kept."""
    topics = lines(PUBMED)
    assert len(topics) == 16
    for topic in topics:
        read = parse(topic[form])
        assert read.syntax == "pubmed"
        assert parse(format_tree(read.tree)).tree == read.tree


@pytest.mark.skipif(not PUBMED.exists(), reason=f"{PUBMED} is not here; set OUTRIDER_DATA")
def test_what_is_remarked_on_a_topic() -> None:
    """One of them lacks an operator within a chain of OR: it is read from left to right, and the remark gives the place."""
    (topic,) = (topic for topic in lines(PUBMED) if topic["id"] == "39")
    remarks = {remark.code: remark for remark in parse(topic["query"]).warnings}
    assert topic["query"][remarks["missing operator"].column - 1 :].startswith("Impaired[tiab]")
    assert "mixed operators" in remarks


@pytest.mark.skipif(not OVID.exists(), reason=f"{OVID} is not here; set OUTRIDER_DATA")
def test_ovid_topics_are_read_or_refused_with_the_reason() -> None:
    """At least 27 of 30, where the files hold the queries and not the titles alone."""
    matches = {
        path.name: re.search(r"^Query:\s*\n(.*?)(?=^Pids:|\Z)", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        for path in sorted(OVID.iterdir())
    }
    queries = {name: match.group(1) for name, match in matches.items() if match}
    if not queries:
        pytest.skip(f"none of the {len(matches)} files in {OVID} holds a query, only a title and an objective")
    refused = []
    for name, query in queries.items():
        try:
            tree = parse(query, "ovid").tree
        except BooleanSyntaxError as error:
            refused.append(f"{name}: {error}")
        else:
            assert parse(format_tree(tree)).tree == tree, name
    assert len(refused) <= len(queries) // 10, "\n".join(refused)


@pytest.mark.skipif(not CISI.exists(), reason=f"{CISI} is not here; set OUTRIDER_DATA")
def test_the_boolean_queries_of_cisi_find_what_plain_text_finds() -> None:
    """Eighteen nested queries over 1,460 documents, against a look into the plain texts."""
    queries = [nest(query["boolean"]) for query in lines(CISI / "boolean.jsonl.gz")]
    papers = [
        Paper(doc_id=document["id"], title=document["title"], abstract=document["text"]) for document in lines(CISI / "corpus.jsonl.gz")
    ]
    documents = [Document(paper) for paper in papers]
    plain_texts = [[f" {' '.join(re.findall('[a-z0-9]+', text.lower()))} " for text in (paper.title, paper.abstract)] for paper in papers]
    assert len(queries) == 18
    for query in queries:
        tree = parse(as_pubmed(query)).tree
        assert parse(format_tree(tree)).tree == tree
        evaluator = Evaluator(tree)
        matched = [evaluator.matches(document) for document in documents]
        assert matched == [holds(query, texts) for texts in plain_texts]
        assert any(matched)


def nest(text: str) -> Any:
    """`#and ('a', #or ('b', 'c'))` as `("and", ["a", ("or", ["b", "c"])])`."""
    parts = re.findall(r"#(?:and|or)|\(|\)|'[^']*'", text)

    def read() -> Any:
        part = parts.pop(0)
        if not part.startswith("#"):
            return part.strip("'")
        assert parts.pop(0) == "("
        operands = []
        while parts[0] != ")":
            operands.append(read())
        parts.pop(0)
        return part[1:], operands

    return read()


def as_pubmed(query: Any) -> str:
    if isinstance(query, str):
        return f"{query}[tiab]"
    operator, operands = query
    return f"({f' {operator.upper()} '.join(map(as_pubmed, operands))})"


def holds(query: Any, texts: list[str]) -> bool:
    if isinstance(query, str):
        return any(f" {' '.join(re.findall('[a-z0-9]+', query))} " in text for text in texts)
    operator, operands = query
    return (all if operator == "and" else any)(holds(operand, texts) for operand in operands)
