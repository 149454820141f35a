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


def test_files_are_named_by_their_place_in_the_folder_that_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Relative to the folder if it is the only target, else to the working folder; in full if it is in neither."""
    monkeypatch.setenv("COLUMNS", "80")
    for folder in ("inside/deep", "outside/deep"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "screened-records.csv").write_text("a;b\n1;2\n")
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside")
    monkeypatch.chdir(tmp_path / "inside")

    def list_names(*targets: str) -> list[str]:
        capsys.readouterr()
        assert run(["ingest", *targets, "--offline", "-l", str(tmp_path / "library")]) == 0
        names, name = [], ""
        for line in capsys.readouterr().out.splitlines()[1:]:
            cell = line[:60].split("  ")[0].strip()
            if "skipped" in line and "added" not in line:
                names += [name] if name else []
                name = cell
            elif "added" not in line and line and not line.startswith(" "):
                name += cell
            else:
                names += [name] if name else []
                name = ""
        return names

    assert list_names(str(tmp_path / "outside")) == ["deep/screened-records.csv"]
    assert list_names("../outside") == ["deep/screened-records.csv"]
    assert list_names("deep") == ["screened-records.csv"]
    assert list_names("link") == ["deep/screened-records.csv"]
    full = str(tmp_path / "outside" / "deep" / "screened-records.csv")
    assert list_names("deep", "../outside") == ["deep/screened-records.csv", full]
    assert list_names("deep/screened-records.csv") == ["deep/screened-records.csv"]


def test_many_files_skipped_for_one_reason_do_not_hide_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(1_200):
        (source / f"module{number}.py").write_text("x = 1")
    for number in range(5):
        (source / f"chapter{number}.odt").write_text("x")
    (source / "zero.md").write_text("")
    assert run(["ingest", str(source), "-l", str(tmp_path / "library")]) == 0
    out = " ".join(capsys.readouterr().out.split())  # long paths wrap
    assert out.count("no reader for .py") == 4
    assert out.count("and 1,197 more files") == 1
    assert out.count("no reader for .odt; save it as .docx or PDF") == 5
    assert out.count("zero.md") == 1
    assert run(["ingest", str(source), "--json", "-l", str(tmp_path / "library")]) == 0
    assert len(json.loads(capsys.readouterr().out)["files"]) == 1_206


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
    if arguments == ["no/such/file"]:
        assert not (tmp_path / "library").exists()


def test_ctrl_c_stops_cleanly_and_a_rerun_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(300):
        rows = "".join(json.dumps({"id": n, "title": f"Liver {number} {n}", "abstract": "dose " * 50}) + "\n" for n in range(20))
        (source / f"{number:03}.jsonl").write_text(rows)
    library = tmp_path / "library"
    command = [sys.executable, "-m", "outrider", "ingest", str(source), "-l", str(library)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    while not any((library / "records.lance" / "data").glob("*.lance")) and process.poll() is None:
        time.sleep(0.01)  # before records come the indexes, whose creation an interruption may cut short
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


def test_pruning_lists_first_and_removes_when_it_is_confirmed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A plain run reports, `--prune` lists, `--prune --yes` removes; then nothing is left to say."""
    source, library = tmp_path / "source", str(tmp_path / "library")
    source.mkdir()
    (source / "rows.jsonl").write_text("".join(json.dumps({"id": n, "title": f"Liver {n}"}) + "\n" for n in range(3)))
    (source / "note.md").write_text("# Heart\n\nBeats")
    assert run(["ingest", str(source), "-l", library]) == 0
    (source / "rows.jsonl").write_text(json.dumps({"id": 0, "title": "Liver 0"}) + "\n")
    (source / "note.md").unlink()
    capsys.readouterr()
    assert run(["ingest", str(source), "-l", library]) == 0
    err = capsys.readouterr().err
    assert "Still in the library: 2 records no longer in the file they came from and 1 record of deleted files" in err
    assert "--prune lists them" in err
    for dry_run in ([], ["--dry-run"]):
        assert run(["ingest", str(source), "--prune", *dry_run, "-l", library]) == 0
    output = capsys.readouterr()
    assert all(title in output.out for title in ("Liver 1", "Liver 2", "Heart"))
    assert "Nothing was removed; to remove them, add --yes" in output.err
    assert run(["ingest", str(source), "--prune", "--yes", "--json", "-l", library]) == 0
    stale = json.loads(capsys.readouterr().out)["stale"]
    assert [(Path(one["path"]).name, one["gone"], len(one["doc_ids"]), one["removed"]) for one in stale] == [
        ("note.md", True, 1, True), ("rows.jsonl", False, 2, True),
    ]  # fmt: skip
    assert run(["ingest", str(source), "--prune", "-l", library]) == 0
    assert "nothing to remove" in capsys.readouterr().out
    assert run(["library", "list", "--json", "-l", library]) == 0
    assert [record["title"] for record in json.loads(capsys.readouterr().out)["records"]] == ["Liver 0"]


