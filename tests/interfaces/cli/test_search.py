from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outrider.interfaces.cli import run
from outrider.state.response import SearchResponse
from support.chat_client import KEY
from support.chat_server import ChatServer, Reply, Request
from support.rerank_server import Server

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Advice that an earlier test was given is new to each test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_an_answer_shows_rank_title_year_reason_and_sentences(shelved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A score of rules is an order, no confidence: it is shown with --explain only."""
    for explain in ([], ["--explain"]):
        assert run(["search", "aspirin liver", *explain, "--library", str(shelved)]) == 0
        text = " ".join(capsys.readouterr().out.split())
        for part in ("1. Aspirin and the liver", "2020", "Hepatology", "Matched by words", "│ Aspirin harms the liver at high doses."):
            assert part in text
        for part in ("score 1.00", "(rules)", "why: title has", "matched by words (rank 1)"):
            assert (part in text) is bool(explain)


def test_json_output_is_one_response(shelved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "aspirin", "--json", "--top-k", "1", "--filters", '{"year": {"$gt": 2010}}', "-l", str(shelved)]) == 0
    out, err = capsys.readouterr()
    answer = SearchResponse.model_validate_json(out)
    assert [hit.doc_id for hit in answer.hits] == ["a"]
    assert err == ""


def test_explain_shows_the_plan_and_what_was_left_out(shelved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "aspirin statins since 2010", "--explain", "--search-mode", "focused", "-l", str(shelved)]) == 0
    out, err = capsys.readouterr()
    assert "Limits read from the request: years from 2010\n" in err, "no stars, which nobody named"
    assert re.search(r"^Searched for: .+\nBoolean query: .+$", err, re.MULTILINE)
    assert "Statins" not in out


def test_escape_sequences_in_records_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An escape sequence or markup in a title is shown as text."""
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "evil.jsonl").write_text(
        json.dumps({"id": "1", "title": "\x1b]0;owned\x07 zebra [bold]x[/bold] \u202e", "text": "zebra"}) + "\n"
    )
    library = str(tmp_path / "library")
    assert run(["ingest", str(notes), "-l", library]) == 0
    capsys.readouterr()
    assert run(["search", "zebra", "-l", library]) == 0
    out = capsys.readouterr().out
    assert "\x1b]" not in out
    assert "\u202e" not in out
    assert "[bold]x[/bold]" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["search", ""], 2, "no letter or digit"),
        (["search", "😀"], 2, "no letter or digit"),
        (["search", "x" * 100_000], 2, "100,000 characters"),
        (["search", "x", "--top-k", "0"], 2, "--top-k"),
        (["search", "x", "--top-k", "1000000000"], 2, "--top-k"),
        (["search", "x", "--top-k", "many"], 2, "--top-k"),
        (["search", "x", "--filters", "{"], 2, "--filters is not JSON"),
        (["search", "x", "--filters", "[]"], 2, "JSON object"),
        (["search", "x", "--filters", '{"year": {"$gtt": 1}}'], 2, "$gtt"),
        (["search", "x", "--filters", '{"year": "1"}'], 2, "whole number"),
        (["search", "x", "--source", "githup"], 2, "githup"),
        (["search", "x", "--strategy", "dense"], 3, "outrider library reindex"),
        (["search", "x[tiabs]", "--mode", "systematic"], 2, "did you mean 'tiab'"),
        (["search", "x", "--timeout", "0"], 2, "--timeout"),
        (["search", "x", "--search-mode", "wide"], 2, "focused"),
        (["search"], 2, "Missing argument 'query'"),
        (["serch", "x"], 2, "serch"),
        (["search", "x", "--libary", "y"], 2, "--libary"),
    ],
)
def test_bad_input_is_one_clear_error(
    shelved: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    library = ["-l", str(shelved)] if arguments[:2] == ["search", arguments[-1]] or len(arguments) > 2 else []
    assert run([*arguments, *library]) == code
    out, err = capsys.readouterr()
    assert message in err.replace("\n", " ")
    assert "Traceback" not in err
    assert out == ""


@pytest.mark.parametrize("query", ["the of and", "a\x00b\x1b liver", "肝", "naïve café 😀"])
def test_odd_queries_are_answered(shelved: Path, query: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", query, "--json", "-l", str(shelved)]) == 0
    assert json.loads(capsys.readouterr().out)["sources"]


def test_a_missing_library_exits_with_3_and_names_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "x", "-l", str(tmp_path / "none")]) == 3
    assert "outrider ingest" in capsys.readouterr().err
    assert run(["search", "x", "-l", str(tmp_path / "none"), "--json"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert (answer["error"]["kind"], answer["error"]["exit_code"]) == ("NothingSearchable", 3)
    assert (answer["error"]["message"], answer["hits"]) == (answer["failures"][0]["message"], [])


def test_an_empty_library_gives_no_hits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert run(["search", "liver", "-l", str(tmp_path / "empty")]) == 0
    assert "Nothing was found" in capsys.readouterr().out


def test_the_query_can_come_from_standard_input(shelved: Path) -> None:
    command = [sys.executable, "-m", "outrider", "search", "-", "--json", "-l", str(shelved)]
    done = subprocess.run(command, input="aspirin", capture_output=True, text=True, check=True, env={**os.environ, "NO_COLOR": "1"})
    assert json.loads(done.stdout)["hits"][0]["doc_id"] == "a"


def test_a_closed_pipe_causes_no_traceback(shelved: Path) -> None:
    command = f"{sys.executable} -m outrider search aspirin --json -l {shelved} | head -c 1 > /dev/null"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr


def configure_model(monkeypatch: pytest.MonkeyPatch, server: ChatServer) -> None:
    for name, value in {"MODEL": "scripted", "BASE_URL": server.base_url, "API_KEY": KEY, "PRICES": '{"scripted": "1/10"}'}.items():
        monkeypatch.setenv(f"OUTRIDER_LLM__{name}", value)


def plan_or_scores(call: Request) -> Reply:
    """A plan that follows the feedback, or half a point for every paper."""
    if "papers" in call.data:
        return Reply({"results": [{"paper_id": one["id"], "relevance_score": 0.5} for one in call.data["papers"]]})
    words = call.data.get("user_feedback") or "aspirin"
    return Reply({"topic": words, "concepts": [words], "queries": [{"text": words}, {"text": f"{words} liver"}]})


def test_a_model_plans_and_scores_and_the_cost_is_shown(
    shelved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChatServer(plan_or_scores) as server:
        configure_model(monkeypatch, server)
        assert run(["search", "aspirin", "--explain", "-l", str(shelved)]) == 0
    out, err = capsys.readouterr()
    text = " ".join(out.split())
    assert "score 0.50 (model)" in text
    assert "2 model calls, 200 tokens in, 40 out, $0.0006" in text
    assert "Planned by model" in err
    assert "Searched for: aspirin liver" in err


def test_a_second_round_takes_the_first_answer_and_feedback(
    shelved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChatServer(plan_or_scores) as server:
        configure_model(monkeypatch, server)
        assert run(["search", "aspirin", "--json", "-l", str(shelved)]) == 0
        first = tmp_path / "first.json"
        first.write_text(capsys.readouterr().out)
        assert run(["search", "aspirin", "--json", "--after", str(first), "--feedback", "statins", "-l", str(shelved)]) == 0
    answer = SearchResponse.model_validate_json(capsys.readouterr().out)
    assert answer.strategy is not None
    assert [query.text for query in answer.strategy.queries] == ["statins", "statins liver"]
    assert [query.text for query in answer.strategy.earlier[0].queries] == ["aspirin", "aspirin liver"]


def test_no_model_call_beyond_the_limits(shelved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(plan_or_scores) as server:
        configure_model(monkeypatch, server)
        assert run(["search", "aspirin", "--max-calls", "0", "-l", str(shelved)]) == 0
        assert run(["search", "aspirin", "--max-cost", "0.0000001", "-l", str(shelved)]) == 0
    out, err = capsys.readouterr()
    assert server.requests == []
    assert "(model)" not in out
    assert "llm.max_calls" in err
    assert "llm.max_cost_usd" in err


def test_a_rejected_key_ends_the_command_with_4(shelved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(lambda _: Reply("no such key", status=401)) as server:
        configure_model(monkeypatch, server)
        assert run(["search", "aspirin", "-l", str(shelved)]) == 4
    assert len(server.requests) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert KEY not in err
    assert "key" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--after", "none.json"], "none.json cannot be read"),
        (["--after", __file__], "cannot be read as an answer"),
        (["--max-calls", "-1"], "--max-calls takes a number from 0"),
        (["--max-cost", "-1"], "--max-cost takes USD"),
        (["--feedback", "x" * 2_001], "user_feedback"),
    ],
)
def test_options_of_the_model_are_checked(shelved: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert run(["search", "aspirin", "-l", str(shelved), *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_steps_skipped_for_one_reason_are_reported_together(shelved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "aspirin", "-l", str(shelved)]) == 0
    assert "translator.model, fine_scorer (no model is configured" in capsys.readouterr().err


@pytest.mark.parametrize("weight", ["0.5", "1"])
def test_hits_are_ordered_by_the_shown_score_also_after_a_reranker(
    shelved: Path, weight: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rerank server prefers what the rules put last. With a weight of 1 the order is its own."""
    server = Server()
    preferred = ("Statins", "x-client", "Aspirin")

    def answer(path: str, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        rank = [next((at for at, start in enumerate(preferred) if text.startswith(start)), 3) for text in body.get("texts", ())]
        return (200, [{"index": at, "score": -float(place)} for at, place in enumerate(rank)], {}) if path == "/rerank" else (404, {}, {})

    server.answer = answer
    try:
        for name, value in {"BASE_URL": server.url, "MODEL_NAME": "last-first", "WEIGHT": weight}.items():
            monkeypatch.setenv(f"OUTRIDER_RERANKER__{name}", value)
        assert run(["search", "aspirin liver cholesterol client", "--json", "-l", str(shelved)]) == 0
    finally:
        server.close()
    hits = SearchResponse.model_validate_json(capsys.readouterr().out).hits
    shown = [hit.score for hit in hits]
    assert len(hits) >= 3
    assert shown == sorted(shown, reverse=True)
    assert all({"rules", "reranker", "reranked"} <= hit.scores.keys() for hit in hits)
    if weight == "1":
        assert hits[0].doc_id == "b", "the rules put aspirin first"
        assert len(set(shown)) == len(shown)
        values = [hit.scores["reranker"] for hit in hits]
        assert values == sorted(values, reverse=True)


def test_rrf_is_one_setting(shelved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With `ranking.fusion: rrf` a hit's fused score is the sum of 1 / (60 + rank) over the lists that it shows, next to the best one's."""
    monkeypatch.setenv("OUTRIDER_RANKING__FUSION", "rrf")
    monkeypatch.setenv("OUTRIDER_RANKING__SPARSE_WEIGHT", "0.9")
    assert run(["--verbose", "search", "aspirin liver cholesterol client", "--json", "-l", str(shelved)]) == 0
    printed = capsys.readouterr()
    hits = SearchResponse.model_validate_json(printed.out).hits
    sums = [sum(1 / (60 + found.rank) for found in hit.found_by) for hit in hits]
    assert len(hits) >= 3
    assert [hit.scores["fused"] for hit in hits] == pytest.approx([one / max(sums) for one in sums], abs=1e-6)
    assert "ranking.sparse_weight: no effect with ranking.fusion: rrf" in printed.err
