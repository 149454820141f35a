"""Searches of all server processes, in Redis: their state, their events, and who runs them.

::

    outrider:search:ID          hash    state of a search, with the token of the process that runs it
    outrider:search:ID:events   list    its events; the first has number 1
    outrider:searches:running   hash    searches under way, and their processes
    outrider:searches:ended     zset    ended ones by time, as ID:SIZE
    outrider:searches:chars     number  sizes of their answers together
    outrider:process:NAME       string  expires `shared.lease_s` after the last sign of life of a process

A script of Redis makes each change at once and by its clock. A change needs the search's token: a process that was stalled, and whose
search another one has taken over, changes nothing. All keys of a search expire.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from outrider.interfaces.http.search_events import Event
from outrider.runtime.redis_client import open_redis
from outrider.runtime.threads_and_loops import is_cancelled

if TYPE_CHECKING:
    from redis.asyncio import Redis

PATIENCE_S = 2.0
"""Of one command."""
RETRY_S = 1.0
POLL_S = 2.0
"""Followers look for events so often where no message announces one."""
RUNNING_MS = 24 * 3_600 * 1_000
"""Keys of a search under way expire after this time without an event: no process runs any more."""
MIN_KEEP_MS = 5_000
"""Followers at other processes read the last event within this time."""
RUNNING, ENDED, CHARS, CHANNEL = (f"outrider:searches:{name}" for name in ("running", "ended", "chars", "news"))
STOP = "stop "
"""Begins a message on a search to stop; `SCAN` asks all processes to look for searches that nobody runs; others name a changed search."""
SCAN = "scan"

SAVE = """
local run, events, running, ended, chars, alive = unpack(KEYS)
local id, token, process, size, lease = ARGV[1], ARGV[2], ARGV[3], ARGV[5], ARGV[11]
local first, ttl, keep, keep_s = tonumber(ARGV[4]), ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
local max_chars, fields = tonumber(ARGV[9]), tonumber(ARGV[10])
local held = redis.call('HMGET', run, 'token', 'ended')
if held[1] and held[1] ~= token then return -1 end
if held[2] == '1' then return 0 end
if not held[1] then
    if first > 0 then return -2 end
    redis.call('DEL', events)
end
redis.call('HSET', run, 'token', token, 'process', process)
redis.call('SET', alive, 'alive', 'PX', lease, 'NX')
for at = 12, 11 + 2 * fields, 2 do redis.call('HSET', run, ARGV[at], ARGV[at + 1]) end
local stored = redis.call('LLEN', events)
for at = 12 + 2 * fields + stored - first, #ARGV do redis.call('RPUSH', events, ARGV[at]) end
if size ~= '' then
    local now = redis.call('TIME')
    now = now[1] + now[2] / 1000000
    redis.call('HSET', run, 'ended', '1', 'process', '')
    redis.call('HDEL', running, id)
    redis.call('ZADD', ended, now, id .. ':' .. size)
    local sum = redis.call('INCRBY', chars, size)
    local count = redis.call('ZCARD', ended)
    while count > 0 do
        local oldest = redis.call('ZRANGE', ended, 0, 0, 'WITHSCORES')
        if count <= keep and now - oldest[2] <= keep_s and (count == 1 or sum <= max_chars) then break end
        local old, old_size = string.match(oldest[1], '^(.*):(%d+)$')
        redis.call('ZREM', ended, oldest[1])
        sum = redis.call('DECRBY', chars, old_size)
        count = count - 1
        redis.call('DEL', 'outrider:search:' .. old, 'outrider:search:' .. old .. ':events')
    end
else
    redis.call('HSET', running, id, process)
end
redis.call('PEXPIRE', run, ttl)
redis.call('PEXPIRE', events, ttl)
redis.call('PUBLISH', 'outrider:searches:news', id)
return 1
"""
CLAIM_ORPHAN = """
local run, running, alive = unpack(KEYS)
local id, old, token, process = unpack(ARGV)
if redis.call('EXISTS', alive) == 1 then return false end
local held = redis.call('HMGET', run, 'process', 'ended')
if held[1] ~= old or held[2] == '1' then
    if redis.call('HGET', running, id) == old then redis.call('HDEL', running, id) end
    return false
