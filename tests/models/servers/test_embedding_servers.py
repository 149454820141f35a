"""Several embedding servers of one model, played by real HTTP servers on loopback."""

from __future__ import annotations

import asyncio
import base64
import itertools
import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from outrider.models.embed.embedder import Embedder
from outrider.models.embed.endpoint import PROBE, list_formats
from outrider.models.servers import replicas
from outrider.models.servers.batches import BatchLimits
from outrider.models.servers.transport import TooLarge
from outrider.runtime.threads_and_loops import run_in_thread
from outrider.state.errors import BadVectors, ModelUnavailable
from support.http_server import NEVER, RESET, as_json, refusal
from support.model_server import ModelServer, letters
from support.patience import BUSY_S

TEXTS = [f"text {chr(97 + at % 26) * (at % 17)} {at}" for at in range(200)]


@pytest.fixture
def start() -> Iterator[Any]:
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(ModelServer(**options))


def embedder(*servers: ModelServer, **settings: Any) -> Embedder:
    return Embedder("letters", base_url=", ".join(server.url for server in servers), api_key="sk-secret", **settings)


def unit(texts: list[str]) -> np.ndarray:
    vectors = np.array([letters(text) for text in texts])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def assert_ready(model: Embedder) -> None:
    """After its first request the other servers are still being checked."""
    model.embed("a")
    assert not any(one.problem for one in model.report_servers(BUSY_S))


def assert_all(model: Embedder, texts: list[str] = TEXTS) -> None:
    np.testing.assert_allclose(model.embed(texts), unit(texts), atol=1e-6)


@pytest.mark.parametrize("tei", [False, True])
def test_either_protocol_gives_the_vectors_in_order_in_batches_that_the_server_takes(start: Any, tei: bool) -> None:
    server = start(tei=tei, most_texts=32)
    assert_all(embedder(server))
    sizes = [len(texts) for texts in server.embed_requests]
    assert max(sizes) <= 32
    assert len(sizes) <= 1 + 8  # the probe, and 200 texts in four places at a time
    refused = [request for request in server.requests if request.method == "POST"]
    assert (len(refused) == len(sizes)) is tei  # its limit is known before the first batch


def test_one_server_has_one_space_under_both_protocols(start: Any) -> None:
    server = start(tei=True)
    native, compatible = (Embedder("letters", base_url=url) for url in (server.base_url, f"{server.base_url}/v1"))
    assert native.space == compatible.space  # else the one could not search what the other has embedded
    assert {request.path for request in server.requests if request.method == "POST"} == {"/embed", "/v1/embeddings"}


def test_the_address_decides_the_format() -> None:
    info = {"model_id": "m", "model_sha": "abc"}
    assert [form.url for form in list_formats("http://h:1", info)] == ["http://h:1/embed"]
    assert [form.url for form in list_formats("http://h:1/v1", info)] == ["http://h:1/v1/embeddings"]
    assert [form.url for form in list_formats("http://h:1/v1/embeddings", {})] == ["http://h:1/v1/embeddings"]
    assert [form.url for form in list_formats("http://h:1", {})] == ["http://h:1/embeddings", "http://h:1/v1/embeddings"]
    assert list_formats("http://h:1/embed", {})[0].is_native


def test_a_server_that_takes_no_base64_gets_the_other_format_from_then_on(start: Any) -> None:
    server = start()
    server.knows_base64 = False
    assert_all(embedder(server))
    formats = [request.json["encoding_format"] for request in server.requests if request.method == "POST"]
    assert formats == ["base64"] + ["float"] * (len(formats) - 1)


def test_two_servers_share_the_work(start: Any) -> None:
    first, second = start(latency_s=0.02), start(latency_s=0.02)
    model = embedder(first, second, batch_size=10)
    assert_ready(model)
    assert_all(model)
    assert len(first.texts) > 50
    assert len(second.texts) > 50
    assert first.most <= 5  # four at a time, and the check


def test_a_server_that_dies_in_the_middle_loses_no_text(start: Any, caplog: pytest.LogCaptureFixture) -> None:
    first, second = start(latency_s=0.02), start(latency_s=0.02)
    model = embedder(first, second, batch_size=8)
    assert_ready(model)

    answer, asked = second.handler, len(second.embed_requests)
    second.handler = lambda request: RESET if len(second.embed_requests) > asked + 3 else answer(request)
    with caplog.at_level(logging.WARNING):
        answers = model.embed_each(TEXTS)
    np.testing.assert_allclose([answer.vector for answer in answers], unit(TEXTS), atol=1e-6)
    assert "its requests go to the other servers" in caplog.text
    assert "sk-secret" not in caplog.text
    second.handler = answer
    until = time.monotonic() + BUSY_S
    while not any(text.startswith("again") for text in second.texts) and time.monotonic() < until:
        model.embed([f"again {at}" for at in range(100)])
    assert any(text.startswith("again") for text in second.texts)


