from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from outrider.interfaces.cli import terminal as progress
from outrider.interfaces.cli.answer import show_answer
from outrider.interfaces.cli.terminal import LINE_EVERY_S, Progress
from outrider.state.response import Scoring, SearchResponse

CHANCE = "the chance that the rest would change the first"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_without_a_terminal_progress_is_an_occasional_line(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Progress("loading", clock=clock) as bar:
        bar.show("embedding", 10, 5_183)
        assert lines(capsys) == []
        clock.now += LINE_EVERY_S
        bar.show("embedding", 1_200, 5_183, "12/s")
        bar.show("embedding", 1_201, 5_183, "12/s")
        clock.now += LINE_EVERY_S
        bar.show("indexing", 0, None)
        clock.now += LINE_EVERY_S
        bar.show("indexing", 7, 0)
    assert lines(capsys) == ["embedding: 1,200 of 5,183 (23 %), 12/s", "indexing", "indexing: 7"]


def test_sizes_are_reported_in_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Progress(size=True, clock=clock) as bar:
        clock.now += LINE_EVERY_S
        bar.show("a.pdf", 3 * 2**20, 2**22)
    assert lines(capsys) == ["a.pdf: 3.0 MiB of 4.0 MiB (75 %)"]


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Progress(quiet=True, clock=clock) as bar:
        clock.now += LINE_EVERY_S
        bar.show("embedding", 1, 2)
    assert lines(capsys) == []


def show_on(screen: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # standard error of a test is no terminal
    monkeypatch.setattr(progress, "errors", lambda: screen)


def test_a_bar_on_a_terminal_begins_again_with_a_new_step(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=120, legacy_windows=False)
    show_on(screen, monkeypatch)
    with Progress("loading") as bar:
        assert bar._bar is not None
        task = bar._bar.tasks[0]
        assert (task.description, task.total) == ("loading", None)
        bar.show("embedding", 5, 5)
        finished = task.finished
        bar.show("[red]indexing\n", 0, 9, "loss 0.1")
        assert (finished, task.finished, task.description, task.completed, task.total) == (True, False, "[red]indexing", 0, 9)
        assert task.fields == {"known": "loss 0.1"}
    assert not bar._bar.live.is_started
    assert "[red]indexing" in screen.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("scoring", "message"),
    [
        (Scoring(read=30, of=50, risk=0.123, max_risk=0.2), f"A model read 30 of 50 works; {CHANCE} is put at 0.12"),
        (Scoring(read=20, of=50, risk=None), f"A model read 20 of 50 works; {CHANCE} is not known"),
        (Scoring(read=50, of=50), ""),
    ],
)
def test_the_share_of_works_read_by_a_model_is_reported(scoring: Scoring, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_answer(SearchResponse(query="liver", mode="discovery", scoring=scoring))
    output = " ".join(capsys.readouterr().err.split())
    assert message in output
    assert bool(message) == ("A model read" in output)


def test_an_indented_line_keeps_its_indent_and_loses_its_control_characters() -> None:
    assert progress.plain(" one\n\x1b[31mtwo", indent=2).plain == "  one [31mtwo"


def test_a_note_on_a_terminal_breaks_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=24, legacy_windows=False)
    show_on(screen, monkeypatch)
    progress.note("Error: nothing but this machine is\nasked /a/path/that/is/longer/than/it")
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    assert text.splitlines() == ["Error: nothing but this", "machine is asked", "/a/path/that/is/longer/t", "han/it"]


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_a_progress_line_fits_the_width_and_shows_only_what_is_known(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=width, legacy_windows=False)
    show_on(screen, monkeypatch)
    clock = Clock()
    with Progress("opening the library", size=True, clock=clock) as bar:
        assert bar._bar is not None
        task = bar._bar.tasks[0]

        def line() -> str:
            (row,) = list(screen.render_lines(bar._bar.get_renderable()))  # type: ignore[union-attr]
            return "".join(part.text for part in row)[2:].rstrip()

        clock.now = 8.0
        assert line() == ("opening the libra…" if width == 20 else "opening the library · 0:08")
        bar.show("a-long-name-of-a-file-of-my-papers.pdf", 3 * 2**20, 2**22, "12 records, 2/s")
        assert cell_len(line()) <= width - 2
        assert ("3.0 MiB of 4.0 MiB (75 %)" in line()) is (width > 40)
        assert ("12 records, 2/s" in line()) is (width >= 80)
        bar.show("embedding", 64, 342, size=False)
        assert ("embedding · 64 of 342 (18 %)" in line()) is (width > 20)
        assert task.start_time == 8.0, "a step of its own"
