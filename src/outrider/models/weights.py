"""Model weights: in a folder, in the Hugging Face hub's local cache, or on the hub."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from dataclasses import dataclass
from pathlib import Path

from outrider.models.embed.presets import find_preset
from outrider.state.errors import MissingExtra, ModelUnavailable

FEATURE = "dense search"
HUB_TIMEOUT_S = 10.0
"""For the hub's first response; its client retries five times, and a search must not wait for that."""
COMMIT = re.compile(r"[0-9a-f]{40}")
CONFIG_FILES = ("*.json", "*.txt", "*.model", "*.jinja")
WEIGHT_FILES = ("*.safetensors",)
LEGACY_WEIGHT_FILES = ("*pytorch_model*.bin",)
"""Used only if a model has no others (bge-m3); transformers loads nothing but weights from such a file. No code is fetched."""
FULL_HASH_BELOW = 10**9
"""Total bytes up to which a fingerprint reads the files completely."""
END_BYTES = 2**20
WEIGHT_NAMES = ("model.safetensors", "pytorch_model.bin")
"""Each may be split into several files, which `<name>.index.json` lists."""
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Weights:
    """The files of a model on this machine."""

    name: str
    folder: Path
    revision: str
    """The hub's commit, or the fingerprint of a local folder."""


@dataclass(frozen=True, slots=True)
class SettingNames:
    """The settings that select a model, so that an error message names the one to change."""

    model: str = "embedding.model_name"
    device: str = "embedding.device"
    base_url: str = "embedding.base_url"


EMBEDDING_SETTINGS = SettingNames()


def find_weights(name: str, *, fetch: bool, revision: str = "", names: SettingNames = EMBEDDING_SETTINGS) -> Weights:
    """The weights of a folder or hub name; without `fetch` no network access.

    Raises `ModelUnavailable` with a remedy, `MissingExtra` if the hub's client is not installed.
    """
    try:
        folder = Path(name).expanduser()
        if folder.is_dir():
            next(folder.iterdir(), None)  # raises for an unreadable folder, which else looks empty
            return Weights(str(folder.absolute()), folder, fingerprint(folder))
        if name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1 or Path(name).exists():
            raise ModelUnavailable(
                f"no model at {name}: {'a model is a folder, this is a file' if folder.exists() else 'there is no such folder'}"
            )
        return _find_hub_weights(_hub_name(name), revision if COMMIT.fullmatch(revision) else None, names, fetch=fetch)
    except OSError as error:
        raise ModelUnavailable(f"the files of the model {name} cannot be read: {shorten_error(error)}") from error


def is_same_model(name: str, other: str) -> bool:
    """Whether two names mean one hub model or folder."""
    return name == other or _hub_name(name).casefold() == _hub_name(other).casefold()


def is_cached(name: str) -> bool:
    """Whether a model is on this machine, and complete."""
    try:
        find_weights(name, fetch=False)
    except ModelUnavailable:
        return False
    return True


def fingerprint(folder: Path) -> str:
    """sha256 over names and contents of a model's files.

    Above `FULL_HASH_BELOW` bytes in total it covers their names, sizes, first and last `END_BYTES` bytes: a change in the middle of
    large weights alone goes unnoticed, but a start need not read gigabytes.
    """
    files = sorted(
        {
            path
            for pattern in (*CONFIG_FILES, *WEIGHT_FILES, *LEGACY_WEIGHT_FILES)
            for path in folder.rglob(pattern)
            if path.is_file() and ".cache" not in path.parts
        }
    )
    read_all = sum(path.stat().st_size for path in files) <= FULL_HASH_BELOW
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            if read_all or path.stat().st_size <= 2 * END_BYTES:
                while part := file.read(END_BYTES):
                    digest.update(part)
            else:
                digest.update(file.read(END_BYTES))
                file.seek(-END_BYTES, 2)
                digest.update(file.read(END_BYTES))
    return f"sha256:{digest.hexdigest()}"


def _hub_name(name: str) -> str:
    """A preset's name in any spelling; a name without an owner belongs to sentence-transformers, as in its library."""
    if preset := find_preset(name):
        owner = name.rpartition("/")[0].casefold()
        if owner in {"", preset.name.rpartition("/")[0].casefold()}:
            return preset.name
    return name if "/" in name else f"sentence-transformers/{name}"


