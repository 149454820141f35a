"""Choice of the reranker: by name, or under `auto` the best of the last probe.

A reranker is identified by its name and the revision of its weights: a folder can be trained again, and a hub name fetched again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.models.rerank.cross_encoder import PRESETS, RERANKER_SETTINGS, CrossEncoderReranker, find_preset, is_on_this_machine
from outrider.models.rerank.late_interaction import LATE_INTERACTION, LateInteraction, TokenEmbedder
from outrider.models.weights import find_weights, fingerprint
from outrider.runtime.threads_and_loops import get_shared
from outrider.settings.model import RerankerSettings
from outrider.state.errors import BadRequest, MissingExtra, ModelError, ModelUnavailable
from outrider.state.ports import Reranker
from outrider.state.reranking import NOT_PROBED, Verdict, verdict_order
from outrider.text.sanitize import OFFLINE, is_loopback, split_addresses, without_password

if TYPE_CHECKING:
    from outrider.models.rerank.endpoint import EndpointReranker

FINGERPRINTS = 16

Stamps = tuple[tuple[str, int, int], ...]
"""Path, size and time of change of each file of a folder."""
SWITCHED_OFF = "switched off (reranker.model_name is none)"
OTHER_SETTINGS = "probed with another reranker.depth or reranker.weight: run `outrider library probe` again"
NONE_HELPED = "the last probe found none that makes this library's ranking better"
NONE_AVAILABLE = "no reranker is available: name one in reranker.model_name, or install the extra `models` with an embedding model"
REQUESTED = "requested"
NOT_EVALUATED = "named in the settings; not probed on this library yet"
WEIGHTS_CHANGED = "named in the settings; its weights have changed since the last probe"
NOT_FETCHED = "named in the settings; its weights are not on this machine yet and are fetched from the hub at first use"
CACHED_MODELS = 2
"""Cross-encoders that a process keeps: one that runs, one that replaces it."""
HUB_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")


def normalize_name(name: str) -> str:
    """One name for one reranker: a preset's name, a folder's absolute path, else the name itself."""
    if preset := find_preset(name):
        return preset.name
    folder = Path(name).expanduser()
    return str(folder.resolve()) if folder.is_dir() else name


def find_revision(reranker: Reranker) -> str:
    """The hub's commit, a folder's fingerprint, or the embedding model's revision; for a served reranker its name.

    Raises `ModelUnavailable` or `MissingExtra` if the weights are not on this machine.
    """
    if isinstance(reranker, CrossEncoderReranker):
        return read_weights_revision(reranker.name)
    if isinstance(reranker, LateInteraction):
        return reranker.revision
    return reranker.name


def read_weights_revision(name: str) -> str:
    """The revision of a folder or hub name. Reads a folder only if its files have changed since the last time."""
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return find_weights(name, fetch=False, names=RERANKER_SETTINGS).revision
    if not (folder / "config.json").is_file():
        raise ModelUnavailable(f"{folder} is not a model's folder, it has no config.json")
    try:
        stats = ((path, path.stat()) for path in folder.rglob("*") if path.is_file())
        return _fingerprint(folder, tuple(sorted((str(path), stat.st_size, stat.st_mtime_ns) for path, stat in stats)))
    except OSError as error:
        raise ModelUnavailable(f"the reranker at {name} cannot be read: {error.strerror or error}") from error


@lru_cache(maxsize=FINGERPRINTS)
def _fingerprint(folder: Path, _: Stamps) -> str:
    return fingerprint(folder)


def choose_reranker(
    settings: RerankerSettings,
    embedder: TokenEmbedder | None,
    verdicts: Sequence[Verdict],
    *,
    requested: bool = False,
    offline: bool = False,
) -> tuple[Reranker | None, str]:
    """The reranker to run, or None, with the reason. `verdicts` are sorted newest first; `requested` overrules them.
    `offline` fetches no weights and contacts a server only at a loopback address.

    Blocking: late interaction loads the embedding model, and a changed folder of weights is read. Loads no cross-encoder.
    A missing or broken model is a reason, not an error.
    """
    if settings.model_name == "none":
        return None, SWITCHED_OFF
    counting = [verdict for verdict in verdicts if (verdict.depth, verdict.weight) == (settings.depth, settings.weight)]
    try:
        if settings.model_name != "auto":
            reranker, why = _choose_named(settings, embedder, counting, requested=requested)
        else:
            last = sorted((verdict for verdict in counting if verdict.judged_at == counting[0].judged_at), key=verdict_order)
            chosen = next((verdict for verdict in last if verdict.chosen), None)
            if requested:
                reranker, why = _choose_best(settings, embedder, last)
            elif chosen is not None:
                reranker, why = _make_evaluated(chosen, settings, embedder), chosen.why
            elif last:
                return None, f"{NONE_HELPED}: {max(last, key=lambda verdict: verdict.difference).why}"
            else:
                return None, OTHER_SETTINGS if verdicts else NOT_PROBED
        if isinstance(reranker, CrossEncoderReranker):  # one object per process, since it holds the loaded model
            revision = read_weights_revision(reranker.name) if Path(reranker.name).is_dir() else ""
            reranker = get_shared(_cross_encoder, reranker.name, revision, reranker.device, reranker.downloads and not offline)
    except (ModelError, MissingExtra) as error:
        return None, str(error)
    if offline and (address := _find_remote_address(reranker, settings)):
        return None, f"reranker.base_url is {without_password(address)}, {OFFLINE}"
    return reranker, why


def _find_remote_address(reranker: Reranker | None, settings: RerankerSettings) -> str:
    """An address of the reranker's servers that is not on this machine; empty if there is none."""
    remote = next((address for address in split_addresses(settings.base_url) if not is_loopback(address)), "")
    if not remote:
        return ""
    from outrider.models.rerank.endpoint import EndpointReranker

    return remote if isinstance(reranker, EndpointReranker) else ""


