"""The distiller of the settings: who judges, what stands in where that one fails, what was fitted, and what a user fits.

An engine and its model are made at first use, in the thread that asks; a process holds each model once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, get_args

from outrider.distiller.calibration import KEEP_RATE, calibrate
from outrider.distiller.distiller import BypassRule
from outrider.distiller.distiller import Distiller as EngineDistiller
from outrider.distiller.engines.ensemble import Engine
from outrider.distiller.engines.select import EngineName, find_calibration, make_engine, make_llmlingua, units_a_second
from outrider.distiller.labelled_cases import LabelledText
from outrider.distiller.selection import THRESHOLD, SelectionSettings
from outrider.distiller.token_counter import CountTokens, estimate_tokens, load_token_counter
from outrider.library.location import Location
from outrider.nodes.distiller import STEP, Distiller, Frames, distil_readings, make_context
from outrider.prompts import load
from outrider.runtime.threads import run_in_thread
from outrider.settings.model import DistillerSettings
from outrider.state.distilling import Calibration, Distilled, Frame, Reading, no_frame
from outrider.state.errors import BadRequest, LibraryError, LibraryMissing, did_you_mean
from outrider.state.response import DistilledContext

if TYPE_CHECKING:
    from outrider.models.embed.embedder import Embedder
    from outrider.services import Services
    from outrider.state.ports import OnCount

AUTO: EngineName = "words"
"""The embedding beside it would leave out one or two parts of a hundred more, and takes a hundred times as long (`bench/distil`)."""
CHEAPER: Mapping[EngineName, tuple[EngineName, ...]] = {
    "classifier+": ("ensemble", "words"),
    "classifier": ("words",),
    "llmlingua2": ("words",),
    "ensemble": ("words",),
    "embedding": ("words",),
}
"""What stands in for an engine that fails, cheaper and cheaper; the last needs no model."""
READ_BY_EMBEDDER: tuple[EngineName, ...] = ("embedding", "ensemble", "classifier+")
FRAMES = {"verbatim": "context", "shortened": "shortened_context"}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A distiller that is made when it is first asked; its calls block."""

    engine: EngineName
    settings: DistillerSettings
    embedder: Callable[[], Embedder] | None = None
    embedder_device: str = "auto"
    own: tuple[Calibration, ...] = ()
    """Of the library; they count before those that are shipped."""
    bypass: bool = True
    made: list[EngineDistiller] = field(default_factory=list)

    @property
    def verbatim(self) -> bool:
        return not (self.settings.compress or self.engine == "llmlingua2")

    def distil(self, query: str, readings: Sequence[Reading], max_tokens: int | None = None, frame: Frame = no_frame) -> Distilled:
        if not self.made:
            self.made.append(self._make())
        return self.made[0].distil(query, readings, max_tokens, frame)

    def engine_made(self) -> Engine:
        """`BadRequest` where it needs an embedding model and there is none."""
        said = self.settings
        model = said.llmlingua_model if self.engine == "llmlingua2" else said.model_name
        embedder = self.embedder() if self.embedder and self.engine in READ_BY_EMBEDDER else None
        return make_engine(self.engine, embedder, model, said.device)

    def _make(self) -> EngineDistiller:
        engine, said = self.engine_made(), self.settings
        fitted = calibration_at_hand(engine, self.own) if said.threshold is None else None
        threshold = THRESHOLD if said.threshold is None else said.threshold
        keeping = SelectionSettings(threshold, max_tokens=said.max_context_tokens, count_tokens=counter_of(said))
        compressor = None if self.verbatim else make_llmlingua(said.llmlingua_model, said.device)
        return EngineDistiller(engine, fitted, keeping, compressor, said.compress_rate, self._worth())

    def _worth(self) -> BypassRule | None:
        said = self.settings
        if not (self.bypass and said.bypass):
            return None
        device = self.embedder_device if self.engine in ("embedding", "ensemble") else said.device
        return BypassRule(said.bypass_tokens, said.token_ms, units_a_second(self.engine, device) if said.token_ms else float("inf"))


def counter_of(settings: DistillerSettings) -> CountTokens:
    return load_token_counter(settings.tokenizer) if settings.tokenizer else estimate_tokens


def calibration_at_hand(engine: Engine, own: Sequence[Calibration]) -> Calibration | None:
    """The user's own, else what is shipped or lies beside the weights; only of these very weights. Loads the model."""
    if own:
        mine = [one for one in own if one.engine == engine.name]
        found = next((one for one in mine if one.revision == engine.revision), None)
        if found:
            return found
    return find_calibration(engine)


