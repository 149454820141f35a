from __future__ import annotations

from outrider.state.records import RECORD, Document, Identifiers, Repository
from support.fakes import paper


def test_the_kind_selects_the_class() -> None:
    assert isinstance(RECORD.validate_python({"kind": "repository", "doc_id": "a", "stars": 3}), Repository)
    assert isinstance(RECORD.validate_python({"kind": "document", "doc_id": "a"}), Document)


def test_the_content_hash_covers_the_content_and_not_its_location() -> None:
    one = paper("a", "T", origin="here", metadata={"x": 1})
    assert one.content_hash() == paper("b", "T", origin="there", metadata={"x": 1}).content_hash()
    assert one.content_hash() != paper("a", "T", origin="here", metadata={"x": 2}).content_hash()


def test_identifiers_come_strongest_first() -> None:
    assert Identifiers(pmid="1", doi="10.1000/x").pairs() == (("doi", "10.1000/x"), ("pmid", "1"))


def test_the_full_text_is_abstract_then_body() -> None:
    assert paper("a", description="D", abstract="A", text="B").full_text() == "A\n\nB"
    assert paper("a", description="D").full_text() == "D"
