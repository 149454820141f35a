"""Errors that a caller can act on, and hints for mistyped names.

::

    SearchError                      exit code
    ├── BadRequest                   2   the request cannot be understood
    │   ├── NotBuilt                 2   the feature is known but not built yet
    │   ├── NoSuchThread             2   no search was saved under this name
    │   ├── ThreadBusy               2   a search of this thread is under way
    │   ├── NotWaiting               2   it waits for no answer, or has just been given one
    │   ├── OtherLibrary             2   the last search of this thread read another library
    │   ├── NoSuchJob                2   no background job has this number or target
    │   ├── TargetPaused             2   its jobs are paused, so no new one is queued
    │   ├── NoSuchSaved              2   no search was saved under this name, or it has no such run
    │   ├── StoreDamaged             2   the file of the saved searches is cut off or damaged
    │   └── SettingsError            2   a settings file, variable or flag is wrong
    ├── UnreadableFile               2   one file could not be turned into records
    │   └── NothingToRead            2   it was read, and holds no record
    ├── MissingExtra                 2   an optional package is not installed
    ├── NothingSearchable            3   no configured source could be searched
    ├── SourceError                  3   a service gave no usable answer; costs only its own results
    │   ├── SourceOff                3   it is switched off or not available
    │   ├── RateLimited              3   it is rate-limiting us
    │   ├── Unauthorized             3   it rejects the key
    │   ├── Forbidden                3   it forbids this
    │   ├── SourceTimeout            3   it took longer than it may
    │   ├── SourceUnavailable        3   it could not be reached, or failed
    │   └── Malformed                3   its answer is not as documented
    ├── ModelError                   3
    │   ├── ModelUnavailable         3   weights or an endpoint cannot be loaded or reached
    │   ├── BadVectors               3   a model returned unusable vectors: not numbers, too few, another dimension
    │   └── ChatError                3   a chat model gave no usable answer
    │       ├── KeyRejected          4   its provider rejects the key
    │       ├── ChatUnavailable      3   it could not be reached, failed, or limits our rate beyond the run's time
    │       ├── BadAnswer            3   its answer does not have the requested shape, also at the second try
    │       └── BudgetSpent          3   the run may make no further call
    ├── ThreadError                  3   a thread's checkpoints cannot be read or written
    ├── JobError                     3   the background jobs cannot be read, written or run
    ├── ClusterError                 3   work on Ray: the cluster cannot be reached or used
    ├── SavedError                   3   saved searches cannot be read or written
    │   └── SavedBusy                3   another process runs this one
    └── LibraryError                 3
        ├── LibraryMissing           3   no library at that location
        ├── LibraryTooNew            3   written by a newer Outrider
        ├── LibraryTooOld            3   written before the first release, in a format that is no longer supported
        ├── LibraryCorrupt           3   its files cannot be read
        ├── LibraryReadOnly          3   it can be searched but not changed
        ├── LibraryBusy              3   another process is doing work that only one may do at a time
        ├── NoVectors                3   its records were never embedded
        └── EmbeddingSpaceMismatch   3   its vectors are of another model than the configured one

A message says what failed, where, and what to do. A bug (`KeyError`) is not among these: it ends the program.
"""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any


class SearchError(Exception):
    """Base of every expected error; `exit_code` is the exit code of the command."""

    exit_code = 3


class BadRequest(SearchError, ValueError):
    """Also a `ValueError`: LangGraph's server shows the messages of built-in errors only, and hides others as internal."""

    exit_code = 2


class NotBuilt(BadRequest):
    pass


class NoSuchThread(BadRequest):
    pass


class ThreadBusy(BadRequest):
    pass


class NotWaiting(BadRequest):
    pass


class OtherLibrary(BadRequest):
    pass


class NoSuchJob(BadRequest):
    pass


class TargetPaused(BadRequest):
    pass


class NoSuchSaved(BadRequest):
    pass


