"""Which files stand under the paths that were given: in a fixed order, each once, without following a loop.

Folders are walked depth first, their entries by name. Left out and not reported are hidden entries (a leading dot) inside a
folder, folders of a LanceDB table (`*.lance`: a library may lie inside the folder) and folders reached a second time; a path
that is given by name is taken even if hidden. No link is followed out of what was named. Everything else is
found: also what cannot be read, with the reason, so that a report accounts for it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from outrider.state.errors import BadRequest

KINDS = ((stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"))


@dataclass(frozen=True, slots=True)
class Found:
    """A file by its real path, in which bytes that are no text are spelt out.

    `problem` says why it cannot be read, `passed` why it is passed over.
    """

    path: Path
    size: int = 0
    problem: str = ""
    passed: str = ""


def walk(paths: Sequence[Path]) -> list[Found]:
    """The files under these paths, the paths in the order given. Raises `BadRequest` for one that does not exist."""
    for path in paths:
        _must_exist(path)
    folders: set[tuple[int, int]] = set()
    seen: set[Path] = set()
    found = []
    for file in (file for path in paths for file in _under(path, folders)):
        if file.path not in seen:
            seen.add(file.path)
            found.append(_in_text(file))
    return found


def _must_exist(path: Path) -> None:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError) as absent:
        raise BadRequest(f"{path}: there is no such file or folder; give paths that exist") from absent
    except ValueError as impossible:  # a null character
        raise BadRequest(f"{str(path)!r} is no path: {impossible}") from impossible
    except PermissionError:
        return  # it is there; the walk reports it
    except OSError as other:
        raise BadRequest(f"{path}: {other.strerror}; give paths that exist") from other


def _under(start: Path, folders: set[tuple[int, int]]) -> Iterator[Found]:
    """Iterative, so that no depth of folders is too deep."""
    todo = [start]
    while todo:
        path = todo.pop()
        try:
            status = path.stat()
        except OSError as broken:
            yield Found(path.absolute(), problem=_why(path, broken))
            continue
        folder, linked = stat.S_ISDIR(status.st_mode), path != start and path.is_symlink()
        if linked and (folder or stat.S_ISREG(status.st_mode)) and not path.resolve().is_relative_to(start.resolve()):
            what = "folder" if folder else "file"
            yield Found(path.absolute(), passed=f"a link to a {what} outside; name that {what} to read it")
        elif not folder:
            yield _file(path, status)
        elif linked:
            continue  # it is come to by its own name
        elif (status.st_dev, status.st_ino) not in folders:
            folders.add((status.st_dev, status.st_ino))
            try:
                names = sorted((entry.name for entry in path.iterdir() if not _left_out(entry.name)), reverse=True)
            except OSError as closed:
                yield Found(path.absolute(), problem=_why(path, closed))
                continue
            todo.extend(path / name for name in names)


def _left_out(name: str) -> bool:
    return name.startswith(".") or name.endswith(".lance")


def _file(path: Path, status: os.stat_result) -> Found:
    if stat.S_ISREG(status.st_mode):
        return Found(path.resolve(), status.st_size)
    kind = next((name for is_kind, name in KINDS if is_kind(status.st_mode)), "not a regular file")
    return Found(path.resolve(), passed=f"{kind}, not a file")


def _in_text(found: Found) -> Found:
    """A name in an encoding that is not the file system's can be stored and shown nowhere."""
    name, problem = str(found.path), _spelt(found.problem)
    if _spelt(name) != name:
        return Found(Path(_spelt(name)), problem="its name or its folder's is no Unicode text; rename it to read it")
    return found if problem == found.problem else replace(found, problem=problem)


def _spelt(said: str) -> str:
    return said.encode("utf-8", "backslashreplace").decode()


def _why(path: Path, error: OSError) -> str:
    if path.is_symlink() and isinstance(error, FileNotFoundError):
        return f"a link to {path.readlink()}, which is not there"
    return error.strerror or str(error)
