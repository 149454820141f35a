"""Services that a process keeps between calls that bring none of their own.

Reading the settings costs little; opening the library, filling its caches and compiling the graph cost a quarter of a warm search. So the
services of a call are used again if nothing differs: the settings, which each call reads anew, the environment, the working folder, the
event loop (clients and locks belong to one) and the library's folder. Only its service could tell whether a library on object storage is
still the same: it is opened by each call where reads must be exact (`library.read_consistency_s: 0`), else every `REOPENED_S`.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

from outrider.library.address_and_locks import TABLE, Location
from outrider.services import error_tracker, tracing
from outrider.settings.load import load

if TYPE_CHECKING:
    from outrider.settings.model import Settings

MOST = 4
"""Services kept for one event loop; those used longest ago are closed, once no call uses them."""
REOPENED_S = 300.0
"""How long services with a library on object storage are kept."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What services are made of."""

    settings: Settings
    environment: Mapping[str, str]
    folder: str

    @classmethod
    def read(cls, flags: Mapping[str, object]) -> Surroundings:
        settings = load(flags).settings
        tracing.start_tracing(settings)
        error_tracker.start(settings)
        return cls(settings, dict(os.environ), str(Path.cwd()))


class Closable(Protocol):
    """The services, as far as this module knows them."""

    @property
    def is_library_open(self) -> bool: ...

    def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


@dataclass(slots=True)
class KeptServices(Generic[T]):
    services: T
    surroundings: Surroundings
    library: Path | None
    until: float = math.inf
    """By `time.monotonic`: a library on object storage may be another one by then."""
    in_use: int = 0
    manifest: tuple[str, int, int] | None = None
    """Path, inode and time of change of the library's newest version when a call last ended. A later one may stand beside it; if it is
    gone or another, so may be the library. None before the first call ends, and without a library.
    """


_kept: WeakKeyDictionary[asyncio.AbstractEventLoop, list[KeptServices[Any]]] = WeakKeyDictionary()


async def borrow(flags: Mapping[str, object], make: Callable[[Settings], T]) -> KeptServices[T]:
    """Services for a call on this loop, kept or made in a thread. `give_back` must follow."""
    kept = _kept.setdefault(asyncio.get_running_loop(), [])
    surroundings, unchanged = await asyncio.to_thread(_compare, flags, tuple(kept))
    match = next((one for one in unchanged if one in kept and one.surroundings == surroundings), None)
    for one in [one for one in kept if one not in unchanged]:
        kept.remove(one)
        _close_unused(one)
    if match is None:
        settings = surroundings.settings
        location = await asyncio.to_thread(Location.parse, settings.library.uri)
        reopened_s = math.inf if location.path is not None else REOPENED_S if settings.library.read_consistency_s else 0.0
        match = KeptServices(await asyncio.to_thread(make, settings), surroundings, location.path, time.monotonic() + reopened_s)
    else:
        kept.remove(match)
    if match.until > time.monotonic():
        kept.append(match)
    match.in_use += 1
    return match


async def give_back(used: KeptServices[Any]) -> None:
    used.in_use -= 1
    kept = _kept.get(asyncio.get_running_loop(), [])
    used.manifest = None if used.library is None else await asyncio.to_thread(_find_newest_manifest, used.library)
    is_gone = used.library is not None and used.manifest is None and used.services.is_library_open
    if is_gone and used in kept:  # a library in its place is another
        kept.remove(used)
    while len(kept) > MOST:
        _close_unused(kept.pop(0))
    if used not in kept:
        _close_unused(used)


def _close_unused(one: KeptServices[Any]) -> None:
    """Whoever still uses it gives it back, and finds it no longer kept."""
    if not one.in_use:
        one.services.close()


def _compare(flags: Mapping[str, object], known: tuple[KeptServices[Any], ...]) -> tuple[Surroundings, list[KeptServices[Any]]]:
    """The surroundings now, and the services whose library is still the one that they opened."""
    now = time.monotonic()
    is_same = [one.until > now and (one.manifest is None or _stat(one.manifest[0]) == one.manifest) for one in known]
    return Surroundings.read(flags), [one for one, same in zip(known, is_same, strict=True) if same]


def _find_newest_manifest(library: Path) -> tuple[str, int, int] | None:
    """LanceDB counts downwards in the names of manifests."""
    with suppress(OSError, ValueError):
        return _stat(min(entry.path for entry in os.scandir(library / f"{TABLE}.lance" / "_versions")))
    return None


def _stat(path: str) -> tuple[str, int, int] | None:
    with suppress(OSError):
        status = os.stat(path)  # noqa: PTH116 - the entry of a scan is a string
        return path, status.st_ino, status.st_mtime_ns
    return None
