"""Answers of servers that are wrong, hostile or have another clock."""

from __future__ import annotations

import pytest

from outrider.models.embed.endpoint import parse_response
from outrider.models.rerank.endpoint import EndpointReranker
from outrider.models.servers.transport import (
    ERROR_BYTES,
    MOST_PAUSE_S,
    Reply,
    ServerBusy,
    ServerSettings,
    TooLarge,
    check_status,
    request,
)
from outrider.runtime.threads_and_loops import run_in_background
from outrider.state.errors import BadVectors
from support.http_server import as_bytes, as_json
from support.model_server import ModelServer

SETTINGS = ServerSettings("embedding", "longformer-16-tokens", "", timeout_s=30.0, concurrency=4)
HUGE = 10**400
"""JSON has no largest number; Python's floats have."""


def refused(status: int, body: str, **headers: str) -> Exception:
    with pytest.raises(Exception) as caught:
        check_status(SETTINGS, "http://h", Reply(status, headers, body.encode()))
    return caught.value


def test_the_name_of_a_model_is_no_complaint_about_lengths() -> None:
    error = refused(413, "Request Entity Too Large")
    assert isinstance(error, TooLarge)
    assert not error.is_length


def test_a_pause_is_named_and_ends_though_the_server_asks_for_years() -> None:
    error = refused(429, "", **{"retry-after": "1000000000"})
    assert isinstance(error, ServerBusy)
    assert error.pause_s == MOST_PAUSE_S
    assert "takes no more requests now (429), and asks for a pause of 1,000,000,000 s" in str(error)
    assert "pause" not in str(refused(503, ""))


def test_numbers_that_no_float_holds_are_bad_answers() -> None:
    with pytest.raises(BadVectors):
        parse_response({"data": [{"embedding": [HUGE]}]}, 1, "m")
    with ModelServer() as server:
        server.handler = lambda _: as_json({"results": [{"index": at, "relevance_score": HUGE} for at in range(3)]})
        with pytest.raises(BadVectors, match="usable scores for 0 texts of 3"):
            EndpointReranker(server.url, "m").scores("q", ["a"])


def test_a_query_with_half_a_character_is_sent() -> None:
    with ModelServer() as server:
        assert EndpointReranker(server.url, "m").scores("q\ud800", ["abc"]) == [0.3]


def test_a_long_error_page_is_not_read_to_its_end() -> None:
    with ModelServer() as server:
        server.down = as_bytes(b"size " * 2**20, "text/plain", 500)
        reply = run_in_background(request(SETTINGS, server.url, server.url))
    assert len(reply.body) < 2 * ERROR_BYTES
