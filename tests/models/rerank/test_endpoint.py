"""The rerank endpoint against a real server on the loopback interface."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest

from outrider.models.rerank.endpoint import BATCH, EndpointReranker
from outrider.state.errors import BadVectors, ModelUnavailable
from support.http_server import PROXY_VARIABLES
from support.patience import BUSY_S
from support.rerank_server import Answer, Server


@pytest.fixture
def server() -> Iterator[Server]:
    new_server = Server()
    yield new_server
    new_server.close()


def tei(path: str, body: dict[str, Any]) -> Answer:
    """Longest text first, as Text Embeddings Inference orders its answers: by score."""
    if path != "/rerank" or "texts" not in body:
        return 404, {"error": "Not Found"}, {}
    if len(body["texts"]) > BATCH:
        return 413, {"error": f"batch size {len(body['texts'])} > maximum allowed batch size {BATCH}", "error_type": "Validation"}, {}
    rows = [{"index": at, "score": len(text) / 10} for at, text in enumerate(body["texts"])]
    return 200, sorted(rows, key=lambda row: -row["score"]), {}


def jina(path: str, body: dict[str, Any]) -> Answer:
    if path != "/v1/rerank" or "documents" not in body:
        return 422, {"detail": "field required: documents"}, {}
    rows = [{"index": at, "relevance_score": len(text) / 10} for at, text in enumerate(body["documents"])]
    return 200, {"model": body["model"], "results": sorted(rows, key=lambda row: -row["relevance_score"])}, {}


def reranker(server: Server, **fields: Any) -> EndpointReranker:
    return EndpointReranker(server.url, **{"timeout_s": 30.0, **fields})


@pytest.mark.parametrize("form", [tei, jina])
def test_scores_come_back_in_the_order_of_the_texts_from_either_form(server: Server, form: Callable[[str, dict[str, Any]], Answer]) -> None:
    server.answer = form
    client = reranker(server, model_name="m", api_key="key")
    assert client.scores("q", ["a", "aaa", "aa"]) == pytest.approx([0.1, 0.3, 0.2])
    tries = len(server.requests)
    assert client.scores("q", ["aa"]) == pytest.approx([0.2])
    assert len(server.requests) == tries + 1, "the form is found out once"
    assert {key for _, _, key in server.requests} == {"Bearer key"}


@pytest.mark.parametrize(
    ("end", "form", "path"), [("/v1", jina, "/v1/rerank"), ("/v1/", jina, "/v1/rerank"), ("/rerank", tei, "/rerank"), ("/", tei, "/rerank")]
)
def test_the_address_may_name_the_path(server: Server, end: str, form: Callable[[str, dict[str, Any]], Answer], path: str) -> None:
    server.answer = form
    assert EndpointReranker(server.url + end).scores("q", ["aa"]) == pytest.approx([0.2])
    assert server.requests[-1][0] == path


def test_many_texts_are_sent_in_batches(server: Server) -> None:
    server.answer = tei
    texts = ["a" * at for at in range(BATCH * 2 + 3)]
    assert reranker(server).scores("q", texts) == pytest.approx([at / 10 for at in range(len(texts))])
    sizes = [len(body["texts"]) for _, body, _ in server.requests[1:]]
    assert sorted(sizes) == [16, 17, 17, 17]  # four at a time, after the probe: they arrive in any order
    assert reranker(server).scores("q", []) == []


def test_a_busy_server_is_called_again_after_the_time_that_it_names(server: Server) -> None:
    busy = iter([True, False, True])
    server.answer = lambda path, body: (429, {}, {"Retry-After": "0.2"}) if next(busy, False) else tei(path, body)
    started = time.monotonic()
    assert reranker(server).scores("q", ["aa"]) == pytest.approx([0.2])
    assert time.monotonic() - started > 0.4


def test_a_server_that_stays_busy_or_asks_for_too_long_is_given_up(server: Server) -> None:
    server.answer = lambda _, __: (429, {}, {"Retry-After": "0.01"})
    with pytest.raises(ModelUnavailable, match="429"):
        reranker(server).scores("q", ["a"])
    assert len(server.requests) == 3
    server.answer = lambda _, __: (429, {}, {"Retry-After": "3600"})
    with pytest.raises(ModelUnavailable, match="takes no more requests"):
        reranker(server).scores("q", ["a"])
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("status", "answer", "words"),
    [
        (401, {"error": "bad key sekret"}, "reranker.api_key"),
        (404, {"error": "no such path"}, "no rerank endpoint"),
        (500, {"error": "backend died"}, "answers 500: .*backend died"),
        (200, b"<html>hello</html>", "not JSON"),
    ],
)
def test_what_a_server_refuses_is_one_line_without_the_key(server: Server, status: int, answer: Any, words: str) -> None:
    server.answer = lambda _, __: (status, answer, {})
    with pytest.raises(ModelUnavailable, match=words) as raised:
        reranker(server, api_key="sekret").scores("q", ["a"])
    assert "sekret" not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "sekret" not in repr(reranker(server, api_key="sekret"))


@pytest.mark.parametrize("before", [0, 195])
def test_a_server_that_echoes_the_key_gives_no_part_of_it(server: Server, before: int) -> None:
    server.answer = lambda _, __: (500, ("x" * before + "sekret").encode(), {})
    with pytest.raises(ModelUnavailable, match="answers 500") as raised:
        reranker(server, api_key="sekret").scores("q", ["a"])
    assert "sek" not in str(raised.value)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"index": 0, "score": 1.0}],
        [{"index": 0, "score": 1.0}, {"index": 0, "score": 2.0}],
        [{"index": 0, "score": 1.0}, {"index": 2, "score": 2.0}],
        [{"index": 0, "score": 1.0}, {"index": 1, "score": None}],
        [{"index": 0, "score": 1.0}, {"index": 1, "score": float("nan")}],
        [{"index": 0, "score": 1.0}, {"index": 1, "score": "2"}],
        [{"index": 0, "score": 1.0}, 7],
        {"results": None},
    ],
)
def test_scores_that_are_missing_doubled_or_no_numbers_are_refused(server: Server, rows: Any) -> None:
    server.answer = lambda path, body: (200, rows, {}) if body["texts"] == ["a", "b"] else tei(path, body)
    with pytest.raises(BadVectors, match="of 2"):
        reranker(server).scores("q", ["a", "b"])


def test_a_slow_server_is_left_after_the_time_limit(server: Server) -> None:
    def slow(path: str, body: dict[str, Any]) -> Answer:
        release.wait(600)
        return tei(path, body)

    release, started = Event(), time.monotonic()
    server.answer = slow
    with pytest.raises(ModelUnavailable, match=r"0\.1 s"):
        reranker(server, timeout_s=0.1).scores("q", ["a"])
    assert time.monotonic() - started < 0.1 + BUSY_S
    release.set()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://127.0.0.1:9", "reached"),
        ("localhost:8080", "must be an address"),
        ("http://", "must be an address"),
        ("gopher://x", "must be an address"),
        ("http://x\n", "must be an address"),
    ],
)
def test_an_address_that_leads_nowhere_is_named(address: str, words: str) -> None:
    with pytest.raises(ModelUnavailable, match=words):
        EndpointReranker(address, timeout_s=30.0).scores("q", ["a"])


def test_a_password_in_the_address_is_not_shown() -> None:
    client = EndpointReranker("http://user:hush@127.0.0.1:9", "m")
    with pytest.raises(ModelUnavailable) as raised:
        client.scores("q", ["a"])
    assert "hush" not in str(raised.value) + client.name


def test_a_server_on_this_machine_is_not_asked_through_a_proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.setenv(name, "foo://127.0.0.1:9")
    server.answer = tei
    assert reranker(server).scores("q", ["a"]) == pytest.approx([0.1])
    with pytest.raises(ModelUnavailable, match=r"_proxy in the environment, 'foo://127.0.0.1:9', is no proxy"):
        EndpointReranker("http://192.0.2.1").scores("q", ["a"])
