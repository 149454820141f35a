"""Searches of several server processes over one Redis: each answers for all of them, and one goes on where another ended."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from outrider.interfaces.http.access import hash_key
from outrider.interfaces.http.problems import translate_error
from outrider.interfaces.http.run_store import Order, RunStore, StoreAway
from outrider.interfaces.http.search_events import EventWriter, make_event
from outrider.interfaces.http.search_run import Run, Sharing
from outrider.interfaces.http.search_runs import GIVEN_UP, MAX_TAKEOVERS
from outrider.services import Services
from outrider.settings.model import CheckpointSettings, Settings, SharedSettings, ThreadSettings
from outrider.settings.sections import ServeSettings
from outrider.state.errors import NotWaiting
from support import fakes
from support.fakes import Shelf
from support.http_app import ASPIRIN, BlockingLibrary, open_client, until

LATER = {"Prefer": "respond-async"}
LEASE_S = 1.0


@asynccontextmanager
async def process(url: str, shelf: Shelf | None = None, threads: str = "", **serve: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of one process of a server. Its registry is `client.runs`."""
    library = shelf or Shelf([ASPIRIN])
    settings = Settings(
        serve=ServeSettings(**serve),
        shared=SharedSettings(redis_url=url, lease_s=LEASE_S),
        threads=ThreadSettings(uri=threads),
        checkpoints=CheckpointSettings(),
    )
    services = Services(settings, clock=lambda: fakes.NOON, shelf=library, sources=(library,), reranker=fakes.no_reranker)
    async with open_client(services) as client:
        client.runs = client.application.runs  # type: ignore[attr-defined]
        yield client


async def begin(client: Any, shelf: BlockingLibrary, **headers: str) -> str:
    """The address of a search that waits for the library."""
    before = shelf.begun
    accepted = await client.post("/api/search", json={"query": "aspirin"}, headers=LATER | headers)
    assert accepted.status_code == 202, accepted.text
    await until(lambda: shelf.begun > before)
    return str(accepted.headers["location"])


def parse_events(text: str) -> list[tuple[int, str]]:
    blocks = [dict(line.split(": ", 1) for line in block.splitlines() if ": " in line) for block in text.split("\n\n")]
    return [(int(block["id"]), block["event"]) for block in blocks if "event" in block]


async def read_events(client: httpx.AsyncClient, place: str, after: int = 0) -> list[tuple[int, str]]:
    return parse_events((await client.get(f"{place}/events", headers={"Last-Event-ID": str(after)})).text)


async def follow(client: httpx.AsyncClient, place: str) -> list[tuple[int, str]]:
    """As a browser does, which asks again after a 503."""
    async with asyncio.timeout(60):
        while True:
            answer = await client.get(f"{place}/events")
            if answer.status_code != 503:
                assert answer.status_code == 200
                return parse_events(answer.text)
            await asyncio.sleep(0.05)


async def get_when_known(client: httpx.AsyncClient, place: str) -> httpx.Response:
    """A search that Redis will have soon."""
    async with asyncio.timeout(60):
        while True:
            answer = await client.get(place)
            if answer.status_code == 200:
                return answer
            await asyncio.sleep(0.05)


async def kill(client: Any) -> None:
    """End the process without a farewell: its tasks do nothing more, and its sign of life expires."""
    registry = client.runs
    for run in list(registry._runs.values()):
        run.sharing.is_lost = True
        for task in (run.task, run.sharing.task):
            task.cancel()
    registry._runs.clear()
    for task in asyncio.all_tasks():
        frame = getattr(task.get_coro(), "cr_frame", None)
        if frame and frame.f_code.co_name == "tend" and frame.f_locals["self"] is registry:
            task.cancel()
            await asyncio.wait({task})
    await registry.store._redis.delete(f"outrider:process:{registry.store.process}")


