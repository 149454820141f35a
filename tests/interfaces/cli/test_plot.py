"""`--plot` of the commands: the pictures, and refusals before anything is searched."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.interfaces.cli import run
from support.svg import describe, read_svg


def test_a_search_draws_its_hits_by_year(shelved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "hits.svg"
    plot.write_text("an older picture")
    assert run(["search", "aspirin statins", "--plot", str(plot), "-l", str(shelved)]) == 0
    out, err = capsys.readouterr()
    assert f"Picture written to {plot}" in err
    assert "1. " in out
    root, text = read_svg(plot.read_text(encoding="utf-8"))
    assert "aspirin statins" in text
    assert describe(root).startswith("2001: 1 paper. 2020: 1 paper.")
    assert run(["search", "aspirin", "--plot", "HITS.SVG", "--json", "-l", str(shelved)]) == 0
    assert capsys.readouterr().out.startswith("{")
    read_svg(Path("HITS.SVG").read_text(encoding="utf-8"))


def test_a_systematic_run_draws_its_flow(
    shelved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OUTRIDER_SYSTEMATIC__FOLDER", str(tmp_path / "runs"))
    plot, report = tmp_path / "flow.svg", tmp_path / "report"
    assert run(["systematic", "aspirin[ti]", "--plot", str(plot), "--report", str(report), "-l", str(shelved)]) == 0
    assert "Picture written to" in capsys.readouterr().err
    assert plot.read_bytes() == (report / "prisma-2020.svg").read_bytes()
    root, text = read_svg(plot.read_text(encoding="utf-8"))
    assert "Records to be screened (n = 1)" in " ".join(text.split())
    assert "Records identified (n = 1): the reviewers' own library (n = 1)" in describe(root)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "aspirin", "--plot", "hits.png"], "--plot draws an SVG file; hits.png does not end in .svg"),
        (["search", "aspirin", "--plot", "none/hits.svg"], "none/hits.svg needs the folder none; name another file"),
        (["search", "aspirin", "--plot", "folder.svg"], "folder.svg is a folder"),
        (["search", "aspirin", "--plot", "/proc/self/hits.svg"], "/proc/self/hits.svg cannot be written"),
        (["search", "aspirin", "--plot", "hits.svg", "--mode", "systematic"], "outrider systematic QUERY --plot FILE"),
        (["systematic", "aspirin[ti]", "--plot", "flow.pdf"], "flow.pdf does not end in .svg"),
        (["systematic", "aspirin[ti]", "--plot", "none/flow.svg"], "needs the folder none"),
        (["systematic", "aspirin[ti]", "--plot", "flow.svg", "--explain"], "--explain runs nothing"),
        (["analyze", "a/b", "--plot", "radar"], "radar does not end in .svg"),
        (["analyze", "a/b", "--plot", "none/radar.svg"], "needs the folder none"),
        (["analyze", "10.1000/x", "--plot", "radar.svg"], "--plot draws the dimensions of a repository, and 10.1000/x is none"),
    ],
)
def test_a_picture_that_cannot_be_is_refused_before_the_work(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No services are opened: that would begin the work."""

    def open_services(*_arguments: object, **_options: object) -> object:
        raise AssertionError("the work began")

    for name in ("search", "systematic", "analyze"):
        monkeypatch.setattr(f"outrider.interfaces.cli.{name}.open_services", open_services)
    (tmp_path / "folder.svg").mkdir()
    before = sorted(tmp_path.iterdir())
    assert run(arguments) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert sorted(tmp_path.iterdir()) == before