def test_a_server_that_hangs_is_left_and_its_request_goes_to_another(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "PATIENCE_S", 0.2)
    first, second = start(latency_s=0.01), start(latency_s=0.01)
    model = embedder(first, second, batch_size=8)
    assert_ready(model)
    assert_all(model)
    second.down = NEVER
    started = time.monotonic()
    assert_all(model)
    assert time.monotonic() - started < 0.2 + BUSY_S
    asked = len(second.requests)
    assert_all(model)
    assert len(second.requests) - asked <= 2  # its check


@pytest.mark.parametrize(
    ("options", "wrong", "message"),
    [
        ({"model": "other"}, False, r"http://127.0.0.1:\d+/v1 serves 'other', and letters at http://127.0.0.1:\d+/v1 'letters-v1'"),
        ({}, True, r"gives other vectors than letters at http.*\(cosine \S+ for one text\)"),
    ],
)
def test_a_server_with_another_model_is_left_out_by_name(
    start: Any, caplog: pytest.LogCaptureFixture, options: dict[str, Any], wrong: bool, message: str
) -> None:
    first, second = start(), start(**options)
    second.wrong = wrong
    with caplog.at_level(logging.WARNING):
        model = embedder(first, second)
        model.embed("a")
        assert [bool(one.problem) for one in model.report_servers(BUSY_S)] == [False, True]
        assert_all(model)
    assert set(second.texts) == {PROBE}
    assert re.search(message, caplog.text)
    assert caplog.text.count("this server is left out") == 1


def test_the_first_address_decides_which_model_is_the_right_one(start: Any) -> None:
    first, second = start(latency_s=0.05), start()
    second.wrong = True
    model = embedder(first, second)
    assert_all(model)
    assert [bool(one.problem) for one in model.report_servers(BUSY_S)] == [False, True]
    assert set(second.texts) == {PROBE}


def test_a_dead_server_beside_a_live_one_does_not_delay(start: Any) -> None:
    live = start()
    started = time.monotonic()
    assert_all(Embedder("letters", base_url=f"http://127.0.0.1:9/v1, {live.url}"))
    assert time.monotonic() - started < BUSY_S


def test_without_any_server_the_error_names_each(start: Any) -> None:
    broken = start()
    broken.down = refusal(401, "who are you, sk-secret?")
    with pytest.raises(ModelUnavailable) as caught:
        Embedder("letters", base_url=f"http://user:hush@127.0.0.1:9/v1,{broken.url}", api_key="sk-secret").embed("a")
    assert "none of the 2 servers of letters can be used" in str(caught.value)
    assert "127.0.0.1:9/v1 cannot be reached" in str(caught.value)
    assert "refuses the key (401); set embedding.api_key" in str(caught.value)
    assert "hush" not in str(caught.value)
    assert "sk-secret" not in str(caught.value)


def test_a_server_that_is_busy_half_of_the_time_gets_everything_done(start: Any) -> None:
    server = start()
    model = embedder(server, batch_size=4)
    model.embed("a")
    answer, refused = server.handler, itertools.cycle([None, refusal(429, "overloaded"), None, refusal(503, "", {"Retry-After": "0.01"})])
    server.handler = lambda request: next(refused) or answer(request)
    before = len(server.requests)
    assert_all(model)
    assert len(server.requests) - before >= 2 * 50 - 1


def test_a_busy_server_gets_fewer_requests_at_a_time_and_a_query_does_not_wait_for_long(start: Any) -> None:
    server = start()
    model = embedder(server, batch_size=4)
    model.embed("a")
    server.down = refusal(429, "overloaded", {"Retry-After": "0.01"})
    started = time.monotonic()
    with pytest.raises(ModelUnavailable, match=r"takes no more requests now \(429\)"):
        model.embed("b", role="query")
    assert time.monotonic() - started < BUSY_S
    pool = model._backend().wire.pool  # type: ignore[union-attr]
    assert pool.replicas[0].limit == 1
    server.down = None
    assert_all(model)
    assert pool.replicas[0].limit > 2


def test_a_server_that_asks_for_more_time_than_the_limit_is_given_up(start: Any) -> None:
    server = start()
    model = embedder(server, timeout_s=30)
    model.embed("a")
    server.down = refusal(429, "overloaded", {"Retry-After": "3600"})
    started = time.monotonic()
    with pytest.raises(ModelUnavailable, match="429"):
        model.embed(["a", "b"])
    assert time.monotonic() - started < BUSY_S


