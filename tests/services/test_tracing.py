"""Logs and traces: every node and call of a run under one id, and no secret in any of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import SecretStr

from outrider.interfaces.cli import run
from outrider.interfaces.logs import JsonFormatter
from outrider.runtime.spans import RUN, install, run_named, span
from outrider.services import Services
from outrider.services.tracing import OpenTelemetry, _open_provider, make_provider, start_tracing
from outrider.settings.model import LlmSettings, Settings, TracingSettings
from outrider.settings.redact import Redactor
from outrider.state.errors import SettingsError
from outrider.usecases.search import asearch
from support.chat_client import KEY, llm_settings
from support.chat_server import ChatServer, Reply, Request
from support.fake_services import make_handler
from support.fake_services import settings as world_settings
from support.fakes import NOON
from support.http_server import PROXY_VARIABLES, Answer, serving

SECRET = "sk-very-secret"


@pytest.fixture(autouse=True)
def untraced() -> Iterator[None]:
    yield
    install(None)
    logging.getLogger("outrider").setLevel(logging.NOTSET)


def plan(request: Request) -> Reply:
    if "papers" in request.data:
        return Reply({"results": [{"paper_id": one["id"], "relevance_score": 0.5} for one in request.data["papers"]]})
    return Reply({"topic": "liver", "concepts": ["liver"], "queries": [{"text": "liver injury"}]})


@pytest.mark.blocking  # the exporter of the test has a lock
async def test_a_span_for_each_node_and_call_under_one_run_and_without_secrets(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    with serving(make_handler()) as server, ChatServer(plan) as chat:
        base = world_settings(server.base_url, tmp_path, timeout_s=60.0)
        settings = base.model_copy(update={"llm": llm_settings(chat, timeout_s=60.0)})
        assert KEY in Redactor.from_settings(settings).secrets
        install(OpenTelemetry(make_provider(exporter, at_once=True), Redactor.from_settings(settings)))
        answer = await asearch(f"liver injury {KEY}", sources=["openalex", "arxiv"], services=Services(settings, clock=lambda: NOON))
    spans = exporter.get_finished_spans()
    names = [one.name for one in spans]
    assert {f"node {node}" for node in answer.timings_ms} <= set(names)
    assert names.count("model call") == answer.usage.calls > 0
    assert {one.attributes["service"] for one in spans if one.name == "service call"} == {"openalex", "arxiv"}
    assert len({one.attributes["outrider.run"] for one in spans}) == 1
    by_id = {one.context.span_id: one for one in spans}
    assert all(by_id[one.parent.span_id].name == "node scout" for one in spans if one.name == "service call")
    assert [one.name for one in spans if one.parent is None] == ["search"]
    assert len({one.context.trace_id for one in spans}) == 1
    assert KEY not in "".join(one.to_json() for one in spans)


def test_an_error_is_reported_by_its_type_only() -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    install(OpenTelemetry(make_provider(exporter, at_once=True), Redactor((SECRET,))))
    with pytest.raises(ValueError), span("call", address=f"https://me:pw@host/{SECRET}"):
        raise ValueError(SECRET)
    (recorded,) = exporter.get_finished_spans()
    assert recorded.attributes["error.type"] == "ValueError"
    assert recorded.attributes["address"] == "https://********@host/********"
    assert SECRET not in recorded.to_json()


def test_a_collector_on_this_machine_is_not_reached_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving(lambda _: Answer()) as server:
        provider = _open_provider.__wrapped__(f"{server.base_url}/v1/traces")
        provider.get_tracer("test").start_span("one").end()
        assert provider.force_flush()
        provider.shutdown()
        assert [request.path for request in server.requests] == ["/v1/traces"]


def test_without_a_collector_nothing_is_traced() -> None:
    start_tracing(Settings())
    with span("anything", secret=SECRET):
        pass
    with pytest.raises(SettingsError, match=r"tracing\.endpoint"):
        start_tracing(Settings(tracing=TracingSettings(endpoint="localhost")))


def test_verbose_logs_each_node_as_json_with_the_run_and_without_the_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChatServer(plan) as chat:
        for name, value in {"MODEL": "scripted", "BASE_URL": chat.base_url, "API_KEY": SECRET, "TIMEOUT_S": "60"}.items():
            monkeypatch.setenv(f"OUTRIDER_LLM__{name}", value)
        monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "true")
        assert run(["--verbose", "search", f"liver {SECRET}", "--json", "-l", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["query"]
    entries = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert {"translator", "scout", "distiller"} <= {one.get("node") for one in entries}
    assert len({one["run"] for one in entries}) == 1
    assert entries[0]["run"]
    assert SECRET not in err


@given(st.text(min_size=6, max_size=40).filter(str.isprintable), st.text(max_size=40), st.text(max_size=40))
@example("000000", "\x10", "")  # reads like a part of the escape of a control character
@example('k"\\k"\\', "", "")  # is escaped in JSON
def test_no_secret_is_in_a_line(secret: str, before: str, after: str) -> None:
    hiding = Redactor.from_settings(Settings(llm=LlmSettings(api_key=SecretStr("k" * 8))))
    assert hiding.secrets == ("k" * 8,)
    record = logging.LogRecord("outrider.x", logging.INFO, "", 0, "%s", (f"{before}{secret}{after}",), None)
    line = JsonFormatter(Redactor((secret,))).format(record)
    assert len(line.splitlines()) == 1
    message = json.loads(line)["message"]
    if "*" not in secret and " " not in secret and "@" not in secret:
        assert secret not in message


def test_fields_of_a_line_are_redacted_and_keep_their_types() -> None:
    record = logging.LogRecord("outrider.x", logging.INFO, "", 0, "m", (), None)
    record.log_fields = {"ms": 12, "share": 0.5, "ok": True, "none": None, "list": ["a 123456"], "number": 123456, "map": {"k": "123456"}}
    fields = json.loads(JsonFormatter(Redactor(("123456",))).format(record))
    expected = {"ms": 12, "share": 0.5, "ok": True, "none": None, "list": ["a ********"], "number": "********", "map": {"k": "********"}}
    assert {name: fields[name] for name in expected} == expected


def test_a_nested_run_keeps_the_outer_name() -> None:
    with run_named("outer") as outer, run_named("inner") as inner:
        assert outer == inner == RUN.get()
    assert RUN.get() == ""
