"""How far a long command is: a bar where standard error is a terminal, a line now and then where it is a file or a program."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outrider.serve.cli.terminal import errors, note, one_line

if TYPE_CHECKING:
    from types import TracebackType

    import rich.progress

LINE_EVERY_S = 15.0


@dataclass(slots=True)
class Progress:
    """Use it as a context manager; nothing is shown where it is `quiet`."""

    doing: str = ""
    """What is shown before the first `show`."""
    size: bool = False
    """Whether it counts bytes."""
    quiet: bool = False
    clock: Callable[[], float] = time.monotonic
    _bar: rich.progress.Progress | None = None
    _told: float = field(default=0.0, init=False)
    _done: int = field(default=0, init=False)

    def __enter__(self) -> Progress:
        self._told = self.clock()
        screen = errors()
        if screen.is_terminal and not self.quiet:
            from rich import progress as bars

            self._bar = bars.Progress(
                bars.SpinnerColumn(),
                bars.TextColumn("{task.description}", markup=False),
                bars.DownloadColumn() if self.size else bars.MofNCompleteColumn(),
                bars.BarColumn(),
                bars.TimeElapsedColumn(),
                bars.TextColumn("of about"),
                bars.TimeRemainingColumn(elapsed_when_finished=True),
                bars.TextColumn("{task.fields[known]}", markup=False),
                console=screen,
                transient=True,
            )
            self._bar.add_task(one_line(self.doing), total=None, known="")
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, doing: str, done: int, of: int | None, known: str = "") -> None:
        """So much is done, of so much where that is known; less than before begins a new step, whose time is its own."""
        again, self._done = done < self._done, done
        if self._bar is not None:
            task = self._bar.task_ids[0]
            if again:
                self._bar.reset(task)
            self._bar.update(task, description=one_line(doing), completed=done, total=of or None, known=one_line(known))
        elif not self.quiet and self.clock() - self._told >= LINE_EVERY_S:
            self._told = self.clock()
            note(", ".join(part for part in (_counted(doing, done, of, size=self.size), known) if part))


def _counted(doing: str, done: int, of: int | None, *, size: bool) -> str:
    """`embedding: 1,200 of 5,183 (23 %)`."""
    if not of:
        return f"{doing}: {_amount(done, size=size)}" if done else doing
    return f"{doing}: {_amount(done, size=size)} of {_amount(of, size=size)} ({100 * done // of} %)"


def _amount(count: int, *, size: bool) -> str:
    return f"{count / 2**20:,.1f} MiB" if size else f"{count:,}"
