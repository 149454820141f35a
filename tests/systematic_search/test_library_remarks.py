"""Missing values and terms without a match, counted exactly and reported by every run."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Collection
from pathlib import Path

import pytest

import outrider
from outrider.boolean.diagnostics import iter_leaves
from outrider.boolean.document import lacks
from outrider.boolean.evaluator import matches
from outrider.boolean.parser import parse
from outrider.state.boolean import And, Dates, Field, Heading, Leaf, Node, Not, Or, RecordPart, Text
from outrider.state.records import Paper, Record
from outrider.state.systematic import Matched
from outrider.systematic_search import manifest
from outrider.systematic_search.library_remarks import NAMES, TermCheck, find_missing_values
from outrider.systematic_search.prisma import make_search_log
from support.boolean_queries import make_query, make_record, write_query
from support.systematic_runs import LibraryVersions, PinnedList, make_exact_services, make_papers

LEAVES: dict[RecordPart, frozenset[Field]] = {
    "headings": frozenset({Field.MESH}), Field.JOURNAL: frozenset({Field.JOURNAL, Field.JOURNAL_WORDS}),
    **{field: frozenset({field}) for field in NAMES.keys() & set(Field)},
}  # fmt: skip


def remark(query: str, records: list[Record]) -> list[str]:
    parsed = parse(query)
    library = PinnedList(records, None)  # type: ignore[arg-type] # nothing asks for its version
    return [str(finding) for finding in asyncio.run(find_missing_values(parsed.tree, parsed.text, library))]


def make_half(**values: object) -> list[Record]:
    """Two records with the values, one without."""
    return [
        Paper.model_validate({"doc_id": "a", "title": "aspirin", **values}),
        Paper.model_validate({"doc_id": "b", "title": "statins", **values}),
        Paper(doc_id="c", title="aspirin"),
    ]


@pytest.mark.parametrize(
    ("query", "values", "expected"),
    [
        ("aspirin[ti] AND 2010:2020[dp]", {"year": 2015},
         "line 1, column 17: 1 of 3 records has no year and was not matched; 1 of them fits the rest of the query"),
        ("statins[ti] AND 2010:2020[dp]", {"year": 2015},
         "line 1, column 17: 1 of 3 records has no year and was not matched; none of them fits the rest of the query"),
        ("aspirin[ti] AND 2010:2020[dp] AND english[la]", {"year": 2015, "language": "en"},
         "line 1, column 17: 1 of 3 records has no year and was not matched; 1 of them fits the rest of the query"),
        ("2010:2020[dp]", {"year": 2015}, "line 1, column 1: 1 of 3 records has no year and was not matched"),
        ("aspirin[ti] AND english[la]", {"language": "en"},
         "line 1, column 17: 1 of 3 records has no language and was not matched; 1 of them fits the rest of the query"),
        ("statins[ti] OR Liver[mh]", {"mesh": ["Liver"]},
         "line 1, column 16: 1 of 3 records has no MeSH heading and could match only by other parts of the query"),
        ("aspirin[ti] AND (statins[ti] OR Liver[mh])", {"mesh": ["Liver"]},
         ("line 1, column 33: 1 of 3 records has no MeSH heading and could match only by other parts of the query; "
          "1 of them did not, and might with a fitting MeSH heading")),
        ("aspirin[ti] NOT letter[pt]", {"metadata": {"publication_types": ["Review"]}},
         "line 1, column 17: 1 of 3 records has no publication type and was not excluded; 1 of them is among the hits"),
        ("aspirin[ti] NOT (Animals[mh] NOT Humans[mh])", {"mesh": ["Humans"]},
         "line 1, column 18: 1 of 3 records has no MeSH heading and was not excluded; 1 of them is among the hits"),
        ("aspirin[tiab]", {"abstract": "x"}, "line 1, column 1: 1 of 3 records has no abstract: only its other fields were searched"),
        ("aspirin", {"abstract": "x"}, "line 1, column 1: 1 of 3 records has no abstract: only its other fields were searched"),
        ("lancet[ta] AND aspirin[ti]", {"venue": "Lancet"},
         "line 1, column 1: 1 of 3 records has no journal and was not matched; 1 of them fits the rest of the query"),
        ("Liver/surgery[mh]", {"mesh": ["Liver/surgery"]},
         "line 1, column 1: 1 of 3 records has no MeSH heading with a qualifier and was not matched"),
        ("smith j[au] AND aspirin[ti]", {"authors": ["Smith, J"]},
         "line 1, column 1: 1 of 3 records has no author and was not matched; 1 of them fits the rest of the query"),
        ("2010[dp] OR 2012[dp] OR 2014[dp]", {"year": 2010}, "line 1, column 1: 1 of 3 records has no year and was not matched (3 times)"),
    ],
)  # fmt: skip
def test_each_missing_value_is_counted_with_what_depends_on_it(query: str, values: dict[str, object], expected: str) -> None:
    assert expected in remark(query, make_half(**values))


@pytest.mark.parametrize("query", ["aspirin[ti]", "x[nm]", "all[sb]", "aspirin[ti] AND 2010[dp]"])
def test_nothing_is_said_where_nothing_is_missing(query: str) -> None:
    assert remark(query, [Paper(doc_id="a", title="aspirin", year=2010)]) == []


def reads_only(leaf: Leaf, part: RecordPart) -> bool:
    match leaf:
        case Dates():
            return part == "year"
        case Heading(_, qualifier):
            return part == ("qualifiers" if qualifier else "headings")
        case Text(_, fields):
            return LEAVES.get(part, frozenset()).issuperset(fields)
    return False


def holds(node: Node, record: Record, parts: Collection[RecordPart], *, negated: bool, inside: bool = False) -> bool:
    """Whether the record matches if its missing parts fulfilled each leaf on them that is negated, or each that is not."""
    match node:
        case And(children):
            return all(holds(child, record, parts, negated=negated, inside=inside) for child in children)
        case Or(children):
            return any(holds(child, record, parts, negated=negated, inside=inside) for child in children)
        case Not(child):
            return not holds(child, record, parts, negated=negated, inside=not inside)
    return (inside is negated and any(reads_only(node, part) for part in parts)) or matches(node, record)


def depends(tree: Node, record: Record, part: RecordPart) -> bool:
    missing = {other for other in NAMES if lacks(record, other)}
    return holds(tree, record, missing, negated=False) and not holds(tree, record, missing - {part}, negated=False)


@pytest.mark.parametrize("seed", range(150))
def test_the_figures_are_those_of_a_count_record_by_record(seed: int) -> None:
    chance = random.Random(f"remarks/{seed}")
    records = [make_record(chance, number) for number in range(40)]
    parsed = parse(write_query(make_query(chance), chance), "pubmed")
    library = PinnedList(records, None)  # type: ignore[arg-type]
    parts = {name: part for part, name in NAMES.items()}
    for finding in asyncio.run(find_missing_values(parsed.tree, parsed.text, library)):
        head = re.match(r"(\d+) of 40 records ha(?:s|ve) no ([^:;]+?)(?: and (?:was|were|could)|:)", finding.message)
        assert head, finding.message
        part = parts[head[2]]
        without = [one for one in records if lacks(one, part)]
        assert len(without) == int(head[1])
        hits = [one for one in without if matches(parsed.tree, one)]
        figure = re.search(r"; (\d+|none) of them", finding.message)
        count = 0 if figure is None or figure[1] == "none" else int(figure[1])
        if "not excluded" in finding.message:
            assert count == sum(not holds(parsed.tree, one, {part}, negated=True) for one in hits)
        elif "not matched" in finding.message:
            assert not hits
            assert figure is None or count == sum(depends(parsed.tree, one, part) for one in without)
        elif "could match only" in finding.message:
            assert figure is None or count == sum(depends(parsed.tree, one, part) for one in without if one not in hits)


async def test_terms_without_a_match_are_found_whatever_the_hits_have_shown() -> None:
    records = list(make_papers(30))
    parsed = parse("(aspirin[ti] OR zebra[ti] OR Statins[ti]) NOT yak[ti]")
    library = PinnedList(records, None)  # type: ignore[arg-type]
    for seen in (0, 1, 30):
        terms = TermCheck(parsed.tree, parsed.text)
        terms.see([Matched(one) for one in records[:seen]])
        (finding,) = await terms.find_empty(library)
        assert (finding.code, finding.column, finding.times) == ("empty", 17, 2)
    assert len(list(iter_leaves(parsed.tree))) == 4


def test_every_run_keeps_its_remarks_and_equal_runs_keep_the_same(tmp_path: Path) -> None:
    """They are in the manifest and in the reports, and an interrupted run ends with those of an uninterrupted one."""
    papers = [one.model_copy(update={"year": None}) if number % 4 == 0 else one for number, one in enumerate(make_papers(40))]
    services = make_exact_services(tmp_path, LibraryVersions(list(papers)))
    query = "aspirin[ti] AND 1990:2030[dp] NOT post-mortem[ti]"
    hits = outrider.systematic(query, services=services, folder=tmp_path / "run")
    assert hits.remarks == ()
    next(hits)
    assert [one.partition(":")[0] for one in hits.remarks] == ["hyphen"]
    list(hits)
    missing = "missing values: line 1, column 17: 10 of 40 records have no year and were not matched; 6 of them fit the rest of the query"
    assert missing in hits.remarks
    assert "empty: line 1, column 35: this term matches nothing" in hits.remarks
    assert hits.result_set.remarks == hits.remarks == manifest.read(tmp_path / "run" / manifest.NAME).remarks
    assert missing in json.dumps(make_search_log(hits.manifest))
    with outrider.systematic(query, services=services, folder=tmp_path / "again") as stopped:
        next(stopped)
    resumed = outrider.systematic(services=services, resume=tmp_path / "again")
    list(resumed)
    assert resumed.manifest.provenance_hash == hits.manifest.provenance_hash
    assert outrider.verify(tmp_path / "run").sound
    assert outrider.replay(tmp_path / "run", services=services).run_remarks == hits.remarks
