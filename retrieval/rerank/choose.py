"""Which reranker runs: the one that the settings name, or under `auto` the one that the last probe of the library chose."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Protocol

from outrider.retrieval.rerank.cross_encoder import CrossEncoderReranker, on_this_machine
from outrider.retrieval.rerank.endpoint import EndpointReranker
from outrider.retrieval.rerank.late_interaction import NAME, LateInteraction, TokenEmbedder
from outrider.retrieval.rerank.presets import PRESETS
from outrider.settings.model import RerankerSettings
from outrider.state.errors import BadRequest, MissingExtra, ModelUnavailable
from outrider.state.ports import Reranker
from outrider.state.reranking import Verdict

if TYPE_CHECKING:
    from outrider.state.embedding import EmbeddingSpace

SWITCHED_OFF = "switched off (reranker.model_name is none)"
NOT_PROBED = "not probed yet: `outrider library probe` shows whether one helps"
OTHER_SETTINGS = "probed with another reranker.depth or reranker.weight: run `outrider library probe` again"
NONE_HELPED = "the last probe found none that makes this library's ranking better"
NOBODY = "no reranker is at hand: name one in reranker.model_name, or install the extra `models` with an embedding model"


class Embedder(TokenEmbedder, Protocol):
    @property
    def space(self) -> EmbeddingSpace:
        """Loads the model at first use."""
        ...


def reranker_of(
    settings: RerankerSettings, embedder: Embedder | None, verdicts: Sequence[Verdict], *, asked: bool = False
) -> tuple[Reranker | None, str]:
    """The reranker to run, or None, and why. `verdicts` come newest first; `asked` overrules them.

    Blocking: comparing late interaction with its verdict loads the embedding model. Loads no reranker. Raises no `ModelError`.
    """
    if settings.model_name == "none":
        return None, SWITCHED_OFF
    counting = [one for one in verdicts if (one.depth, one.weight) == (settings.depth, settings.weight)]
    try:
        if settings.model_name == "auto":
            return _automatic(settings, embedder, counting, probed=bool(verdicts), asked=asked)
        return _named(settings, embedder, counting, asked=asked)
    except (ModelUnavailable, MissingExtra) as error:
        return None, str(error)


def rerankers_at_hand(settings: RerankerSettings, embedder: Embedder | None) -> list[Reranker]:
    """What a probe compares: the named one, an endpoint, late interaction, and presets whose weights are on this machine."""
    found: list[Reranker] = []
    if settings.base_url or settings.model_name not in ("auto", "none", NAME):
        found.append(named(settings.model_name, settings, embedder))
    if embedder is not None and _readable(embedder):
        found.append(_late(embedder))
    found += [_cross_encoder(one.name, settings.device, False) for one in PRESETS if on_this_machine(one.name)]
    return list({one.name: one for one in reversed(found)}.values())[::-1]


def named(name: str, settings: RerankerSettings, embedder: Embedder | None, *, downloads: bool = True) -> Reranker:
    """The reranker of this name: late interaction, what `base_url` serves, a preset, a local folder or a hub name.

    `ModelUnavailable` for late interaction without an embedding model; the others load at first use.
    """
    if name == NAME or name.startswith(f"{NAME} "):
        if embedder is None:
            raise ModelUnavailable("late interaction needs an embedding model on this machine; see embedding.model_name")
        return _late(embedder)
    if settings.base_url:
        served = "" if name in ("auto", "none") else name
        return _endpoint(settings.base_url, served, settings.api_key.get_secret_value(), settings.timeout_s)
    if name in ("auto", "none"):
        raise BadRequest(f"{name!r} names no reranker; give a hub name, a folder or {NAME}")
    return _cross_encoder(name, settings.device, downloads)


def _automatic(
    settings: RerankerSettings, embedder: Embedder | None, verdicts: Sequence[Verdict], *, probed: bool, asked: bool
) -> tuple[Reranker | None, str]:
    last = [one for one in verdicts if one.judged_at == verdicts[0].judged_at]
    chosen = next((one for one in last if one.chosen), None)
    if chosen is not None:
        reranker = _judged(chosen, settings, embedder)
        if reranker.name == chosen.reranker:
            return reranker, chosen.why
        if not asked:
            return None, f"the last probe chose {chosen.reranker}, and here is {reranker.name}: run `outrider library probe` again"
    if asked:
        first = next(iter(rerankers_at_hand(settings, embedder)), None)
        return first, "asked for by the request" if first else NOBODY
    if last:
        return None, f"{NONE_HELPED}: {max(last, key=lambda one: one.difference).why}"
    return None, OTHER_SETTINGS if probed else NOT_PROBED


def _named(
    settings: RerankerSettings, embedder: Embedder | None, verdicts: Sequence[Verdict], *, asked: bool
) -> tuple[Reranker | None, str]:
    reranker = named(settings.model_name, settings, embedder)
    judged = next((one for one in verdicts if one.reranker == reranker.name), None)
    if judged is None:
        return reranker, "named in the settings; not probed on this library yet"
    if judged.effect == "worse" and not asked:
        return None, judged.why
    return reranker, judged.why


def _judged(verdict: Verdict, settings: RerankerSettings, embedder: Embedder | None) -> Reranker:
    """What stands under the verdict's name today."""
    if settings.base_url and not verdict.reranker.startswith(NAME):
        return named("auto", settings, embedder)
    return named(verdict.reranker, settings, embedder, downloads=False)


@cache
def _cross_encoder(name: str, device: str, downloads: bool) -> CrossEncoderReranker:
    """One for the process: it holds its loaded model."""
    return CrossEncoderReranker(name, device, downloads)


@cache
def _endpoint(base_url: str, model_name: str, api_key: str, timeout_s: float) -> EndpointReranker:
    """One for the process: it holds what it learned about the server."""
    return EndpointReranker(base_url, model_name, api_key, timeout_s)


def _late(embedder: Embedder) -> LateInteraction:
    return LateInteraction(embedder, f"{NAME} with {embedder.space.model_name}")


def _readable(embedder: Embedder) -> bool:
    """Whether it gives token vectors: an endpoint does not, and a model may not be there."""
    try:
        embedder.token_vectors(["token"], "query")
    except (ModelUnavailable, MissingExtra):
        return False
    return True