async def test_each_process_answers_for_a_search_of_another_one(redis_url: str) -> None:
    shelf = BlockingLibrary([ASPIRIN])
    async with process(redis_url, shelf) as one, process(redis_url) as other:
        place = await begin(one, shelf)
        running = await other.get(place)
        following = [asyncio.create_task(read_events(client, place, after)) for client in (one, other) for after in (0, 2)]
        await asyncio.sleep(0.1)
        shelf.let.set()
        whole, rest, other_whole, other_rest = await asyncio.gather(*following)
        done = [(await client.get(place)).json() for client in (one, other)]
        over = await other.get(f"{place}/events", headers={"Last-Event-ID": str(len(whole))})
        exported = await other.get(f"{place}/export?format=ris")
    assert (running.status_code, running.json()["status"], running.headers["retry-after"]) == (200, "running", "1")
    assert whole == other_whole
    assert rest == other_rest == whole[2:]
    assert [number for number, _ in whole] == list(range(1, len(whole) + 1))
    assert whole[-1][1] == "response"
    assert done[0] == done[1]
    assert done[0]["response"]["hits"][0]["doc_id"] == "a"
    assert (over.status_code, exported.status_code) == (204, 200)


async def test_the_answer_of_a_synchronous_search_is_known_to_each_process(redis_url: str) -> None:
    async with process(redis_url) as one, process(redis_url) as other:
        answer = await one.post("/api/search", json={"query": "aspirin"})
        state = (await other.get(f"/api/search/{answer.headers['x-search-id']}")).json()
    assert state["response"] == answer.json()


async def test_a_search_is_stopped_through_another_process(redis_url: str) -> None:
    shelf = BlockingLibrary([ASPIRIN])
    async with process(redis_url, shelf) as one, process(redis_url) as other:
        place = await begin(one, shelf)
        stopped = await other.delete(place)
        events = await read_events(other, place)
        state = (await one.get(place)).json()["status"]
    assert (stopped.status_code, events[-1][1], state, shelf.stopped) == (204, "cancelled", "cancelled", 1)


async def test_a_search_belongs_to_its_owner_at_each_process(redis_url: str) -> None:
    keys = {"ann": hash_key("key of ann"), "bob": hash_key("key of bob")}
    ann, bob = ({"X-API-Key": f"key of {name}"} for name in keys)
    shelf = BlockingLibrary([ASPIRIN])
    async with process(redis_url, shelf, api_keys=keys) as one, process(redis_url, api_keys=keys) as other:
        place = await begin(one, shelf, **ann)
        requests = [("GET", place), ("GET", f"{place}/events"), ("DELETE", place), ("POST", f"{place}/resume")]
        refused = [
            (await other.request(method, path, headers=headers, json={} if method == "POST" else None)).status_code
            for method, path in requests
            for headers in (bob, {})
        ]
        own = await other.get(place, headers=ann)
        shelf.let.set()
    assert refused == [404] * 8
    assert own.status_code == 200


async def test_a_search_of_a_dead_process_goes_on_at_another_one_under_its_number(redis_url: str) -> None:
    stuck, library = BlockingLibrary([ASPIRIN]), Shelf([ASPIRIN])
    async with process(redis_url, library) as third, process(redis_url, stuck) as one:
        place = await begin(one, stuck)
        before = asyncio.create_task(read_events(third, place))
        await asyncio.sleep(0.1)
        await kill(one)
        whole = await asyncio.wait_for(before, 60)
        again, state = await read_events(third, place, 3), (await third.get(place)).json()
    names = [name for _, name in whole]
    assert [number for number, _ in whole] == list(range(1, len(whole) + 1))
    assert names[:4] == ["started", "finished", "started", "taken_over"]
    assert names[-1] == "response"
    assert again == whole[3:]
    assert state["response"]["hits"][0]["doc_id"] == "a"


