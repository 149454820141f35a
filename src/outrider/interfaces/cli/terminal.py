"""How far a long command is: a bar where standard error is a terminal, a line now and then where it is a file or a program.

What people see: text from outside is shown as text, never as markup or as commands to the terminal.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from outrider.boolean.diagnostics import BooleanSyntaxError
from outrider.state.errors import KeyRejected, NothingSearchable, SearchError
from outrider.text.sanitize import without_control

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    import rich.progress

    from outrider.state.hits import FoundBy, Hit
    from outrider.state.response import ResultSet, SearchResponse, Usage


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


BAD_INPUT = 2
INTERRUPTED = 130
INTERRUPTED_AND_SAID = -INTERRUPTED
"""What a command returns that has said itself what an interruption left; it ends with `INTERRUPTED` all the same."""
ENDING = ("translator", "scout", "systematic")
"""Nodes without which a search has no answer."""
MAX_PLACES = 3
"""Lists that a hit names; `--json` has all."""
PIPED_WIDTH = 200
"""Columns where the output goes to a file or a program: a table there should not be folded."""


def console() -> Console:
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, width=PIPED_WIDTH if piped else None)


def errors() -> Console:
    return Console(stderr=True, highlight=False)


def plain(text: str, style: str = "") -> Text:
    """Text on one line, without control characters."""
    return Text(one_line(text), style=style)


def one_line(text: str) -> str:
    return " ".join(without_control(text).split())


def note(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(one_line(text) + "\n")


def complain(error: SearchError) -> None:
    """On standard error, on one line; a query's error with the line of the query and the caret below, which need their blanks."""
    said, *pointed = str(error).splitlines() if isinstance(error, BooleanSyntaxError) else [str(error)]
    note(f"Error: {said}")
    for line in pointed:
        sys.stderr.write(without_control(line) + "\n")


@contextmanager
def going_on() -> Iterator[None]:
    """For commands that keep what they did and go on from there: an interruption says so, and ends the command."""
    try:
        yield
    except KeyboardInterrupt:
        note("Interrupted. What was done is kept; the same command goes on from there.")
        raise typer.Exit(INTERRUPTED_AND_SAID) from None


def table(*columns: str, title: str | None = None) -> Table:
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def show_answer(answer: SearchResponse, *, explain: Iterable[tuple[str, str]] = ()) -> None:
    """The answer for people: each hit with rank, title, year, venue or stars, score, why, where it was found, kept sentences."""
    out = console()
    for hit in answer.hits:
        _show_hit(out, hit)
    for failure in answer.failures:
        note(f"Failed: {failure.node}: {failure.message}")
    if answer.result_set is not None:
        _show_result_set(out, answer.result_set)
        return
    if exit_code(answer):
        return  # it ended early: no hits do not mean that there are none
    shown = f"{len(answer.hits)} of {answer.total_found} works" if answer.hits else "Nothing was found"
    asked = ", ".join(f"{row.source}/{row.strategy} {row.status} ({row.returned})" for row in answer.sources)
    out.print(plain(f"{shown} in {answer.execution_time_ms:.0f} ms. Asked: {asked or 'nobody'}.", "dim"))
    if answer.usage.calls:
        out.print(plain(_spent(answer.usage), "dim"))
    for title, why in explain:
        out.print(Text.assemble(("left out  ", "yellow"), plain(title), "  ", plain(why, "dim")))
    if (scoring := answer.scoring) and scoring.read < scoring.of:
        risk = "not known" if scoring.risk is None else f"put at {scoring.risk:.2g}"
        chance = f"the chance that the rest would change the first is {risk}"
        note(f"A model read {scoring.read:,} of {scoring.of:,} works; {chance}")
    if answer.reranked_by:
        note(f"Reranked by {answer.reranked_by}")
    for row in answer.sources:
        if row.message and row.status != "off":
            note(f"{row.source}/{row.strategy} ({row.status}): {row.message}")
    off = [(f"{row.source}/{row.strategy}", row.message) for row in answer.sources if row.status == "off"]
    skipped = [*off, *((step.step, step.why) for step in answer.bypassed)]
    whys: dict[str, list[str]] = {}
    for what, why in skipped:
        whys.setdefault(why, []).append(what)
    if whys:
        note("Not run: " + "; ".join(f"{', '.join(what)} ({why})" for why, what in whys.items()))


