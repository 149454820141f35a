"""Servers of the benchmark `serving`: their settings are valid, and answers are judged as clients see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bench import servers
from bench.served import Server
from bench.servers import ProgramMissing
from bench.serving import ANSWERED, LOST, MIXED, RETRYABLE, _judge, make_settings, run
from outrider.settings.load import load

SHARED = {"redis": "redis://127.0.0.1:1/0", "postgres": "postgresql://me@127.0.0.1:1/x", "library": "library"}


@pytest.mark.parametrize("services", [None, Server("http://127.0.0.1:1", 1, ())])
def test_its_settings_are_valid(services: Server | None, tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump(make_settings(SHARED, services, tmp_path, at_once=2)))
    settings = load(environ={"OUTRIDER_CONFIG": str(path)}, cwd=tmp_path, user_dir=tmp_path).settings
    assert (settings.sources.offline, settings.serve.at_once) == (services is None, 2)


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        ({"status": "done", "response": {"query": "liver injury topic1", "hits": [{"title": "Liver injury topic1"}]}}, ANSWERED),
        ({"status": "done", "response": {"query": "liver injury topic2", "hits": [{"title": "Liver injury topic1"}]}}, MIXED),
        ({"status": "done", "response": {"query": "liver injury topic1", "hits": [{"title": "Liver injury topic11"}]}}, MIXED),
        ({"status": "failed", "problem": {"status": 503}}, RETRYABLE),
        ({"status": "failed", "problem": {"status": 500}}, LOST),
        ({"status": "cancelled"}, LOST),
    ],
)
def test_an_answer_of_another_request_is_no_answer(state: dict[str, Any], outcome: str) -> None:
    assert _judge(state, "liver injury topic1") == outcome


def test_without_a_program_it_is_skipped_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none(name: str) -> str:
        raise ProgramMissing(f"{name} is not installed")

    monkeypatch.setattr("bench.serving.find_program", find_none)
    report = run()
    assert (report.rows, report.notes) == ((), ("Skipped: redis-server is not installed.",))
    with pytest.raises(ProgramMissing, match="no-such-program"):
        servers.find_program("no-such-program")
