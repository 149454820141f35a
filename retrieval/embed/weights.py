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

from outrider.retrieval.embed.presets import preset_of
from outrider.state.errors import MissingExtra, ModelUnavailable

FEATURE = "dense search"
HUB_TIMEOUT_S = 10.0
"""For the hub's first answer; it retries five times on end, and a search must not wait for that."""
COMMIT = re.compile(r"[0-9a-f]{40}")
BESIDE = ("*.json", "*.txt", "*.model", "*.jinja")
WEIGHTS = ("*.safetensors",)
OLD_WEIGHTS = ("*pytorch_model*.bin",)
"""Taken only where a model has no others (bge-m3); transformers lets such a file hold nothing but weights. No code is fetched."""
WHOLE_BELOW = 10**9
"""Bytes of all files together up to which a fingerprint reads them whole."""
END = 2**20
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Weights:
    name: str
    folder: Path
    revision: str
    """The hub's commit, or the fingerprint of a local folder."""


def find(name: str, *, fetch: bool, revision: str = "") -> Weights:
    """The weights of a folder or hub name; without `fetch` nothing is asked of the network.

    Raises `ModelUnavailable` with what mends it, `MissingExtra` where the hub's client is not installed.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return Weights(name, folder, fingerprint(folder))
    if _is_path(name):
        raise ModelUnavailable(
            f"no model at {name}: {'a model is a folder, this is a file' if folder.exists() else 'there is no such folder'}"
        )
    return _of_hub(_hub_name(name), revision if COMMIT.fullmatch(revision) else None, fetch=fetch)


def same(name: str, other: str) -> bool:
    """Whether two names mean one hub model or folder."""
    return name == other or _hub_name(name).casefold() == _hub_name(other).casefold()


def cached(name: str) -> bool:
    """Whether the hub's cache holds all of a model's files."""
    try:
        find(name, fetch=False)
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
            for pattern in (*BESIDE, *WEIGHTS, *OLD_WEIGHTS)
            for path in folder.rglob(pattern)
            if path.is_file() and ".cache" not in path.parts
        }
    )
    whole = sum(path.stat().st_size for path in files) <= WHOLE_BELOW
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        for part in _parts(path, whole=whole):
            digest.update(part)
    return f"sha256:{digest.hexdigest()}"


def _parts(path: Path, *, whole: bool) -> Iterator[bytes]:
    with path.open("rb") as file:
        if whole or path.stat().st_size <= 2 * END:
            yield from iter(lambda: file.read(END), b"")
            return
        yield file.read(END)
        file.seek(-END, 2)
        yield file.read(END)


def _is_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1 or Path(name).exists()


def _hub_name(name: str) -> str:
    """A preset's own name however it is written; a name without owner is of sentence-transformers, as its library has it."""
    if preset := preset_of(name):
        owner = name.rpartition("/")[0].casefold()
        if owner in {"", preset.name.rpartition("/")[0].casefold()}:
            return preset.name
    return name if "/" in name else f"sentence-transformers/{name}"


def _of_hub(name: str, revision: str | None, *, fetch: bool) -> Weights:
    try:
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise MissingExtra(FEATURE, "models") from error
    try:
        return _snapshot(name, revision, fetch=False)
    except HFValidationError as error:
        raise ModelUnavailable(f"{name!r} is neither a folder nor a name that the hub can have") from error
    except LocalEntryNotFoundError as error:
        if not fetch:
            raise ModelUnavailable(f"the weights of {name} are not on this machine; {how_to_get(name)}") from error
    log.info("fetching the weights of %s from the hub", name)
    try:
        return _snapshot(name, revision, fetch=True)
    except (HfHubHTTPError, OSError) as error:
        raise ModelUnavailable(_why_not(name, error)) from error


def how_to_get(name: str) -> str:
    return f"set embedding.model_name to {name}: naming a model lets it be fetched"


def _snapshot(name: str, revision: str | None, *, fetch: bool) -> Weights:
    from huggingface_hub import snapshot_download

    def folder(patterns: tuple[str, ...]) -> Path:
        found = snapshot_download(
            name, revision=revision, allow_patterns=[*BESIDE, *patterns], local_files_only=not fetch, etag_timeout=HUB_TIMEOUT_S
        )
        return Path(found)

    with _no_bars():
        found = folder(WEIGHTS)
        if not any(found.glob("*.safetensors")):
            found = folder(OLD_WEIGHTS)
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


def _why_not(name: str, error: Exception) -> str:
    from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError

    if isinstance(error, GatedRepoError):
        return f"{name} is gated: accept its terms at https://huggingface.co/{name} and log in with `hf auth login`"
    if isinstance(error, RevisionNotFoundError):
        return f"the hub has {name}, but no longer the version that the library was embedded with"
    if isinstance(error, RepositoryNotFoundError):
        return f"the hub has no model {name}, or it is private; give another embedding.model_name or log in with `hf auth login`"
    if isinstance(error, LocalEntryNotFoundError):
        return f"the weights of {name} are not on this machine and the hub cannot be reached; put them into a folder and name that"
    return f"the weights of {name} cannot be fetched from the hub: {one_line(error)}"


def one_line(error: BaseException) -> str:
    """A foreign error's message, short enough for one line."""
    said = " ".join(str(error).split()) or type(error).__name__
    return said if len(said) <= 200 else f"{said[:200]}..."


def check_own_code(weights: Weights) -> None:
    """Refuses a model that would run code of its own: sentence-transformers before 6 runs that of local folders unasked."""
    modules = weights.folder / "modules.json"
    if not modules.is_file():
        return
    try:
        kinds = [str(module["type"]) for module in json.loads(modules.read_text(encoding="utf-8"))]
    except (ValueError, KeyError, TypeError) as error:
        raise ModelUnavailable(f"{weights.name} cannot be loaded: its modules.json cannot be read") from error
    if any(not kind.startswith("sentence_transformers.") for kind in kinds):
        raise ModelUnavailable(own_code(weights.name))


def own_code(name: str) -> str:
    return (
        f"{name} runs only with code from its own repository, which Outrider does not run; "
        "serve it behind an OpenAI-compatible endpoint and set embedding.base_url"
    )
