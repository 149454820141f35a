from __future__ import annotations

import pytest

from outrider.state.request import SearchRequest
from outrider.state.response import provenance_hash

REQUEST = SearchRequest(query="liver")
BASE = (REQUEST, None, "lib@3", {"outrider": "1"}, [("a", "h1"), ("b", "h2")])


def test_equal_runs_hash_equal() -> None:
    assert provenance_hash(*BASE) == provenance_hash(
        SearchRequest(query="liver"), None, "lib@3", {"outrider": "1"}, iter([("a", "h1"), ("b", "h2")])
    )


@pytest.mark.parametrize(
    ("at", "other"),
    [
        (0, SearchRequest(query="liver", top_k=3)),
        (2, "lib@4"),
        (3, {"outrider": "2"}),
        (4, [("b", "h2"), ("a", "h1")]),
        (4, [("a", "h1"), ("b", "changed")]),
    ],
)
def test_every_part_counts(at: int, other: object) -> None:
    changed = [*BASE]
    changed[at] = other
    assert provenance_hash(*changed) != provenance_hash(*BASE)  # type: ignore[arg-type]
