"""A translated query finds at least the matches of the tree: random trees and records."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from outrider.boolean.evaluator import Evaluator
from outrider.boolean.parser import parse
from outrider.services.systematic import make_remote_sources
from outrider.settings.model import Settings
from outrider.state.boolean import Node
from outrider.state.records import Paper, Record, Repository
from outrider.state.systematic import SentQuery
from outrider.systematic_search.services import crossref as of_crossref
from outrider.systematic_search.services import github as of_github
from outrider.systematic_search.services import openalex as of_openalex
from outrider.systematic_search.services import pubmed as of_pubmed
from outrider.systematic_search.services import semantic_scholar as of_semantic_scholar
from outrider.systematic_search.services.verify_hits import HitVerifier, ViewRecord
from support.boolean_queries import PLAIN_WORDS, make_query, make_record, to_plain, write_query
from support.query_language_oracles import crossref, github, openalex, pubmed, semantic_scholar

TREES = int(os.environ.get("OUTRIDER_SUPERSET_TREES", "60"))
RECORDS = 60
Plain = Mapping[str, Sequence[str]]
Finds = Callable[[SentQuery, Plain], bool]


def paper(chance: random.Random, number: int, **lacking: Any) -> Record:
    record = make_record(chance, number, PLAIN_WORDS)  # a service folds as it does
    return Paper(**{**record.model_dump(exclude={"kind"}), "text": "", "description": "", **lacking})


def work_record(chance: random.Random, number: int) -> Record:
    """A work from a service without headings and types."""
    return paper(chance, number, mesh=(), metadata={"publication_types": []}, tags=())


def repository(chance: random.Random, number: int) -> Record:
    record = make_record(chance, number, PLAIN_WORDS)  # a service folds as it does
    name = f"owner{number}/{'-'.join(record.title.split()[:2]) or 'x'}"
    return Repository(doc_id=record.doc_id, title=name, description=record.abstract, tags=record.tags, metadata={"publication_types": []})


def without_language(chance: random.Random, number: int) -> Record:
    return work_record(chance, number).model_copy(update={"language": None})


def plain_repository(record: Record) -> dict[str, list[str]]:
    return {"name": [record.title.split("/")[-1]], "description": [record.description], "topics": list(record.tags)}


SERVICES: dict[str, tuple[Callable[[random.Random, int], Record], Callable[[Record], Plain], ViewRecord, Finds]] = {
    "pubmed": (paper, to_plain, of_pubmed.view_record, lambda translated, document: pubmed(translated.query, document)),
    "openalex": (work_record, to_plain, of_openalex.view_record, lambda translated, document: openalex(translated.query, document)),
    "semantic_scholar": (
        without_language,
        to_plain,
        of_semantic_scholar.view_record,
        lambda translated, document: semantic_scholar(translated.query, dict(translated.parameters).get("year", ""), document),
    ),
    "crossref": (
        without_language,
        to_plain,
        of_crossref.view_record,
        lambda translated, document: crossref(translated.query, dict(translated.parameters).get("filter", ""), document),
    ),
    "github": (repository, plain_repository, of_github.view_record, lambda translated, document: github(translated.query, document)),
}
REMOTE_SOURCES = make_remote_sources(Settings())


@pytest.mark.parametrize("name", SERVICES)
def test_no_match_of_the_tree_is_lost(name: str) -> None:
    """Also after the evaluator has filtered the results; enough trees are translated to make this meaningful."""
    make, plain, look, finds = SERVICES[name]
    chance = random.Random(f"superset {name}")
    records = [make(chance, number) for number in range(RECORDS)]
    documents = [plain(record) for record in records]
    translated_count = match_count = 0
    trees = TREES * 5 if name == "crossref" else TREES  # it supports few of them
    for _ in range(trees):
        tree = parse(write_query(make_query(chance, chance.choice([1, 2, 3, 5])), chance)).tree
        translated = REMOTE_SOURCES[name].translate(tree, "a text that is none of PubMed's (")
        if translated.refused:
            continue
        translated_count += 1
        match_count += count_matches(tree, translated, records, documents, look, finds)
    assert translated_count >= trees * {"crossref": 0.03, "github": 0.2}.get(name, 0.25), translated_count
    assert match_count >= translated_count / 2, match_count


def count_matches(
    tree: Node, translated: SentQuery, records: Sequence[Record], documents: Sequence[Plain], look: ViewRecord, finds: Finds
) -> int:
    """Number of matching records; the service must find each, and the verifier must accept it."""
    verifier, evaluator, count = HitVerifier(tree, look), Evaluator(tree), 0
    for record, document in zip(records, documents, strict=True):
        if evaluator.matches(look(record).record):
            count += 1
            assert finds(translated, document), (tree, translated, document)
            assert verifier.find_proof(record) is not None
        elif verifier.find_proof(record) == "verified":
            raise AssertionError((tree, record))
    return count
