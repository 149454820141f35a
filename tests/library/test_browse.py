"""Words of a list of records: what they are compared with."""

from __future__ import annotations

import unicodedata

import pytest

from outrider.library.browse import RecordQuery
from outrider.library.library import Library
from outrider.state.records import Document, Paper

RECORDS = [
    Paper(doc_id="kerzen", title="Wachs und Kerzen", authors=("Müller, Jürgen",), year=1999, venue="Łódź"),
    Paper(doc_id="miel", title="La miel", authors=("García Márquez, José",), tags=("Ökonomie",)),
    Paper(doc_id="bashkiria", title="Пчёлы и ёлки"),
    Paper(doc_id="odyssey", title="Ὀδύσσεια, ἄνδρα"),
    Document(doc_id="note", title="Ideas", origin="/notes/2024 ölmühlen.md"),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("müller", ["kerzen"]),
        ("MULLER 1999", ["kerzen"]),
        (unicodedata.normalize("NFD", "müller"), ["kerzen"]),
        ("lodz", ["kerzen"]),
        ("jose garcia marquez", ["miel"]),
        ("okonomie", ["miel"]),
        ("пчелы", ["bashkiria"]),
        ("οδυσσεια", ["odyssey"]),
        ("olmuhlen", ["note"]),
        ("zu", []),
        ("kapitel", ["kerzen"]),
    ],
)
async def test_words_are_found_whatever_their_case_and_accents(library: Library, text: str, expected: list[str]) -> None:
    await library.upsert(RECORDS)
    await library.label(["kerzen"], ["Kàpitel 2"])
    assert [record.doc_id for record in (await library.browse(RecordQuery(text)))[0]] == expected
