"""The chase: rounds, yield, stop, counts, and its form as JSON."""

from __future__ import annotations

import pytest

from outrider.citations.chase import (
    PATIENCE,
    Chase,
    count_citation_search,
    describe_completeness,
    find_stop,
    list_candidates,
    make_yield_curve,
    record_round,
    rename_keys,
    start_chase,
)
from outrider.citations.rank_candidates import CandidateRanker
from outrider.state.citations import CitationNetwork
from outrider.state.errors import BadRequest
from outrider.state.records import Paper

CHAIN = [("a", "b"), ("b", "c"), ("c", "d"), ("b", "x"), ("a", "y")]


def ranker() -> CandidateRanker:
    works = {key: Paper(doc_id=key, title=f"Work {key}") for key in "abcdxy"}
    return CandidateRanker(CitationNetwork(works, dict.fromkeys(CHAIN, ("openalex",))))


def chase_chain() -> Chase:
    """Follows the chain to its end."""
    of, chase = ranker(), start_chase("thread 1", ["a"])
    for included, excluded in ((["b"], ["y"]), (["c"], []), (["d"], []), ([], ["x"])):
        chase = record_round(chase, list_candidates(chase, of, limit=None), included=included, excluded=excluded)
    return chase


def test_an_included_work_brings_new_works_in_the_next_round() -> None:
    """Each round tells what is new, and the curve adds up."""
    chase = chase_chain()
    assert [(one.new_works, one.candidates, one.read) for one in chase.rounds] == [(2, 2, 2), (2, 2, 1), (1, 2, 1), (0, 1, 1)]
    last = make_yield_curve(chase)[-1]
    assert (last.seen, last.read, last.included, last.share_included) == (5, 5, 3, 0.0)
    assert [point.share_included for point in make_yield_curve(chase)] == [0.5, 1.0, 1.0, 0.0]


def test_a_chase_without_candidates_stops() -> None:
    """The chain was read to its end."""
    chase = chase_chain()
    left = list_candidates(chase, ranker())
    assert left == ()
    assert find_stop(chase, len(left)) == "no candidates left"


def test_a_chase_stops_after_rounds_without_an_inclusion() -> None:
    """One inclusion within the last rounds keeps it going."""
    chase = start_chase("tag", ["a"])
    for number, included in enumerate((["i"], *([[]] * PATIENCE))):
        assert find_stop(chase, 5) is None
        chase = record_round(chase, [], included=included, excluded=[f"e{number}"])
    assert find_stop(chase, 5) == "no inclusion in the last rounds"


def test_a_chase_goes_on_after_json() -> None:
    """Interfaces keep it as JSON."""
    chase = chase_chain()
    assert Chase.model_validate_json(chase.model_dump_json()) == chase


def test_directions_are_followed() -> None:
    """Backward from `c` are `d`, forward is `b`."""
    of = ranker()
    assert [one.key for one in list_candidates(start_chase("t", ["c"], directions=["references"]), of)] == ["d"]
    assert [one.key for one in list_candidates(start_chase("t", ["c"], directions=["citations"]), of)] == ["b"]


def test_prisma_counts_add_up() -> None:
    """Identified are all that were candidates; the rest of the boxes is the reviewers'."""
    counts = count_citation_search(chase_chain())
    assert (counts.identified, counts.screened, counts.excluded, counts.sought, counts.not_screened) == (5, 5, 2, 3, 0)
    assert (counts.not_retrieved, counts.assessed) == (None, None)
    some = record_round(start_chase("t", ["a"]), ["b", "y"], included=["b"])
    assert count_citation_search(some).not_screened == 1


@pytest.mark.parametrize(
    ("rounds", "included", "excluded"),
    [
        ([(["arxiv"], []), (["doi"], [])], [(), ("id",)], [(), ()]),
        ([(["arxiv"], []), ([], ["doi"])], [(), ()], [(), ("id",)]),
        ([([], ["arxiv"]), (["doi"], [])], [(), ("id",)], [(), ()]),
        ([(["arxiv"], ["doi"])], [()], [("id",)]),
    ],
)
def test_two_keys_that_become_one_are_decided_once(
    rounds: list[tuple[list[str], list[str]]], included: list[tuple[str, ...]], excluded: list[tuple[str, ...]]
) -> None:
    """The later decision counts, within a round the exclusion; PRISMA's boxes add up."""
    chase = start_chase("t", ["a"])
    for one, other in rounds:
        chase = record_round(chase, ["arxiv", "doi"], included=one, excluded=other)
    chase = rename_keys(chase, {"arxiv": "id", "doi": "id"})
    assert ([one.included for one in chase.rounds], [one.excluded for one in chase.rounds]) == (included, excluded)
    counts = count_citation_search(chase)
    assert (counts.identified, counts.screened, counts.excluded + counts.sought, counts.not_screened) == (1, 1, 1, 0)


def test_a_stored_chase_that_decided_twice_has_counts_that_add_up() -> None:
    """No count is below zero."""
    chase = record_round(start_chase("t", ["a"]), ["b"], included=["b"])
    twice = chase.model_copy(update={"rounds": (*chase.rounds, chase.rounds[0].model_copy(update={"included": (), "excluded": ("b",)}))})
    counts = count_citation_search(twice)
    assert (counts.identified, counts.screened, counts.excluded, counts.sought, counts.not_screened) == (1, 1, 1, 0, 0)


def test_the_statement_says_that_chasing_is_not_complete() -> None:
    """With the range of the reviews and what was left unread."""
    some = record_round(start_chase("t", ["a"]), ["b", "y"], included=["b"])
    text = describe_completeness(some)
    assert "not complete" in text
    assert "8% to 94%" in text
    assert "37% to 100%" in text
    assert "1 candidate was not read" in text
    assert "not read" not in describe_completeness(chase_chain())


@pytest.mark.parametrize(
    ("included", "excluded", "message"),
    [(["b"], ["b"], "both included"), (["a"], [], "target itself"), ([], [], "needs a work"), (["y"], [], "earlier round")],
)
def test_wrong_decisions_are_refused(included: list[str], excluded: list[str], message: str) -> None:
    """Nothing is decided twice without a word."""
    chase = record_round(start_chase("t", ["a"]), ["b", "y"], excluded=["y"])
    with pytest.raises(BadRequest, match=message):
        record_round(chase, ["b"], included=included, excluded=excluded)


def test_a_chase_needs_works_and_a_direction() -> None:
    """Otherwise no round would have candidates."""
    with pytest.raises(BadRequest, match="no works"):
        start_chase("tag", [])
    with pytest.raises(BadRequest, match="no direction"):
        start_chase("tag", ["a"], directions=[])
