"""What is said of the scout's figures, and one small measurement: all at once, none lost, limits kept."""

from __future__ import annotations

from pathlib import Path

from bench import scout
from bench.library import library_of
from bench.served import Call, served
from outrider.state.response import SearchResponse, SourceReport

USUAL = {("arxiv", "relevance"): 3}


def seen(*rows: tuple[int, str, str], calls: tuple[float, ...] = (), scout_s: float = 1.0) -> scout.Outcome:
    """Searches of arxiv that returned so many, with a status and a message."""
    answers = [
        SearchResponse(
            query="q",
            mode="balanced",
            timings_ms={"scout": 1000 * scout_s},
            sources=(
                SourceReport(source="arxiv", strategy="relevance", asked=3, returned=returned, status=status, message=said),  # type: ignore[arg-type]
            ),
        )
        for returned, status, said in rows
    ]
    return scout.Outcome(answers, [Call("/room/arxiv/api/query", {}, at, 1.0, 1, {}) for at in calls])


def test_what_is_cut_short_must_say_so() -> None:
    """A limit that is told with its reason is none hidden; fewer results that call themselves all are."""
    told, silent, unexplained = seen((0, "rate_limited", "later")), seen((1, "ok", "")), seen((0, "timeout", ""))
    assert [scout.hidden(one, USUAL) for one in (told, silent, unexplained)] == [0, 1, 1]
    assert [scout.lost(one, USUAL) for one in (told, silent, seen((3, "ok", "")))] == [3, 2, 0]
    assert scout.cut_short(seen((0, "rate_limited", "later"), (3, "ok", ""))) == 1


def test_a_limit_is_broken_by_one_request_too_many_or_too_soon() -> None:
    limits = {"arxiv": (1.0, 3.0, 1)}
    assert scout.broken(seen(calls=(0.0, 3.0, 6.1)), limits) == []
    assert scout.broken(seen(calls=(0.0, 2.5)), limits) == ["arxiv: 2 within 2.50 s of 3, 1 of 1 at once"]
    assert scout.broken(seen(calls=(0.0, 2.5)), {"arxiv": (2.0, 3.0, 1)}) == []


def test_bounds_that_do_not_hold_are_said() -> None:
    ok, late = seen((3, "ok", "")), seen((3, "ok", ""), scout_s=4.0)
    notes = scout.checks({"all answer": ok, "arxiv hangs": late, "raised": seen((2, "ok", "")), "real": ok}, USUAL)
    assert [" does not hold" in note for note in notes] == [False, True, True, False, False]
    assert "4.000 s at worst" in notes[1]


async def test_services_are_asked_at_once(tmp_path: Path) -> None:
    """Of eight services, one with two calls and one with three strategies, each takes 0.4 s; one after another they would take 3.2."""
    (await library_of(scout._shelf(), tmp_path / "library")).close()
    with served(scout.fake_services(seconds=0.4, count=5)) as server:
        found = await scout._in_turn(server, "alone", tmp_path, 2, **scout.RAISED, web=False)
    usual = scout.returned(found)
    assert len({source for source, _ in usual}) == 9
    assert scout.lost(found, usual) == scout.cut_short(found) == 0
    assert min(found.scout_s()) < 8 * 0.4
    assert min(found.scout_s()) >= 0.4