def _find_hub_weights(name: str, revision: str | None, names: SettingNames, *, fetch: bool) -> Weights:
    try:
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise MissingExtra(FEATURE, "models") from error
    state = "not"
    try:
        local = _load_snapshot(name, revision, fetch=False)
        if is_complete(local.folder):
            return local
        state = "only in part"
    except HFValidationError as error:
        raise ModelUnavailable(f"{name!r} is neither a folder nor a name that the hub can have") from error
    except LocalEntryNotFoundError:
        pass
    if not fetch:
        raise ModelUnavailable(
            f"the weights of {name} are {state} on this machine; set {names.model} to {name}: naming a model lets it be fetched, unless "
            "the search is offline"
        )
    log.info("fetching the weights of %s from the hub", name)
    try:
        fetched = _load_snapshot(name, revision, fetch=True)
    except (HfHubHTTPError, OSError) as error:
        raise ModelUnavailable(_explain_hub_error(name, names, error)) from error
    if not is_complete(fetched.folder):  # the client returns what it has, without an error, if the hub is unreachable
        raise ModelUnavailable(
            f"the weights of {name} are only in part on this machine and the hub gives no more; "
            "look whether it can be reached, or put all files into a folder and name that"
        )
    return fetched


def is_complete(folder: Path) -> bool:
    """Whether a snapshot has a model's config, tokenizer, all weights, and the files of the modules after the transformer.

    The hub's client does not tell: the folder exists as soon as its first file is fetched.
    """
    try:
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        kinds = [(str(module["type"]).rpartition(".")[2], folder / str(module["path"])) for module in modules]
    except (FileNotFoundError, ValueError, KeyError, TypeError):  # not saved by sentence-transformers
        kinds = []
    (_, first), *others = kinds or [("Transformer", folder)]
    if not ((first / "config.json").is_file() and _has_file(first, *TOKENIZER_FILES) and _has_weights(first)):
        return False
    return all(
        kind == "Normalize" or (_has_file(path, "*config.json") and (kind != "Dense" or _has_weights(path))) for kind, path in others
    )


def _has_file(folder: Path, *patterns: str) -> bool:
    return any(path.is_file() for pattern in patterns for path in folder.glob(pattern))


def _has_weights(folder: Path) -> bool:
    for name in WEIGHT_NAMES:
        try:
            parts = json.loads((folder / f"{name}.index.json").read_text(encoding="utf-8"))["weight_map"].values()
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            parts = [name]
        if all((folder / str(part)).is_file() for part in parts):
            return True
    return False


def _load_snapshot(name: str, revision: str | None, *, fetch: bool) -> Weights:
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    def load_folder(patterns: tuple[str, ...]) -> Path:
        return Path(
            snapshot_download(
                name,
                revision=revision,
                allow_patterns=[*CONFIG_FILES, *patterns],
                local_files_only=not fetch,
                etag_timeout=HUB_TIMEOUT_S,
            )
        )

    bars_enabled = not are_progress_bars_disabled()
    if bars_enabled:
        disable_progress_bars()
    try:
        folder = load_folder(WEIGHT_FILES)
        if not any(folder.glob("*.safetensors")):
            folder = load_folder(LEGACY_WEIGHT_FILES)
    finally:
        if bars_enabled:
            enable_progress_bars()
    return Weights(name, folder, folder.name)


def _explain_hub_error(name: str, names: SettingNames, error: Exception) -> str:
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
    """A foreign error's message on one line, shortened."""
    message = " ".join(str(error).split()) or type(error).__name__
    return message if len(message) <= 200 else f"{message[:200]}..."


def refuse_own_code(weights: Weights, names: SettingNames = EMBEDDING_SETTINGS) -> None:
    """Refuse a model that needs code of its own: sentence-transformers before 6 runs code in local folders without asking."""
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
    """The error message for a model that needs code of its own."""
    return (
        f"{name} runs only with code from its own repository, which Outrider does not run; serve it as an endpoint and set {names.base_url}"
    )
