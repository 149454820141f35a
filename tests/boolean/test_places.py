"""The places where a record matches a query."""

from __future__ import annotations

import pytest

from outrider.boolean.evaluator import matches
from outrider.boolean.parser import parse
from outrider.boolean.places import AROUND, MAX_PLACES, Place, find_places
from outrider.state.records import Paper

PAPER = Paper(
    doc_id="a",
    title="Aspirin &amp; hepatic harm",
    abstract=f"{'The weather was fine. ' * 20}Low-dose acetylsalicylic acid, taken daily, injured <i>livers</i>. {'It rained. ' * 20}",
    text="Only here is a zebrafish named.",
    authors=("Doe, Jane",),
    year=2019,
    tags=("Drug safety",),
    mesh=("Liver/drug effects",),
)


def find_marked(query: str) -> dict[str, list[str]]:
    tree = parse(query).tree
    assert matches(tree, PAPER)
    return {place.field: [piece.text for piece in place.pieces if piece.is_match] for place in find_places(tree, PAPER)}


@pytest.mark.parametrize(
    ("query", "marked"),
    [
        ("aspirin[ti]", {"title": ["Aspirin"]}),
        ('"acetylsalicylic acid"[tiab] AND livers', {"abstract": ["acetylsalicylic", "acid", "livers"]}),
        ("hepat*[tiab] NOT kidney[tiab]", {"title": ["hepatic"]}),
        ("zebrafish", {"text": ["zebrafish"]}),
        ("aspirin[ti] AND Doe J[au] AND 2019[dp]", {"title": ["Aspirin"], "author": ["Doe, Jane"], "year": ["2019"]}),
        ("liver[mh]", {"heading": ["Liver/drug effects"]}),
        ("dose[tiab]", {"abstract": ["Low-dose"]}),
    ],
)
def test_each_matching_term_is_marked_in_its_field(query: str, marked: dict[str, list[str]]) -> None:
    assert find_marked(query) == marked


def test_a_place_is_short_and_cut_between_words() -> None:
    (place,) = find_places(parse("acetylsalicylic[tiab]").tree, PAPER)
    text = "".join(piece.text for piece in place.pieces)
    assert text.startswith("… ")
    assert text.endswith(" …")
    assert len(text) <= 2 * AROUND + 25
    assert all(word in PAPER.abstract.replace("<i>", "").replace("</i>", "") for word in text.strip("… ").split())


def test_places_are_few() -> None:
    many = Paper(doc_id="b", abstract=" ".join(f"term{at} {'x ' * 100}" for at in range(50)))
    places: tuple[Place, ...] = find_places(parse(" OR ".join(f"term{at}" for at in range(50))).tree, many)
    assert len(places) == MAX_PLACES
