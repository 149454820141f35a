"""The distiller of the settings: engines, their fallbacks, and their calibrations.

An engine and its model are loaded on first use, in the calling thread; a process loads each model once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, get_args

from outrider.distiller.distiller import BypassRule
from outrider.distiller.distiller import Distiller as EngineDistiller
from outrider.distiller.engines.ensemble import Engine
from outrider.distiller.engines.select import EngineName, make_engine, make_llmlingua, units_a_second
from outrider.distiller.engines.select import find_calibration as find_shipped_calibration
from outrider.distiller.selection import NOISE, THRESHOLD, SelectionSettings
from outrider.distiller.token_counter import estimate_tokens, load_token_counter
from outrider.library.address_and_locks import Location
from outrider.nodes.distiller import STEP, Distiller, Frames, distil_readings, make_context
from outrider.prompts import load
from outrider.runtime.run_reads import read_once
from outrider.runtime.threads_and_loops import run_in_thread
from outrider.settings.model import DistillerSettings
from outrider.state.distilling import Calibration, Distilled, Frame, Reading, no_frame
from outrider.state.errors import BadRequest, LibraryError, LibraryMissing, SearchError, did_you_mean
from outrider.state.ports import DistillerProvider
from outrider.state.response import DistilledContext

if TYPE_CHECKING:
    from outrider.distiller.engines.llmlingua2 import LLMLingua2
    from outrider.library.library import Library
    from outrider.models.embed.embedder import Embedder
    from outrider.settings.model import Settings
    from outrider.state.embedding import EmbeddingSpace
    from outrider.state.ports import Clock

AUTO: EngineName = "words"
"""The choice of `auto` without a model that NumPy runs."""
AUTO_WITH_MODEL: EngineName = "words+"
"""In abstracts the embedding would omit one or two parts of a hundred more, for a hundred times as long (`bench/distil`). In other texts it
finds more answers, within a bounded time (`bench/questions`)."""
FALLBACKS: Mapping[EngineName, tuple[EngineName, ...]] = {
    "words+": ("words",),
    "classifier+": ("ensemble", "words"),
    "classifier": ("words",),
    "llmlingua2": ("words",),
    "ensemble": ("words",),
    "embedding": ("words",),
}
"""Replacements for an engine that fails, each cheaper than the one before; the last needs no model."""
NEED_EMBEDDER: tuple[EngineName, ...] = ("words+", "embedding", "ensemble", "classifier+")
FRAMES = {"verbatim": "context", "shortened": "shortened_context"}

log = logging.getLogger(__name__)


@dataclass(slots=True)
class LazyDistiller:
    """A distiller that loads its engine at its first use; its calls block."""

    engine: EngineName
    settings: DistillerSettings
    embedder: Callable[[], Embedder] | None = None
    embedder_device: str = "auto"
    own: tuple[Calibration, ...] = ()
    """Calibrations of the library; they take precedence over shipped ones."""
    bypass: bool = True
    downloads: bool = True
    """Whether weights that are not on this machine may be fetched from the hub."""
    _distiller: EngineDistiller | None = field(default=None, init=False)

    @property
    def verbatim(self) -> bool:
        return not (self.settings.compress or self.engine == "llmlingua2")

    def distil(self, query: str, readings: Sequence[Reading], max_tokens: int | None = None, frame: Frame = no_frame) -> Distilled:
        if self._distiller is None:
            engine, settings = self.load_engine(), self.settings
            calibration = self.find_calibration(engine) if settings.threshold is None else None
            threshold = THRESHOLD if settings.threshold is None else settings.threshold
            count = load_token_counter(settings.tokenizer) if settings.tokenizer else estimate_tokens
            selection = SelectionSettings(
                threshold,
                noise=settings.threshold if settings.max_units and settings.threshold is not None else NOISE,
                least=settings.threshold or 0.0,
                max_units=settings.max_units,
                max_units_first=max(settings.max_units, settings.max_units_first) if settings.max_units else 0,
                max_tokens=settings.max_context_tokens,
                count_tokens=count,
            )
            compressor = None if self.verbatim else self._make_compressor()
            worth = None
            if self.bypass and settings.bypass:
                device = self.embedder_device if self.engine in ("embedding", "ensemble") else settings.device
                pace = units_a_second(self.engine, device) if settings.token_ms else float("inf")
                worth = BypassRule(settings.bypass_tokens, settings.token_ms, pace)
            self._distiller = EngineDistiller(engine, calibration, selection, compressor, settings.compress_rate, worth)
        return self._distiller.distil(query, readings, max_tokens, frame)

    def load(self) -> None:
        """Load the models that `distil` will use; errors as there."""
        _ = self.load_engine().revision
        if not self.verbatim:
            _ = self._make_compressor().revision

    def load_engine(self) -> Engine:
        """Raises `BadRequest` where the engine needs an embedding model and there is none."""
        model = self.settings.llmlingua_model if self.engine == "llmlingua2" else self.settings.model_name
        embedder = self.embedder() if self.embedder and self.engine in NEED_EMBEDDER else None
        return make_engine(self.engine, embedder, model, self.settings.device, downloads=self.downloads)

    def _make_compressor(self) -> LLMLingua2:
        return make_llmlingua(self.settings.llmlingua_model, self.settings.device, downloads=self.downloads)

    def find_calibration(self, engine: Engine | None = None) -> Calibration | None:
        """The user's own for the weights of the engine, else a shipped one or one beside the weights. Loads the model."""
        engine = engine or self.load_engine()
        mine = [calibration for calibration in self.own if calibration.engine == engine.name]
        return next((calibration for calibration in mine if calibration.revision == engine.revision), None) or find_shipped_calibration(
            engine
        )


