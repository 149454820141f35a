"""Output folder of a training: atomic, and only ever replaces an earlier training."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from outrider.state.errors import BadRequest

RECORD = "outrider_training.json"
"""What the training came to, for programs; its presence marks the folder as ours."""


def refuse_foreign(out: Path) -> None:
    """`BadRequest` where `out` holds anything but an earlier training, or cannot be written."""
    if out.exists() and not out.is_dir():
        raise BadRequest(f"{out} is a file; name a folder for the trained reranker")
    if out.is_dir() and any(out.iterdir()) and not (out / RECORD).is_file():
        raise BadRequest(f"{out} holds something other than an earlier training; name a new or empty folder")
    out = out.absolute()  # `.` has no name of its own
    with _translate_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}.")).rmdir()


@contextmanager
def replace_folder(out: Path) -> Iterator[Path]:
    """A folder beside `out` to write into, which takes its place at the end; after an error `out` is as it was."""
    out = out.absolute()
    with _translate_errors(out):
        made = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
        try:
            yield made
            made.chmod(0o755)
            refuse_foreign(out)  # somebody may have written there meanwhile
            before = made.with_name(made.name + ".before")
            if out.exists():
                out.rename(before)
            try:
                made.rename(out)
            except OSError:
                if before.exists():
                    before.rename(out)
                raise
            shutil.rmtree(before, ignore_errors=True)
        finally:
            shutil.rmtree(made, ignore_errors=True)


def write_record(folder: Path, report: Mapping[str, Any], trained_on: Iterable[str]) -> None:
    """Mark the folder as a training's, with what it came to and the ids of the records it was trained on."""
    said = {**report, "trained_on": sorted(trained_on)}
    (folder / RECORD).write_text(json.dumps(said, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def read_trained_ids(name: str) -> frozenset[str]:
    """Ids of the records that the reranker of this name was trained on here; empty for any other reranker.

    A probe leaves them out: a reranker finds again what it has learned by heart.
    """
    try:
        said = json.loads((Path(name).expanduser() / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return frozenset()
    ids = said.get("trained_on") if isinstance(said, dict) else None
    return frozenset(map(str, ids)) if isinstance(ids, list) else frozenset()


@contextmanager
def _translate_errors(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadRequest(f"the trained reranker cannot be written to {out}: {error.strerror or error}") from error
