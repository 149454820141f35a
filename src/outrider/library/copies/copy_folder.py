"""The folder of one library's copies, which several processes may use and extend at once."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import platformdirs

KEPT_S = 7 * 86_400.0
"""Files and folders that no process has used since are removed."""
KEPT_FORMER_S = 3_600.0
"""So are those of a version that is no longer the latest: searches that have begun with it still read them."""
SLOW = "slow"
SLOW_S = 86_400.0
"""A file, and its age: so long no file is copied after one that came too slowly: each command would wait for it again."""


class CopyFolder:
    """Below the user's cache folder; it is made by the first file."""

    def __init__(self, library_id: str, uri: str) -> None:
        self.path = find_folder() / hashlib.sha256(f"{library_id} {uri}".encode()).hexdigest()[:32]

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def write(self, name: str, content: bytes) -> None:
        """It appears whole or not at all. Others may not read it: it holds records of the library."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700, exist_ok=True)
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self.path, suffix=".part")
        part = Path(temporary)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(handle)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def is_slow(self) -> bool:
        try:
            return (self.path / SLOW).stat().st_mtime > time.time() - SLOW_S
        except OSError:
            return False

    def mark_slow(self) -> None:
        self.write(SLOW, b"")

    def keep(self, table: str, current: Collection[str]) -> None:
        """Mark what is current in a table's folder as used now, and remove what was not for a while: each maintenance writes all anew.

        Lists of deleted rows stay. They are small, and the current ones are not known.
        """
        oldest = time.time() - KEPT_FORMER_S
        for path in (self.path / table).glob("*/*"):
            with suppress(OSError):
                if f"{path.parent.name}/{path.name}" in current:
                    for used in (path, *path.glob("*")):
                        os.utime(used)
                elif path.parent.name != "_deletions" and path.stat().st_mtime < oldest:
                    if path.is_dir():
                        shutil.rmtree(path)
                    else:
                        path.unlink()

    def remove(self, name: str) -> None:
        """A folder in it, with all that lies there."""
        shutil.rmtree(self.path / name, ignore_errors=True)

    def remove_unused(self) -> None:
        """Files of this folder, and folders of other libraries; another process may remove them at the same time."""
        oldest = time.time() - KEPT_S
        with suppress(OSError):
            os.utime(self.path)
            for path in [*self.path.parent.iterdir(), *self.path.rglob("*.*")]:
                with suppress(OSError):
                    if path.stat().st_mtime < oldest:
                        if path.parent == self.path.parent:
                            shutil.rmtree(path)
                        elif path.is_file():
                            path.unlink()


def find_folder() -> Path:
    """Where the copies of this user lie."""
    return platformdirs.user_cache_path("outrider", appauthor=False) / "indexes"
