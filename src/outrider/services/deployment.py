"""Servers that share a Redis server: which are up, and whether their folders agree.

Each server writes an entry, which expires: `outrider:server:ID`. A systematic run or a review is a folder. A server that does not find one
may say that it does not exist only if all servers have the same folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import platformdirs
from pydantic import BaseModel, Field, SecretStr, ValidationError

from outrider.jobs.job_table import POSTGRES
from outrider.runtime.redis_client import open_redis
from outrider.services.citation_queue import is_local_database
from outrider.state.errors import BadRequest, SearchError, SettingsError
from outrider.state.model import Model
from outrider.text.sanitize import OFFLINE, without_control, without_credentials
from outrider.version import __version__

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from outrider.library.library import Library
    from outrider.settings.model import Settings

FolderKind = Literal["runs", "reviews"]
SETTING: str = "shared.redis_url"
PREFIX, INDEX = "outrider:server:", "outrider:servers"
BEAT_S = 5.0
EXPIRE_S = 20
"""A server that died is forgotten after so long: four beats, so that a slow moment of Redis forgets nobody."""
INDEX_EXPIRE_S = 86_400
PATIENCE_S = 2.0
MARK = ".outrider-folder"
"""A file with a random name, by which two servers know whether they have the same folder."""
UNCOMPARED = ("embedding", "reranker", "distiller")
"""Sections that name devices and folders of models: they may differ between machines."""

log = logging.getLogger(__name__)


class Member(Model):
    """One server."""

    id: str
    host: str
    pid: int
    version: str
    started_at: float
    skew_s: float = Field(description="Its clock minus that of Redis.")
    library: str = Field("", description="The number of its library; empty for none yet.")
    folders: dict[str, str] = Field(default_factory=dict, description="The mark of its folders, by what they hold.")
    settings: dict[str, str] = Field(default_factory=dict, description="Digests of its settings, by section.")

    @property
    def name(self) -> str:
        return f"{self.host}:{self.pid}"


def find_folders(settings: Settings) -> dict[FolderKind, Path]:
    """Where systematic runs and reviews are."""
    data = platformdirs.user_data_path("outrider", appauthor=False)
    runs, reviews = settings.systematic.folder, settings.review.folder
    return {
        "runs": Path(runs).expanduser() if runs else data / "runs",
        "reviews": Path(reviews).expanduser() if reviews else data / "reviews",
    }


def mark_folder(folder: Path) -> str:
    """The mark of a folder, which is made where there is none; empty if it cannot be written."""
    path = folder / MARK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{MARK}.{os.getpid()}.{secrets.token_hex(4)}"
        try:
            part.write_text(secrets.token_hex(16), encoding="ascii")
            with suppress(FileExistsError):  # of another server, or of an earlier start
                os.link(part, path)
        finally:
            part.unlink(missing_ok=True)
        return path.read_text(encoding="ascii")[:64]
    except OSError as error:
        log.warning("%s cannot be written, so that other servers cannot tell whether they share it: %s", folder, error.strerror or error)
        return ""


def digest_settings(settings: Settings) -> dict[str, str]:
    """A digest of each section, secrets included, under the address of Redis as a key: whoever reads Redis learns no secret."""
    key = settings.shared.redis_url.encode()
    sections: dict[str, Any] = {name: _reveal(section) for name, section in settings if name not in UNCOMPARED}
    sections["serve.api_keys"] = sections["serve"].pop("api_keys")
    for name in ("systematic", "review"):  # the same folder may have another path on another machine: its mark is compared
        sections[name].pop("folder")
    text = {name: json.dumps(section, sort_keys=True, default=str) for name, section in sections.items()}
    return {name: hmac.new(key, each.encode(), hashlib.sha256).hexdigest()[:16] for name, each in text.items()}


def _reveal(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, BaseModel):
        return {name: _reveal(inner) for name, inner in value}
    return {name: _reveal(inner) for name, inner in value.items()} if isinstance(value, dict) else value


def check_shared(settings: Settings) -> None:
    """Before a server starts: raise `BadRequest` for what several servers cannot share, `SettingsError` or `MissingExtra` for Redis."""
    refuse_learning(settings)
    _open_redis(settings)


def _open_redis(settings: Settings) -> Redis | None:
    """Raises `SettingsError`, also for a server on another machine while nothing may be contacted, and `MissingExtra`."""
    url = settings.shared.redis_url
    if url and settings.sources.offline and not is_local_database(url):
        raise SettingsError(f"{SETTING} is {without_credentials(url)}, {OFFLINE}; name a server on this machine, or none")
    return open_redis(url, SETTING, PATIENCE_S) if url else None


def refuse_learning(settings: Settings) -> None:
    """Raise `BadRequest` where servers on several machines would learn apart: better no start than answers that depend on the server."""
    uris = settings.threads.uri, settings.jobs.uri
    if settings.shared.redis_url and settings.learning.enabled and any(uri.startswith(POSTGRES) for uri in uris):
        raise BadRequest(
            "learning.enabled keeps what is learned in a file of one machine, and shared.redis_url and Postgres are for servers on "
            "several; set learning.enabled: false, or run one server"
        )


@dataclass(slots=True)
class Deployment:
    """The servers, seen from one of them, or from a command that is none."""

    settings: Settings
    _redis: Redis | None = None
    _member: Member | None = None
    _others: tuple[Member, ...] = ()
    """As far as is known, where Redis does not answer."""
    _is_away: bool = False
    """Redis did not answer, which was logged."""

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings) -> AsyncIterator[Deployment]:
        """Raises `SettingsError`, `MissingExtra`; without `shared.redis_url` it has no members."""
        redis = _open_redis(settings)
        try:
            yield cls(settings, redis)
        finally:
            if redis is not None:
                with suppress(Exception):  # a server that is away already
                    await redis.aclose()

    @asynccontextmanager
    async def announce(self, open_library: Callable[[], Awaitable[Library]]) -> AsyncIterator[None]:
        """Tell the other servers of this one, and of its library, while the block runs."""
        if self._redis is None:
            yield
            return
        folders = {kind: await asyncio.to_thread(mark_folder, folder) for kind, folder in find_folders(self.settings).items()}
        self._member = Member(
            id=secrets.token_hex(8),
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            started_at=time.time(),
            skew_s=0.0,
            folders={kind: mark for kind, mark in folders.items() if mark},
            settings=digest_settings(self.settings),
        )
        tasks = {asyncio.create_task(self._beat()), asyncio.create_task(self._find_library(open_library))}
        try:
            yield
        finally:
            while tasks:  # a library that is opened meanwhile may swallow a cancellation
                for task in tasks:
                    task.cancel()
                tasks = (await asyncio.wait(tasks, timeout=1.0))[1]
            await self._leave()

    async def _beat(self) -> None:
        while True:
            await self._write()
            await asyncio.sleep(BEAT_S)

    async def _find_library(self, open_library: Callable[[], Awaitable[Library]]) -> None:
        """Add the number of the library to the entry. An object store may take minutes, for which the entry cannot wait."""
        while self._member is not None and not self._member.library:
            with suppress(SearchError):
                library = await open_library()
                self._member = self._member.model_copy(update={"library": library.library_id})
                await self._write()
                return
            await asyncio.sleep(BEAT_S)

    async def _write(self) -> None:
        from redis.exceptions import RedisError

        assert self._redis is not None  # noqa: S101 - only then it beats
        assert self._member is not None  # noqa: S101
        try:
            skew_s = await self.measure_skew()
            self._member = self._member.model_copy(update={"skew_s": skew_s})
            async with self._redis.pipeline(transaction=True) as commands:
                commands.set(f"{PREFIX}{self._member.id}", self._member.model_dump_json(), ex=EXPIRE_S)
                commands.sadd(INDEX, self._member.id)
                commands.expire(INDEX, INDEX_EXPIRE_S)
                await commands.execute()
            self._others = await self.members()
            self._is_away = False
        except (RedisError, OSError) as error:
            if not self._is_away:
                log.warning("%s: other servers are not told of this one: %s", SETTING, type(error).__name__)
            self._is_away = True

    async def _leave(self) -> None:
        if self._redis is not None and self._member is not None:
            with suppress(Exception):  # the entry expires
                await self._redis.delete(f"{PREFIX}{self._member.id}")
                await cast("Any", self._redis.srem(INDEX, self._member.id))

    async def measure_skew(self) -> float:
        """Seconds that this machine's clock is ahead of that of Redis, about half a round trip exact."""
        assert self._redis is not None  # noqa: S101
        before = time.time()
        seconds, micros = await self._redis.time()
        return round((before + time.time()) / 2 - (seconds + micros / 1e6), 3)

    async def members(self) -> tuple[Member, ...]:
        """The servers that are up, in the order of their start. Raises redis' errors."""
        if self._redis is None:
            return ()
        numbers = sorted(_decode(number) for number in await cast("Any", self._redis.smembers(INDEX)))
        found = await self._redis.mget([f"{PREFIX}{number}" for number in numbers]) if numbers else []
        if gone := [number for number, text in zip(numbers, found, strict=True) if text is None]:
            await cast("Any", self._redis.srem(INDEX, *gone))
        members = []
        for text in found:
            with suppress(ValidationError):  # of another version
                members += [_read_member(text)] if text is not None else []
        return tuple(sorted(members, key=lambda member: (member.started_at, member.id)))

    async def has_other_folder(self, kind: FolderKind) -> bool:
        """Whether a server that is up has another folder for these: what this one does not find may exist there."""
        if self._redis is None or self._member is None:
            return False
        from redis.exceptions import RedisError

        with suppress(RedisError, OSError, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                self._others = await self.members()
        own = self._member.folders.get(kind, "")
        return any(member.folders.get(kind, "") != own for member in self._others)

    @property
    def redis(self) -> Redis | None:
        return self._redis


def list_differences(members: tuple[Member, ...], name: str) -> Mapping[str, tuple[str, ...]]:
    """The servers by digest of a section of their settings; more than one entry where they differ."""
    groups: dict[str, tuple[str, ...]] = {}
    for member in members:
        digest = member.settings.get(name, "")
        groups[digest] = (*groups.get(digest, ()), member.name)
    return groups


def _read_member(text: bytes | str) -> Member:
    member = Member.model_validate_json(text)
    return member.model_copy(update={name: without_control(getattr(member, name), "") for name in ("host", "version")})


def _decode(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
