"""Which weights stand behind a reranker's name: a folder can be trained into again, and a hub name fetched again.

Which reranker runs: the one that the settings name, or under `auto` the one that the last probe of the library chose.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from outrider.models.rerank.cross_encoder import PRESETS, RERANKER_SETTINGS, CrossEncoderReranker, find_preset, is_on_this_machine
from outrider.models.rerank.endpoint import EndpointReranker
from outrider.models.rerank.late_interaction import LATE_INTERACTION, LateInteraction, TokenEmbedder
from outrider.models.weights import find_weights, fingerprint
from outrider.settings.model import RerankerSettings
from outrider.state.errors import BadRequest, MissingExtra, ModelError, ModelUnavailable
from outrider.state.ports import Reranker
from outrider.state.reranking import Verdict, verdict_order

if TYPE_CHECKING:
    from outrider.state.embedding import EmbeddingSpace


FINGERPRINTS = 16

Stamps = tuple[tuple[str, int, int], ...]
"""Path, size and time of change of each file of a folder."""


def normalize_name(name: str) -> str:
    """One name for one reranker: a preset's own, a folder's path whatever directory it is named from, else as it is."""
    if preset := find_preset(name):
        return preset.name
    folder = Path(name).expanduser()
    return str(folder.resolve()) if folder.is_dir() else name


def find_revision(reranker: Reranker) -> str:
    """The hub's commit, a folder's fingerprint, or the embedding model's revision; of a served one only its name is known.

    Raises `ModelUnavailable` or `MissingExtra` where the weights are not on this machine.
    """
    if isinstance(reranker, CrossEncoderReranker):
        return read_weights_revision(reranker.name)
    if isinstance(reranker, LateInteraction):
        return reranker.revision
    return reranker.name


def read_weights_revision(name: str) -> str:
    """Of a folder or hub name. Reads a folder only where its files have changed since the last time."""
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return find_weights(name, fetch=False, names=RERANKER_SETTINGS).revision
    if not (folder / "config.json").is_file():
        raise ModelUnavailable(f"{folder} is not a model's folder, it has no config.json")
    try:
        return _fingerprint(folder, _stamps(folder))
    except OSError as error:
        raise ModelUnavailable(f"the reranker at {name} cannot be read: {error.strerror or error}") from error


@lru_cache(maxsize=FINGERPRINTS)
def _fingerprint(folder: Path, _: Stamps) -> str:
    return fingerprint(folder)


def _stamps(folder: Path) -> Stamps:
    known = ((path, path.stat()) for path in folder.rglob("*") if path.is_file())
    return tuple(sorted((str(path), stat.st_size, stat.st_mtime_ns) for path, stat in known))


SWITCHED_OFF = "switched off (reranker.model_name is none)"
NOT_PROBED = "not probed yet: `outrider library probe` shows whether one helps"
OTHER_SETTINGS = "probed with another reranker.depth or reranker.weight: run `outrider library probe` again"
NONE_HELPED = "the last probe found none that makes this library's ranking better"
NONE_AVAILABLE = "no reranker is at hand: name one in reranker.model_name, or install the extra `models` with an embedding model"
REQUESTED = "asked for by the request"
NOT_EVALUATED = "named in the settings; not probed on this library yet"
WEIGHTS_CHANGED = "named in the settings; its weights have changed since the last probe"
NOT_FETCHED = "named in the settings; its weights are not on this machine yet and are fetched from the hub at first use"
CACHED_MODELS = 2
"""Cross-encoders that a process holds: one that runs, one that takes its place."""
HUB_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")


class Embedder(TokenEmbedder, Protocol):
    @property
    def space(self) -> EmbeddingSpace:
        """Loads the model at first use."""
        ...


def choose_reranker(
    settings: RerankerSettings, embedder: Embedder | None, verdicts: Sequence[Verdict], *, requested: bool = False
) -> tuple[Reranker | None, str]:
    """The reranker to run, or None, and why. `verdicts` come newest first; `asked` overrules them.

    Blocking: late interaction loads the embedding model, and a folder's weights are read where they changed. Loads no
    cross-encoder. What is missing or broken is a reason, no error.
    """
    if settings.model_name == "none":
        return None, SWITCHED_OFF
    counting = [one for one in verdicts if (one.depth, one.weight) == (settings.depth, settings.weight)]
    try:
        found, why = _chosen(settings, embedder, counting, probed=bool(verdicts), asked=requested)
        return _kept(found), why
    except (ModelError, MissingExtra) as error:
        return None, str(error)


def list_rerankers(settings: RerankerSettings, embedder: Embedder | None) -> list[Reranker]:
    """What a probe compares: the named one, an endpoint, presets whose weights are on this machine, and late interaction."""
    found: list[Reranker] = []
    if settings.base_url or settings.model_name not in ("auto", "none", LATE_INTERACTION):
        found.append(make_reranker(settings.model_name, settings, embedder))
    found += [CrossEncoderReranker(one.name, settings.device, False) for one in PRESETS if is_on_this_machine(one.name)]
    with suppress(ModelError, MissingExtra):  # an endpoint gives no token vectors, and a model may not be there
        found.append(make_reranker(LATE_INTERACTION, settings, embedder))
    return list({one.name: one for one in reversed(found)}.values())[::-1]


def make_reranker(name: str, settings: RerankerSettings, embedder: Embedder | None, *, downloads: bool = True) -> Reranker:
    """The reranker of this name: late interaction, what `base_url` serves, a preset, a local folder or a hub name.

    `ModelError` for late interaction without an embedding model that gives token vectors; the others load at first use.
    """
    if name == LATE_INTERACTION or name.startswith(f"{LATE_INTERACTION} "):
        return _late(embedder)
    if settings.base_url:
        served = "" if name in ("auto", "none") else name
        return _endpoint(settings.base_url, served, settings.api_key.get_secret_value(), settings.timeout_s)
    if name in ("auto", "none"):
        raise BadRequest(f"{name!r} names no reranker; give a hub name, a folder or {LATE_INTERACTION}")
    return CrossEncoderReranker(normalize_name(name), settings.device, downloads)


def _chosen(
    settings: RerankerSettings, embedder: Embedder | None, counting: Sequence[Verdict], *, probed: bool, asked: bool
) -> tuple[Reranker | None, str]:
    if settings.model_name != "auto":
        return _named(settings, embedder, counting, asked=asked)
    last = sorted((one for one in counting if one.judged_at == counting[0].judged_at), key=verdict_order)
    return _best(settings, embedder, last) if asked else _automatic(settings, embedder, last, probed=probed)


def _automatic(
    settings: RerankerSettings, embedder: Embedder | None, last: Sequence[Verdict], *, probed: bool
) -> tuple[Reranker | None, str]:
    chosen = next((one for one in last if one.chosen), None)
    if chosen is not None:
        return _as_judged(chosen, settings, embedder), chosen.why
    if last:
        return None, f"{NONE_HELPED}: {max(last, key=lambda one: one.difference).why}"
    return None, OTHER_SETTINGS if probed else NOT_PROBED


def _best(settings: RerankerSettings, embedder: Embedder | None, last: Sequence[Verdict]) -> tuple[Reranker | None, str]:
    """The best that the last probe judged and that is still there, then what it did not judge, then what it found to do harm."""
    for one in last:
        if one.effect != "worse":
            with suppress(ModelUnavailable):
                return _as_judged(one, settings, embedder), one.why
    harm = {(one.reranker, one.revision): (place, one.why) for place, one in enumerate(last) if one.effect == "worse"}
    known = [(harm.get((one.name, find_revision(one)), (-1, REQUESTED)), one) for one in list_rerankers(settings, embedder)]
    (_, why), first = min(known, key=lambda pair: pair[0][0], default=((0, NONE_AVAILABLE), None))
    return first, why


def _named(
    settings: RerankerSettings, embedder: Embedder | None, verdicts: Sequence[Verdict], *, asked: bool
) -> tuple[Reranker | None, str]:
    reranker = make_reranker(settings.model_name, settings, embedder)
    try:
        revision = find_revision(reranker)
    except ModelUnavailable:
        if not (HUB_NAME.fullmatch(reranker.name) is not None and not Path(reranker.name).exists()):
            raise
        return reranker, NOT_FETCHED
    same = [one for one in verdicts if one.reranker == reranker.name]
    judged = next((one for one in same if one.revision == revision), None)
    if judged is None:
        return reranker, WEIGHTS_CHANGED if same else NOT_EVALUATED
    return (None if judged.effect == "worse" and not asked else reranker), judged.why


def _as_judged(verdict: Verdict, settings: RerankerSettings, embedder: Embedder | None) -> Reranker:
    """`ModelUnavailable` where anything else than what was judged stands under the name today."""
    again = "run `outrider library probe` again"
    try:
        reranker = _under(verdict.reranker, settings, embedder)
        revision = find_revision(reranker)
    except (ModelError, MissingExtra) as error:
        raise ModelUnavailable(f"the last probe judged {verdict.reranker}, which is not at hand: {error}; or {again}") from error
    if reranker.name != verdict.reranker:
        raise ModelUnavailable(f"the last probe judged {verdict.reranker}, and here is {reranker.name}: {again}")
    if revision != verdict.revision:
        raise ModelUnavailable(f"the weights of {verdict.reranker} are not those that the last probe judged: {again}")
    return reranker


def _under(name: str, settings: RerankerSettings, embedder: Embedder | None) -> Reranker:
    """What stands under a reranker's own name today; nothing is downloaded."""
    if settings.base_url and not name.startswith(LATE_INTERACTION):
        for served in ("auto", settings.model_name):
            reranker = make_reranker(served, settings, embedder)
            if reranker.name == name:
                return reranker
        return CrossEncoderReranker(name, settings.device, downloads=False)
    return make_reranker(name, settings, embedder, downloads=False)