def _show_result_set(out: Console, found: ResultSet) -> None:
    out.print(plain(f"{found.total:,} hits, {'complete' if found.complete else 'NOT COMPLETE'}, in {found.path}", "bold"))
    for said in found.missing:
        out.print(plain(f"missing  {said}", "red"))
    out.print(plain(f"check them with: outrider verify {found.manifest}", "dim"))


def _spent(usage: Usage) -> str:
    """`12 model calls, 23,444 tokens in, 3,825 out, $0.0028`."""
    cost = "cost unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    untold = f"; of {usage.untold_calls:,} the provider said nothing" if usage.untold_calls else ""
    return f"{usage.calls:,} model calls, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, {cost}{untold}"


def exit_code(answer: SearchResponse) -> int:
    """0 where something was searched, 3 where nothing could be, 4 where the model's key was rejected, which ends a run."""
    if any(failure.error == KeyRejected.__name__ for failure in answer.failures):
        return KeyRejected.exit_code
    if answer.result_set is not None and not answer.result_set.complete:
        return NothingSearchable.exit_code
    return NothingSearchable.exit_code if any(failure.node in ENDING for failure in answer.failures) else 0


def _place(found: FoundBy) -> str:
    """`library/graph_neighbor #2, which cites 3 of the first 10`."""
    return f"{found.source}/{found.strategy} #{found.rank}" + (f" ({found.why})" if found.why else "")


def _show_hit(out: Console, hit: Hit) -> None:
    title = plain(hit.title or hit.content[:80] or hit.doc_id, "bold")
    out.print(Text.assemble((f"{hit.rank:>3}. ", "bold cyan"), title))
    facts = [str(hit.year) if hit.year else "", hit.venue or "", f"★ {hit.stars:,}" if hit.stars is not None else "", hit.kind]
    line = " · ".join(fact for fact in (*facts, f"score {hit.score:.2f} ({hit.scored_by})", hit.doc_id) if fact)
    out.print(Padding(plain(line, "dim"), (0, 0, 0, 5)))
    if address := hit.url or " · ".join(f"{scheme}:{value}" for scheme, value in hit.identifiers.pairs()):
        out.print(Padding(plain(address, "blue"), (0, 0, 0, 5)))
    places = ", ".join(dict.fromkeys(map(_place, hit.found_by[:MAX_PLACES])))
    seen = "" if hit.seen_in == "library-only" else f" ({hit.seen_in})"
    out.print(Padding(plain(f"why: {hit.reason} — found by {places}{seen}", "green"), (0, 0, 0, 5)))
    for duplicate in hit.duplicates:
        out.print(Padding(plain(f"also {duplicate.doc_id} ({duplicate.why})", "dim"), (0, 0, 0, 5)))
    folded = {duplicate.doc_id for duplicate in hit.duplicates}
    for related in (one for one in hit.related if one.doc_id not in folded):
        said = f"{related.relation} {related.doc_id}" + (f": {related.title}" if related.title else "") + f" ({related.why})"
        out.print(Padding(plain(said, "dim"), (0, 0, 0, 5)))
    pieces = [hit.original_text[start:end] for start, end in hit.spans]
    for piece in pieces:
        out.print(Padding(Text.assemble(("│ ", "cyan"), plain(piece)), (0, 0, 0, 5)))
    if not pieces and hit.content:
        content = plain(hit.content)
        content.truncate(200, overflow="ellipsis")
        out.print(Padding(content, (0, 0, 0, 5)))
    out.print()
