"""What records of files are called when they are told apart by their own ids: each once, as the file gives it where that is possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class OwnIds:
    """Takes records in order; `all` gives their names.

    An id stays as it is. Where two files share one, the ids of all files begin with their file: `dblp.csv:12`. One that a file gives
    twice gets `#2`, a record without any is called by its file and place: `refs.ris#12`.
    """

    _files: list[Path] = field(default_factory=list)
    _said: list[tuple[int, int, str | None]] = field(default_factory=list)
    without: int = 0
    repeated: int = 0
    scoped: bool = False

    def file(self, path: Path) -> None:
        self._files.append(path)
        self._place = 0

    _place: int = 0

    def add(self, own: str | None) -> None:
        self._place += 1
        self._said.append((len(self._files) - 1, self._place, own))

    def all(self) -> list[str]:
        names = _short(self._files)
        self.scoped = self._shared()
        used: set[str] = set()
        self.without = self.repeated = 0
        return [self._free(names[file], place, own, used) for file, place, own in self._said]

    def _shared(self) -> bool:
        seen: dict[str, int] = {}
        return any(seen.setdefault(own, file) != file for file, _, own in self._said if own is not None)

    def _free(self, file: str, place: int, own: str | None, used: set[str]) -> str:
        wanted = f"{file}#{place}" if own is None else f"{file}:{own}" if self.scoped else own
        self.without += own is None
        name, times = wanted, 1
        while name in used:
            times += 1
            name = f"{wanted}#{times}"
        self.repeated += times > 1
        used.add(name)
        return name


def _short(files: Sequence[Path]) -> list[str]:
    """Names of files, with as many folders as tell them apart."""
    parts = max((len(path.parts) for path in files), default=1)
    for kept in range(1, parts + 1):
        names = ["/".join(path.parts[-kept:]) for path in files]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in files]
