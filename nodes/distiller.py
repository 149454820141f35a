"""The node that keeps only the sentences that answer, with offsets, under a token budget.

A `TextDistiller` chooses the sentences. If one fails or takes too long, the next cheaper one runs, and a failure reports it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from outrider.distiller.units import find_first_sentence
from outrider.nodes.organizer import LONG_CHARS
from outrider.nodes.run_settings import run_setting, time_left
from outrider.prompts import Prompt
from outrider.runtime.threads_and_loops import run_in_thread
from outrider.settings.model import DistillerSettings, RunSettings
from outrider.state.distilling import Distilled, KeptUnit, Reading
from outrider.state.errors import SearchError
from outrider.state.hits import Hit
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock, DistillerProvider, TextDistiller
from outrider.state.response import Bypass, ContextUnit, DistilledContext, Failure, Support
from outrider.text.injection import suspicious
from outrider.text.sentences import first_sentence

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

STEP = "distiller"
SWITCHED_OFF = "distill_enabled is false"
SYSTEMATIC = "a systematic run leaves texts unchanged"
ABSTRACT_LABEL = re.compile(
    r"\A\s*(?:(?i:abstract|background|introduction|objectives?|aims?|purpose|context|rationale|importance|summary)"
    r"(?i:(?:/| and | & )(?:aims?|objectives?|purpose|background))?(?:[ \t]*[:.—–-]\s*|\s+)){1,2}(?=[\"“(A-Z0-9])"
)
"""The title of an abstract's first part, which services put before its first sentence."""
SHARE_OF_TIME = 0.8
"""Share of the run's remaining time for engines that another one can replace."""


@dataclass(frozen=True, slots=True)
class Frames:
    """The text around a context: it declares the sentences as data, and states whether they are verbatim."""

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
        if not state.distill_enabled or state.mode == "systematic":
            why = SYSTEMATIC if state.distill_enabled else SWITCHED_OFF
            return {"bypassed": (*state.bypassed, Bypass(step=STEP, why=why))}
        query = state.strategy.queries[0].text if state.strategy else str(state.query)
        readings = [
            Reading(hit.doc_id, hit.original_text, hit.title, f"[{hit.rank}]", hit.rank, hit.kind)
            for hit in state.hits[: state.distill_top]
        ]
        budget = run_setting(runtime, "max_context_tokens", self.settings.max_context_tokens)
        within_s = time_left(runtime, self.run, self.clock, state) * SHARE_OF_TIME
        result, failures = await distil_readings(await self.provider(), query, readings, self.frames, budget, within_s)
        return {
            "hits": flag_hits(add_spans(state.hits, result)),
            "context": make_context(result),
            "bypassed": (*state.bypassed, *(Bypass(step=STEP, why=why) for why in (result.bypassed, *result.notes) if why)),
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
    """The result of the first engine that succeeds, and the failures of those before it. The last engine has no time limit, and its
    errors are raised.
    """
    failures: list[Failure] = []
    for number, distiller in enumerate(distillers, start=1):
        frame = partial(frames.around, query, verbatim=distiller.verbatim)
        work = partial(distiller.distil, query, readings, budget, frame)
        if number == len(distillers):
            return await run_in_thread(work, STEP), tuple(failures)
        try:
            async with asyncio.timeout(within_s):
                return await run_in_thread(work, STEP), tuple(failures)
        except (TimeoutError, SearchError) as error:
            late = f"not done within {within_s or 0:.3g} s"
            message = late if isinstance(error, TimeoutError) else str(error)
            message = f"{distiller.engine}: {message}; a cheaper engine chose the sentences"
            failures.append(Failure(node=STEP, error=type(error).__name__, message=message))
    raise ValueError("distilling needs an engine")


def make_context(result: Distilled) -> DistilledContext:
    promise, no_promise = result.promise, ""
    if not result.bypassed:
        no_fit = f"the threshold of {result.engine} was not fitted; `outrider library calibrate-distiller` fits it"
        no_promise = no_fit if promise is None else promise.why_not
    return DistilledContext(
        text=result.text,
        units=tuple(
            ContextUnit(
                doc_id=unit.doc_id,
                key=unit.key,
                start=unit.start,
                end=unit.end,
                text=unit.text,
                score=unit.score,
                kind=unit.kind,
                why=unit.why,
                support=tuple(Support(doc_id=span.doc_id, start=span.start, end=span.end) for span in unit.support),
                shortened=unit.compressed,
            )
            for unit in result.units
        ),
        tokens=result.tokens,
        engine=result.engine,
        threshold=None if result.bypassed else result.threshold,
        calibrated=result.calibrated,
        keep_rate=promise.keep_rate if promise and promise.given else None,
        fitted_on=promise.fitted_on if promise else "",
        no_promise=no_promise,
        removed=result.removed_share,
        over_budget=result.over_budget,
        unanswered=result.unanswered,
        verbatim=result.verbatim,
        bypassed=result.bypassed,
        notes=result.notes,
    )


def add_spans(hits: Sequence[Hit], result: Distilled) -> tuple[Hit, ...]:
    """Hits with the kept units as spans and, joined by blanks, as distilled_text; those in which nothing answers say what they are."""
    units: dict[str, list[KeptUnit]] = {}
    for unit in sorted(result.units if result.judged is None else result.judged, key=lambda unit: unit.start):
        units.setdefault(unit.doc_id, []).append(unit)
    distilled: list[Hit] = []
    for hit in hits:
        update: dict[str, object] = {}
        if own := units.get(hit.doc_id):
            spans = tuple((unit.start, unit.end) for unit in own)
            update = {"spans": spans, "distilled_text": " ".join(hit.original_text[start:end] for start, end in spans)}
            if result.judged is not None:
                update["answers"] = "yes" if any(unit.why != "best" for unit in own) else "perhaps"
        elif hit.doc_id in result.unanswered:
            update = {"answers": "no", "summary": describe_hit(hit)}
        distilled.append(hit.model_copy(update=update) if update else hit)
    return tuple(distilled)


def describe_hit(hit: Hit) -> str:
    """The first sentence of the abstract or description, else of the text."""
    described = hit.abstract or hit.description or hit.content
    return first_sentence(ABSTRACT_LABEL.sub("", described, 1)) or find_first_sentence(hit.original_text)


def flag_hits(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Add flags for instructions to a model in the kept sentences: the organizer has checked only the beginning of a long text."""
    flagged: list[Hit] = []
    for hit in hits:
        if hit.spans and len(hit.original_text) > LONG_CHARS:
            # Each sentence by itself and all together, since an instruction may continue in the next sentence.
            sentences = (hit.original_text[start:end] for start, end in hit.spans)
            flags = suspicious("\n\n".join([*sentences, hit.distilled_text or ""]))
            flagged.append(hit.model_copy(update={"flags": tuple(dict.fromkeys((*hit.flags, *flags)))}))
        else:
            flagged.append(hit)
    return tuple(flagged)
