"""A served model, played by a real HTTP server on loopback: its vectors are letter counts of the text."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event
from typing import Any

import numpy as np
import pytest

from outrider.models.embed.embedder import Embedder
from outrider.models.embed.endpoint import MAX_CHARS_PER_TOKEN, PROBE, parse_response
from outrider.state.errors import BadVectors, ModelUnavailable, SearchError
from support.http_server import PROXY_VARIABLES

KEY = "sk-a-secret"
Reply = tuple[int, dict[str, str], bytes]
Answering = Callable[[list[str]], Reply]


class Server:
    """`answering` may be replaced; `bodies` holds the bodies and `headers` those of each request."""

    def __init__(self) -> None:
        self.answering: Answering = right
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.bodies.append(body)
                outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                status, headers, content = outer.answering(body["input"])
                self.send_response(status)
                for name, value in {"content-type": "application/json", **headers, "content-length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def letters(text: str) -> list[float]:
    return [float(text.count(letter)) for letter in "abcd"] + [1.0]


def unit(text: str) -> np.ndarray:
    vector = np.array(letters(text))
    return vector / np.linalg.norm(vector)


def items(texts: list[str]) -> list[dict[str, Any]]:
    return [{"object": "embedding", "index": at, "embedding": letters(text)} for at, text in enumerate(texts)]


def reply(data: object, status: int = 200, tokens: int | None = None) -> Reply:
    body = {"object": "list", "data": data, "model": "letters-v1", "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    return status, {}, json.dumps(body).encode()


def refusal(status: int, message: str, headers: dict[str, str] | None = None) -> Reply:
    return status, headers or {}, json.dumps({"error": {"message": message, "type": "x", "code": status}}).encode()


def right(texts: list[str]) -> Reply:
    return reply(items(texts), tokens=sum(map(len, texts)))


def embedder(server: Server, **settings: Any) -> Embedder:
    return Embedder("letters", base_url=server.url, api_key=KEY, **settings)


def test_vectors_come_in_the_order_of_the_texts_and_the_space_names_what_is_served(server: Server) -> None:
    model = embedder(server)
    vectors = model.embed(["aab", "c", "dd"])
    np.testing.assert_allclose(vectors, [unit("aab"), unit("c"), unit("dd")], atol=1e-6)
    assert vectors.dtype == np.float32
    assert (model.space.model_name, model.space.revision, model.space.dimension) == ("letters", "letters-v1", 5)
    assert server.headers[-1]["authorization"] == f"Bearer {KEY}"


def test_answers_in_another_order_are_put_in_order_by_their_index(server: Server) -> None:
    server.answering = lambda texts: reply(items(texts)[::-1])
    np.testing.assert_allclose(embedder(server).embed(["a", "b", "ccc"]), [unit("a"), unit("b"), unit("ccc")], atol=1e-6)


def test_without_normalisation_the_servers_own_vectors_are_given(server: Server) -> None:
    assert embedder(server, normalize_embeddings=False).embed("aab").tolist() == [letters("aab")]


def test_the_prompts_of_a_preset_are_sent_with_its_served_name(server: Server) -> None:
    model = Embedder("bge-small-en-v1.5", base_url=server.url)
    model.embed("x", role="query")
    assert server.bodies[-1]["input"] == ["Represent this sentence for searching relevant passages: x"]
    model.embed("x")
    assert server.bodies[-1]["input"] == ["x"]


def test_the_key_of_another_service_is_not_sent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    Embedder("letters", base_url=server.url).embed("a")
    assert not any("sk-of-openai" in str(headers) for headers in server.headers)


def test_the_account_of_another_service_is_not_sent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-of-mine")
    embedder(server).embed("a")
    assert not any("of-mine" in str(headers) or "openai-organization" in headers for headers in server.headers)


def test_a_key_from_a_file_is_sent_without_its_line_break(server: Server) -> None:
    Embedder("letters", base_url=server.url, api_key=f" {KEY}\n").embed("a")
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}


def test_a_body_that_echoes_the_key(server: Server) -> None:
    server.answering = lambda _: (200, {}, json.dumps({"error": KEY}).encode())
    with pytest.raises(BadVectors, match="without embeddings") as caught:
        embedder(server).embed("a")
    assert KEY not in str(caught.value)


def first_right_then(answering: Answering) -> Answering:
    return lambda texts: right(texts) if texts == [PROBE] else answering(texts)


@pytest.mark.parametrize(
    ("answering", "message"),
    [
        (lambda texts: reply(items(texts)[:-1]), "1 vectors for 2 texts"),
        (lambda texts: reply([*items(texts), *items(["x"])]), "3 vectors for 2 texts"),
        (lambda texts: reply([{"index": 0, "embedding": letters(text)} for text in texts]), "indexes"),
        (lambda texts: reply([{"index": at, "embedding": [1.0, 2.0]} for at, _ in enumerate(texts)]), "of 2 numbers after some of 5"),
        (lambda texts: reply([{"index": at, "embedding": [1.0] * (at + 4)} for at, _ in enumerate(texts)]), "several lengths"),
        (lambda texts: reply([{"index": at, "embedding": "no"} for at, _ in enumerate(texts)]), "something else than numbers"),
        (lambda texts: reply([{"index": at, "embedding": []} for at, _ in enumerate(texts)]), "shape"),
        (lambda texts: reply("no list"), "without embeddings"),
    ],
)
def test_vectors_that_cannot_be_used_are_refused_with_what_came(server: Server, answering: Answering, message: str) -> None:
    server.answering = first_right_then(answering)
    with pytest.raises(BadVectors, match=message) as caught:
        embedder(server).embed(["b", "c"])
    assert "letters at http://127.0.0.1" in str(caught.value)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None, 1e300])
def test_a_vector_with_a_value_that_is_no_number_spoils_its_own_text_only(server: Server, bad: float | None) -> None:
    def answering(texts: list[str]) -> Reply:
        return reply([{"index": at, "embedding": [bad, 1, 1, 1, 1] if text == "b" else letters(text)} for at, text in enumerate(texts)])

    server.answering = first_right_then(answering)
    model = embedder(server)
    good, spoilt = model.embed_each(["c", "b"])
    assert good.vector is not None
    assert not good.problem
    assert spoilt.vector is None
    assert "not numbers" in spoilt.problem
    with pytest.raises(BadVectors, match=r"text 2 of 2 cannot be embedded by letters at http://127"):
        model.embed(["c", "b"])


def test_a_server_that_is_busy_for_a_moment_is_called_again(server: Server) -> None:
    busy = iter([True])
    server.answering = lambda texts: refusal(429, "later", {"retry-after": "0.01"}) if next(busy, False) else right(texts)
    np.testing.assert_allclose(embedder(server).embed("ab"), [unit("ab")], atol=1e-6)
    assert len(server.bodies) == 3  # refused, the first vector, the text


HTML = b"<html>Welcome</html>"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (refusal(429, "later", {"retry-after": "0.01"}), "429"),
        (refusal(500, "it broke", {"retry-after": "0.01"}), "answers 500: .*it broke"),
        (refusal(401, f"no such key: {KEY}"), "refuses the key"),
        (refusal(403, "not for you"), "refuses the key"),
        (refusal(404, "no such model"), "not found"),
        (refusal(418, f"a teapot with {KEY}"), "answers 418: .*teapot"),
        (refusal(400, "no parameter of that name"), "answers 400"),
        ((200, {"content-type": "text/html"}, HTML), "text/html, not JSON"),
        ((200, {}, HTML), "not JSON"),
        (refusal(400, "Input is too long"), "too long"),
    ],
)
def test_a_server_that_cannot_serve_is_reported_in_one_line_without_the_key(server: Server, answer: Reply, message: str) -> None:
    server.answering = lambda _: answer
    with pytest.raises(ModelUnavailable, match=message) as caught:
        embedder(server).embed("a text")
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(server.bodies) <= 3


def test_a_server_that_does_not_answer_in_time(server: Server) -> None:
    def answering(texts: list[str]) -> Reply:
        release.wait(600)
        return right(texts)

    release = Event()
    server.answering = answering
    with pytest.raises(ModelUnavailable, match=r"did not answer within 0.05 s"):
        embedder(server, timeout_s=0.05).embed("a")
    release.set()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://user:pass@127.0.0.1:1/v1", "cannot be reached"),
        ("localhost:8080/v1", "must be an address such as"),
        ("http://[bad/v1", "must be an address such as"),
        ("http://localhost:8080/v1\n", "must be an address such as"),
    ],
)
def test_an_address_where_nothing_answers(address: str, message: str) -> None:
    with pytest.raises(ModelUnavailable, match=message) as caught:
        Embedder("letters", base_url=address).embed("a")
    assert "pass" not in str(caught.value)


def test_auto_cannot_guess_what_a_server_serves(server: Server) -> None:
    with pytest.raises(ModelUnavailable, match="set it to the name that is served there"):
        Embedder(base_url=server.url).embed("a")


def reads(limit: int, most_texts: int = 1000, message: str = "") -> Answering:
    """A server that reads `limit` characters, each a token, of at most `most_texts` texts."""

    def answering(texts: list[str]) -> Reply:
        longest = max(map(len, texts))
        if len(texts) > most_texts:
            return refusal(413, f"batch size {len(texts)} > maximum allowed batch size {most_texts}")
        return right(texts) if longest <= limit else refusal(400, message.format(longest=longest) or "input too long")

    return answering


def test_a_text_too_long_for_the_server_is_cut_to_the_length_that_it_names(server: Server) -> None:
    error_text = "This model's maximum context length is 100 tokens. However, you requested {longest} tokens in the input"
    server.answering = reads(100, message=error_text)
    long, short = embedder(server).embed_each(["ab" * 500, "c"])
    assert (long.read.tokens, long.read.of) == (95, 1000)
    assert long.vector is not None
    assert short.vector is not None
    np.testing.assert_allclose(short.vector, unit("c"), atol=1e-6)


def test_a_text_too_long_for_a_server_that_gives_no_numbers_is_halved_until_it_is_taken(server: Server) -> None:
    server.answering = reads(100)
    (long,) = embedder(server).embed_each(["ab" * 500])
    assert long.vector is not None
    assert (long.read.tokens, long.read.of) == (62, None)


def test_a_server_that_takes_no_text_gives_a_problem_not_a_loop(server: Server) -> None:
    server.answering = first_right_then(lambda _: refusal(413, "too long"))
    (answer,) = embedder(server).embed_each(["b" * 1000])
    assert answer.vector is None
    assert "too long" in answer.problem
    assert len(server.bodies) < 12


def test_batches_become_as_small_as_the_server_takes(server: Server) -> None:
    server.answering = reads(10_000, most_texts=3)
    texts = ["a" * n for n in range(1, 18)]
    counts: list[int] = []
    vectors = embedder(server).embed_each(texts, progress=lambda done, _: counts.append(done))
    np.testing.assert_allclose([one.vector for one in vectors], [unit(text) for text in texts], atol=1e-6)
    assert counts == sorted(counts)
    assert counts[-1] == len(texts)
    assert sum(len(body["input"]) > 3 for body in server.bodies) <= 3  # those under way when the first was refused


def test_a_document_of_two_million_characters_is_sent_only_as_far_as_it_can_be_read(server: Server) -> None:
    model = embedder(server, context_length=100)
    (answer,) = model.embed_each(["abcd" * 500_000])
    assert len(server.bodies[-1]["input"][0]) == 100 * MAX_CHARS_PER_TOKEN
    assert answer.read.tokens == 100 * MAX_CHARS_PER_TOKEN
    assert answer.read.of is None


def test_vectors_of_tokens_are_no_endpoints_business(server: Server) -> None:
    with pytest.raises(ModelUnavailable, match="late interaction needs a local model"):
        embedder(server).token_vectors(["a"])


def test_an_answer_without_indexes_is_taken_in_its_order() -> None:
    assert parse_response({"data": [{"embedding": [1]}, {"embedding": [2]}]}, 2, "x").vectors.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("body", [None, [], "x", {}, {"data": None}, {"data": [1]}, {"error": "no"}])
def test_a_body_of_another_kind_is_refused(body: object) -> None:
    with pytest.raises(SearchError, match="without embeddings"):
        parse_response(body, 1, "x")


def test_a_server_on_this_machine_is_not_asked_through_a_proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.setenv(name, "foo://127.0.0.1:9")
    assert len(embedder(server).embed(["a"])) == 1
    with pytest.raises(ModelUnavailable, match=r"_proxy in the environment, 'foo://127.0.0.1:9', is no proxy"):
        Embedder("letters", base_url="http://192.0.2.1/v1", api_key=KEY).embed(["a"])
