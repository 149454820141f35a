"""What is said of the scout's figures, and one small measurement: all at once, none lost, limits kept."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path

from bench import scout, served
from bench.fake_services import SERVICES
from bench.library import library_of
from bench.served import Call
from outrider.state.response import SearchResponse, SourceReport
from support.http_server import Answer, Request, as_json, serving

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
    """None of eight services answers before all have been asked; then each takes 0.4 s. One after another, the first would time out."""
    (await library_of(scout._shelf(), tmp_path / "library")).close()
    handler, calls, arrived, all_arrived = scout.fake_services(seconds=0.4, count=5), list[Call](), set[str](), asyncio.Event()

    async def answer(request: Request) -> Answer:
        if request.path == served.LOG:
            return as_json([asdict(call) for call in calls])
        said = handler(served.HttpRequest(request.path, request.query, request.body, request.headers["host"]))
        calls.append(Call(request.path, request.query, request.at, said.after_s, 1, said.log_fields))
        arrived.add(said.log_fields["service"])
        if len(arrived) == len(SERVICES):
            all_arrived.set()
        await all_arrived.wait()
        return Answer(said.body, said.status, {"Content-Type": said.kind, **said.headers}, said.after_s)

    with serving(answer) as loopback:
        server = served.Server(loopback.base_url, int(loopback.base_url.rpartition(":")[2]), ())
        found = await scout._in_turn(server, "alone", tmp_path, 2, **scout.RAISED, web=False, timeout_s=scout.PATIENT_S)
    usual = scout.returned(found)
    assert arrived == set(SERVICES)
    assert len({source for source, _ in usual}) == 9
    assert scout.lost(found, usual) == scout.cut_short(found) == 0
    assert min(found.scout_s()) >= 0.4