class StoreDamaged(BadRequest):
    pass


class SettingsError(BadRequest):
    pass


class UnreadableFile(SearchError):
    exit_code = 2


class NothingToRead(UnreadableFile):
    pass


class MissingExtra(SearchError):
    exit_code = 2

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs packages that are not installed; install them with: {install_hint(extra)}")


class NothingSearchable(SearchError):
    exit_code = 3


class SourceError(SearchError):
    """`retry_at` is the earliest time for another request, in seconds since the epoch, if known."""

    exit_code = 3
    status = "unavailable"
    """Status of its row in the response's `sources`."""

    def __init__(self, message: str, retry_at: float | None = None) -> None:
        super().__init__(message)
        self.retry_at = retry_at


class SourceOff(SourceError):
    status = "off"


class RateLimited(SourceError):
    status = "rate_limited"


class Unauthorized(SourceError):
    status = "unauthorized"


class Forbidden(SourceError):
    status = "forbidden"


class SourceTimeout(SourceError):
    status = "timeout"


class SourceUnavailable(SourceError):
    status = "unavailable"


class Malformed(SourceError):
    status = "malformed"


class ModelError(SearchError):
    exit_code = 3


class ModelUnavailable(ModelError):
    pass


class BadVectors(ModelError):
    pass


class ChatError(ModelError):
    exit_code = 3


class KeyRejected(ChatError):
    exit_code = 4


class ChatUnavailable(ChatError):
    pass


class BadAnswer(ChatError):
    pass


class BudgetSpent(ChatError):
    pass


class ThreadError(SearchError):
    pass


class ClusterError(SearchError):
    pass


class SavedError(SearchError):
    pass


class SavedBusy(SavedError):
    pass


class JobError(SearchError):
    pass


class LibraryError(SearchError):
    exit_code = 3


class LibraryMissing(LibraryError):
    pass


class LibraryTooNew(LibraryError):
    pass


class LibraryTooOld(LibraryError):
    pass


class LibraryCorrupt(LibraryError):
    pass


class LibraryReadOnly(LibraryError):
    pass


class LibraryBusy(LibraryError):
    pass


class NoVectors(LibraryError):
    """`command` embeds the library's records."""

    def __init__(self, message: str, command: str = "") -> None:
        super().__init__(message)
        self.command = command


class EmbeddingSpaceMismatch(LibraryError):
    """`command` embeds the library's records with the other model."""

    def __init__(self, message: str, command: str = "") -> None:
        super().__init__(message)
        self.command = command


def install_hint(extra: str) -> str:
    """The command that installs the packages of an extra, for where this Outrider runs: a clone, or an installation by pip."""
    import json  # here, since `from outrider import search` reads this module
    import shlex
    from contextlib import suppress
    from importlib import metadata

    parent = Path(__file__).resolve().parents[1]  # of the folder `state`: the root of a clone, or the installed package
    if (parent / "pyproject.toml").is_file():
        return f"pip install -e {shlex.quote(f'{parent}[{extra}]')} (outside this clone: pip install 'outrider[{extra}]')"
    source = None
    with suppress(metadata.PackageNotFoundError):
        source = metadata.distribution("outrider").read_text("direct_url.json")  # PEP 610: pip was given a folder, an archive or git
    if source is None:
        return f"pip install 'outrider[{extra}]'"
    direct = json.loads(source)
    vcs = direct.get("vcs_info", {}).get("vcs")
    return f"pip install 'outrider[{extra}] @ {f'{vcs}+' if vcs else ''}{direct['url']}'"


DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DISK_FULL_WORDS = re.compile(r"no space left|disk (?:is )?full|quota exceeded", re.IGNORECASE)


