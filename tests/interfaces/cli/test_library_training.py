from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from outrider.interfaces.cli import library_training, run
from outrider.interfaces.cli.terminal import Progress
from support import tiny_reranker


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_reranker.base(tmp_path_factory.mktemp("base") / "tiny-bert")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("training") / "library"
    asyncio.run(tiny_reranker.fill(folder))
    return str(folder)


def make_arguments(base: str, library: str, *more: str) -> list[str]:
    return ["library", "train-reranker", "--base", base, "-l", library, "--pairs", "150", "--epochs", "1", "--max-length", "48", *more]


def test_train_from_the_command_line(base: str, library: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged = tmp_path / "judged.jsonl"
    judged.write_text('{"query": "zinc", "doc_id": "p90", "relevance": 1}\n{"query": "zinc", "doc_id": "gone", "relevance": 1}\n')
    assert run(make_arguments(base, library, "--out", str(tmp_path / "a"), "--json", "--judgements", str(judged))) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["unknown_ids"] == ["gone"]
    assert report["saved"]
    assert run(make_arguments(base, library, "--out", str(tmp_path / "a"))) == 0
    output = capsys.readouterr().out
    assert "held-out nDCG@10" in output
    assert f"Saved to {tmp_path / 'a'}" in " ".join(output.split())


@pytest.mark.parametrize(("when", "at"), [("training", 8), ("loading the base", 0)])
def test_ctrl_c_saves_the_best_model_and_reports_it(
    base: str, library: str, tmp_path: Path, when: str, at: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    show = Progress.show

    def press(bar: Progress, doing: str, current: int, total: int | None, detail: str = "") -> None:
        show(bar, doing, current, total, detail)
        if doing == when and current == at:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Progress, "show", press)
    assert run(make_arguments(base, library, "--out", str(tmp_path / "a"), "--epochs", "90")) == 130
    output = capsys.readouterr()
    assert output.err.endswith(library_training.AGAIN + "\n")
    assert "run the same command to continue" not in output.err
    assert ("interrupted" in output.out) == (tmp_path / "a" / "README.md").is_file() == (when == "training")


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--out", "new", "--judgements", "none.jsonl"], 2, "none.jsonl"),
        (["--out", "."], 2, "something other"),
        (["--out", "new", "--base", "nowhere"], 3, "--base"),
        (["--out", "new", "--pairs", "1"], 2, "--pairs"),
        ([], 2, "--out"),
    ],
)
def test_bad_input(
    base: str, library: str, more: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    Path("here").touch()
    assert run(make_arguments(base, library, *more)) == code
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_without_a_base_the_error_names_the_option(library: str, capsys: pytest.CaptureFixture[str], base: str, tmp_path: Path) -> None:
    arguments = ["library", "train-reranker", "--out", "new", "-l", library]
    assert run(arguments) == 2
    assert "give --base" in capsys.readouterr().err


def test_the_embedding_model_is_the_default_base(
    library: str, base: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_EMBEDDING__MODEL_NAME", base)
    arguments = [part for part in make_arguments("", library, "--out", "new", "--json") if part not in ("--base", "")]
    assert run(arguments) == 0
    assert json.loads(capsys.readouterr().out)["base"] == base