class DistillerServices(Protocol):
    """What a distiller needs of the services."""

    settings: Settings
    clock: Clock

    async def library(self) -> Library: ...

    def wrap(self, name: str, make: Callable[[], Any], *protocols: type) -> Any: ...

    def embedder(self, space: EmbeddingSpace | None = None) -> Embedder: ...


def needs_model(settings: DistillerSettings) -> bool:
    """Whether the distiller of the settings loads a model."""
    return settings.compress or settings.engine in FALLBACKS


def parse_engine(name: str) -> EngineName:
    """Raises `BadRequest` for an unknown engine."""
    if name == "auto":
        return AUTO
    if name not in get_args(EngineName):
        known = ("auto", *get_args(EngineName))
        raise BadRequest(f"the distiller has no engine {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}")
    return name  # type: ignore[return-value]


async def prepare_distillers(
    services: DistillerServices, *, engine: str = "", model: str = "", bypass: bool = True, max_units: int | None = None
) -> tuple[LazyDistiller, ...]:
    """The engine of the settings and its fallbacks, in the order of their use; a named engine has no fallback."""
    settings = services.settings.distiller
    if max_units is not None:
        settings = settings.model_copy(update={"max_units": max_units, "max_units_first": max_units})
    name, space = parse_engine(engine or settings.engine), await _find_space(services)
    if (engine or settings.engine) == "auto" and await _has_encoder(services, space):
        name = AUTO_WITH_MODEL
    if model:
        settings = settings.model_copy(update={"llmlingua_model" if name == "llmlingua2" else "model_name": model})
    own = await load_calibrations(services)
    is_named = engine not in ("", "auto")
    names: list[EngineName] = [name] if is_named else [name, *FALLBACKS.get(name, ())]
    if not is_named and settings.compress and name not in FALLBACKS:
        names.append(AUTO)
    # not a model that would have to be chosen and fetched first
    at_hand = space is not None or services.settings.embedding.model_name != "auto"
    embedder = partial(services.embedder, space) if at_hand else None
    device, downloads = services.settings.embedding.device, not services.settings.sources.offline
    distillers = [LazyDistiller(one, settings, embedder, device, own, bypass, downloads) for one in names]
    if len(distillers) > 1:
        distillers[-1] = replace(distillers[-1], settings=settings.model_copy(update={"compress": False}))
    return tuple(distillers)


async def _find_space(services: DistillerServices) -> EmbeddingSpace | None:
    """The space of the library's vectors; None without vectors, or if the library cannot be read."""
    if await _has_library(services):
        with suppress(LibraryError, BadRequest):
            return await (await services.library()).space()
    return None


async def _has_encoder(services: DistillerServices, space: EmbeddingSpace | None) -> bool:
    """Whether the model of the library's vectors runs in NumPy, and thus costs a search neither an import of torch nor a request."""
    if space is None:
        return False
    embedder = services.embedder(space)
    with suppress(SearchError):  # a search by meaning reports it
        return await run_in_thread(lambda: embedder.without_torch, STEP)
    return False


async def _has_library(services: DistillerServices) -> bool:
    """Without one, the usual case, opening it would take longer."""
    local = Location.parse(services.settings.library.uri).path
    return local is None or await read_once(("exists", str(local)), lambda: asyncio.to_thread(local.exists))


async def load_calibrations(services: DistillerServices) -> tuple[Calibration, ...]:
    """Calibrations that the user fitted; none if the library cannot be read."""
    if not await _has_library(services):
        return ()
    try:
        return await (await services.library()).calibrations()
    except LibraryMissing:
        return ()
    except (LibraryError, BadRequest) as error:
        log.warning("the distiller continues without the library's calibrations: %s", error)
        return ()


def load_frames() -> Frames:
    return Frames(*(load(name, frozenset({"query", "sentences"})) for name in FRAMES.values()))


def make_distiller(services: DistillerServices) -> Distiller:
    """The pipeline's node."""
    settings = services.settings
    provider = services.wrap("distillers", lambda: partial(prepare_distillers, services), DistillerProvider)
    return Distiller(provider, load_frames(), settings.distiller, settings.run, services.clock)


async def distil(  # noqa: PLR0913 - the options of one call
    services: DistillerServices,
    query: str,
    readings: Sequence[Reading],
    *,
    engine: str = "",
    model: str = "",
    max_tokens: int | None = None,
    bypass: bool = True,
    max_units: int | None = None,
    provider: DistillerProvider | None = None,
) -> DistilledContext:
    """Distil texts outside the graph: at most `max_units` units of each, 0 for all that reach the threshold. `provider` has the distillers
    where they are chosen before.

    A fallback replaces a failing engine of the settings, and `notes` says so; a named engine raises.
    """
    prepare = provider or partial(prepare_distillers, services, engine=engine, model=model, bypass=bypass, max_units=max_units)
    distillers = await prepare()
    result, failures = await distil_readings(distillers, query, readings, load_frames(), max_tokens)
    context = make_context(result)
    return context.model_copy(update={"notes": (*(failure.message for failure in failures), *context.notes)})