async def test_a_stalled_process_loses_its_search_and_its_followers_see_the_end(redis_url: str) -> None:
    stuck, library = BlockingLibrary([ASPIRIN]), Shelf([ASPIRIN])
    async with process(redis_url, stuck) as one, process(redis_url, library) as other:
        place = await begin(one, stuck)
        following = asyncio.create_task(read_events(one, place))
        await asyncio.sleep(0.1)
        run_id = place.rpartition("/")[2]
        run = one.runs._runs[run_id]  # type: ignore[attr-defined]
        other_store = other.runs.store  # type: ignore[attr-defined]
        await other_store._redis.hset(f"outrider:search:{run_id}", "process", "gone")
        await other_store._redis.hset("outrider:searches:running", run_id, "gone")
        await until(lambda: run.sharing.is_lost and stuck.stopped)
        stuck.let.set()
        whole = await asyncio.wait_for(following, 60)
        assert whole == await read_events(other, place)
    assert [number for number, _ in whole] == list(range(1, len(whole) + 1))
    assert ([name for _, name in whole].count("response"), stuck.stopped) == (1, 1)


async def test_a_search_that_ends_each_process_is_given_up(redis_url: str) -> None:
    stuck = BlockingLibrary([ASPIRIN])
    async with AsyncExitStack() as stack:
        last = await stack.enter_async_context(process(redis_url, Shelf([ASPIRIN]), at_once=1))
        last.runs.admission.stopping = True  # type: ignore[attr-defined]
        place = ""
        for number in range(MAX_TAKEOVERS + 1):
            victim = await stack.enter_async_context(process(redis_url, stuck))
            if not number:
                place = await begin(victim, stuck)
            await until(lambda count=number: stuck.begun == count + 1)  # type: ignore[misc]
            await kill(victim)
        last.runs.admission.stopping = False  # type: ignore[attr-defined]
        events = await read_events(last, place)
        state = (await last.get(place)).json()
    assert [name for _, name in events].count("taken_over") == MAX_TAKEOVERS
    assert (events[-1][1], state["status"], state["problem"]["detail"]) == ("problem", "failed", GIVEN_UP.detail)
    assert state["problem"]["type"].endswith("given-up")


@pytest.mark.parametrize(
    ("field", "value"), [("order", "["), ("status", "of a later version"), ("review", "{"), ("seen", "x"), ("refusal", b"\xff")]
)
async def test_a_search_that_cannot_be_read_fails_once(
    redis_url: str, caplog: pytest.LogCaptureFixture, field: str, value: str | bytes
) -> None:
    """Searches that come after it are taken over all the same."""
    stuck = BlockingLibrary([ASPIRIN])
    async with process(redis_url, Shelf([ASPIRIN])) as other, process(redis_url, stuck) as one:
        (bad, place), (_, good) = sorted((each.rpartition("/")[2], each) for each in [await begin(one, stuck), await begin(one, stuck)])
        await other.runs.store._redis.hset(f"outrider:search:{bad}", field, value)  # type: ignore[attr-defined]
        await kill(one)
        assert (await read_events(other, good))[-1][1] == "response"
        events, state = await read_events(other, place), (await other.get(place)).json()
    assert (events[-1][1], state["problem"]["status"]) == ("problem", 500)
    assert caplog.text.count("cannot be taken over") == 1


async def test_a_process_that_stops_hands_its_searches_over(redis_url: str) -> None:
    stuck = BlockingLibrary([ASPIRIN])
    async with process(redis_url, Shelf([ASPIRIN])) as other:
        async with process(redis_url, stuck, shutdown_s=0) as one:
            place = await begin(one, stuck)
        events = await read_events(other, place)
        stored = await other.runs.store.load(place.rpartition("/")[2])  # type: ignore[attr-defined]
    assert [name for _, name in events][3] == "taken_over"
    assert (events[-1][1], stored["takeovers"]) == ("response", "0")


