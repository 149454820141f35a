"""Caches of answers: on disk for all processes of a machine, in Redis for several; faults cost time only."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import diskcache
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.runtime.threads_and_loops import in_background
from outrider.sources.http import cache as module
from outrider.sources.http.cache import (
    AnswerCache,
    CachedAnswer,
    DiskCache,
    NoCache,
    RedisCache,
    claim_call,
    pack_answer,
    store_later,
    unpack_answer,
)
from outrider.sources.http.client import Caller
from outrider.sources.http.service import Service
from outrider.state.errors import MissingExtra, SettingsError
from support.http_server import as_json, serving, take_no_more
from support.redis import redis_url

__all__ = ["redis_url"]

HEADERS = {"content-type": "application/json"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[DiskCache]:
    cache = DiskCache(tmp_path / "answers")
    yield cache
    cache.close()


@given(st.binary(), st.dictionaries(st.text(), st.text()), st.integers(0, 10_000))
def test_a_cached_answer_is_returned_unchanged(body: bytes, headers: dict[str, str], age: int) -> None:
    assert unpack_answer(pack_answer(body, headers, 1_000_000), 1_000_000 + age) == (body, headers, age)


@given(st.binary(max_size=200), st.data())
def test_a_damaged_cache_entry_counts_as_missing(body: bytes, data: st.DataObject) -> None:
    """Cut short anywhere, or one byte of the body changed: never another body than the stored one."""
    value = pack_answer(body, HEADERS, 0.0)
    cut = unpack_answer(value[: data.draw(st.integers(0, len(value) - 1))], 0.0)
    assert cut is None or cut.body == body
    at = data.draw(st.integers(0, len(value) - 1))
    changed = unpack_answer(value[:at] + bytes([value[at] ^ data.draw(st.integers(1, 255))]) + value[at + 1 :], 0.0)
    assert changed is None or changed.body == body


@given(st.binary() | st.text() | st.none() | st.integers())
def test_a_foreign_cache_entry_counts_as_missing(value: object) -> None:
    assert unpack_answer(value, 0.0) is None


@pytest.mark.parametrize(
    "value", [b"{}\n", b"[]\nx", b"null\nx", b'{"at": 0, "sum": 0, "headers": []}\n', b'{"at": {}, "sum": 0, "headers": {}}\n']
)
def test_json_of_another_shape_is_as_good_as_nothing(value: bytes) -> None:
    assert unpack_answer(value, 0.0) is None


def test_a_clock_that_was_put_back_makes_no_answer_younger_than_now() -> None:
    answer = unpack_answer(pack_answer(b"x", {}, 1_000.0), 900.0)
    assert answer is not None
    assert answer.age_s == 0


async def test_without_a_cache_nothing_is_stored() -> None:
    none = NoCache()
    await none.put("key", b"x", {})
    assert await none.get("key") is None


async def test_an_answer_on_disk_has_its_age(tmp_path: Path) -> None:
    at = 1_000.0
    disk = DiskCache(tmp_path / "new" / "answers", clock=lambda: at)
    assert await disk.get("key") is None
    await disk.put("key", b"body", HEADERS)
    at = 4_600.0
    assert await disk.get("key") == (b"body", HEADERS, 3_600.0)
    assert await disk.get("another") is None
    await asyncio.to_thread(disk.close)


async def test_an_age_counts_from_when_the_answer_came_and_not_from_when_it_is_written(tmp_path: Path) -> None:
    at = 1_000.0
    disk = DiskCache(tmp_path / "answers", clock=lambda: at)
    writes = disk.put("key", b"body", HEADERS)
    at = 4_600.0
    assert await disk.get("key") == (b"body", HEADERS, 3_600.0)
    await writes
    assert await disk.get("key") == (b"body", HEADERS, 3_600.0)
    await asyncio.to_thread(disk.close)


async def test_two_processes_share_the_folder(disk: DiskCache) -> None:
    await disk.put("ours", b"ours", {})
    script = (
        "import asyncio, sys; from pathlib import Path; from outrider.sources.http.cache import DiskCache\n"
        "async def main():\n"
        "    disk = DiskCache(Path(sys.argv[1]))\n"
        "    print((await disk.get('ours')).body.decode())\n"
        "    await disk.put('theirs', b'theirs' * 20_000, {})\n"
        "    disk.close()\n"
        "asyncio.run(main())"
    )
    process = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script, str(disk.folder)], capture_output=True, text=True, check=False, timeout=60
    )
    assert process.stdout == "ours\n", process.stderr
    theirs = await disk.get("theirs")
    assert theirs is not None
    assert theirs.body == b"theirs" * 20_000


async def test_readers_do_not_wait_for_writers_and_see_pending_writes(disk: DiskCache, caplog: pytest.LogCaptureFixture) -> None:
    """Twenty-five repositories bring two hundred answers at once: none of it may look like a cache that fails."""
    writing, released = threading.Event(), threading.Event()

    def hold_writer(_: object) -> None:
        writing.set()
        released.wait(30)

    async def search() -> tuple[CachedAnswer | None, CachedAnswer | None]:
        slow = asyncio.create_task(disk._writer.run(hold_writer))
        await asyncio.to_thread(writing.wait, 30)
        store_later(disk, "key", b"body", HEADERS)
        await asyncio.sleep(0)
        try:
            return await disk.get("key"), await disk.get("another")
        finally:
            released.set()
            await slow

    answer, missing = await in_background(search())
    assert answer
    assert (answer.body, missing) == (b"body", None)
    assert not caplog.messages


@pytest.mark.parametrize(("each_s", "warnings"), [(0.05, 0), (0.6, 1)])
async def test_many_concurrent_reads_are_no_fault_of_the_cache_and_a_hanging_read_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, each_s: float, warnings: int
) -> None:
    """Twenty wait longer than the patience either way."""
    disk = DiskCache(tmp_path / "answers", patience_s=0.3)
    await disk.put("key", b"body", {})
    monkeypatch.setattr(diskcache.Cache, "get", lambda *_: time.sleep(each_s))
    assert await asyncio.gather(*(disk.get("key") for _ in range(20))) == [None] * 20
    assert caplog.text.count("is unavailable") == warnings
    await asyncio.to_thread(disk.close)


async def test_concurrent_answers_are_written_together(disk: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    set_all = module._set_all

    def counted(at: object, values: dict[str, bytes]) -> None:
        sizes.append(sum(key.startswith("together") for key in values))
        set_all(at, values)

    monkeypatch.setattr(module, "_set_all", counted)
    await in_background(_all(disk.put(f"together{number}", b"body", {}) for number in range(20)))
    assert list(filter(None, sizes)) == [20]
    assert all(await asyncio.gather(*(disk.get(f"together{number}") for number in range(20))))


async def _all(work: Iterable[Awaitable[None]]) -> None:
    await asyncio.gather(*work)


QUICK = """
import sys
from pathlib import Path
from outrider.sources.http.cache import store_later
from outrider.sources.http.cache import DiskCache
from outrider.runtime.threads_and_loops import run_in_background

