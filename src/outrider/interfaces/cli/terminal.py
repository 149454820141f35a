"""Terminal output shared by the commands: text, tables, JSON, progress, advice.

Text from files and services is shown as text, never as markup or as commands to the terminal.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, TextIO

import typer

from outrider.state.errors import KeyRejected, NothingSearchable, SearchError
from outrider.text.sanitize import without_control

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path
    from types import TracebackType

    import rich.progress
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from outrider.state.response import SearchResponse

BAD_INPUT = 2
INTERRUPTED = 130
INTERRUPTION_REPORTED = -INTERRUPTED
"""Returned by a command that has reported its interruption itself. The exit code is `INTERRUPTED`."""
MAX_REASONS = 3
"""Reasons shown for a work or file. `--json` has all."""
MIN_WIDTH = 20
"""Columns of a terminal at least, for what is wrapped."""
SPINNER_WIDTH, DOING_WIDTH = 2, 20
"""Columns of a progress line for its spinner, and at least for what is done."""
PIPED_WIDTH = 200
"""Columns if the output goes to a file or a program, so that tables are not folded."""
LINE_EVERY_S = 15.0
ADVICE_EVERY_S = 86_400.0
STEPS = {
    "translator": "planning", "scout": "asking the sources", "dedup": "merging duplicates", "enrich": "fetching details",
    "coarse_filter": "filtering", "fine_scorer": "scoring", "rule_ranker": "ranking", "reranker": "reranking", "organizer": "sorting",
    "review_plan": "waiting for you", "review_results": "waiting for you", "full_text": "reading open texts",
    "distiller": "choosing sentences", "answer": "writing the answer",
}  # fmt: skip
"""What the nodes of a search do, as shown while they run."""
NUMBER = re.compile(r"\d+")
BEGAN: ContextVar[float | None] = ContextVar("began", default=None)
"""When the command began, by `time.monotonic`."""


@dataclass(slots=True)
class Progress:
    """A progress bar if standard error is a terminal, else a line every `LINE_EVERY_S`; nothing if `quiet`. A context manager."""

    doing: str = ""
    """Shown before the first `show`."""
    size: bool = False
    """Whether it counts bytes."""
    quiet: bool = False
    clock: Callable[[], float] = time.monotonic
    _bar: rich.progress.Progress | None = None
    _line_at: float = field(default=0.0, init=False)
    _done: int = field(default=0, init=False)

    def __enter__(self) -> Progress:
        self._line_at = self.clock()
        if not self.quiet and may_be_terminal() and (screen := errors()).is_terminal:
            from rich import progress as bars
            from rich.text import Text

            class Line(bars.ProgressColumn):
                """What is done, how far, since when, and how long it may still take: as much of it as the width holds."""

                def render(self, task: rich.progress.Task) -> Text:
                    return Text(describe(task, screen.width - SPINNER_WIDTH))

            describe = self._describe
            self._bar = bars.Progress(bars.SpinnerColumn(), Line(), console=screen, transient=True, get_time=self.clock)
            self._bar.add_task(one_line(self.doing), total=None, known="")
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, doing: str, current: int, total: int | None, detail: str = "", *, size: bool | None = None) -> None:
        """`current` of `total`, if that is known. A smaller `current` than before begins a new step with its own time, and so does a
        change between bytes (`size`) and other things.
        """
        is_new_step, self._done = current < self._done or size not in (None, self.size), current
        self.size = self.size if size is None else size
        if self._bar is not None:
            task = self._bar.task_ids[0]
            if is_new_step:
                self._bar.reset(task)
            self._bar.update(task, description=one_line(doing), completed=current, total=total or None, known=one_line(detail))
        elif not self.quiet and self.clock() - self._line_at >= LINE_EVERY_S:
            self._line_at = self.clock()
            amount = self._count(current, total)
            note(", ".join(filter(None, (f"{doing}: {amount}" if amount else doing, detail))))

    def _describe(self, task: rich.progress.Task, width: int) -> str:
        from rich.cells import cell_len, set_cell_size

        elapsed, left = int(task.elapsed or 0), task.time_remaining
        times = f"{elapsed // 60}:{elapsed % 60:02}"
        if task.total and left:
            times += f", about {int(left) // 60}:{int(left) % 60:02} left"
        known = [part for part in (self._count(int(task.completed), int(task.total or 0)), times, task.fields["known"]) if part]
        doing = task.description
        while known and width - _width(known) < min(cell_len(doing), DOING_WIDTH):
            known.pop()
        if cell_len(doing) > (room := width - _width(known)):  # the end of a file's name goes first
            doing = set_cell_size(doing, max(room - 1, 0)).rstrip() + "…"
        return doing + "".join(f" · {part}" for part in known)

    def _count(self, current: int, total: int | None) -> str:
        """Such as `1,200 of 5,183 (23 %)`; empty where nothing is known."""
        if total:
            return f"{self._format(current)} of {self._format(total)} ({100 * current // total} %)"
        return self._format(current) if current else ""

    def _format(self, count: int) -> str:
        if not self.size:
            return f"{count:,}"
        return f"{count / 2**20:,.1f} MiB" if count >= 2**20 else f"{count / 2**10:,.0f} KiB"


async def follow_run(
    parts: AsyncIterator[tuple[str, Any]], waiting: str, doing: str, *, quiet: bool, on_updates: Callable[[Any], None] | None = None
) -> Any:
    """The last state that a graph streams. Meanwhile shows `waiting`, then `doing` with the node that runs; nothing if `quiet`."""
    state: Any = {}
    screen = errors()
    status = screen.status(waiting, spinner="dots" if screen.encoding.startswith("utf") else "line")
    if not quiet:
        status.start()
    try:
        async for kind, part in parts:
            if kind == "custom" and part.get("event") == "started":
                status.update(f"{doing}: {STEPS.get(part['node'], part['node'].replace('_', ' '))}")
            elif kind == "updates" and on_updates is not None:
                on_updates(part)
            elif kind == "values":
                state = part
            elif kind == "waiting":
                state = {**state, "waiting": part}
    finally:
        status.stop()
    return state


def _width(parts: Iterable[str]) -> int:
    from rich.cells import cell_len

    return sum(3 + cell_len(part) for part in parts)


def console() -> Console:
    """Standard output."""
    from rich.console import Console

    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    width, height = (PIPED_WIDTH, None) if piped else _measure_dumb_terminal()
    return Console(highlight=False, width=width, height=height)


def errors() -> Console:
    """Standard error."""
    from rich.console import Console

    width, height = _measure_dumb_terminal()
    return Console(stderr=True, highlight=False, width=width, height=height)


def may_be_terminal() -> bool:
    """Whether rich may take standard error for a terminal. Asked first, since the import of rich takes longer than many a command."""
    return sys.stderr.isatty() or not {"FORCE_COLOR", "TTY_COMPATIBLE"}.isdisjoint(os.environ)


def _measure_dumb_terminal() -> tuple[int | None, int | None]:
    """Columns and lines of a terminal without cursor control, such as a shell in Emacs; rich takes it for one of 80 by 25."""
    if os.environ.get("TERM") not in ("dumb", "unknown"):
        return None, None
    columns, lines = shutil.get_terminal_size((80, 25))
    return columns, lines


def plain(text: str, style: str = "", indent: int = 0) -> Text:
    """Text on one line after `indent` blanks, without control characters."""
    from rich.text import Text

    return Text(" " * indent + one_line(text), style=style)


def one_line(text: str) -> str:
    return " ".join(without_control(text).split())


def measure_wait() -> float | None:
    """Seconds since the command began; None within another program."""
    began = BEGAN.get()
    return None if began is None else time.monotonic() - began


def count(number: int, noun: str) -> str:
    """`1 file`, `1,200 files`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def note(text: str) -> None:
    """Print a line on standard error; on a terminal it breaks between words."""
    if not may_be_terminal() or not (screen := errors()).is_terminal:
        sys.stderr.write(one_line(text) + "\n")
        return
    for line in wrap_note(text):
        screen.print(line, soft_wrap=True)