def engine_named(name: str) -> EngineName:
    """`BadRequest` for one that is not known."""
    if name == "auto":
        return AUTO
    if name not in get_args(EngineName):
        known = ("auto", *get_args(EngineName))
        raise BadRequest(f"the distiller has no engine {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}")
    return name  # type: ignore[return-value]


async def distillers(services: Services, *, engine: str = "", model: str = "", bypass: bool = True) -> tuple[Prepared, ...]:
    """Those of the settings, to be tried one after another. One that is named is the only one: nothing stands in for it."""
    said = services.settings.distiller
    name = engine_named(engine or said.engine)
    if model:
        said = said.model_copy(update={"llmlingua_model" if name == "llmlingua2" else "model_name": model})
    own = await own_calibrations(services)
    names: list[EngineName] = [name] if engine else [name, *CHEAPER.get(name, ())]
    if not engine and said.compress and name not in CHEAPER:
        names.append(AUTO)
    embedder = await _embedder(services) if any(one in READ_BY_EMBEDDER for one in names) else None
    made = [Prepared(one, said, embedder, services.settings.embedding.device, own, bypass) for one in names]
    if len(made) > 1:
        made[-1] = replace(made[-1], settings=said.model_copy(update={"compress": False}))
    return tuple(made)


async def _embedder(services: Services) -> Callable[[], Embedder] | None:
    """The library's model, or the one that the settings name; not one that would have to be chosen and fetched first."""
    space = None
    with suppress(LibraryError):
        space = await (await services.library()).space()
    if space is None and services.settings.embedding.model_name == "auto":
        return None
    return partial(services.embedder, space)


async def own_calibrations(services: Services) -> tuple[Calibration, ...]:
    """What the user fitted; nothing, where the library cannot be read."""
    local = Location.parse(services.settings.library.uri).path
    if local is not None and not local.exists():  # as most often where nothing was ingested: opening it to learn that takes longer
        return ()
    try:
        return await (await services.library()).calibrations()
    except LibraryMissing:
        return ()
    except (LibraryError, BadRequest) as error:
        log.warning("the distiller goes on without the library's calibrations: %s", error)
        return ()


def frames() -> Frames:
    return Frames(*(load(name, frozenset({"query", "sentences"})) for name in FRAMES.values()))


def distiller_of(services: Services) -> Distiller:
    """The pipeline's node."""
    settings = services.settings
    return Distiller(partial(distillers, services), frames(), settings.distiller, settings.run, services.clock)


async def distil(
    services: Services,
    query: str,
    readings: Sequence[Reading],
    *,
    engine: str = "",
    model: str = "",
    max_tokens: int | None = None,
    bypass: bool = True,
) -> DistilledContext:
    """Alone. Where an engine of the settings fails, another one stands in and `notes` says so; one that is named by hand raises."""
    tried = await distillers(services, engine=engine, model=model, bypass=bypass)
    found, failures = await distil_readings(tried, query, readings, frames(), max_tokens)
    context = make_context(found)
    return context.model_copy(update={"notes": (*(failure.message for failure in failures), *context.notes)})


@dataclass(frozen=True, slots=True)
class InUse:
    """What an engine distils with: its calibration, None where there is none, and where that is from."""

    engine: EngineName
    calibration: Calibration | None
    where: str


async def calibrations_in_use(services: Services, engine: str = "") -> tuple[InUse, ...]:
    """Of the engine named or of the settings, and of those that stand in for it."""
    own = await own_calibrations(services)
    made = await distillers(services, engine=engine)
    return tuple([await run_in_thread(partial(_in_use, one, own), STEP) for one in made])


def _in_use(one: Prepared, own: Sequence[Calibration]) -> InUse:
    found = calibration_at_hand(one.engine_made(), own)
    where = "none" if found is None else "the library" if found in own else "shipped with the engine"
    return InUse(one.engine, found, where)


async def calibrated(
    services: Services,
    labelled: Sequence[LabelledText],
    fitted_on: str,
    *,
    engine: str = "",
    model: str = "",
    keep_rate: float = KEEP_RATE,
    progress: OnCount | None = None,
) -> Calibration:
    """Fits the threshold of the engine named or of the settings, and keeps it in the library. Nothing is kept of what is interrupted."""
    library = await services.library()
    one = (await distillers(services, engine=engine, model=model))[0]
    made = await run_in_thread(lambda: calibrate(one.engine_made(), labelled, fitted_on, keep_rate, progress), STEP)
    dated = replace(made, fitted_at=datetime.fromtimestamp(services.clock(), UTC).isoformat(timespec="microseconds"))
    await library.remember_calibrations([dated])
    return dated
