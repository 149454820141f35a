"""`outrider systematic`, `replay` and `verify` over a real library."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.interfaces.cli import run


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUTRIDER_SYSTEMATIC__FOLDER", str(tmp_path / "runs"))
    return tmp_path / "runs"


def test_a_run_is_exported_reported_replayed_and_checked(
    shelved: Path, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = [tmp_path / f"out{suffix}" for suffix in (".ris", ".bib", ".csv", ".jsonl")]
    library = ["-l", str(shelved)]
    assert run(["systematic", "aspirin[tiab]", *library, "-o", str(outputs[0]), "--report", str(tmp_path / "report"), "--json"]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert report["result_set"]["complete"]
    assert report["manifest"]["asked"]["query"] == "aspirin[tiab]"
    assert "records written" in err
    path = Path(report["result_set"]["manifest"])
    assert path.parent.parent == runs
    for output in outputs[1:]:
        assert run(["systematic", "--resume", path.parent.name, *library, "-o", str(output)]) == 0
    assert "title" in outputs[2].read_text(encoding="utf-8").splitlines()[0].split(",")
    for output in outputs:
        capsys.readouterr()
        assert run(["verify", str(path), str(output)]) == 0, capsys.readouterr().out
        output.write_bytes(output.read_bytes().replace(b"spirin", b"spirim", 1))
        assert run(["verify", str(path.parent), str(output)]) == 3
        assert f"{output.name}, line " in capsys.readouterr().out
    assert run(["replay", str(path), *library]) == 0
    assert "No difference" in capsys.readouterr().out
    assert (tmp_path / "report" / "prisma-2020.svg").is_file()


def test_the_summary_shows_hits_run_and_proof(shelved: Path, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["systematic", "aspirin[tiab]", "-l", str(shelved)]) == 0
    out = capsys.readouterr().out
    for part in ("1. 2020 Aspirin and the liver", "Complete.", "tag systematic-", "outrider verify"):
        assert part in out


def test_explain_shows_tree_history_with_hits_and_remarks_and_runs_nothing(
    shelved: Path, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["systematic", "aspirin[tiab] OR zebra[ti] AND liver", "-l", str(shelved), "--explain"]) == 0
    out = capsys.readouterr().out
    assert "#1 OR #2" in out
    assert "mixed operators" in out
    assert "matches nothing" in out
    assert '      "zebra"[Title]' in out
    assert not runs.exists()
    assert run(["systematic", "aspirin[tiab]", "-l", str(shelved), "--explain", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row["hits"] for row in report["history"]] == [1]


def test_an_error_of_the_query_points_at_its_column(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["systematic", "aspirin[tiabs] AND b"]) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == ["  aspirin[tiabs] AND b", "          ^"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["systematic"], 2, "give a query"),
        (["systematic", "x", "--resume", "y"], 2, "not both"),
        (["systematic", "--resume", "nowhere"], 2, "no run 'nowhere'"),
        (["systematic", "x[ti]", "--sources", "pubmedd"], 2, "no exact run can ask 'pubmedd'"),
        (["systematic", "x[ti]", "-o", "out.txt"], 2, "does not say its format"),
        (["systematic", '{"title": '], 2, "JSON object"),
        (["systematic", "x[ti]", "--syntax", "medline"], 2, "unknown syntax"),
        (["systematic", "x[ti]", "-l", "/nowhere/at/all"], 3, "no library"),
        (["replay", "nowhere"], 2, "no run 'nowhere'"),
        (["verify", "nowhere.json"], 2, "cannot be read"),
    ],
)
def test_bad_input_is_one_clear_error(
    runs: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert run(arguments) == code
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""
    assert "Traceback" not in err