end
redis.call('HSET', run, 'token', token, 'process', process)
redis.call('HINCRBY', run, 'takeovers', 1)
redis.call('HSET', running, id, process)
return 1
"""
CLAIM_WAITING = """
local run, events, running, ended = unpack(KEYS)
local id, token, process, order, ttl = unpack(ARGV)
local held = redis.call('HMGET', run, 'ended', 'review')
if held[1] ~= '1' or not held[2] or held[2] == '' then return 0 end
local seen = redis.call('LLEN', events)
redis.call('HSET', run, 'token', token, 'process', process, 'order', order, 'seen', seen, 'ended', '', 'review', '', 'takeovers', 0,
    'cancel', '')
redis.call('ZREM', ended, id .. ':0')
redis.call('HSET', running, id, process)
redis.call('PEXPIRE', run, ttl)
redis.call('PEXPIRE', events, ttl)
return 1
"""
HAND_OVER = """
local run, running = unpack(KEYS)
local held = redis.call('HMGET', run, 'token', 'process', 'ended')
if held[1] ~= ARGV[2] or held[2] ~= ARGV[3] or held[3] == '1' then return 0 end
redis.call('HSET', run, 'process', '', 'token', '-')
redis.call('HINCRBY', run, 'takeovers', -1)
redis.call('HSET', running, ARGV[1], '')
redis.call('PUBLISH', 'outrider:searches:news', 'scan')
return 1
"""
CANCEL = """
local held = redis.call('HMGET', KEYS[1], 'token', 'ended')
if not held[1] or held[2] == '1' then return 0 end
redis.call('HSET', KEYS[1], 'cancel', '1')
redis.call('PUBLISH', 'outrider:searches:news', 'stop ' .. ARGV[1])
return 1
"""

log = logging.getLogger(__name__)


class StoreAway(Exception):
    """Redis is unreachable, too slow or full."""


class Saved(Enum):
    DONE = 1
    ENDED = 0
    """It had ended before, as it was told."""
    LOST = -1
    """Another process has taken it over."""
    MISSING = -2
    """Redis has lost it, with its events."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of ended searches that are kept, those of all processes together."""

    keep: int
    keep_s: float
    max_chars: int


