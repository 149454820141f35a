"""Speed of the distiller's engines: alone, relative to their models, and on a megabyte.

The megabyte is one text. Nothing is cached and the models are loaded. The texts of several cases are sent together, as in a search.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

from bench.model import Remembering, model_folder
from bench.rationales import Case
from outrider.distiller.distiller import Distiller
from outrider.distiller.engines.classifier import BATCH_TOKENS, Classifier
from outrider.distiller.engines.embedding import Embedding
from outrider.distiller.engines.ensemble import Engine
from outrider.distiller.token_counter import load_token_counter
from outrider.distiller.units import SegmentedText
from outrider.state.distilling import Reading

TIMED, TOGETHER = 20, 5
REPEATS = 5
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds of each round; the rounds are the same for every engine."""

    seconds: tuple[float, ...]
    alone: tuple[float, ...]
    """Seconds of the model alone on the same texts in prepared batches, alternating with the engine; 0 without a model."""
    tokens: tuple[int, ...]
    """By the embedding model's tokenizer."""

    @property
    def took(self) -> float:
        return median(self.seconds)

    @property
    def tokens_a_second(self) -> float:
        return median(many / one for many, one in zip(self.tokens, self.seconds, strict=True))

    @property
    def to_the_model_alone(self) -> float | None:
        """Median share of the model's own rate; None without a model."""
        if not any(self.alone):
            return None
        return median(alone / one for alone, one in zip(self.alone, self.seconds, strict=True))


def together(parts: Sequence[Speed]) -> Speed:
    """Speed of an ensemble, which runs its engines one after another; its own work is negligible."""
    return Speed(_sums([one.seconds for one in parts]), _sums([one.alone for one in parts]), parts[0].tokens)


def _sums(many: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(map(sum, zip(*many, strict=True)))


def speed(engine: Engine, every: Sequence[Case]) -> Speed:
    some = every[:: max(1, len(every) // TIMED)]
    fresh = Embedding(engine.embedder.model) if isinstance(engine, Embedding) and isinstance(engine.embedder, Remembering) else engine
    count = load_token_counter(model_folder())
    turns = [_timed(fresh, some[start : start + TOGETHER]) for start in range(0, len(some), TOGETHER)]
    tokens = [sum(count(case.its.reading.text) for case in some[start : start + TOGETHER]) for start in range(0, len(some), TOGETHER)]
    return Speed(tuple(ours for ours, _ in turns), tuple(alone for _, alone in turns), tuple(tokens))


def _timed(engine: Engine, some: Sequence[Case]) -> tuple[float, float]:
    cuts, query = [case.its for case in some], some[0].labelled.query
    alone = _alone(engine, query, cuts)
    engine.scores(query, cuts[:1])
    cuts = [SegmentedText(its.reading, its.units) for its in cuts]  # without caches
    started = time.perf_counter()
    engine.scores(query, cuts)
    between = time.perf_counter()
    if alone is None:
        return between - started, 0.0
    alone()
    return between - started, time.perf_counter() - between


def _alone(engine: Engine, query: str, cuts: Sequence[SegmentedText]) -> Callable[[], object] | None:
    """A function that runs only the model of an engine; None for an engine without one."""
    if isinstance(engine, Classifier):
        ready = engine._load()  # noqa: SLF001 - the very model
        windows = [window for its in cuts for window in ready.form.windows(ready.form.query(query), its)]
        windows.sort(key=lambda window: -len(window.ids))
        room = max(1, BATCH_TOKENS // len(windows[0].ids))
        batches = [ready.form.batch(windows[at : at + room]) for at in range(0, len(windows), room)]
        return lambda: [_forward(ready.model, batch) for batch in batches]
    if isinstance(engine, Embedding):
        texts = [text for its in cuts for text in its.texts()]
        theirs = sentence_transformer()
        return lambda: theirs.encode([query, *texts], show_progress_bar=False)
    return None


def _forward(model: Any, batch: dict[str, Any]) -> None:
    import torch

    with torch.inference_mode():
        model(**batch)


@cache
def sentence_transformer() -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(model_folder(), device="cpu")


def megabyte(engine: Engine, every: Sequence[Case]) -> float:
    """Median seconds for a megabyte of abstracts as one text: cutting, scoring, choosing and counting."""
    text = "\n\n".join(case.its.reading.text for case in every)
    reading = Reading("book", (text * (MEGABYTE // len(text) + 1))[:MEGABYTE])
    took = []
    for turn in range(REPEATS):
        started = time.perf_counter()
        Distiller(engine).distil(every[turn].labelled.query, [reading])
        took.append(time.perf_counter() - started)
    return median(took)