async def test_a_process_that_stops_waits_once_for_a_redis_that_hangs(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    all_wait, waited = asyncio.Barrier(3), []

    async def hang(_: RunStore, run_id: str, token: str) -> None:
        await asyncio.wait_for(all_wait.wait(), 20)
        waited.append(run_id)
        raise StoreAway("no answer")

    stuck = BlockingLibrary([ASPIRIN])
    async with process(redis_url, stuck, shutdown_s=0) as one:
        places = [await begin(one, stuck) for _ in range(3)]
        monkeypatch.setattr(RunStore, "hand_over", hang)
    assert sorted(f"/api/search/{run_id}" for run_id in waited) == sorted(places)


async def test_a_search_on_a_thread_resumes_at_another_process(redis_url: str, tmp_path: Path) -> None:
    stuck, threads = BlockingLibrary([ASPIRIN]), str(tmp_path / "threads.sqlite")
    async with process(redis_url, Shelf([ASPIRIN]), threads) as other, process(redis_url, stuck, threads) as one:
        place = await begin(one, stuck, **{"X-Thread-Id": "liver"})
        await kill(one)
        events = await read_events(other, place)
        shown = (await other.get("/api/threads/liver")).json()
    names = [name for _, name in events]
    assert names[: names.index("taken_over")].count("started") in (1, 2), "the last events of a process may die with it"
    assert names.count("response") == 1
    assert [(run["state"], run["query"]) for run in shown["runs"]] == [("ended", "aspirin")]


async def test_one_of_two_answers_at_two_processes_is_taken(redis_url: str, tmp_path: Path) -> None:
    threads = str(tmp_path / "threads.sqlite")
    async with process(redis_url, None, threads) as one, process(redis_url, None, threads) as other:
        accepted = await one.post("/api/search", json={"query": "aspirin", "checkpoints": ["plan"]}, headers=LATER)
        place = accepted.headers["location"]
        first = await read_events(other, place)
        waiting = (await other.get(place)).json()
        answers = await asyncio.gather(*(client.post(f"{place}/resume", json={}) for client in (one, other)))
        state = (await other.get(place)).json()
        whole = await read_events(one, place)
    assert (first[-1][1], waiting["waiting"]["review"]) == ("waiting", "plan")
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    assert state["status"] == "done"
    assert whole[: len(first)] == first
    assert whole[-1][1] == "response"


async def test_an_answer_after_another_one_was_taken_is_no_wrong_answer(redis_url: str, tmp_path: Path) -> None:
    threads = str(tmp_path / "threads.sqlite")
    async with process(redis_url, None, threads) as one, process(redis_url, None, threads) as other:
        accepted = await one.post("/api/search", json={"query": "aspirin", "checkpoints": ["plan"]}, headers=LATER)
        place = accepted.headers["location"]
        await read_events(other, place)
        late = await other.runs.find(place.rsplit("/", 1)[-1], "")
        taken = await one.post(f"{place}/resume", json={})
        with pytest.raises(NotWaiting) as refused:
            await other.runs.answer(late, {})
    assert taken.status_code == 200
    assert translate_error(refused.value).status == 409


@pytest.mark.parametrize("is_begun", [True, False])
async def test_an_answer_is_passed_on_once_where_its_process_died(redis_url: str, tmp_path: Path, is_begun: bool) -> None:
    """Whether the graph had the answer, or that process died before."""
    stuck, threads = BlockingLibrary([ASPIRIN]), str(tmp_path / "threads.sqlite")
    answer = {"queries": [{"text": "aspirin practice"}]}
    async with process(redis_url, None, threads) as other, process(redis_url, stuck, threads) as one:
        accepted = await one.post("/api/search", json={"query": "aspirin", "checkpoints": ["plan"]}, headers=LATER)
        place = accepted.headers["location"]
        before = await read_events(other, place)
        if is_begun:
            assert (await one.post(f"{place}/resume", json=answer, headers=LATER)).status_code == 202
            await until(lambda: stuck.begun > 0)
        else:
            run_id, registry = place.rpartition("/")[2], other.runs  # type: ignore[attr-defined]
            run = await registry.find(run_id, "")
            checked = await (await registry.runner.threads()).check_answer(run.thread, answer)
            order = Order("answer", review=run.review.model_dump_json(), answer=json.dumps(checked))
            assert await one.runs.store.claim_waiting(run_id, "token", order.write())  # type: ignore[attr-defined]
        await kill(one)
        events = await read_events(other, place)
        response = (await other.get(place)).json()["response"]
    assert events[: len(before)] == before
    assert [name for _, name in events].count("waiting") == 1
    assert (events[-1][1], response["strategy"]["queries"][0]["text"]) == ("response", "aspirin practice")


async def test_a_waiting_search_is_stopped_at_another_process(redis_url: str, tmp_path: Path) -> None:
    threads = str(tmp_path / "threads.sqlite")
    async with process(redis_url, None, threads) as one, process(redis_url, None, threads) as other:
        accepted = await one.post("/api/search", json={"query": "aspirin", "checkpoints": ["plan"]})
        place = accepted.headers["location"]
        stopped = await other.delete(place)
        states = [(await client.get(place)).json()["status"] for client in (one, other)]
    assert (stopped.status_code, states) == (204, ["cancelled", "cancelled"])


async def test_ended_searches_of_all_processes_together_are_bounded(redis_url: str) -> None:
    async with process(redis_url, keep_runs=2) as one, process(redis_url, keep_runs=2) as other:
        numbers = [
            (await client.post("/api/search", json={"query": "aspirin"})).headers["x-search-id"] for client in (one, other, one, other)
        ]
        found = [(await one.get(f"/api/search/{number}")).status_code for number in numbers]
        redis = one.runs.store._redis  # type: ignore[attr-defined]
        kept = [key async for key in redis.scan_iter("outrider:search:*")]
        expire_s = [await redis.ttl(key) for key in kept]
        ended = await redis.zrange("outrider:searches:ended", 0, -1)
        sizes = [int(member.rpartition(b":")[2]) for member in ended]
        assert int(await redis.get("outrider:searches:chars")) == sum(sizes) > 0
    assert found == [404, 404, 200, 200]
    assert len(kept) == 4
    assert all(3_000 < seconds <= 3_600 for seconds in expire_s)


def stop_redis(url: str) -> None:
    import redis

    with redis.Redis.from_url(url) as client:
        client.shutdown(nosave=True)


def start_redis(url: str, folder: Path) -> subprocess.Popen[bytes]:
    port = str(urlsplit(url).port)
    command = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


async def test_without_redis_running_searches_go_on_and_new_asynchronous_ones_are_refused(
    redis_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = BlockingLibrary([ASPIRIN])
    async with process(redis_url, shelf) as one:
        place = await begin(one, shelf)
        following = asyncio.create_task(read_events(one, place))
        await asyncio.to_thread(stop_redis, redis_url)
        shelf.let.set()
        events = await asyncio.wait_for(following, 60)
        local = await one.get(place)
        later = await one.post("/api/search", json={"query": "aspirin"}, headers=LATER)
        unknown = await one.get("/api/search/none")
        answer = await one.post("/api/search", json={"query": "aspirin"})
        server = await asyncio.to_thread(start_redis, redis_url, tmp_path)
        try:
            async with process(redis_url) as other:
                stored = await get_when_known(other, place)
                sync = await get_when_known(other, f"/api/search/{answer.headers['x-search-id']}")
                again = await read_events(other, place)
            logged = caplog.text  # later it is away again, since the test ends it
        finally:
            server.terminate()
            server.wait()
    assert (events[-1][1], local.json()["status"]) == ("response", "done")
    assert [(one.status_code, one.headers["retry-after"]) for one in (later, unknown)] == [(503, "5")] * 2
    assert later.json()["type"].endswith("shared-state-away")
    assert answer.json()["hits"][0]["doc_id"] == "a"
    assert (again, stored.json()["response"], sync.json()["response"]) == (events, local.json()["response"], answer.json())
    assert logged.count("is away") == 1


async def test_a_search_that_is_refused_while_redis_is_away_leaves_no_task(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise StoreAway("away")

    monkeypatch.setattr(RunStore, "save", fail)
    async with process(redis_url) as one:
        before = asyncio.all_tasks()
        refused = await one.post("/api/search", json={"query": "aspirin"}, headers=LATER)
        await asyncio.sleep(0.1)
        left = [task.get_coro().__name__ for task in asyncio.all_tasks() - before]  # type: ignore[union-attr]
        assert one.runs._runs == {}  # type: ignore[attr-defined]
    assert refused.status_code == 503
    assert "_keep_shared" not in left


async def test_the_first_that_reaches_redis_again_takes_nothing_over_that_runs(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While Redis was away, the signs of life of all processes have expired."""
    shelf, give_sign, away, signs = BlockingLibrary([ASPIRIN]), RunStore.give_sign, set[str](), list[str]()

    async def give_sign_if_reached(store: RunStore, run_ids: Any) -> Any:
        if store.process in away:
            raise StoreAway("away")
        signs.append(store.process)
        return await give_sign(store, run_ids)

    monkeypatch.setattr(RunStore, "give_sign", give_sign_if_reached)
    async with process(redis_url, shelf) as one, process(redis_url, Shelf([ASPIRIN])) as other:
        place = await begin(one, shelf)
        first, second = (client.runs.store.process for client in (one, other))  # type: ignore[attr-defined]
        away |= {first, second}
        await asyncio.sleep(1.5 * LEASE_S)
        signs.clear()
        away.remove(second)
        await until(lambda: signs.count(second) > 1)
        away.remove(first)
        shelf.let.set()
        events = await read_events(other, place)
    assert [name for _, name in events].count("taken_over") == 0
    assert events[-1][1] == "response"


async def test_a_process_hands_over_nothing_that_another_one_runs(redis_url: str) -> None:
    shelf = BlockingLibrary([ASPIRIN])
    async with process(redis_url, shelf) as one, process(redis_url, Shelf([ASPIRIN])) as other:
        place = await begin(one, shelf)
        run_id = place.rpartition("/")[2]
        stores = [client.runs.store for client in (one, other)]  # type: ignore[attr-defined]
        await stores[1].hand_over(run_id, (await stores[0].load(run_id))["token"])
        assert (await stores[0].load(run_id))["process"] == stores[0].process
        shelf.let.set()
        assert [name for _, name in await read_events(other, place)].count("taken_over") == 0


async def test_a_redis_that_lost_everything_learns_of_running_searches_again(redis_url: str) -> None:
    shelf = BlockingLibrary([ASPIRIN])
    async with process(redis_url, shelf) as one, process(redis_url) as other:
        place = await begin(one, shelf)
        await one.runs.store._redis.flushall()  # type: ignore[attr-defined]
        await get_when_known(other, place)
        shelf.let.set()
        assert await read_events(other, place) == await read_events(one, place)
        assert (await other.get(place)).json()["status"] == "done"


async def test_no_process_says_404_while_a_redis_without_its_data_learns_of_running_searches(redis_url: str, tmp_path: Path) -> None:
    shelf, statuses = BlockingLibrary([ASPIRIN]), []
    async with process(redis_url, shelf) as one, process(redis_url) as other:
        place = await begin(one, shelf)
        following = asyncio.create_task(follow(other, place))
        await until(lambda: other.runs.store._server)  # type: ignore[attr-defined]
        await asyncio.to_thread(stop_redis, redis_url)
        server = start_redis(redis_url, tmp_path)
        try:
            async with asyncio.timeout(60):
                while 200 not in statuses:
                    statuses.append((await other.get(place)).status_code)
                    await asyncio.sleep(0.01)
            shelf.let.set()
            events = await following
            assert events == await read_events(one, place)
        finally:
            server.terminate()
            server.wait()
    assert [number for number, _ in events] == list(range(1, len(events) + 1))
    assert events[-1][1] == "response"
    assert set(statuses) == {503, 200}


async def test_a_follower_sees_no_event_that_redis_does_not_have() -> None:
    """Were it lost with the process, another one would give its number to another event."""
    run = Run("r", "", EventWriter(), sharing=Sharing(store=None, order=Order("search")))  # type: ignore[arg-type]
    run.record(make_event("started", {}))
    events = run.follow()
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    assert run.sharing
    run.sharing.shown = 1
    run.wake()
    assert await waiting == (1, make_event("started", {}))