def _kept(reranker: Reranker | None) -> Reranker | None:
    """The one of the process, since it holds its loaded model; a folder with new weights is another one."""
    if not isinstance(reranker, CrossEncoderReranker):
        return reranker
    revision = read_weights_revision(reranker.name) if Path(reranker.name).is_dir() else ""
    return _cross_encoder(reranker.name, revision, reranker.device, reranker.downloads)


@lru_cache(maxsize=CACHED_MODELS)
def _cross_encoder(name: str, _revision: str, device: str, downloads: bool) -> CrossEncoderReranker:
    return CrossEncoderReranker(name, device, downloads)


@lru_cache(maxsize=CACHED_MODELS)
def _endpoint(base_url: str, model_name: str, api_key: str, timeout_s: float) -> EndpointReranker:
    """Kept, since it holds what it learned about the server."""
    return EndpointReranker(base_url, model_name, api_key, timeout_s)


def _late(embedder: Embedder | None) -> LateInteraction:
    if embedder is None:
        raise ModelUnavailable("late interaction needs an embedding model on this machine; see embedding.model_name")
    embedder.token_vectors(["token"], "query")  # an endpoint does not give them
    space = embedder.space
    return LateInteraction(embedder, f"{LATE_INTERACTION} with {space.model_name}", space.revision)