def is_disk_full(error: BaseException) -> bool:
    """Whether an error, or one that it was raised from, says that no more can be written: the disk, the quota or a limit is used up."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if getattr(cause, "errno", None) in DISK_FULL or (isinstance(cause, Exception) and _DISK_FULL_WORDS.search(str(cause))):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


MAX_SHOWN_CHARS = 60
CUTOFF = 0.6
"""Share of letters in common from which two names are alike (difflib's own default)."""


def find_nearest(wrong: object, names: Iterable[str], cutoff: float = CUTOFF) -> str | None:
    """The known name most similar to the wrong one; None if none is similar."""
    return next(iter(difflib.get_close_matches(str(wrong), list(names), n=1, cutoff=cutoff)), None)


def did_you_mean(wrong: object, names: Iterable[str]) -> str:
    """`; did you mean 'year'?`, to append to an error message; empty if no known name is similar."""
    close = find_nearest(wrong, names)
    return f"; did you mean {close!r}?" if close else ""


LENGTH = re.compile(r"(?:Tuple|List) should have (at (?:least|most) \d+) items? after validation")


def explain_wrong_fields(details: Iterable[Mapping[str, Any]], names: Collection[str]) -> str:
    """The first problem of each field, from `ValidationError.errors()`; `names` are those of the model, for misspelt ones."""
    lines: dict[str, str] = {}
    for detail in details:
        path = detail["loc"] or (next(iter(names), "request"),)
        field = str(path[0])
        if detail["type"] == "extra_forbidden":
            whole = ".".join(map(str, path))
            lines.setdefault(whole, f"unknown field {whole!r}{did_you_mean(field, names) if len(path) == 1 else ''}")
        else:
            reason = detail["msg"].removeprefix("Value error, ").replace("a valid tuple", "a valid list")  # JSON has no tuples
            reason = LENGTH.sub(r"takes \1", reason)
            lines.setdefault(field, f"{field}: {reason}")
    return "; ".join(lines.values())


def shorten(value: object) -> str:
    """The value as Python writes it, cut to `MAX_SHOWN_CHARS`."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN_CHARS else text[: MAX_SHOWN_CHARS - 3] + "..."


HALF_A_CHARACTER = "holds half a character (a lone surrogate): check the encoding of the input"


def has_lone_surrogate(text: str) -> bool:
    """Whether a text has no UTF-8. JSON can hold such a text, and so can a string of Python."""
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


LIMITS = (
    (errno.ENOSPC, r"no space left|disk (?:is )?full", "there is no space left on its disk; free some"),
    (errno.EDQUOT, r"quota exceeded", "your quota on its disk is used up; free some space or ask for more"),
    (
        errno.EFBIG,
        r"file too large|file size limit",
        "a file would be too large for this shell or disk; raise the limit: ulimit -f unlimited",
    ),
    (errno.EMFILE, r"too many open files(?! in system)", "this shell allows too few open files; allow more: ulimit -n 4096"),
    (errno.ENFILE, r"too many open files in system", "the system has too many open files; close other programs"),
    (errno.ENOMEM, r"cannot allocate memory|out of memory", "there is not enough memory; close other programs"),
)
"""Limits of the shell, the disk and the machine: error number, words of its message, and what to do. The library is sound."""
NUMBER = re.compile(r"\b(?:os error|errno) (\d+)", re.IGNORECASE)


def explain_limit(error: Exception) -> str:
    """Which limit of the shell, the disk or the machine was reached, and what to do; empty for another error."""
    message = str(error)
    if "No usable temporary directory" in message:  # `tempfile` tries to write to each
        return "free some space, raise the limit (ulimit -f unlimited), or name another folder for temporary files in TMPDIR"
    named = NUMBER.search(message)
    number = getattr(error, "errno", None) or (int(named.group(1)) if named else None)
    if number is not None:  # it decides: Rust prints the number of every error of the system
        return next((remedy for known, _, remedy in LIMITS if known == number), "")
    return next((remedy for _, words, remedy in LIMITS if re.search(words, message, re.IGNORECASE)), "")