@pytest.mark.parametrize("option", ["--yes", "--dry-run"])
def test_an_option_of_pruning_alone_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    """A dry run without pruning would write the library."""
    assert run(["ingest", str(tmp_path), option, "-l", str(tmp_path / "library")]) == 2
    assert "belong to --prune" in capsys.readouterr().err
    assert not (tmp_path / "library").exists()


def test_a_missing_path_with_records_says_how_to_prune_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = str(tmp_path / "library")
    (tmp_path / "note.md").write_text("# Heart")
    assert run(["ingest", str(tmp_path / "note.md"), "-l", library]) == 0
    (tmp_path / "note.md").unlink()
    assert run(["ingest", str(tmp_path / "note.md"), "-l", library]) == 2
    assert "the library holds 1 record(s) of it, which --prune lists" in " ".join(capsys.readouterr().err.split())
    assert run(["ingest", str(tmp_path / "note.md"), "--prune", "--yes", "-l", library]) == 0
    assert "Removed: 1 record of deleted files" in capsys.readouterr().out


def test_records_without_a_title_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.csv").write_text("id,title,abstract\n1,Liver,Doses\n2,,Doses\n3,  ,Beats\n")
    assert run(["ingest", str(tmp_path / "rows.csv"), "-l", str(tmp_path / "a")]) == 0
    assert "2 records of those read now have no title" in capsys.readouterr().err
    assert run(["ingest", str(tmp_path / "rows.csv"), "--json", "-l", str(tmp_path / "b")]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["untitled"], report["files"][0]["untitled"]) == (2, 2)


def test_a_running_number_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"On {n},Journal {n % 9},{1990 + n * 5 % 17},{n + 1}\n" for n in range(30))
    (tmp_path / "refs.csv").write_text("title,journal,year,number\n" + rows)
    assert run(["ingest", str(tmp_path / "refs.csv"), "--json", "-l", str(tmp_path / "library")]) == 0
    assert "its issue is a running number of the file in 30 records" in capsys.readouterr().out


LIMITED = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY)); "
LIMITED += "from outrider.interfaces.cli import run; sys.exit(run(sys.argv[1:]))"


@pytest.mark.parametrize("command", [["ingest", "{rows}", "-l", "{library}"], ["dedup", "{rows}"], ["dedup", "{rows}", "-o", "{out}"]])
def test_a_limit_on_file_sizes_is_one_line_that_says_what_to_do(tmp_path: Path, command: list[str]) -> None:
    """`ulimit -f` is no damage and no traceback, in a library and in temporary files."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"id": n, "title": f"Liver {n}", "abstract": f"dose{n} " * 100}) + "\n" for n in range(500)))
    places = {"rows": rows, "library": tmp_path / "library", "out": tmp_path / "out.ris"}
    arguments = [sys.executable, "-c", LIMITED, *(part.format(**places) for part in command)]
    process = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert process.returncode == 3
    assert "Traceback" not in process.stderr
    assert "ulimit -f" in " ".join(process.stderr.split())
    assert "damaged:" not in process.stderr
