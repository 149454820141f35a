"""Where a model's weights lie: a folder, the local cache of the Hugging Face hub, or, for a model that is named, the hub itself."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from outrider.models.embed.presets import find_preset
from outrider.state.errors import MissingExtra, ModelUnavailable

FEATURE = "dense search"
HUB_TIMEOUT_S = 10.0
"""For the hub's first answer; it retries five times on end, and a search must not wait for that."""
COMMIT = re.compile(r"[0-9a-f]{40}")
CONFIG_FILES = ("*.json", "*.txt", "*.model", "*.jinja")
WEIGHT_FILES = ("*.safetensors",)
LEGACY_WEIGHT_FILES = ("*pytorch_model*.bin",)
"""Taken only where a model has no others (bge-m3); transformers lets such a file hold nothing but weights. No code is fetched."""
FULL_HASH_BELOW = 10**9
"""Bytes of all files together up to which a fingerprint reads them whole."""
END_BYTES = 2**20
WEIGHT_NAMES = ("model.safetensors", "pytorch_model.bin")
"""Each may lie in several files instead, which `<name>.index.json` lists."""
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Weights:
    name: str
    folder: Path
    revision: str
    """The hub's commit, or the fingerprint of a local folder."""


@dataclass(frozen=True, slots=True)
class SettingNames:
    """Where a model was asked for, so that a message names what mends it there."""

    model: str = "embedding.model_name"
    device: str = "embedding.device"
    base_url: str = "embedding.base_url"


EMBEDDING_SETTINGS = SettingNames()


def find_weights(name: str, *, fetch: bool, revision: str = "", names: SettingNames = EMBEDDING_SETTINGS) -> Weights:
    """The weights of a folder or hub name; without `fetch` nothing is asked of the network.

    Raises `ModelUnavailable` with what mends it, `MissingExtra` where the hub's client is not installed.
    """
    try:
        return _found(name, revision if COMMIT.fullmatch(revision) else None, names, fetch=fetch)
    except OSError as error:
        raise ModelUnavailable(f"the files of the model {name} cannot be read: {shorten_error(error)}") from error


def _found(name: str, revision: str | None, names: SettingNames, *, fetch: bool) -> Weights:
    folder = Path(name).expanduser()
    if folder.is_dir():
        next(folder.iterdir(), None)  # a folder that may not be listed else looks empty
        return Weights(str(folder.absolute()), folder, fingerprint(folder))
    if name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1 or Path(name).exists():
        raise ModelUnavailable(
            f"no model at {name}: {'a model is a folder, this is a file' if folder.exists() else 'there is no such folder'}"
        )
    return _of_hub(_hub_name(name), revision, names, fetch=fetch)


def is_same_model(name: str, other: str) -> bool:
    """Whether two names mean one hub model or folder."""
    return name == other or _hub_name(name).casefold() == _hub_name(other).casefold()


def is_cached(name: str) -> bool:
    """Whether a model is on this machine, and `whole`."""
    try:
        find_weights(name, fetch=False)
    except ModelUnavailable:
        return False
    return True


def fingerprint(folder: Path) -> str:
    """sha256 over names and contents of a model's files.

    Above `WHOLE_BELOW` bytes in all it is over their names, sizes, first and last `END` bytes: a change in the middle of
    large weights alone is not seen, but a start need not read gigabytes.
    """
    files = sorted(
        {
            path
            for pattern in (*CONFIG_FILES, *WEIGHT_FILES, *LEGACY_WEIGHT_FILES)
            for path in folder.rglob(pattern)
            if path.is_file() and ".cache" not in path.parts
        }
    )
    whole = sum(path.stat().st_size for path in files) <= FULL_HASH_BELOW
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        for part in _parts(path, whole=whole):
            digest.update(part)
    return f"sha256:{digest.hexdigest()}"


def _parts(path: Path, *, whole: bool) -> Iterator[bytes]:
    with path.open("rb") as file:
        if whole or path.stat().st_size <= 2 * END_BYTES:
            yield from iter(lambda: file.read(END_BYTES), b"")
            return
        yield file.read(END_BYTES)
        file.seek(-END_BYTES, 2)
        yield file.read(END_BYTES)


def _hub_name(name: str) -> str:
    """A preset's own name however it is written; a name without owner is of sentence-transformers, as its library has it."""
    if preset := find_preset(name):
        owner = name.rpartition("/")[0].casefold()
        if owner in {"", preset.name.rpartition("/")[0].casefold()}:
            return preset.name
    return name if "/" in name else f"sentence-transformers/{name}"