@dataclass(slots=True)
class RunStore:
    """Raises `StoreAway`. Belongs to the loop of the server."""

    url: str
    lease_s: float
    limits: Limits
    process: str = field(default_factory=lambda: secrets.token_hex(8))
    """Of this process, which no other one ever has."""
    _redis: Redis = field(init=False, repr=False)
    _server: str = ""
    """The run of Redis that this process found first."""
    _changed: dict[str, asyncio.Event] = field(default_factory=dict)
    """Of the searches that are followed here."""

    def __post_init__(self) -> None:
        self._redis = open_redis(self.url, "shared.redis_url", PATIENCE_S)

    async def save(
        self, run_id: str, token: str, first: int, fields: Mapping[str, str], events: Sequence[Event], *, size: int | None = None
    ) -> Saved:
        """Write fields, and the events after the first `first`; `size` of its answer ends the search. May be repeated."""
        flat = [text for pair in fields.items() for text in pair]
        limits, ttl = self.limits, RUNNING_MS if size is None else self._keep_ms
        numbers = (
            first,
            "" if size is None else size,
            ttl,
            limits.keep,
            limits.keep_s,
            limits.max_chars,
            len(fields),
            round(self.lease_s * 1_000),
        )
        keys = (*find_keys(run_id), RUNNING, ENDED, CHARS, find_process_key(self.process))
        async with self._raise_away():
            return Saved(await self._run(SAVE, keys, run_id, token, self.process, *numbers, *flat, *map(write_event, events)))

    async def load(self, run_id: str) -> dict[str, str] | None:
        """Its fields, and as `events` their number; None where Redis has no such search."""
        run, events = find_keys(run_id)
        async with self._raise_away(), self._redis.pipeline(transaction=True) as pipeline:
            pipeline.hgetall(run)
            pipeline.llen(events)
            fields, count = await pipeline.execute()
            if not fields:
                await self._refuse_unlearned()
        return {"events": str(count), **{_decode(name): _decode(value) for name, value in fields.items()}} if fields else None

    async def read_events(self, run_id: str, after: int) -> tuple[list[Event], bool] | None:
        """Events after the first `after`, and whether no more will come; None where Redis has no such search."""
        run, events = find_keys(run_id)
        async with self._raise_away(), self._redis.pipeline(transaction=True) as pipeline:
            pipeline.hmget(run, ["token", "ended"])
            pipeline.lrange(events, after, -1)
            (token, ended), texts = await pipeline.execute()
            has_answer = bool(texts) and b"\n" not in texts[-1]
            answer: Any = await self._redis.hget(run, "answer") if has_answer else b""
            if token is None:
                await self._refuse_unlearned()
        if token is None or answer is None:  # dropped, maybe between the two questions
            return None
        return [read_event(_decode(text), _decode(answer)) for text in texts], ended == b"1"

    async def follow(self, run_id: str, after: int) -> AsyncGenerator[tuple[int, Event], None]:
        """Each event with its number; ends after the last one. Waits for a Redis that is away."""
        number = after
        while True:
            changed = self._changed.setdefault(run_id, asyncio.Event())
            try:
                found = await self.read_events(run_id, number)
            except StoreAway:
                await asyncio.sleep(RETRY_S)
                continue
            for event in found[0] if found else ():
                number += 1
                yield number, event
            if found is None or found[1]:
                self._changed.pop(run_id, None)
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await changed.wait()

    async def claim_waiting(self, run_id: str, token: str, order: str) -> bool:
        """Whether this process may run a search that waited for a person: one process may."""
        run, events = find_keys(run_id)
        async with self._raise_away():
            return bool(await self._run(CLAIM_WAITING, (run, events, RUNNING, ENDED), run_id, token, self.process, order, RUNNING_MS))

    async def claim_orphan(self, run_id: str, process: str, token: str) -> bool:
        """Whether this process may run the search of one that has given no sign of life."""
        keys = (find_keys(run_id)[0], RUNNING, find_process_key(process))
        async with self._raise_away():
            return bool(await self._run(CLAIM_ORPHAN, keys, run_id, process, token, self.process))

    async def find_orphans(self) -> list[tuple[str, str]]:
        """Searches under way whose processes are gone, and these; also those that this process should run, which it may have forgotten."""
        async with self._raise_away():
            under_way: dict[Any, Any] = await self._redis.hgetall(RUNNING)
            running = {_decode(run): _decode(name) for run, name in under_way.items()}
            names = sorted({name for name in running.values() if name != self.process})
            alive = {self.process}
            if names:
                found = await self._redis.mget([find_process_key(name) for name in names])
                alive = {name for name, sign in zip(names, found, strict=True) if sign is not None}
        return [(run, name) for run, name in sorted(running.items()) if name not in alive or name == self.process]

    async def hand_over(self, run_id: str, token: str) -> None:
        """Let another process run a search of this one; that is no failure of it."""
        async with self._raise_away():
            await self._run(HAND_OVER, (find_keys(run_id)[0], RUNNING), run_id, token, self.process)

    async def cancel(self, run_id: str) -> None:
        """Ask the process that runs it to stop it."""
        async with self._raise_away():
            await self._run(CANCEL, find_keys(run_id)[:1], run_id)

    async def give_sign(self, run_ids: Iterable[str]) -> dict[str, tuple[str, bool]]:
        """A sign of life of this process. The tokens of these searches, empty for unknown ones, and whether they should stop."""
        names = list(run_ids)
        if not self._server:
            async with self._raise_away():
                self._server = (await self._redis.info("server"))["run_id"]
        async with self._raise_away(), self._redis.pipeline(transaction=False) as pipeline:
            pipeline.set(find_process_key(self.process), "alive", px=round(self.lease_s * 1_000))
            for name in names:
                pipeline.hmget(find_keys(name)[0], ["token", "cancel"])
            _, *held = await pipeline.execute()
        return {name: (_decode(token or b""), cancel == b"1") for name, (token, cancel) in zip(names, held, strict=True)}

    async def listen(self) -> AsyncIterator[str]:
        """Searches to stop, as `stop ID`, and `SCAN`; wakes those who follow a changed one. Comes back after each failure."""
        while not is_cancelled():  # the client library may swallow a cancellation that comes with an answer
            with suppress(StoreAway):
                async with self._raise_away(), self._redis.pubsub(ignore_subscribe_messages=True) as subscription:
                    await subscription.subscribe(CHANNEL)
                    while not is_cancelled():
                        message = await subscription.get_message(timeout=POLL_S)
                        text = _decode(message["data"]) if message else ""
                        if text == SCAN or text.startswith(STOP):
                            yield text
                        elif changed := self._changed.pop(text, None):
                            changed.set()
            await asyncio.sleep(RETRY_S)

    async def _refuse_unlearned(self) -> None:
        """Raise `StoreAway` while nobody can say that there is no such search: Redis has started anew, and processes tell it of theirs."""
        server = await self._redis.info("server")
        if self._server not in ("", server["run_id"]) and server["uptime_in_seconds"] <= self.lease_s:
            raise StoreAway("it has started anew")

    async def close(self) -> None:
        """Give the sign that this process has ended."""
        with suppress(StoreAway):
            async with self._raise_away():
                await self._redis.delete(find_process_key(self.process))
                await self._redis.publish(CHANNEL, SCAN)
        await self._redis.aclose()

    @property
    def _keep_ms(self) -> int:
        return max(MIN_KEEP_MS, round(self.limits.keep_s * 1_000))

    async def _run(self, script: str, keys: Sequence[str], *values: Any) -> Any:
        return await self._redis.register_script(script)(keys=keys, args=values)

    @asynccontextmanager
    async def _raise_away(self) -> AsyncIterator[None]:
        from redis.exceptions import RedisError

        try:
            yield
        except (RedisError, OSError, TimeoutError) as error:
            raise StoreAway(" ".join(str(error).split())[:200] or type(error).__name__) from error


