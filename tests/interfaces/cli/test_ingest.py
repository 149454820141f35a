from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outrider.interfaces.cli import run


def test_columns_are_mapped_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "odd.csv").write_text("Heading,Summary\nLiver,Doses\nHeart,Beats\n")
    library = str(tmp_path / "library")
    assert run(["ingest", str(tmp_path / "odd.csv"), "--map", "title=Heading,abstract=Summary", "--json", "-l", library]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert (report["added"], report["failed"], err) == (2, 0, "")
    assert {"added", "updated", "unchanged", "skipped", "failed", "files"} <= set(report)
    assert run(["library", "list", "--json", "-l", library]) == 0
    assert sorted(record["title"] for record in json.loads(capsys.readouterr().out)["records"]) == ["Heart", "Liver"]


def test_the_summary_names_failures_with_reasons_and_the_exit_code_is_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "good.md").write_text("# Liver\n\nText.")
    (source / "empty.pdf").write_bytes(b"")
    (source / "x\x1b[31m.png").write_bytes(b"\x89PNG")
    assert run(["ingest", str(source), "-l", str(tmp_path / "library")]) == 0
    out, err = capsys.readouterr()
    assert "1 added, 0 updated, 0 unchanged, 1 skipped, 1 failed from 3 files" in " ".join(out.split())
    assert "empty.pdf" in out
    assert "run the same command again" in err
    assert "\x1b[31m" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to ingest"),
        (["no/such/file"], "no such file or folder"),
        ([".", "--map", "title"], "--map takes FIELD=COLUMN"),
        ([".", "--map", "titel=Heading"], "titel"),
    ],
)
def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert run(["ingest", *arguments, "-l", str(tmp_path / "library")]) == 2
    assert message in capsys.readouterr().err


def test_ctrl_c_stops_cleanly_and_a_rerun_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(300):
        rows = "".join(json.dumps({"id": n, "title": f"Liver {number} {n}", "abstract": "dose " * 50}) + "\n" for n in range(20))
        (source / f"{number:03}.jsonl").write_text(rows)
    library = tmp_path / "library"
    command = [sys.executable, "-m", "outrider", "ingest", str(source), "-l", str(library)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    while not (library / "records.lance").exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode in (0, 130)  # 0 only where the machine was fast enough to be done
    assert process.returncode == 0 or "run the same command to continue" in err
    assert "Traceback" not in err
    assert run(["library", "check", "-l", str(library)]) == 0
    assert run(["ingest", str(source), "--json", "-l", str(library)]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["added"] + report["unchanged"] == 6_000
    assert report["failed"] == 0