async def put():
    store_later(DiskCache(Path(sys.argv[1])), "key", b"body", {})

run_in_background(put())
"""


async def test_pending_writes_are_stored_when_the_process_ends(disk: DiskCache) -> None:
    ran = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", QUICK, str(disk.folder)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    answer = await disk.get("key")
    assert answer
    assert answer.body == b"body"


async def test_the_folder_is_the_users_own(disk: DiskCache) -> None:
    await disk.put("key", b"x", {})
    assert disk.folder.stat().st_mode & 0o077 == 0


async def test_a_damaged_file_costs_time_only_and_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "cache.db").write_bytes(b"no database" * 1_000)
    await costs_time_only(DiskCache(tmp_path))
    assert caplog.text.count("is unavailable") == 1


async def test_a_folder_that_cannot_be_made_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    await costs_time_only(DiskCache(tmp_path / "file" / "answers"))


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        (tmp_path / "x").touch()
    except OSError:
        asyncio.run(costs_time_only(DiskCache(tmp_path / "answers")))
    else:
        pytest.skip("this user may write anywhere")
    finally:
        tmp_path.chmod(0o700)


async def test_a_file_that_is_spoilt_later_costs_time_only(disk: DiskCache) -> None:
    await disk.put("key", b"x" * 100_000, {})
    for value in disk.folder.rglob("*.val"):
        value.write_bytes(b"{}")
    assert await disk.get("key") is None
    await disk.put("key", b"again", {})
    assert (await disk.get("key") or ()) == (b"again", {}, pytest.approx(0, abs=60))


async def test_a_pickle_in_the_folder_is_not_read(disk: DiskCache) -> None:
    import diskcache

    class Runs:
        """Whoever can write there could run code: reading this makes a file."""

        def __reduce__(self) -> tuple[object, tuple[Path]]:
            return Path.touch, (disk.folder / "it-ran",)

    with diskcache.Cache(str(disk.folder)) as foreign:
        foreign.set("key", Runs())
    assert await disk.get("key") is None
    assert not [path for path in disk.folder.iterdir() if path.name == "it-ran"]


async def costs_time_only(answers: AnswerCache) -> None:
    await answers.put("key", b"x", {})
    assert await answers.get("key") is None


class Resp:
    """Enough of Redis (RESP2, redis.io/docs/latest/develop/reference/protocol-spec) for GET and SET with EX."""

    def __init__(self) -> None:
        self.held: dict[bytes, bytes] = {}
        self.commands: list[list[bytes]] = []
        self.connections = 0

    async def met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while (head := await reader.readline()).startswith(b"*"):
            parts = []
            for _ in range(int(head[1:])):
                size = int((await reader.readline())[1:])
                parts.append((await reader.readexactly(size + 2))[:-2])
            self.commands.append(parts)
            writer.write(self.answer(parts))
            await writer.drain()
        writer.close()

    def answer(self, parts: list[bytes]) -> bytes:
        match parts[0].upper(), parts[1:]:
            case b"GET", [key]:
                value = self.held.get(key)
                return b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value)
            case b"SET", [key, value, *_]:
                self.held[key] = value
                return b"+OK\r\n"
        return b"-ERR unknown command\r\n"


@asynccontextmanager
async def listening(met: object) -> AsyncIterator[str]:
    server = await asyncio.start_server(met, "127.0.0.1", 0)  # type: ignore[arg-type]
    try:
        yield f"redis://:secret-word@127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    finally:
        await take_no_more(server)
        server.close()


async def test_in_redis_an_answer_is_stored_for_a_month_and_shared() -> None:
    redis = Resp()
    async with listening(redis.met) as url:
        one, two = RedisCache(url.replace(":secret-word@", "")), RedisCache(url.replace(":secret-word@", ""))
        assert await in_background(one.get("key")) is None
        await in_background(one.put("key", b"bo\r\ndy\xff", HEADERS))
        answer = await in_background(two.get("key"))
        assert answer is not None
        assert answer[:2] == (b"bo\r\ndy\xff", HEADERS)
        assert [command[3:] for command in redis.commands if command[0] == b"SET"] == [[b"EX", b"2592000"]]
        await asyncio.to_thread(one.close)
        await asyncio.to_thread(two.close)


async def test_a_redis_that_refuses_costs_time_only_and_is_skipped_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    redis = Resp()
    async with listening(redis.met) as url:  # it knows no AUTH
        answers = RedisCache(url)
        for _ in range(3):
            await in_background(costs_time_only(answers))
        assert redis.connections <= 2  # the client itself tries twice
        await asyncio.to_thread(answers.close)
    assert "secret-word" not in caplog.text + repr(answers) + str(answers)


async def test_a_redis_that_is_not_there_costs_time_only() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        answers = RedisCache(f"redis://127.0.0.1:{free.getsockname()[1]}/0")
        await in_background(costs_time_only(answers))


async def test_a_redis_that_never_answers_is_waited_for_once() -> None:
    connections = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.read()
        writer.close()

    async with listening(silent) as url:
        answers = RedisCache(url, patience_s=0.2)
        for _ in range(5):
            await in_background(costs_time_only(answers))
        assert connections == 1
        await asyncio.to_thread(answers.close)


def test_an_invalid_address_is_reported_without_its_password() -> None:
    with pytest.raises(SettingsError, match=r"cache\.url is not the address of a Redis server; write for example redis://") as error:
        RedisCache("http://:secret-word@host")
    assert "secret-word" not in str(error.value)


def test_without_its_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(MissingExtra, match=r"outrider\[redis\]"):
        RedisCache("redis://localhost")


async def test_with_a_real_redis(redis_url: str) -> None:
    answers = RedisCache(redis_url)
    await in_background(answers.put("key", b"body", HEADERS))
    answer = await in_background(answers.get("key"))
    assert answer is not None
    assert answer[:2] == (b"body", HEADERS)
    await asyncio.to_thread(answers.close)


async def test_processes_that_ask_the_same_at_once_call_once(redis_url: str) -> None:
    async with serving(lambda _: as_json({"answer": 1}, after_s=0.3)) as server:
        service = Service("one", server.base_url, 100, 1)
        callers = [Caller(RedisCache(redis_url)) for _ in range(3)]
        replies = await asyncio.gather(*(caller.get(service, "/", within_s=20.0) for caller in callers))
        assert [reply.json() for reply in replies] == [{"answer": 1}] * 3
        assert len(server.requests) == 1
        await callers[0].get(service, "/other", within_s=20.0)
        assert len(server.requests) == 2


async def test_the_claim_of_a_dead_process_holds_up_nobody_for_long(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.sources.http.cache.CLAIM_S", 0.3)
    dead, alive = RedisCache(redis_url), RedisCache(redis_url)

    async def claim_and_wait() -> tuple[object, object, float]:
        first = await dead.wait_for_call("key", b"dead", time.monotonic() + 5)
        begun = time.monotonic()
        return first, await alive.wait_for_call("key", b"alive", begun + 5), time.monotonic() - begun

    first, second, waited_s = await in_background(claim_and_wait())
    assert first is second is None
    assert 0.1 < waited_s < 3.0


async def test_who_waits_for_the_call_of_another_process_keeps_time_for_its_own(redis_url: str) -> None:
    async def wait() -> float:
        slow, waiting = RedisCache(redis_url), RedisCache(redis_url)
        begun = time.monotonic()
        await slow.wait_for_call("key", b"slow", begun + 5)
        assert await waiting.wait_for_call("key", b"waiting", begun + 4) is None
        return time.monotonic() - begun

    assert await in_background(wait()) < 3


async def test_who_gave_up_waiting_does_not_end_the_claim_of_another_process(redis_url: str) -> None:
    async def claim_while_another_calls() -> object:
        calling, waiting, third = (RedisCache(redis_url) for _ in range(3))
        async with claim_call(calling, "key", time.monotonic() + 5):
            async with claim_call(waiting, "key", time.monotonic() + 0.1) as answer:
                assert answer is None
            await asyncio.gather(*module._writes)
            return await third._redis.exists("outrider:call:key")

    assert await in_background(claim_while_another_calls())