def find_keys(run_id: str) -> tuple[str, str]:
    """The keys of a search and of its events."""
    return f"outrider:search:{run_id}", f"outrider:search:{run_id}:events"


def find_process_key(process: str) -> str:
    return f"outrider:process:{process}"


def _decode(text: bytes) -> str:
    """Whoever can write to the server may have written it: text that is no UTF-8 must not end the task that reads it."""
    return text.decode(errors="replace")


def write_event(event: Event) -> str:
    """The answer of a search stands in its state: its last event only has the name."""
    return event.name if event.name == "response" else f"{event.name}\n{event.data}"


def read_event(text: str, answer: str) -> Event:
    name, line_break, data = text.partition("\n")
    return Event(name, data if line_break else answer)


@dataclass(frozen=True, slots=True)
class Order:
    """What another process needs to run a search."""

    kind: str
    """`search`, `resume` for the last search of its thread, or `answer` for one that waited for a person."""
    request: str = ""
    """As JSON."""
    context: str = ""
    review: str = ""
    """What waited, and the answer, as JSON."""
    answer: str = ""

    def write(self) -> str:
        return json.dumps([self.kind, self.request, self.context, self.review, self.answer])

    @classmethod
    def read(cls, text: str) -> Order:
        return cls(*json.loads(text))
