from __future__ import annotations

import pytest

from outrider.sources.adapter import build_answer, format_age, score_results
from outrider.sources.http.service import Reply
from outrider.state.errors import RateLimited, SourceUnavailable
from support.fakes import paper


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (59, "59 s"), (60, "1 min"), (7_300, "2 h"), (86_400, "1 day"), (200_000, "2 days")]
)
def test_an_age_in_its_largest_unit(seconds: float, text: str) -> None:
    assert format_age(seconds) == text


def test_a_record_that_comes_twice_keeps_its_first_place() -> None:
    results = score_results([(paper("a"), 3.0), (paper("b"), 2.0), (paper("a"), 9.0)])
    assert [(one.record.doc_id, one.score) for one in results] == [("a", 3.0), ("b", 2.0)]


def test_scores_are_the_services_own_or_ranks_but_not_both() -> None:
    assert [one.score for one in score_results([(paper("a"), 3.0), (paper("b"), None)])] == [1.0, 0.5]


@pytest.mark.parametrize(
    ("age_s", "stale", "missing", "status"),
    [(0.0, False, "", ""), (9.0, False, "", "cached"), (9.0, True, "", "stale"), (9.0, True, "1 page did not come", "partial")],
)
def test_what_is_less_than_asked_for_comes_before_what_is_old(age_s: float, stale: bool, missing: str, status: str) -> None:
    reply = Reply("https://api.example.org/works?q=x", 200, {}, b"", age_s, stale)
    answer = build_answer((), 5, [reply], missing=missing)
    assert (answer.status, answer.total) == (status, 5)
    assert ("api.example.org is unavailable; this is its response of 9 s ago" in answer.message) == stale
    assert missing in answer.message


def test_an_old_answer_says_why_there_is_no_newer_one_and_when_there_may_be() -> None:
    url = "https://api.example.org/works?q=x"
    replies = [
        Reply(url, 200, {}, b"", 9.0, True, RateLimited("example answered 429 to its works; try again in 60 s", 1_060.0)),
        Reply(url, 200, {}, b"", 5.0, True, SourceUnavailable("example is left alone", 1_030.0)),
        Reply(url, 200, {}, b"", 7.0),
    ]
    answer = build_answer((), 5, replies)
    assert answer.message == (
        "example answered 429 to its works; try again in 60 s; api.example.org is unavailable; this is its response of 9 s ago"
    )
    assert (answer.status, answer.retry_at) == ("stale", 1_060.0)
    assert build_answer((), 5, replies, missing="page 3 did not come", retry_at=2_000.0).retry_at == 2_000.0
    assert build_answer((), 5, replies[2:]).retry_at is None
