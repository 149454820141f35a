"""Records that lack a part: counts by the columns equal those of the evaluator."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from outrider.boolean.document import Readable, lacks
from outrider.boolean.evaluator import Evaluator, matches
from outrider.boolean.parser import parse
from outrider.library.exact.pinned_library import ROWS_LACKING
from outrider.library.library import Library
from outrider.state.boolean import LACKING, Everything, Field, RecordPart
from outrider.state.records import Document, Identifiers, Paper, Record
from outrider.systematic_search.library_remarks import NAMES, SAME_PART

TEXTS = [
    "",
    "x",
    "\u00ad",
    "<b>x</b>",
    'a "type":"b" c',
    '"volume":"3"',
    "{braces} and }",
    "mesh_qualified",
    "a/b",
    "\\",
    "'",
    "\u200b",
    "<i></i>",
    "\u00ad ",
]
TYPES: list[Any] = [[], [""], ["Review"], ["", "Letter"], ["a {b}"], "Review", None, 3, [1, "Review"], {"type": "Review"}]
METADATA = ("publication_types", "type", "journal_abbreviation", "issn", "J2", "mesh_qualified", "volume", "pages", "note", "a", "z")
QUERIES = ["x[ti]", "all[sb] NOT x[ab]", "2000:2010[dp] OR x[tiab]", "Review[pt] OR Liver[mh]"]


def make_odd_record(chance: random.Random, number: int) -> Record:
    """Any field may be missing, empty, or hold what looks like the JSON of another."""
    metadata: dict[str, Any] = {}
    for name in chance.sample(METADATA, chance.randint(0, 4)):
        metadata[name] = chance.choice([*TYPES, *TEXTS, ["Liver/surgery"], ["Liver"], ["Liver/"], ["Liver/-"], {"volume": "1"}])
    fields: dict[str, Any] = {
        name: chance.choice([None, *TEXTS]) for name in ("venue", "language", "volume", "issue", "pages") if chance.random() < 0.5
    }
    fields |= {name: chance.choice(TEXTS) for name in ("title", "abstract", "description", "text") if chance.random() < 0.6}
    fields |= {name: tuple(chance.sample(TEXTS, chance.randint(0, 2))) for name in ("authors", "tags", "mesh") if chance.random() < 0.6}
    fields |= {"year": chance.choice([None, 2005, 10**30]), "metadata": metadata}
    fields["identifiers"] = Identifiers(doi=chance.choice([None, "10.1000/x"]), pmid=chance.choice([None, "7"]))
    if chance.random() < 0.2:
        kept = {name: value for name, value in fields.items() if name in Document.model_fields}
        return Document(doc_id=f"d{number:04}", **kept)
    return Paper(doc_id=f"d{number:04}", **fields)


def lacks_and_matches(part: RecordPart, evaluator: Evaluator, record: Readable) -> bool:
    return lacks(record, part) and evaluator.matches(record)


@pytest.mark.parametrize("seed", range(3))
async def test_counts_by_columns_are_counts_by_records(library: Library, seed: int) -> None:
    chance = random.Random(f"rows lacking/{seed}")
    records = [make_odd_record(chance, number) for number in range(300)]
    await library.upsert(records[:200])
    await library.optimize(force=True)
    await library.upsert(records[200:])
    pinned = await library.pinned()
    trees = [parse(query).tree for query in QUERIES]
    assert await pinned.count(Everything()) == 300
    for part in ROWS_LACKING:
        without = [one for one in records if lacks(one, part)]
        assert await pinned.count_without(part) == len(without), part
        for tree in trees:
            test = partial(lacks_and_matches, part, Evaluator(tree))
            assert await pinned.count_if(tree, part, test) == sum(matches(tree, one) for one in without), part
    for tree in (*trees, parse("zebra[ti]").tree):
        assert await pinned.has_hits(tree) is any(matches(tree, one) for one in records)
    pinned.close()


def test_every_field_that_a_record_may_lack_is_counted() -> None:
    """A new field needs a condition and a name, or its queries would fail at the end of a run."""
    assert ROWS_LACKING.keys() == NAMES.keys()
    assert set(Field) - NAMES.keys() == {Field.ALL, *LACKING, *SAME_PART}


async def test_hardly_any_record_is_read_to_count_common_parts(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types and qualifiers stand in the metadata of nearly every record of PubMed."""
    metadata = {"publication_types": ["Review"], "mesh_qualified": ["Liver/surgery"], "journal_abbreviation": "J", "note": '"type":"x"'}
    paper = Paper(doc_id="0", venue="J", volume="1", mesh=("Liver",), metadata=dict(metadata))
    await library.upsert([paper.model_copy(update={"doc_id": f"{number}"}) for number in range(50)])
    await library.upsert([Paper(doc_id="without", title="{}")])
    pinned = await library.pinned()
    for part, rows in ROWS_LACKING.items():
        if rows.unsure:
            assert await pinned._table.count_rows(rows.unsure) == 0, part
    assert await pinned.count_without("qualifiers") == 1
    pinned.close()
