from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from outrider.serve.cli import run


def test_every_setting_and_where_it_came_from(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OUTRIDER_RUN__CANDIDATES", "33")
    assert run(["config", "show", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows["run.candidates"]["value"] == 33
    assert "OUTRIDER_RUN__CANDIDATES" in rows["run.candidates"]["from"]
    assert rows["ranking.rrf_k"] == {"value": 60, "from": "default"}


def test_secrets_are_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "search_config.yaml").write_text("library:\n  storage_options:\n    aws_secret_access_key: hunter2\n")
    for form in ([], ["--json"]):
        assert run(["config", "show", *form]) == 0
        shown = capsys.readouterr()
        assert "hunter2" not in shown.out + shown.err


@pytest.mark.parametrize(
    ("yaml", "says"),
    [
        ("run:\n  candidatez: 3\n", "did you mean 'run.candidates'"),
        ("run: [", "search_config.yaml"),
        ("run:\n  candidates: many\n", "whole number"),
    ],
)
def test_a_wrong_setting_is_named_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str], yaml: str, says: str) -> None:
    (tmp_path / "search_config.yaml").write_text(yaml)
    assert run(["config", "check"]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert "search_config.yaml" in err
    assert run(["search", "x"]) == 2


def test_doctor_says_what_is_there_and_what_is_missing(shelved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json", "-l", str(shelved)]) == 0
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)["checks"]}
    assert rows["library"]["status"] == "ok"
    assert "4 records" in rows["library"]["says"]
    assert rows["model"]["status"] == "missing"
    assert run(["doctor", "-l", str(tmp_path / "none")]) == 0
    assert "outrider ingest" in " ".join(capsys.readouterr().out.split())


def test_help_and_version_load_nothing_heavy() -> None:
    script = (
        "import sys; from outrider.serve.cli import run; run(sys.argv[1:]);"
        "heavy = {'torch', 'lancedb', 'pyarrow', 'langgraph', 'langchain_core', 'numpy', 'trafilatura'} & set(sys.modules);"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    for arguments in (["--help"], ["--version"], ["search", "--help"], ["library", "--help"]):
        done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_completion_is_offered() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "outrider", "--show-completion", "bash"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert (done.returncode, "_outrider_completion" in done.stdout) == (0, True)
