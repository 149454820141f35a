"""Values as files give them become the values of a record, or stay as they were."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.ingest.field_values import clean
from outrider.ingest.record_draft import Draft
from outrider.linkage.identifiers import normal_doi, normal_isbn


def test_what_is_taken_leaves_and_what_is_not_stays() -> None:
    """The first usable name wins; equal twins go with it; others stay under their own name."""
    draft = Draft({"TI": "", "T1": "A\n title", "ST": "A", "JF": "Nature", "JO": "Nature", "J2": "Nat."})
    assert draft.line("TI", "T1") == "A title"
    assert draft.line("JF", "JO", "J2") == "Nature"
    assert draft.rest == {"TI": "", "ST": "A", "J2": "Nat."}


def test_an_identifier_that_is_none_stays() -> None:
    """A faulty DOI is no DOI and stays; one with a resolver in front is one and goes; one with more around it does both."""
    faulty, dressed, more = Draft({"doi": "10.4"}), Draft({"doi": "https://doi.org/10.1000/X"}), Draft({"doi": "10.1000/x [doi] S01 [pii]"})
    assert (faulty.identifier(normal_doi, "doi"), faulty.rest) == (None, {"doi": "10.4"})
    assert (dressed.identifier(normal_doi, "doi"), dressed.rest) == ("10.1000/x", {})
    assert (more.identifier(normal_doi, "doi"), more.rest) == ("10.1000/x", {"doi": "10.1000/x [doi] S01 [pii]"})


def test_of_several_values_the_valid_one_is_taken() -> None:
    """An ISBN and an ISSN: the ISSN stays."""
    draft = Draft({"SN": ["0893-8512", "978-3-0346-0479-6"]})
    assert draft.identifier(normal_isbn, "SN") == "9783034604796"
    assert draft.rest == {"SN": "0893-8512"}


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
json_values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2), max_leaves=4
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=4), json_values, max_size=4))
def test_no_value_makes_a_reader_fail(raw: dict[str, object]) -> None:
    """Whatever JSON holds, every accessor answers, and a value is either taken or still there."""
    cleaned = {str(clean(name)): clean(value) for name, value in raw.items()}
    names = tuple(cleaned)
    for ask in ("text", "line", "lines", "year", "count", "flag"):
        draft = Draft(cleaned)
        result = getattr(draft, ask)(*names)
        assert result or result in (0, False) or draft.rest == cleaned
    draft = Draft(cleaned)
    doi = draft.identifier(normal_doi, *names)
    assert draft.rest == cleaned if doi is None else normal_doi(doi) == doi


DOIS = ("doi:10.1000/a", "doi:10.1000/b")


@pytest.mark.parametrize(
    ("value", "targets", "stays"),
    [
        (["10.1000/A", "https://doi.org/10.1000/b"], DOIS, False),
        ("10.1000/a; 10.1000/b", DOIS, False),
        ("10.1000/a, 10.1000/b", DOIS, False),
        ("['10.1000/a', '10.1000/b']", DOIS, False),
        ([{"DOI": "10.1000/a", "key": "r1"}, {"externalIds": {"DOI": "10.1000/b"}}, {"title": "No number"}], DOIS, True),
        ("Curie M. On rays. doi:10.1000/a; Bohr N. (1913)", DOIS[:1], True),
        (["pmid:22", "arXiv:2101.00001v2"], ("pmid:22", "arxiv:2101.00001"), False),
        (["https://openalex.org/W2020123164", "openalex:w12"], ("openalex:W2020123164", "openalex:W12"), False),
        ([{"openalex": "W2020123164"}], ("openalex:W2020123164",), True),
        (["W2020123164", "https://openalex.org/A12"], ("id:W2020123164", "id:https://openalex.org/A12"), True),
        (["r1", 7], ("id:r1", "id:7"), True),
        ("12; 15", ("id:12", "id:15"), True),
        ("45", (), True),
        (45, (), True),
        ("Bohr N. On the constitution of atoms", (), True),
        ([[], None, {"a": []}], (), True),
    ],
)
def test_references_in_any_dress(value: object, targets: tuple[str, ...], stays: bool) -> None:
    """A value with more than identifiers stays as well; a number alone is their count."""
    draft = Draft({"references": value})  # type: ignore[dict-item]
    assert tuple(edge.target for edge in draft.references("references")) == targets
    assert draft.rest == ({"references": value} if stays else {})