def wrap_note(text: str) -> list[Text]:
    """The lines that a note takes of a terminal; none if standard error is no terminal."""
    screen = errors()
    if not screen.is_terminal:
        return []
    lines = plain(text).wrap(screen, max(screen.width, MIN_WIDTH), overflow="fold")
    for line in lines:
        line.rstrip()
    return [line for line in lines if line.plain]


def note_remarks(remarks: Iterable[str]) -> None:
    """Print remarks of an exact search on standard error."""
    for remark in remarks:
        note(f"Remark: {remark}")


def print_json(value: object) -> None:
    """Print a JSON value or a pydantic model on one line of standard output."""
    model: Any = value
    is_model = hasattr(value, "model_dump_json")
    data_output().write((model.model_dump_json() if is_model else json.dumps(value, ensure_ascii=False)) + "\n")


def print_answer(answer: SearchResponse) -> None:
    """Print a response as JSON; one without an answer also has an `error`, as those of commands."""
    from outrider.state.response import find_fatal

    if (fatal := find_fatal(answer.failures)) is None:
        print_json(answer)
    else:
        error = {"kind": fatal.error, "message": fatal.message, "exit_code": exit_code(answer)}
        print_json({"error": error, **answer.model_dump(mode="json")})


def data_output() -> TextIO:
    """Standard output for JSON and files of records, UTF-8 whatever the terminal takes. Lone surrogates are escaped as in JSON."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    return sys.stdout


def report_error(error: SearchError) -> None:
    """Print an error on standard error; that of a query with the query's line and a caret below, blanks included."""
    from outrider.boolean.diagnostics import BooleanSyntaxError

    message, *pointer = str(error).splitlines() if isinstance(error, BooleanSyntaxError) else [str(error)]
    note(f"Error: {message}")
    for line in pointer:
        sys.stderr.write(without_control(line) + "\n")