def test_texts_under_way_are_bounded(start: Any) -> None:
    server = start(latency_s=0.01)
    model = embedder(server, batch_size=8, concurrency=3)
    assert_all(model)
    assert server.most <= 3


def test_documents_leave_places_to_queries_while_there_are_some(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = start(latency_s=0.01)
    model = embedder(server, batch_size=8, concurrency=4)
    model.embed("a")
    assert_all(model)
    assert server.most > replicas.BESIDE_URGENT
    model.embed("a query", role="query")
    server.most = 0
    assert_all(model)
    assert server.most == replicas.BESIDE_URGENT
    monkeypatch.setattr(replicas, "URGENT_S", 0.0)
    assert_all(model)
    assert server.most > replicas.BESIDE_URGENT


def test_a_too_long_text_does_not_make_the_other_batches_small(start: Any) -> None:
    server = start()
    answer = server._answer_request

    async def reads(request: Any) -> Any:
        if request.method == "POST" and max(map(len, request.json["input"])) > 1_000:
            return refusal(400, "This model's maximum context length is 100 tokens. However, you requested 1000 tokens in the input")
        return await answer(request)

    server.handler = reads
    model = embedder(server, batch_size=50)
    model.embed("a")
    server.embed_requests.clear()
    answers = model.embed_each(["b" * 4_000, *TEXTS])
    assert answers[0].read.of == 1_000
    assert all(answer.vector is not None for answer in answers)
    assert max(map(len, server.embed_requests)) >= 25
    assert len(server.embed_requests) < 20


async def test_a_caller_that_stops_waiting_ends_the_requests(start: Any) -> None:
    server = start()
    model = embedder(server)
    await run_in_thread(lambda: model.embed("a"))
    server.down = NEVER
    task = asyncio.create_task(run_in_thread(lambda: model.embed(TEXTS)))
    async with asyncio.timeout(BUSY_S):
        while not server.now:  # noqa: ASYNC110 - the server runs in another thread
            await asyncio.sleep(0.01)
        task.cancel()
        while server.now:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def test_progress_that_raises_ends_the_work_though_no_answer_comes(start: Any) -> None:
    server = start()
    model = embedder(server)
    model.embed("a")
    server.down = NEVER
    stopped = threading.Event()

    def progress(_: int, __: int) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    with pytest.raises(KeyboardInterrupt):
        model.embed_each(TEXTS, progress=progress)


def test_a_server_that_changes_its_model_is_refused_in_the_middle(start: Any) -> None:
    server = start()
    model = embedder(server)
    model.embed("a")
    server.model = "letters-v2"
    with pytest.raises((ModelUnavailable, BadVectors), match="letters-v2"):
        model.embed(["b", "c"])


def test_a_redirect_is_not_followed_but_named(start: Any) -> None:
    server = start()
    server.down = as_json({}, 307, {"Location": "https://gpu.example/v1/embeddings"})
    with pytest.raises(ModelUnavailable, match=r"redirects to https://gpu.example/v1/embeddings \(307\)"):
        embedder(server).embed("a")


def test_an_error_of_our_own_in_a_check_is_raised_where_a_request_waits(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("bug")

    monkeypatch.setattr("outrider.models.embed.endpoint.list_formats", broken)
    with pytest.raises(KeyError, match="bug"):
        embedder(start()).embed("a")


def test_a_password_in_the_address_is_sent_and_not_logged(start: Any, caplog: pytest.LogCaptureFixture) -> None:
    server = start()
    with caplog.at_level(logging.DEBUG):
        Embedder("letters", base_url=server.url.replace("://", "://user:hush@")).embed("a")
    assert server.requests[-1].headers["authorization"] == "Basic " + base64.b64encode(b"user:hush").decode()
    assert "hush" not in caplog.text


def test_refusals_are_told_apart() -> None:
    parsed = [
        TooLarge.parse("longformer at http://h", text)
        for text in (
            "batch size 33 > maximum allowed batch size 32",
            "`inputs` must have less than 512 tokens. Given: 1451",
            "inputs may have at most 512 tokens",
            "Request Entity Too Large",
        )
    ]
    assert [(one.most_texts, one.is_length) for one in parsed] == [(32, False), (None, True), (None, True), (None, False)]
    limits = BatchLimits(64, 1_000)
    limits.lower(64, parsed[1])
    assert limits.texts == 64
    limits.lower(64, parsed[0])
    assert limits.texts == 32
    limits.lower(32, parsed[3])
    assert limits.texts == 16


def test_offline_refuses_a_list_with_one_address_elsewhere() -> None:
    with pytest.raises(ModelUnavailable, match=r"embedding.base_url is http://gpu.example/v1"):
        Embedder("letters", base_url="http://127.0.0.1:9/v1, http://gpu.example/v1", offline=True).embed("a")
