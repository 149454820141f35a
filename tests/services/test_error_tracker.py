"""Reports of unexpected errors: what reaches a receiver of the protocol, what does not, and what it costs."""

from __future__ import annotations

import gzip
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from outrider.runtime.spans import find_place, note_place, run_named
from outrider.services import error_tracker
from outrider.services.error_tracker import start, stop
from outrider.settings.model import ErrorSettings, LlmSettings, Settings
from outrider.settings.sections import SourcesSettings
from outrider.state.errors import BadRequest
from support import http_app
from support.fakes import Shelf
from support.http_app import open_client
from support.http_server import PROXY_VARIABLES, Answer, Request, serving

pytest.importorskip("sentry_sdk")

SECRET, QUERY, TEXT = "sk-canary-secret-4711", "canary query about liver", "canary abstract of a work"
log = logging.getLogger("outrider.test")


@pytest.fixture(autouse=True)
def unreported() -> Iterator[None]:
    yield
    stop()


def make_settings(address: str, *, messages: bool = False, offline: bool = False) -> Settings:
    dsn = address.replace("://", "://public-key@") + "/1"
    return Settings(
        errors=ErrorSettings(dsn=SecretStr(dsn), environment="staging", messages=messages),
        llm=LlmSettings(api_key=SecretStr(SECRET)),
        sources=SourcesSettings(offline=offline),
    )


def read_events(requests: list[Request]) -> list[dict[str, Any]]:
    """The events of the envelopes that a receiver was sent: https://develop.sentry.dev/sdk/data-model/envelopes/."""
    events = []
    for request in requests:
        body = gzip.decompress(request.body) if request.headers.get("content-encoding") == "gzip" else request.body
        lines = body.split(b"\n")
        assert json.loads(lines[1])["type"] == "event"
        events.append(json.loads(lines[2]))
    return events


def fail(query: str) -> None:
    abstract = TEXT
    try:
        {}[f"{query}: {abstract} {SECRET}"]
    except KeyError as error:
        raise RuntimeError(f"search for {query} failed at https://user:{SECRET}@host/?api_key={SECRET}") from error


def log_failure(query: str = QUERY) -> None:
    try:
        fail(query)
    except RuntimeError as error:
        note_place(error, "scout")
        log.exception("search for %s failed", query)
        logging.getLogger("outrider.other").exception("and once more")


def test_an_error_is_reported_once_with_release_node_and_run_and_without_query_text_or_secret() -> None:
    """Its message, the message of its cause, a note, local variables, source lines, the log's line and the command line hold them."""
    with serving(lambda _: Answer(b"{}")) as server:
        start(make_settings(server.base_url))
        with run_named("run-17"):
            log_failure()
        stop()
        (event,) = read_events(server.requests)
    assert event["release"].startswith("outrider@")
    assert (event["environment"], event["tags"]) == ("staging", {"run": "run-17", "node": "scout", "where": "outrider.test"})
    assert event["server_name"]
    cause, error = event["exception"]["values"]
    assert (cause["type"], error["type"]) == ("KeyError", "RuntimeError")
    assert error["stacktrace"]["frames"][-1]["function"] == "fail"
    assert error["stacktrace"]["frames"][-1]["lineno"] > 0
    sent = json.dumps(event)
    for canary in (SECRET, "canary", "liver", "public-key", str(Path(__file__).parent), *sys.argv[1:2]):
        assert canary not in sent
    assert event.keys() <= {*error_tracker.EVENT_FIELDS, "exception"}
    assert {key for value in (cause, error) for frame in value["stacktrace"]["frames"] for key in frame} <= {
        *error_tracker.FRAME_FIELDS,
        "filename",
    }


def test_messages_are_sent_where_they_are_asked_for_but_no_secret() -> None:
    with serving(lambda _: Answer(b"{}")) as server:
        start(make_settings(server.base_url, messages=True))
        log_failure()
        stop()
        (event,) = read_events(server.requests)
    assert QUERY in event["exception"]["values"][1]["value"]
    assert SECRET not in json.dumps(event)
    assert "public-key" not in json.dumps(event)