def list_rerankers(settings: RerankerSettings, embedder: TokenEmbedder | None) -> list[Reranker]:
    """The rerankers that a probe compares: the named one, an endpoint, presets on this machine, and late interaction."""
    rerankers: list[Reranker] = []
    if settings.base_url or settings.model_name not in ("auto", "none", LATE_INTERACTION):
        rerankers.append(make_reranker(settings.model_name, settings, embedder))
    rerankers += [CrossEncoderReranker(preset.name, settings.device, False) for preset in PRESETS if is_on_this_machine(preset.name)]
    with suppress(ModelError, MissingExtra):  # an endpoint gives no token vectors, and a model may be missing
        rerankers.append(make_reranker(LATE_INTERACTION, settings, embedder))
    return list({reranker.name: reranker for reranker in reversed(rerankers)}.values())[::-1]


def make_reranker(name: str, settings: RerankerSettings, embedder: TokenEmbedder | None, *, downloads: bool = True) -> Reranker:
    """The reranker of this name: late interaction, a model that `base_url` serves, a preset, a local folder or a hub name.

    `ModelError` for late interaction without an embedding model that gives token vectors; other models load at first use.
    """
    if name == LATE_INTERACTION or name.startswith(f"{LATE_INTERACTION} "):
        if embedder is None:
            raise ModelUnavailable("late interaction needs an embedding model on this machine; see embedding.model_name")
        embedder.token_vectors(["token"], "query")  # raises for an endpoint, which gives no token vectors
        return LateInteraction(embedder, f"{LATE_INTERACTION} with {embedder.space.model_name}", embedder.space.revision)
    if settings.base_url:
        served_name = "" if name in ("auto", "none") else name
        key = settings.api_key.get_secret_value()
        return get_shared(_make_endpoint, settings.base_url, served_name, key, settings.timeout_s, settings.concurrency)
    if name in ("auto", "none"):
        raise BadRequest(f"{name!r} names no reranker; give a hub name, a folder or {LATE_INTERACTION}")
    return CrossEncoderReranker(normalize_name(name), settings.device, downloads)


def _choose_named(
    settings: RerankerSettings, embedder: TokenEmbedder | None, verdicts: Sequence[Verdict], *, requested: bool
) -> tuple[Reranker | None, str]:
    """The reranker that the settings name, unless a verdict on these very weights says that it does harm."""
    reranker = make_reranker(settings.model_name, settings, embedder)
    try:
        revision = find_revision(reranker)
    except ModelUnavailable:
        if HUB_NAME.fullmatch(reranker.name) is None or Path(reranker.name).exists():
            raise
        return reranker, NOT_FETCHED
    own = [verdict for verdict in verdicts if verdict.reranker == reranker.name]
    verdict = next((verdict for verdict in own if verdict.revision == revision), None)
    if verdict is None:
        return reranker, WEIGHTS_CHANGED if own else NOT_EVALUATED
    return (None if verdict.effect == "worse" and not requested else reranker), verdict.why


def _choose_best(settings: RerankerSettings, embedder: TokenEmbedder | None, last: Sequence[Verdict]) -> tuple[Reranker | None, str]:
    """The best reranker of the last probe that is still available, else an unevaluated one, else one that did harm."""
    for verdict in last:
        if verdict.effect != "worse":
            with suppress(ModelUnavailable):
                return _make_evaluated(verdict, settings, embedder), verdict.why
    harm = {(verdict.reranker, verdict.revision): (place, verdict.why) for place, verdict in enumerate(last) if verdict.effect == "worse"}
    ranked = [
        (harm.get((reranker.name, find_revision(reranker)), (-1, REQUESTED)), reranker) for reranker in list_rerankers(settings, embedder)
    ]
    (_, why), first = min(ranked, key=lambda pair: pair[0][0], default=((0, NONE_AVAILABLE), None))
    return first, why


def _make_evaluated(verdict: Verdict, settings: RerankerSettings, embedder: TokenEmbedder | None) -> Reranker:
    """The reranker of a verdict. `ModelUnavailable` if its name stands for something else today; downloads nothing."""
    again, name = "run `outrider library probe` again", verdict.reranker
    try:
        reranker: Reranker = CrossEncoderReranker(name, settings.device, downloads=False)
        if not settings.base_url or name.startswith(LATE_INTERACTION):
            reranker = make_reranker(name, settings, embedder, downloads=False)
        else:
            served = (make_reranker(model, settings, embedder) for model in ("auto", settings.model_name))
            reranker = next((candidate for candidate in served if candidate.name == name), reranker)
        revision = find_revision(reranker)
    except (ModelError, MissingExtra) as error:
        raise ModelUnavailable(f"the last probe judged {name}, which is not available: {error}; or {again}") from error
    if reranker.name != name:
        raise ModelUnavailable(f"the last probe judged {name}, and here is {reranker.name}: {again}")
    if revision != verdict.revision:
        raise ModelUnavailable(f"the weights of {name} are not those that the last probe judged: {again}")
    return reranker


@lru_cache(maxsize=CACHED_MODELS)
def _cross_encoder(name: str, _revision: str, device: str, downloads: bool) -> CrossEncoderReranker:
    return CrossEncoderReranker(name, device, downloads)


@lru_cache(maxsize=CACHED_MODELS)
def _make_endpoint(base_url: str, model_name: str, api_key: str, timeout_s: float, concurrency: int) -> EndpointReranker:
    """Cached, since the object remembers the servers' request formats."""
    from outrider.models.rerank.endpoint import EndpointReranker

    return EndpointReranker(base_url, model_name, api_key, timeout_s, concurrency)
