from __future__ import annotations

import pytest
from fakes import candidate, paper

from outrider.nodes.coarse_filter import filtered, why_not
from outrider.state.intent import Constraints, NumberRange
from outrider.state.records import Repository

RULES = Constraints(years=NumberRange(min=2010, max=2020), stars=NumberRange(min=50))


def repository(**fields: object) -> Repository:
    return Repository.model_validate({"doc_id": "r", **fields})


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (paper("a", year=2005), "year 2005 is outside 2010-2020"),
        (paper("a", year=2015), None),
        (paper("a"), None),
        (paper("a", stars=3), None),
        (repository(stars=49), "49 stars are outside 50-"),
        (repository(stars=50), None),
        (repository(), None),
        (repository(stars=900, archived=True), "the repository is archived"),
        (repository(stars=60, forks=9, is_fork=True, parent_stars=121), "a trivial fork"),
        (repository(stars=60, forks=9, is_fork=True, parent_stars=119), None),
        (repository(stars=60, forks=10, is_fork=True, parent_stars=900), None),
        (repository(stars=60, forks=1, is_fork=True), None),
    ],
)
def test_rules_pass_what_they_do_not_know(record: Repository, why: str | None) -> None:
    assert why_not(record, RULES) == why


def test_what_is_rejected_keeps_its_reason() -> None:
    kept, rejected = filtered([candidate(paper("a", "Old", year=1999)), candidate(paper("b", year=2012))], RULES)
    assert [one.record.doc_id for one in kept] == ["b"]
    assert [(row.doc_id, row.title, row.why) for row in rejected] == [("a", "Old", "year 1999 is outside 2010-2020")]