def test_errors_that_a_user_can_correct_and_log_lines_without_an_error_are_not_reported() -> None:
    with serving(lambda _: Answer(b"{}")) as server:
        start(make_settings(server.base_url))
        log.error("a line")
        for error in (BadRequest("no such field"), ExceptionGroup("both", [BadRequest("one"), BadRequest("two")])):
            log.error("refused", exc_info=error)
        log.error("half of it is a bug", exc_info=ExceptionGroup("both", [BadRequest("one"), ValueError("two")]))
        stop()
        (event,) = read_events(server.requests)
    assert "ValueError" in {value["type"] for value in event["exception"]["values"]}


def test_a_tracker_that_is_away_delays_neither_errors_nor_the_end_for_long() -> None:
    """It accepts connections and never answers: a thousand errors take less than a second, and the end its limit."""

    async def stall(_: Request) -> Answer:
        import asyncio

        await asyncio.sleep(30)
        return Answer()

    with serving(stall) as server:
        start(make_settings(server.base_url))
        log.propagate = False  # only to the tracker
        log.addHandler(error_tracker._installed[0][1])
        try:
            began = time.perf_counter()
            for number in range(1_000):
                log.error("failed", exc_info=ValueError(number))
            assert time.perf_counter() - began < 1
            began = time.perf_counter()
            stop(0.3)
            assert time.perf_counter() - began < 2
        finally:
            log.propagate = True
            log.handlers.clear()


def test_offline_only_a_tracker_on_this_machine_is_reached_and_through_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    start(make_settings("https://tracker.example", offline=True))
    assert not error_tracker._installed
    with serving(lambda _: Answer(b"{}")) as server:
        start(make_settings(server.base_url, offline=True))
        log_failure()
        stop()
        assert len(server.requests) == 1


@pytest.mark.parametrize("dsn", ["https://canary.example/1", "canary@host/1", "https://canary@host", "https://canary@host/name"])
def test_an_address_without_key_or_project_is_refused_without_being_shown(dsn: str) -> None:
    with pytest.raises(ValidationError, match="no DSN") as refused:
        ErrorSettings(dsn=SecretStr(dsn))
    assert "canary" not in str(refused.value)


def test_the_place_of_an_error_is_the_innermost_one() -> None:
    error = ValueError()
    assert find_place(error) == ("", "")
    with run_named("inner"):
        note_place(error, "scout")
    note_place(error, "outer")
    assert find_place(error) == ("inner", "scout")


class BrokenLibrary(Shelf):
    """Every search meets a bug."""

    async def search(self, query: Any) -> Any:
        raise RuntimeError(f"canary query {query.text}")


@pytest.mark.blocking  # the receiver's end waits for its thread
async def test_a_bug_in_a_servers_search_is_reported_once_with_the_numbers_of_its_answer() -> None:
    with serving(lambda _: Answer(b"{}")) as server:
        start(make_settings(server.base_url))
        async with open_client(http_app.services(shelf=BrokenLibrary([http_app.ASPIRIN]))) as client:
            answer = await client.post("/api/search", json={"query": QUERY})
        stop()
        (event,) = read_events(server.requests)
    assert answer.status_code == 500
    assert event["tags"]["node"] == "scout"
    assert event["tags"]["run"] == answer.headers["x-request-id"]
    assert "canary" not in json.dumps(event)


CRASH = """
import sys
from outrider import __main__ as command
from outrider.interfaces import cli

def fail(*_, **__):
    raise RuntimeError("canary query about liver")

cli.run = fail
assert "sentry_sdk" not in sys.modules
command.main()
"""


def test_a_command_that_crashes_is_reported_and_shows_its_traceback_as_before(tmp_path: Path) -> None:
    with serving(lambda _: Answer(b"{}")) as server:
        dsn = server.base_url.replace("://", "://public-key@") + "/1"
        environment = {**os.environ, "OUTRIDER_ERRORS__DSN": dsn, "XDG_CONFIG_HOME": str(tmp_path)}
        ended = subprocess.run(
            [sys.executable, "-c", CRASH, "search", QUERY], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        (event,) = read_events(server.requests)
    assert ended.returncode == 1
    assert "RuntimeError: canary" in ended.stderr
    assert event["tags"] == {"where": "command"}
    assert "canary" not in json.dumps(event)


def test_without_a_tracker_nothing_is_imported_or_watched() -> None:
    code = (
        "import sys, logging; from outrider.services import error_tracker; from outrider.settings.model import Settings;"
        "error_tracker.start(Settings()); assert not logging.getLogger('outrider').handlers; assert 'sentry_sdk' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
