from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from outrider import services
from outrider.interfaces.cli import config, run
from support.word_embedder import WordEmbedder


def test_every_setting_is_shown_with_its_origin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
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
        output = capsys.readouterr()
        assert "hunter2" not in output.out + output.err


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("run:\n  candidatez: 3\n", "did you mean 'run.candidates'"),
        ("run: [", "search_config.yaml"),
        ("run:\n  candidates: many\n", "whole number"),
    ],
)
def test_a_wrong_setting_is_named_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str], yaml: str, message: str) -> None:
    (tmp_path / "search_config.yaml").write_text(yaml)
    assert run(["config", "check"]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "search_config.yaml" in err
    assert run(["search", "x"]) == 2


@pytest.mark.parametrize(("zone", "code"), [("Mars/Olympus", 2), ("../../etc/passwd", 2), ("UTC", 0), ("Europe/Berlin", 0)])
def test_settings_and_saved_searches_accept_the_same_time_zones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], zone: str, code: int
) -> None:
    add = ["saved", "add", "liver", "aspirin", "--schedule", "daily"]
    monkeypatch.setenv("OUTRIDER_SAVED__URI", str(tmp_path / "saved.sqlite"))
    assert run([*add, "--timezone", zone]) == code
    monkeypatch.setenv("OUTRIDER_SAVED__TIMEZONE", zone)
    capsys.readouterr()
    assert run(["config", "check"]) == code
    assert ("saved.timezone is wrong: there is no time zone" in capsys.readouterr().err) == bool(code)
    assert run([*add, "--replace"]) == code


def test_doctor_reports_what_is_available_and_what_is_missing(shelved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json", "-l", str(shelved)]) == 0
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)["checks"]}
    assert rows["library"]["status"] == "ok"
    assert "4 records" in rows["library"]["says"]
    assert rows["model"]["status"] == "missing"
    assert run(["doctor", "-l", str(tmp_path / "none")]) == 0
    assert "outrider ingest" in " ".join(capsys.readouterr().out.split())


def test_doctor_knows_every_extra(shelved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = {name: {Requirement(one).name for one in group} for name, group in project["optional-dependencies"].items() if name != "all"}
    listed = {name: {*shown} for name, shown, _ in config.OPTIONAL if name != "studio"}
    assert listed.keys() == packages.keys()
    assert all(listed[name] <= packages[name] for name in listed)

    def find_version(name: str) -> str:
        if name == "playwright":
            raise PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr("importlib.metadata.version", find_version)
    assert run(["doctor", "--json", "-l", str(shelved)]) == 0
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)["checks"]}
    assert [name for name in packages if rows[name]["status"] != "ok"] == ["browser"]
    assert "browser]" in rows["browser"]["says"]


def test_doctor_prints_a_command_to_be_copied_on_one_line(
    shelved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table breaks long lines, and a command that is broken runs its first half."""
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(services, "load_embedder", lambda *_, **__: WordEmbedder())
    assert run(["doctor", "-l", str(shelved)]) == 0
    assert f"outrider library reindex --library {shelved}" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["search", "--help"], ["library", "--help"]], ids=" ".join)
def test_help_and_version_load_nothing_heavy(arguments: list[str]) -> None:
    """The help of a single command needs pydantic, to show defaults."""
    heavy = {
        "torch",
        "lancedb",
        "pyarrow",
        "langgraph",
        "langchain_core",
        "numpy",
        "trafilatura",
        *(["pydantic"] if len(arguments) == 1 else []),
    }
    script = (
        "import sys; from outrider.interfaces.cli import run; run(sys.argv[1:]);"
        f"heavy = {sorted(heavy)!r}; loaded = [name for name in heavy if name in sys.modules];"
        "sys.exit(f'loaded {loaded}' if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_completion_is_offered() -> None:
    """For the shell that runs the command."""
    command = f"{sys.executable} -m outrider --show-completion; exit $?"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"})
    assert (done.returncode, "_outrider_completion" in done.stdout) == (0, True), done.stderr


def test_a_named_file_may_set_what_the_folder_s_may_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--config` replaces the file of the working folder for every command."""
    (tmp_path / "search_config.yaml").write_text("llm: {base_url: 'https://mine.example/v1'}\n")
    monkeypatch.setenv("OUTRIDER_CONFIG", "")  # so that this test restores it
    monkeypatch.setenv("OUTRIDER_LLM__API_KEY", "s3cret")
    for command in (["config", "check"], ["search", "x"], ["doctor"], ["library", "info"]):
        assert run(command) == 2
        err = capsys.readouterr().err
        assert "OUTRIDER_LLM__BASE_URL with the address, or name the file with --config" in err
        assert "s3cret" not in err
    assert run(["--config", "search_config.yaml", "config", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["llm.base_url"]["value"] == "https://mine.example/v1"
    assert run(["--config", "none.yaml", "config", "check"]) == 2
    assert "none.yaml: no such file" in capsys.readouterr().err
