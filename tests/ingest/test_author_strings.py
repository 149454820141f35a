"""Several authors in one string."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.ingest.column_mapping import parse_row
from outrider.ingest.entry import Entry
from outrider.ingest.field_values import split_authors


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("blum, a., furst, m., & rudich, s.", ("blum, a.", "furst, m.", "rudich, s.")),
        ("A. Blum, M. Furst, and S. Rudich", ("A. Blum", "M. Furst", "S. Rudich")),
        ("Alfons Kemper, Ada Lovelace, Alan Turing", ("Alfons Kemper", "Ada Lovelace", "Alan Turing")),
        ("Ada Lovelace and Alan Turing", ("Ada Lovelace", "Alan Turing")),
        ("D. Scott Mackay, Yannis E. Ioannidis", ("D. Scott Mackay", "Yannis E. Ioannidis")),
        ("Adeli K.Lewis G. F.", ("Adeli K.", "Lewis G. F.")),
        ("Jonsson-Rylander A. C.El Hachmane M.", ("Jonsson-Rylander A. C.", "El Hachmane M.")),
    ],
)
def test_names_are_distinguished(text: str, names: tuple[str, ...]) -> None:
    assert split_authors(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "Curie, Marie",
        "Garcia Marquez, Gabriel Jose",
        "van Gogh, Vincent",
        "J.K.Rowling",
        "World Health Organization",
        "Curie, M. S.",
        "Li, X",
        "李明",
    ],
)
def test_one_name_stays_one(text: str) -> None:
    assert split_authors(text) == (text,)


@settings(max_examples=60)
@given(st.text(max_size=60))
def test_no_letter_is_lost(text: str) -> None:
    joined = "".join(split_authors(text))
    letters = [char for char in text if char.isalnum()]
    assert [char for char in joined if char.isalnum()] == letters or "and" in text.casefold()


def test_a_row_of_a_table() -> None:
    read = parse_row({"Title": "Loops", "Authors": "Michael B&#246;hlen, Linas Bukauskas, Curtis Dyreson", "Entity Id": "7"}, {}, "line 2")
    assert isinstance(read, Entry)
    assert read.record.authors == ("Michael Böhlen", "Linas Bukauskas", "Curtis Dyreson")
    assert read.own_id == "7"
