"""Several rerank servers of one model, played by real HTTP servers on loopback."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from outrider.models.rerank.endpoint import JINA, SCORE, TEI, EndpointReranker, list_formats
from outrider.state.errors import ModelUnavailable
from support.http_server import RESET, as_json, refusal
from support.model_server import ModelServer
from support.patience import BUSY_S

TEXTS = ["x" * (at % 40) for at in range(100)]
SCORES = pytest.approx([len(text) / 10 for text in TEXTS])


@pytest.fixture
def start() -> Iterator[Any]:
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(ModelServer(**options))


def test_the_address_decides_the_order_of_formats() -> None:
    assert [form for _, form in list_formats("http://h")] == [TEI, JINA, SCORE]
    assert list_formats("http://h/v1")[0] == ("http://h/v1/rerank", JINA)
    assert list_formats("http://h/v1/score") == [("http://h/v1/score", SCORE)]


@pytest.mark.parametrize("tei", [True, False])
def test_two_servers_share_the_work_and_one_that_dies_loses_no_text(start: Any, tei: bool, caplog: pytest.LogCaptureFixture) -> None:
    first, second = start(tei=tei, latency_s=0.02), start(tei=tei, latency_s=0.02)
    client = EndpointReranker(f"{first.url},{second.url}", "m", "sk-secret")
    assert client.scores("q", TEXTS) == SCORES
    assert not any(one.problem for one in client.report_servers(BUSY_S))  # both are checked
    assert client.scores("q", TEXTS) == SCORES
    assert len(first.texts) > 20
    assert len(second.texts) > 20
    second.down = RESET
    with caplog.at_level(logging.WARNING):
        assert client.scores("q", TEXTS) == SCORES
    assert "its requests go to the other servers" in caplog.text
    assert "sk-secret" not in caplog.text + client.name


def test_a_server_of_scores_alone_is_found_out(start: Any) -> None:
    server = start()
    answer = server.handler
    server.handler = lambda request: as_json({"detail": "Not Found"}, 404) if request.path == "/v1/rerank" else answer(request)
    assert EndpointReranker(server.url, "m").scores("q", TEXTS) == SCORES
    assert server.requests[-1].path == "/v1/score"


def test_a_server_with_another_model_is_left_out_by_name(start: Any, caplog: pytest.LogCaptureFixture) -> None:
    first, second = start(latency_s=0.02), start()
    second.wrong = True
    client = EndpointReranker(f"{first.url}, {second.url}", "m")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert client.scores("q", TEXTS) == SCORES
    assert f"{second.url} gives other scores than m at {first.url}" in caplog.text
    assert len(second.texts) == 3  # the probe


def test_a_small_batch_limit_is_learnt(start: Any) -> None:
    server = start(tei=True, most_texts=5)
    assert EndpointReranker(server.url).scores("q", TEXTS) == SCORES
    sizes = [len(request.json["texts"]) for request in server.requests if request.method == "POST"]
    assert max(sizes) <= 5


def test_a_text_that_is_too_long_is_cut(start: Any) -> None:
    server = start()
    answer = server.handler

    def reads(request: Any) -> Any:
        is_long = request.method == "POST" and any(len(text) > 100 for text in request.json.get("documents", []))
        return refusal(400, "maximum context length is 25 tokens") if is_long else answer(request)

    server.handler = reads
    assert EndpointReranker(server.url, "m").scores("q", ["y" * 150, "z"]) == pytest.approx([7.5, 0.1])


def test_no_server_is_an_error_that_names_each(start: Any) -> None:
    broken = start()
    broken.down = refusal(403, "sk-secret")
    with pytest.raises(ModelUnavailable) as caught:
        EndpointReranker(f"http://127.0.0.1:9, {broken.url}", "m", "sk-secret").scores("q", ["a"])
    assert "none of the 2 servers of m can be used" in str(caught.value)
    assert "set reranker.api_key" in str(caught.value)
    assert "sk-secret" not in str(caught.value)
