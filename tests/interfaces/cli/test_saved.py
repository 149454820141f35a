"""The command `outrider saved`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from outrider.interfaces.cli import run
from outrider.library.library import Library
from outrider.saved_searches.store import SavedStore
from outrider.state.records import Record
from outrider.usecases.saved import Outcome, RunSummary
from support.saved_searches import article
from support.small_library import fill_library


@pytest.fixture(autouse=True)
def shelf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A library of three papers; everything else of this machine is out of the way."""
    values = {
        "OUTRIDER_LIBRARY": tmp_path / "library",
        "OUTRIDER_SAVED__URI": tmp_path / "saved.sqlite",
        "OUTRIDER_JOBS__URI": tmp_path / "jobs.sqlite",
        "OUTRIDER_SYSTEMATIC__FOLDER": tmp_path / "runs",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, str(value))
    return fill_library(tmp_path / "library", [article(number) for number in range(3)])


def add_record(folder: Path, record: Record) -> None:
    async def add() -> None:
        library = await Library.open(folder)
        await library.upsert([record])
        library.close()

    asyncio.run(add())


def call(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert run(["saved", *arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_protocol_is_saved_run_compared_exported_and_removed(shelf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--systematic", "--schedule", "weekly", "--timezone", "Europe/Berlin"]
    assert run(["saved", "add", "liver", "aspirin[ti]", *options]) == 0
    assert "(Europe/Berlin), by outrider serve or a cron job" in capsys.readouterr().err
    assert call(capsys, "run", "liver")["run"]["works"] == 3
    add_record(shelf, article(7))
    assert run(["saved", "run", "liver"]) == 0
    out, err = capsys.readouterr()
    assert ("new in source" in out, "1 new, 0 changed, 0 gone, 0 missing" in err) == (True, True)
    assert call(capsys, "diff", "liver", "--from", "1", "--to", "2")["works"][0]["doc_id"] == "p7"
    assert run(["saved", "diff", "liver", "--format", "markdown"]) == 0
    assert "## New (1)" in capsys.readouterr().out
    assert run(["saved", "diff", "liver", "--format", "rss", "-o", str(tmp_path / "feed.xml")]) == 0
    assert "<rss" in (tmp_path / "feed.xml").read_text()
    capsys.readouterr()
    assert run(["saved", "show", "liver", "--report", str(tmp_path / "report")]) == 0
    assert "weekly (Europe/Berlin)" in capsys.readouterr().out
    flow = json.loads((tmp_path / "report" / "prisma-2020-update.json").read_text())
    assert (flow["previous"], flow["known"], flow["new"], flow["identified"]) == (3, 3, 1, {"library": 4})
    assert "(n = 1)" in (tmp_path / "report" / "prisma-2020-update.svg").read_text().replace("\u00a0", " ")
    assert [one["name"] for one in call(capsys, "list")] == ["liver"]
    assert run(["saved", "list"]) == 0
    assert "1 new" in capsys.readouterr().out
    assert call(capsys, "remove", "liver") == {"removed": "liver", "runs": 2}
    assert call(capsys, "list") == []
    assert len(list((tmp_path / "runs").glob("*/manifest.json"))) == 2, "the proofs stay"


def test_a_ranked_search_reads_the_library_that_it_was_saved_with(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "add", "kidney", "aspirin", "-k", "20", "--year", "2000-2010")
    assert run(["saved", "run", "kindey"]) == 2
    assert "did you mean 'kidney'" in capsys.readouterr().err
    monkeypatch.setenv("OUTRIDER_LIBRARY", str(tmp_path / "nowhere"))
    assert call(capsys, "run", "kidney")["run"]["works"] == 3
    add_record(shelf, article(15))
    assert call(capsys, "run", "kidney")["difference"]["works"] == [], "of the year 2015"
    assert run(["saved", "show", "kidney", "--report", str(tmp_path)]) == 2
    assert "save one with --systematic" in capsys.readouterr().err


def test_a_search_saved_offline_reads_the_library_alone(shelf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "add", "kidney", "aspirin", "--offline")["request"]["sources"] == ["library"]
    assert call(capsys, "add", "liver", "aspirin", "--offline", "-s", "pubmed")["request"]["sources"] == ["pubmed"]


def test_the_first_run_names_the_sources_that_failed(
    shelf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = RunSummary(number=1, status="complete", started_at=0.0, works=3, failed_sources={"pubmed": "it is unreachable"})

    async def run_now(*_: object) -> Outcome:
        return Outcome(name="liver", run=summary)

    call(capsys, "add", "liver", "aspirin")
    monkeypatch.setattr("outrider.usecases.saved.run_now", run_now)
    assert run(["saved", "run", "liver"]) == 0
    assert "pubmed was not read to its end: it is unreachable" in capsys.readouterr().err


def test_what_is_due_runs_and_a_failure_stops_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "add", "gone", "aspirin[ti]", "--systematic", "--schedule", "every 15 min", "--library", str(tmp_path / "nowhere"))
    call(capsys, "add", "good", "aspirin[ti]", "--systematic", "--schedule", "every 15 min")
    call(capsys, "add", "later", "aspirin[ti]", "--systematic", "--schedule", "daily")
    assert call(capsys, "run", "--due") == []
    store = SavedStore(tmp_path / "saved.sqlite")
    for name in ("gone", "good"):
        store.add(store.get(name).model_copy(update={"created_at": 1_000_000.0}), replace=True)
    assert run(["saved", "run", "--due", "--json"]) == 3
    out, err = capsys.readouterr()
    assert [one["name"] for one in json.loads(out)] == ["good"]
    assert "gone: Error: no library at" in err.replace("\n", " ")
    assert call(capsys, "run", "--due") == [], "neither is due again, also not the one that failed"
    store.add(store.get("gone").model_copy(update={"timezone": "Mars/Olympus"}), replace=True)
    assert run(["saved", "run", "--due"]) == 3
    assert "gone: Error: there is no time zone 'Mars/Olympus'" in capsys.readouterr().err.replace("\n", " ")
    assert run(["saved", "list"]) == 0
    assert "there is no time zone" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "x", "aspirin", "--schedule", "whenever"], "is no schedule"),
        (["add", "x", "aspirin", "--schedule", "daily", "--timezone", "Mars"], "no time zone"),
        (["add", "x", "aspirin", "--webhook", "http://192.168.0.1/"], "WEBHOOK_SECRET"),
        (["add", "x", "...", "--top-k", "5"], "no letter or digit"),
        (["add", "x", "aspirin[ti] AND", "--systematic"], ""),
        (["add", "x", "aspirin[ti]", "--systematic", "--year", "2020-"], "belongs to a ranked search"),
        (["run", "unknown"], "no saved search 'unknown'"),
        (["run"], "name a saved search"),
        (["run", "x", "--due"], "name a saved search"),
        (["show", "unknown"], "no saved search"),
        (["diff", "unknown"], "no saved search"),
        (["diff", "unknown", "--format", "atm"], "did you mean 'atom'"),
        (["remove", "unknown"], "no saved search"),
    ],
)
def test_bad_input_ends_with_2_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(["saved", *arguments]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["library"]


def test_a_webhook_to_a_private_address_and_a_truncated_store_end_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OUTRIDER_SAVED__WEBHOOK_SECRET", "a long secret")
    assert run(["saved", "add", "x", "aspirin", "--webhook", "http://192.168.0.1/hook?token=geheim"]) == 2
    err = capsys.readouterr().err
    assert ("is private" in err, "geheim" in err, "secret" in err) == (True, False, False)
    assert not (tmp_path / "saved.sqlite").exists()
    call(capsys, "add", "x", "aspirin")
    store = tmp_path / "saved.sqlite"
    store.write_bytes(store.read_bytes()[:9_000])
    for arguments in (["list"], ["run", "x"], ["add", "y", "aspirin"], ["run", "--due"]):
        assert run(["saved", *arguments]) == 2
        assert "restore the file from a backup" in capsys.readouterr().err.replace("\n", " ")
    assert store.stat().st_size == 9_000
