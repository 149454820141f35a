"""Walk of files and folders: every file once, in a fixed order, without following a loop.

Folders are walked depth first, their entries by name. Left out and not reported are hidden entries (a leading dot, or the `~$` of
the files by which Word locks open documents) inside a folder, folders of a LanceDB table (`*.lance`: a library may lie inside the folder)
and folders reached a second time; a path that is named is read even if hidden. No link is followed out of a named folder. Everything
else is listed, also a file that cannot be read, with the reason, so that a report accounts for it.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider.state.errors import BadRequest

HIDDEN = (".", "~$")
KINDS = ((stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"))


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file by its real path, in which bytes that are not text are escaped."""

    path: Path
    size: int = 0
    problem: str = ""
    """Why it cannot be read."""
    skip_reason: str = ""
    """Why it is skipped."""
    upload: str = ""
    """The origin of an upload's records; its path is that of a temporary file."""

    @property
    def origin(self) -> str:
        """The origin of the file's records."""
        return self.upload or str(self.path)


def require_paths(paths: Sequence[Path]) -> None:
    """Raises `BadRequest` for a path that does not exist."""
    for path in paths:
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise BadRequest(f"{path}: there is no such file or folder; give paths that exist") from error
        except ValueError as error:  # a null character
            raise BadRequest(f"{str(path)!r} is not a path: {error}") from error
        except PermissionError:
            continue  # it exists; the walk reports it
        except OSError as error:
            raise BadRequest(f"{path}: {error.strerror}; give paths that exist") from error


def walk(paths: Sequence[Path]) -> list[InputFile]:
    """The files under these paths, in the order of the paths. Raises `BadRequest` for a path that does not exist."""
    require_paths(paths)
    folders: set[tuple[int, int]] = set()
    files: dict[Path, InputFile] = {}
    for file in (file for path in paths for file in _walk_path(path, folders)):
        if file.path not in files:
            # a name that is not in the file system's encoding cannot be stored or shown
            name = _escape(str(file.path))
            if name == str(file.path):
                files[file.path] = InputFile(file.path, file.size, _escape(file.problem), file.skip_reason)
            else:
                files[file.path] = InputFile(Path(name), problem="the name of the file or its folder is not Unicode; rename it to read it")
    return list(files.values())


def _walk_path(start: Path, folders: set[tuple[int, int]]) -> Iterator[InputFile]:
    """Iterative, so that no depth of folders is too deep."""
    todo = [start]
    while todo:
        path = todo.pop()
        try:
            status = path.stat()
        except OSError as error:
            yield InputFile(path.absolute(), problem=_explain(path, error))
            continue
        is_folder, is_link = stat.S_ISDIR(status.st_mode), path != start and path.is_symlink()
        if is_link and (is_folder or stat.S_ISREG(status.st_mode)) and not path.resolve().is_relative_to(start.resolve()):
            kind = "folder" if is_folder else "file"
            yield InputFile(path.absolute(), skip_reason=f"a link to a {kind} outside; name that {kind} to read it")
        elif not is_folder and stat.S_ISREG(status.st_mode):
            yield InputFile(path.resolve(), status.st_size)
        elif not is_folder:
            kind = next((name for is_kind, name in KINDS if is_kind(status.st_mode)), "not a regular file")
            yield InputFile(path.resolve(), skip_reason=f"{kind}, not a file")
        elif not is_link and (status.st_dev, status.st_ino) not in folders:  # a link's target is reached by its own name
            folders.add((status.st_dev, status.st_ino))
            try:
                names = sorted((entry.name for entry in path.iterdir()), reverse=True)
            except OSError as error:
                yield InputFile(path.absolute(), problem=_explain(path, error))
                continue
            todo.extend(path / name for name in names if not name.startswith(HIDDEN) and not name.endswith(".lance"))


def _escape(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _explain(path: Path, error: OSError) -> str:
    if path.is_symlink() and isinstance(error, FileNotFoundError):
        return f"a link to {path.readlink()}, which does not exist"
    return error.strerror or str(error)
