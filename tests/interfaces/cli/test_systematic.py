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


def test_offline_contacts_no_service(runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "false")
    assert run(["systematic", "aspirin[tiab]", "--sources", "pubmed", "--offline"]) == 2
    assert "services are switched off" in capsys.readouterr().err


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
        (["systematic", "x[ti]", "-o", "out.txt"], 2, "has no known suffix; a run is exported to"),
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


UNDATED = "Remark: missing values: line 1, column 1: 1 of 4 records has no year and was not matched; 1 of them fits the rest of the query"
HYPHEN = "Remark: hyphen: line 1, column 19: a hyphen is read as a blank: the words around it stand next to each other"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_real_run_shows_its_remarks_on_standard_error_and_in_json(
    shelved: Path, runs: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    """So do a resumed run, a replay, and a systematic search."""
    query = '1990:2030[dp] AND "x-client"[ti]'
    assert run(["systematic", query, "-l", str(shelved), *options]) == 0
    out, err = capsys.readouterr()
    assert {UNDATED, HYPHEN} <= set(err.splitlines())
    name = next(runs.glob("2*")).name
    assert run(["systematic", "--resume", name, "-l", str(shelved)]) == 0
    assert {UNDATED, HYPHEN} <= set(capsys.readouterr().err.splitlines())
    assert run(["replay", name, "-l", str(shelved), *options]) == 0
    assert {UNDATED, HYPHEN} <= set(capsys.readouterr().err.splitlines())
    assert run(["search", query, "--mode", "systematic", "-l", str(shelved), *options]) == 0
    searched, err = capsys.readouterr()
    assert {UNDATED, HYPHEN} <= set(err.splitlines())
    if options:
        assert json.loads(out)["result_set"]["remarks"] == json.loads(searched)["result_set"]["remarks"]
        assert [f"Remark: {one}" for one in json.loads(out)["result_set"]["remarks"]] == [HYPHEN, UNDATED]


def test_explain_counts_missing_values_as_the_run_does(shelved: Path, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["systematic", '1990:2030[dp] AND "x-client"[ti]', "-l", str(shelved), "--explain", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert UNDATED.endswith(next(one["message"] for one in findings if one["code"] == "missing values"))


def test_a_replay_over_another_library_is_refused_with_both_ids(
    shelved: Path, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one that is resumed. The other library gets no tag of a run, and the message names the place of the right one."""
    assert run(["systematic", "aspirin[tiab]", "-l", str(shelved), "--json"]) == 0
    manifest = json.loads(capsys.readouterr().out)["result_set"]["manifest"]
    own = json.loads(Path(manifest).read_text(encoding="utf-8"))["asked"]["snapshot"]["library"]
    other = tmp_path / "other"
    (tmp_path / "notes.md").write_text("# Aspirin and the heart\n\nAspirin thins the blood.\n", encoding="utf-8")
    assert run(["ingest", str(tmp_path / "notes.md"), "--library", str(other)]) == 0
    capsys.readouterr()
    assert run(["library", "info", "-l", str(other), "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    for arguments in (["replay", manifest], ["replay", manifest, "--pinned"], ["systematic", "--resume", manifest]):
        assert run([*arguments, "-l", str(other)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert own in err
        assert info["library_id"] in err
        assert f"--library {shelved}" in err
    assert run(["library", "info", "-l", str(other), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tags"] == info["tags"]
    assert run(["replay", manifest, "-l", str(tmp_path / "nowhere")]) == 3
    assert f"the run read the library {own}, then at {shelved}" in capsys.readouterr().err
    assert run(["replay", manifest, "-l", str(shelved)]) == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("notes.txt", b"Some notes about aspirin.\n"), ("hits.ris", b"TY  - JOUR\nTI  - Aspirin\nER  - \n"), ("empty.json", b""),
        ("list.json", b"[1, 2]"), ("null.json", b"null"), ("other.json", b'{"format": "csl", "total": 3}'),
        ("binary.pdf", b"%PDF-1.7\xff\xfe\x00"), ("deep.json", b"[" * 100_000), ("manifest.json", b'{"name": "web app", "icons": []}'),
        ("ledger.jsonl", b'{"asked":{"query":"x"},"chain":"0"}\n'),
    ],
)  # fmt: skip
def test_verify_of_a_file_that_is_no_manifest_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    message = f"{name} is not the manifest of a systematic run"
    assert run(["verify", str(tmp_path / name)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert run(["verify", str(tmp_path / name), "--json"]) == 2
    out, err = capsys.readouterr()
    assert message in json.loads(out)["error"]["message"]
    assert err == ""


def test_verify_of_a_changed_manifest_is_a_fault_however_little_is_left(
    shelved: Path, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["systematic", "aspirin[tiab]", "-l", str(shelved), "--json"]) == 0
    path = Path(json.loads(capsys.readouterr().out)["result_set"]["manifest"])
    raw = path.read_bytes()
    changed = [raw[:-40], raw[: len(raw) // 2], raw.replace(b"{", b"(", 1), raw.replace(b"manifest/1", b"manifest/7"), b"", b"notes", b"{}"]
    for content in changed:
        path.write_bytes(content)
        assert run(["verify", str(path)]) == 3, content[:50]
    away = tmp_path / "delivered.json"
    for content in changed[:4]:
        away.write_bytes(content)
        assert run(["verify", str(away)]) == 3, content[:50]
    path.write_bytes(raw)
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    capsys.readouterr()
    assert run(["verify", str(path), str(tmp_path / "photo.png")]) == 2
    assert "photo.png is neither a ledger" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["systematic", "#1"], {"kind": "BooleanSyntaxError", "line": 1, "column": 1}),
        (["systematic", "{OR #1-#3}"], {"kind": "BooleanSyntaxError", "line": 1, "column": 1}),
        (["systematic", '{"titel": "aspirin"}'], {"message": "unknown field 'titel' in a Boolean query; did you mean 'title'?"}),
        (["systematic", "x[ti]", "--sources", "pubmedd"], {"kind": "BadRequest", "exit_code": 2}),
        (["systematic", "x[ti]", "--josn"], {"message": "No such option: --josn (Possible options: --json)"}),
        (["replay", "nowhere/c.json"], {"kind": "NoSuchRun"}),
    ],
)
def test_an_error_is_json_where_json_is_wanted(
    arguments: list[str], expected: dict[str, object], runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--json"]) == 2
    out, err = capsys.readouterr()
    assert not err
    error = json.loads(out)["error"]
    assert error.items() >= expected.items()


def test_a_replay_of_what_is_no_run_says_what_it_takes(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.json").write_text("{}", encoding="utf-8")
    for path, reason in (("my/c.json", "no such file"), (str(tmp_path / "c.json"), "no manifest"), (str(tmp_path), "has no ledger")):
        assert run(["replay", path]) == 2
        err = capsys.readouterr().err
        assert reason in err
        assert f"give the folder of a run, its manifest.json, or its name in {runs}" in err
