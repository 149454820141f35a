"""The scout over slow services: alone, with one that hangs, and fifty searches at once.

Each service takes a second. The services are one loopback server in a process of its own (`bench.fake_services`). The real adapters query
it under the settings that a row names; the real browser queries the web, where Chromium is installed. PubMed needs two calls for an answer,
of half a second each. What arrives is counted at the server. The library is searched at the same time. Enrichment is off: it is another
step.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from bench.answers import Project, Work
from bench.data import Collection
from bench.fake_services import KEYED, SERVICES, WEB, FakeServices, engine_at, quickest, settings
from bench.library import library_of
from bench.report import Cell, Report, progress
from bench.served import Call, Server, served
from outrider.graph.pipeline import SearchGraph, build
from outrider.services import Services
from outrider.settings.model import EnrichSettings, LibrarySettings, LlmSettings, RunSettings
from outrider.sources.web.browser import unavailable_reason
from outrider.state.records import Paper
from outrider.state.response import SearchResponse, SourceReport

ANSWER_S = 1.0
ROUNDS = 7
HANGING_LIMIT_S = 3.0
AT_ONCE = 50
PAUSE_S = 2.0
"""Between searches of the web, as `web.gap_s` asks for by default: the browser makes its next tab then."""
BOUND_S, HANGING_BOUND = 1.15, 1.1
"""Seconds at the median; and with one that hangs, times its time limit."""
WORKS, WORKS_AT_ONCE = 60, 20
"""Of each service; fewer where fifty ask, so that neither server nor searches are late for want of a processor."""
WORDS = ("liver", "injury", "drugs", "dose", "enzymes")
"""Every work holds all of them, so that each question finds the same."""
RAISED: Mapping[str, Any] = {"requests": 10_000.0, "at_once": 100, "per_s": 1.0}
PATIENT_S = 120.0
"""Time limit of fifty searches whose limits are raised: they compute for longer than one may wait."""
COLUMNS = ("what", "searches", "sources", "median s", "most s", "requests", "cut short")
CUT = frozenset({"rate_limited", "timeout", "unavailable", "partial", "stale"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """Answers of one part, and the calls that the server counted."""

    answers: Sequence[SearchResponse]
    calls: Sequence[Call]

    def warm(self) -> Outcome:
        """Without the first search, which starts the clients and the browser."""
        return replace(self, answers=self.answers[1:])

    def scout_s(self) -> list[float]:
        return [answer.timings_ms["scout"] / 1000 for answer in self.answers]

    def rows(self) -> Iterator[SourceReport]:
        return (row for answer in self.answers for row in answer.sources)


def fake_services(hangs: str = "", seconds: float = ANSWER_S, count: int = WORKS) -> FakeServices:
    words, numbers = " ".join(WORDS), range(1, count + 1)
    works = [Work(number, f"Report {number} on {words}", f"Case {number}: {words}.", doi=f"10.1000/w{number}") for number in numbers]
    projects = [Project(f"lab/project-{number}", f"Tool {number} for {words}", stars=50 + number) for number in numbers]
    late = dict.fromkeys((*SERVICES, WEB), seconds) | {"pubmed": seconds / 2}
    return FakeServices(works, projects, late, hangs)


def questions(count: int) -> list[str]:
    orders = itertools.permutations(WORDS, 3)
    return [" ".join(next(orders)) for _ in range(count)]


def run() -> Report:
    notes = [
        f"Each service answers after {ANSWER_S:g} s in all, with {WORKS} works ({WORKS_AT_ONCE} where {AT_ONCE} ask).",
        f"The scout's own time; where all answer, of {ROUNDS} searches after one that starts clients and browser.",
    ]
    if why := unavailable_reason():
        notes.append(f"web was left out: {why}")
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_report(Path(folder), notes))


async def _report(folder: Path, notes: list[str]) -> Report:
    (await library_of(_shelf(), folder / "library")).close()
    with served(fake_services()) as server:
        alone = await _in_turn(server, "alone", folder, ROUNDS + 1, **RAISED, web=False)
        browsing = (
            None if unavailable_reason() else await _in_turn(server, "browsing", folder, ROUNDS + 1, pause_s=PAUSE_S, **RAISED, gap_s=0.0)
        )
    with served(fake_services(count=WORKS_AT_ONCE)) as server:
        usual = returned(await _in_turn(server, "lone", folder, 1))
        raised = await _at_once(server, "raised", folder, **RAISED, web=False, timeout_s=PATIENT_S)
        real = await _at_once(server, "real", folder)
    hanging = {}
    for name in (*SERVICES, *([WEB] if browsing else [])):
        progress(f"scout: {name} hangs")
        with served(fake_services(name)) as server:
            hanging[name] = await _in_turn(server, name, folder, 1, **RAISED, gap_s=0.0, timeout_s=HANGING_LIMIT_S, web=name == WEB)
    parts = {
        "all answer": alone.warm(),
        **({"all answer, the web too": browsing.warm()} if browsing else {}),
        **{f"{name} hangs": outcome for name, outcome in hanging.items()},
        f"{AT_ONCE} at once, limits raised": raised,
        f"{AT_ONCE} at once, real limits": real,
    }
    rows = tuple(_row(what, outcome) for what, outcome in parts.items())
    return Report("scout", COLUMNS, rows, (*notes, *checks(parts, usual)))


def _shelf() -> Collection:
    papers = tuple(Paper(doc_id=f"own{one.number}", title=one.title, abstract=one.text) for one in fake_services().works)
    return Collection("scout", papers, {}, {})


@contextmanager
def _graph(server: Server, room: str, folder: Path, *, web: bool = True, **limits: Any) -> Iterator[SearchGraph]:
    """The whole graph over the services of a room, by rules, without the web where it is not wanted."""
    patient_s = max(RunSettings().run_timeout_s, limits.get("timeout_s", 0.0))
    base = settings(server, room, folder, keys=False, contact="", **limits)
    sources = base.sources.model_copy(update={} if web else {"web": base.sources.web.model_copy(update={"enabled": False})})
    own = {
        "sources": sources,
        "library": LibrarySettings(uri=str(folder / "library")),
        "llm": LlmSettings(model="none"),
        "run": RunSettings(run_timeout_s=patient_s),
    }
    with ExitStack() as stack:
        stack.enter_context(engine_at(server, room))
        services = Services(base.model_copy(update={**own, "enrich": EnrichSettings(enabled=False)}))
        stack.callback(services.close)
        yield build(services)


async def _in_turn(server: Server, room: str, folder: Path, count: int, *, pause_s: float = 0.0, **limits: Any) -> Outcome:
    answers = []
    with _graph(server, room, folder, **limits) as graph:
        for question in questions(count):
            answers.append(await _search(graph, question))
            await asyncio.sleep(pause_s)
    return Outcome(answers, server.log(room))


async def _at_once(server: Server, room: str, folder: Path, **limits: Any) -> Outcome:
    progress(f"scout: {AT_ONCE} at once, {room} limits")
    with _graph(server, room, folder, **limits) as graph:
        answers = await asyncio.gather(*(_search(graph, question) for question in questions(AT_ONCE)))
    return Outcome(answers, server.log(room))


async def _search(graph: SearchGraph, question: str) -> SearchResponse:
    return SearchResponse.model_validate(await graph.ainvoke({"query": question, "distill_enabled": False}))


def returned(outcome: Outcome) -> Mapping[tuple[str, str], int]:
    """Results of each source and strategy in an undisturbed search."""
    return {(row.source, row.strategy): row.returned for row in outcome.rows()}


def lost(outcome: Outcome, usual: Mapping[tuple[str, str], int]) -> int:
    """Number of usual results that are missing."""
    return sum(max(0, usual.get((row.source, row.strategy), 0) - row.returned) for row in outcome.rows())


def hidden(outcome: Outcome, usual: Mapping[tuple[str, str], int]) -> int:
    """Rows with fewer results than usual that do not report it."""
    return sum(
        row.returned < usual.get((row.source, row.strategy), 0) and not (row.status in CUT and row.message) for row in outcome.rows()
    )


def cut_short(outcome: Outcome) -> int:
    return sum(any(row.status in CUT for row in answer.sources) for answer in outcome.answers)


def broken(outcome: Outcome, limits: Mapping[str, tuple[float, float, int]]) -> list[str]:
    """Services with more requests, or more at a time, than their limits (requests, seconds, at once) allow."""
    problems = []
    for name, (requests, per_s, at_once) in limits.items():
        calls = [call for call in outcome.calls if call.parts[1] == name]
        together, took_s = max((call.now for call in calls), default=0), quickest([call.began for call in calls], int(requests) + 1)
        if took_s < per_s or together > at_once:
            problems.append(f"{name}: {requests + 1:g} within {took_s:.2f} s of {per_s:g}, {together} of {at_once} at once")
    return problems


def real_limits() -> Mapping[str, tuple[float, float, int]]:
    """Limits of the settings for users without keys."""
    from outrider.settings.sections import SourcesSettings

    sections = {"serpapi" if name in KEYED else name: getattr(SourcesSettings(), name) for name in SERVICES}
    return {name: (one.requests, one.per_s, one.at_once) for name, one in sections.items()}


def checks(parts: Mapping[str, Outcome], usual: Mapping[tuple[str, str], int]) -> list[str]:
    """The targets of the scout, and whether they hold."""
    *_, raised, real = parts.values()
    notes = []
    for what, outcome in parts.items():
        if what.startswith("all"):
            middle = median(outcome.scout_s())
            notes.append(f"{what}: at most {BOUND_S} s at the median {_verdict(middle <= BOUND_S)} ({middle:.3f} s)")
    limit_s = HANGING_LIMIT_S * HANGING_BOUND
    worst = max(took_s for what, outcome in parts.items() if what.endswith("hangs") for took_s in outcome.scout_s())
    over, missing, unsaid = broken(real, real_limits()), lost(raised, usual), hidden(real, usual)
    return [
        *notes,
        f"one hangs: at most its time limit + 10 %, {limit_s:.2f} s, {_verdict(worst <= limit_s)} ({worst:.3f} s at worst)",
        f"{AT_ONCE} at once, limits raised: no result lost {_verdict(not missing)} ({missing:,} lost)",
        f"{AT_ONCE} at once, real limits: no limit broken {_verdict(not over)}{': ' if over else ''}{'; '.join(over)}",
        f"{AT_ONCE} at once, real limits: every cut is reported {_verdict(not unsaid)} ({cut_short(real)} reported, {unsaid} rows not)",
    ]


def _verdict(holds: bool) -> str:
    return "holds" if holds else "does not hold"


def _row(what: str, outcome: Outcome) -> tuple[Cell, ...]:
    took_s = outcome.scout_s()
    sources = {row.source for row in outcome.rows()}
    return what, len(outcome.answers), len(sources), median(took_s), max(took_s), len(outcome.calls), cut_short(outcome)