def report_json_error(error: SearchError) -> None:
    """Print an error as `{"error": {...}}` on standard output; that of a query with its place, both from 1."""
    from outrider.boolean.diagnostics import BooleanSyntaxError

    report: dict[str, object] = {"kind": type(error).__name__, "message": without_control(str(error)), "exit_code": error.exit_code}
    if isinstance(error, BooleanSyntaxError):
        report |= {"message": error.problem, "line": error.line, "column": error.column, "expected": list(error.expected)}
    print_json({"error": report})


@contextmanager
def resumable() -> Iterator[None]:
    """For commands that keep their results and continue from them: an interruption is reported so, and ends the command."""
    try:
        yield
    except KeyboardInterrupt:
        note("Interrupted. The results so far are saved; run the same command to continue.")
        raise typer.Exit(INTERRUPTION_REPORTED) from None


def table(*columns: str, title: str | None = None) -> Table:
    from rich.table import Table

    listing = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        listing.add_column(column, overflow="fold")
    return listing


def show_work(title: str, ids: Iterable[str], reasons: list[str] | tuple[str, ...]) -> None:
    """Print a work that several records share, and the first reasons."""
    out = console()
    out.print(plain(title, "bold"))
    out.print(plain(", ".join(ids), indent=2))
    for reason in reasons[:MAX_REASONS]:
        out.print(plain(reason, "dim"))
    if len(reasons) > MAX_REASONS:
        out.print(plain(f"and {len(reasons) - MAX_REASONS} more", "dim"))


def exit_code(answer: SearchResponse) -> int:
    """0 if something was searched, 3 if nothing could be, 4 if the model's key was rejected, which ends a run."""
    from outrider.state.response import find_fatal

    fatal = find_fatal(answer.failures)
    if fatal is not None and fatal.error == KeyRejected.__name__:
        return KeyRejected.exit_code
    is_cut = answer.result_set is not None and not answer.result_set.complete
    return NothingSearchable.exit_code if fatal is not None or is_cut else 0


def select_due(messages: Iterable[str], path: Path, now: float) -> list[str]:
    """The messages that were not selected within the last day (`now` in seconds since 1970), which the file `path` remembers.

    Messages that differ only in numbers count as one. A file that cannot be read or written is no error: then they are due once more.
    """
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        last = {text: float(at) for text, at in stored.items() if now - ADVICE_EVERY_S < float(at) <= now}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        last = {}
    due = [text for text in dict.fromkeys(messages) if NUMBER.sub("#", text) not in last]
    if due:
        last |= {NUMBER.sub("#", text): now for text in due}
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f"{path.name}.{os.getpid()}")  # replaced at once: another command may read it now
            part.write_text(json.dumps(last), encoding="utf-8")
            part.replace(path)
    return due