def _of_hub(name: str, revision: str | None, names: SettingNames, *, fetch: bool) -> Weights:
    try:
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise MissingExtra(FEATURE, "models") from error
    how_much = "not"
    try:
        here = _snapshot(name, revision, fetch=False)
        if is_complete(here.folder):
            return here
        how_much = "only in part"
    except HFValidationError as error:
        raise ModelUnavailable(f"{name!r} is neither a folder nor a name that the hub can have") from error
    except LocalEntryNotFoundError:
        pass
    if not fetch:
        raise ModelUnavailable(
            f"the weights of {name} are {how_much} on this machine; set {names.model} to {name}: naming a model lets it be fetched"
        )
    log.info("fetching the weights of %s from the hub", name)
    try:
        fetched = _snapshot(name, revision, fetch=True)
    except (HfHubHTTPError, OSError) as error:
        raise ModelUnavailable(_why_not(name, names, error)) from error
    if not is_complete(fetched.folder):  # from a hub that it cannot reach, the client gives what is there and no error
        raise ModelUnavailable(
            f"the weights of {name} are only in part on this machine and the hub gives no more; "
            "look whether it can be reached, or put all files into a folder and name that"
        )
    return fetched


def is_complete(folder: Path) -> bool:
    """Whether a snapshot holds a model's config, tokenizer, all its weights, and what follows the transformer.

    The hub's client does not say: the folder is there as soon as the first file is fetched.
    """
    (_, first), *others = _modules(folder) or [("Transformer", "")]
    return _is_transformer(folder / first) and all(_has_its_files(kind, folder / path) for kind, path in others)


def _modules(folder: Path) -> list[tuple[str, str]]:
    """Kind and subfolder of each module where sentence-transformers saved the model."""
    try:
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        return [(str(module["type"]).rpartition(".")[2], str(module["path"])) for module in modules]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return []


def _is_transformer(folder: Path) -> bool:
    return (folder / "config.json").is_file() and _any(folder, *TOKENIZER_FILES) and _has_weights(folder)


def _has_its_files(kind: str, folder: Path) -> bool:
    return kind == "Normalize" or (_any(folder, "*config.json") and (kind != "Dense" or _has_weights(folder)))


def _any(folder: Path, *patterns: str) -> bool:
    return any(path.is_file() for pattern in patterns for path in folder.glob(pattern))


def _has_weights(folder: Path) -> bool:
    return any(_all_there(folder, name) for name in WEIGHT_NAMES)


def _all_there(folder: Path, weights: str) -> bool:
    try:
        listed = json.loads((folder / f"{weights}.index.json").read_text(encoding="utf-8"))["weight_map"].values()
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return (folder / weights).is_file()
    return all((folder / str(name)).is_file() for name in listed)


def _snapshot(name: str, revision: str | None, *, fetch: bool) -> Weights:
    from huggingface_hub import snapshot_download

    def folder(patterns: tuple[str, ...]) -> Path:
        found = snapshot_download(
            name, revision=revision, allow_patterns=[*CONFIG_FILES, *patterns], local_files_only=not fetch, etag_timeout=HUB_TIMEOUT_S
        )
        return Path(found)

    with _no_bars():
        found = folder(WEIGHT_FILES)
        if not any(found.glob("*.safetensors")):
            found = folder(LEGACY_WEIGHT_FILES)
    return Weights(name, found, found.name)


@contextmanager
def _no_bars() -> Iterator[None]:
    """No progress bars of the hub's client."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    shown = not are_progress_bars_disabled()
    if shown:
        disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            enable_progress_bars()


def _why_not(name: str, names: SettingNames, error: Exception) -> str:
    from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError

    if isinstance(error, GatedRepoError):
        return f"{name} is gated: accept its terms at https://huggingface.co/{name} and log in with `hf auth login`"
    if isinstance(error, RevisionNotFoundError):
        return f"the hub has {name}, but no longer the version that the library was embedded with"
    if isinstance(error, RepositoryNotFoundError):
        return f"the hub has no model {name}, or it is private; give another {names.model} or log in with `hf auth login`"
    if isinstance(error, LocalEntryNotFoundError):
        return f"the weights of {name} are not on this machine and the hub cannot be reached; put them into a folder and name that"
    return f"the weights of {name} cannot be fetched from the hub: {shorten_error(error)}"


def shorten_error(error: BaseException | str) -> str:
    """A foreign error's message, short enough for one line."""
    said = " ".join(str(error).split()) or type(error).__name__
    return said if len(said) <= 200 else f"{said[:200]}..."


def refuse_own_code(weights: Weights, names: SettingNames = EMBEDDING_SETTINGS) -> None:
    """Refuses a model that would run code of its own: sentence-transformers before 6 runs that of local folders unasked."""
    modules = weights.folder / "modules.json"
    try:
        kinds = [str(module["type"]) for module in json.loads(modules.read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelUnavailable(f"{weights.name} cannot be loaded: its modules.json cannot be read") from error
    if any(not kind.startswith("sentence_transformers.") for kind in kinds):
        raise ModelUnavailable(explain_own_code(weights.name, names))


def explain_own_code(name: str, names: SettingNames = EMBEDDING_SETTINGS) -> str:
    return (
        f"{name} runs only with code from its own repository, which Outrider does not run; serve it as an endpoint and set {names.base_url}"
    )
