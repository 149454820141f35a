"""Only the sentences that answer: with their offsets, under a token budget, and with what is promised about them.

Which they are, a `TextDistiller` says. Where one fails or takes too long, the next cheaper one is asked, which is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from outrider.nodes.organizer import LONG_CHARS
from outrider.nodes.run_settings import run_setting, time_left
from outrider.prompts import Prompt
from outrider.runtime.threads import run_in_thread
from outrider.settings.model import DistillerSettings, RunSettings
from outrider.state.distilling import Distilled, KeptUnit, Reading
from outrider.state.errors import SearchError
from outrider.state.hits import Hit
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock, DistillerProvider, TextDistiller
from outrider.state.response import Bypass, ContextUnit, DistilledContext, Failure, Support
from outrider.text.injection import suspicious

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

STEP = "distiller"
SWITCHED_OFF = "distill_enabled is false"
SYSTEMATIC = "a systematic run gives every text unaltered"
SHARE_OF_TIME = 0.8
"""Of the time that the run has left, for engines that another one can stand in for."""


@dataclass(frozen=True, slots=True)
class Frames:
    """What a context is set into: it declares the sentences data, and says whether they are verbatim."""

    verbatim: Prompt
    shortened: Prompt

    def around(self, query: str, lines: str, *, verbatim: bool) -> str:
        return (self.verbatim if verbatim else self.shortened).fill(query=query, sentences=lines)


@dataclass(frozen=True, slots=True)
class Distiller:
    """Reads hits, strategy, mode, distill_enabled, distill_top; writes hits, context, bypassed, failures."""

    provider: DistillerProvider
    frames: Frames
    settings: DistillerSettings
    run: RunSettings
    clock: Clock

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        if not state.distill_enabled:
            return _bypassed(state, SWITCHED_OFF)
        if state.mode == "systematic":
            return _bypassed(state, SYSTEMATIC)
        query = state.strategy.queries[0].text if state.strategy else str(state.query)
        readings = [_reading(hit) for hit in state.hits[: state.distill_top]]
        budget = run_setting(runtime, "max_context_tokens", self.settings.max_context_tokens)
        left_s = time_left(runtime, self.run, self.clock, state)
        found, failures = await distil_readings(await self.provider(), query, readings, self.frames, budget, left_s * SHARE_OF_TIME)
        whys = [found.bypassed, *found.notes]
        return {
            "hits": flag_hits(add_spans(state.hits, found.units)),
            "context": make_context(found),
            "bypassed": (*state.bypassed, *(Bypass(step=STEP, why=why) for why in whys if why)),
            "failures": (*state.failures, *failures),
        }


async def distil_readings(
    distillers: Sequence[TextDistiller],
    query: str,
    readings: Sequence[Reading],
    frames: Frames,
    budget: int | None,
    within_s: float | None = None,
) -> tuple[Distilled, tuple[Failure, ...]]:
    """By the first that does it, and why those before it did not. Raises what the last raises, which may take as long as it takes."""
    failures: list[Failure] = []
    *dearer, cheapest = distillers
    for one in dearer:
        work = partial(_run, one, query, readings, frames, budget)
        try:
            async with asyncio.timeout(within_s):
                return await run_in_thread(work, STEP), tuple(failures)
        except TimeoutError:
            failures.append(_failure(one, TimeoutError.__name__, f"not done within {within_s or 0:.3g} s"))
        except SearchError as error:
            failures.append(_failure(one, type(error).__name__, str(error)))
    return await run_in_thread(partial(_run, cheapest, query, readings, frames, budget), STEP), tuple(failures)


def _run(one: TextDistiller, query: str, readings: Sequence[Reading], frames: Frames, budget: int | None) -> Distilled:
    return one.distil(query, readings, budget, partial(frames.around, query, verbatim=one.verbatim))


def _failure(one: TextDistiller, error: str, message: str) -> Failure:
    return Failure(node=STEP, error=error, message=f"{one.engine}: {message}; a cheaper engine chose the sentences")


def _reading(hit: Hit) -> Reading:
    return Reading(hit.doc_id, hit.original_text, hit.title, f"[{hit.rank}]")


def make_context(found: Distilled) -> DistilledContext:
    promise = found.promise
    return DistilledContext(
        text=found.text,
        units=tuple(map(_unit, found.units)),
        tokens=found.tokens,
        engine=found.engine,
        threshold=None if found.bypassed else found.threshold,
        calibrated=found.calibrated,
        keep_rate=promise.keep_rate if promise and promise.given else None,
        fitted_on=promise.fitted_on if promise else "",
        no_promise=_no_promise(found),
        removed=found.removed_share,
        over_budget=found.over_budget,
        verbatim=found.verbatim,
        bypassed=found.bypassed,
        notes=found.notes,
    )


def _no_promise(found: Distilled) -> str:
    if found.bypassed:
        return ""
    if found.promise is None:
        return f"the threshold of {found.engine} was not fitted; `outrider library calibrate-distiller` fits it"
    return found.promise.why_not


def _unit(unit: KeptUnit) -> ContextUnit:
    support = tuple(Support(doc_id=one.doc_id, start=one.start, end=one.end) for one in unit.support)
    return ContextUnit(
        doc_id=unit.doc_id,
        key=unit.key,
        start=unit.start,
        end=unit.end,
        text=unit.text,
        score=unit.score,
        kind=unit.kind,
        why=unit.why,
        support=support,
        shortened=unit.compressed,
    )


def add_spans(hits: Sequence[Hit], units: Sequence[KeptUnit]) -> tuple[Hit, ...]:
    """Hits with the kept units as spans and, joined by blanks, as distilled_text."""
    kept: dict[str, list[tuple[int, int]]] = {}
    for unit in sorted(units, key=lambda unit: unit.start):
        kept.setdefault(unit.doc_id, []).append((unit.start, unit.end))
    return tuple(
        hit.model_copy(update={"spans": tuple(kept[hit.doc_id]), "distilled_text": _joined(hit, kept[hit.doc_id])})
        if hit.doc_id in kept
        else hit
        for hit in hits
    )


def flag_hits(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Flags also of what speaks to a model in the kept sentences: of a long text the organizer has looked at the beginning only."""
    return tuple(
        hit.model_copy(update={"flags": tuple(dict.fromkeys((*hit.flags, *suspicious(_kept(hit)))))})
        if hit.spans and len(hit.original_text) > LONG_CHARS
        else hit
        for hit in hits
    )


def _kept(hit: Hit) -> str:
    """A sentence by itself, and all together: an order may go on in the next one."""
    return "\n\n".join([*(hit.original_text[start:end] for start, end in hit.spans), hit.distilled_text or ""])


def _joined(hit: Hit, spans: Sequence[tuple[int, int]]) -> str:
    return " ".join(hit.original_text[start:end] for start, end in spans)


def _bypassed(state: PipelineState, why: str) -> Update:
    return {"bypassed": (*state.bypassed, Bypass(step=STEP, why=why))}
