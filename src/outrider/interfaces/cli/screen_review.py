"""Screening on a terminal: one record at a time, decided by single keys

Each decision is on the disk before the next record is shown, so a closed terminal or Ctrl-C loses nothing.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import typer
from rich.cells import cell_len
from rich.text import Text

from outrider.interfaces.cli.terminal import INTERRUPTED, console, count, errors, note, one_line
from outrider.state.errors import SearchError
from outrider.state.notices import describe_notices
from outrider.state.reviews import Candidate, Order, Verdict
from outrider.text.sanitize import without_control
from outrider.text.words import WORD
from outrider.usecases.review import add_note, decide, get_next, get_record, undo

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType

    from outrider.services import Services

KEYS = {
    "i": "include", "e": "exclude", "m": "maybe", "u": "undo", "n": "note", "s": "skip", "q": "quit", "?": "help",
}  # fmt: skip
VERDICTS: dict[str, Verdict] = {"i": "include", "e": "exclude", "m": "maybe"}
HELP = (
    "i  include", "e  exclude; then a digit for a reason, r for a new one, Enter for none, Esc to go back", "m  maybe: decide later on",
    "u  undo your last decision", "n  write a note", "s  skip: it comes back later", "q  quit", "?  this help",
)  # fmt: skip
NUMBERED = 9
TERM, SENTENCE = "bold magenta", "bold"
ESCAPE, ENTER, BACKSPACE, INTERRUPT, END = "\x1b", ("\r", "\n"), ("\x08", "\x7f"), "\x03", ("\x04", "")
SEQUENCE = re.compile(r"\x1b[\[O][0-9;]*[ -/]*[@-~]")
"""What arrow keys and the like send."""


class Keyboard:
    """Single keys of the terminal. For all of a session: what is typed while a record is looked for counts for the next one."""

    def __init__(self) -> None:
        self._typed = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._mode: list[Any] | None = None

    def __enter__(self) -> Keyboard:
        if os.name != "nt":
            import termios
            import tty

            self._mode = termios.tcgetattr(sys.stdin.fileno())
            tty.setcbreak(sys.stdin.fileno(), termios.TCSADRAIN)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._mode is not None:
            import termios

            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._mode)

    def read(self) -> str:
        """The next key. Raises `KeyboardInterrupt`, and `EOFError` where the terminal is closed."""
        while not self._typed:
            if self._mode is None:
                self._typed = typer.getchar()
            else:
                part = os.read(sys.stdin.fileno(), 1_024)
                self._typed = SEQUENCE.sub("", self._decode(part)) if part else END[0]
        key, self._typed = self._typed[0], self._typed[1:]
        if key == INTERRUPT:  # some terminals deliver it as a character
            raise KeyboardInterrupt
        if key in END:
            raise EOFError
        return key

    def read_line(self, what: str) -> str | None:
        """A line, shown as it is typed; None after Esc."""
        text = ""
        self._echo(f"{what}: ")
        while (key := self.read()) not in ENTER:
            if key == ESCAPE:
                self._echo("\n")
                return None
            if key in BACKSPACE:
                self._echo("\b \b" * cell_len(text[-1:]))
                text = text[:-1]
            elif key.isprintable():
                self._echo(key)
                text += key
        self._echo("\n")
        return text.strip()

    @staticmethod
    def _echo(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


class Screening:
    """A reviewer's session."""

    def __init__(self, services: Services, name: str, by: str | None, order: Order) -> None:
        self._services, self._name, self._by, self._order = services, name, by, order
        self._skipped: list[int] = []
        self._message = ""
        self._again: int | None = None
        """A record that is shown once more, after `undo` or a note."""
        self._loop = asyncio.new_event_loop()
        self._keyboard = Keyboard()

    def run(self) -> int:
        """Until the reviewer quits or nothing is left; 130 after Ctrl-C."""
        try:
            with errors().status("Reading the records"):
                candidate = self._fetch()
            with self._keyboard:
                while candidate.record is not None:
                    self._show(candidate)
                    if not self._take(self._read_key(), candidate):
                        break
                    candidate = self._fetch()
                else:
                    note("There is no record left to decide on.")
        except (KeyboardInterrupt, EOFError):
            note("Interrupted. All decisions are saved; to go on, run the same command.")
            return -INTERRUPTED
        finally:
            self._services.close()
            self._loop.close()
        note(f"All decisions are saved. To see how far you are: outrider review status {self._name}")
        return 0

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    def _fetch(self) -> Candidate:
        if self._again is not None:
            number, self._again = self._again, None
            candidate: Candidate = self._call(get_record(self._services, self._name, str(number), by=self._by))
            return candidate
        following: Candidate = self._call(get_next(self._services, self._name, by=self._by, order=self._order, skip=self._skipped))
        return following

    def _read_key(self) -> str:
        """A key that means something; others are ignored."""
        while (key := self._keyboard.read().lower()) not in KEYS:
            pass
        return key

    def _take(self, key: str, candidate: Candidate) -> bool:
        """Act on a key; false to quit."""
        view = candidate.record
        if view is None or key == "q":
            return False
        number = view.number
        try:
            if key in VERDICTS:
                reason = self._ask_reason(candidate) if key == "e" else ""
                if reason is None:
                    self._again = number
                    return True
                self._call(
                    decide(self._services, self._name, [(str(number), VERDICTS[key], reason)], by=self._by, presentation=candidate.shown)
                )
                self._message = f"{KEYS[key]}d {number}" if key != "m" else f"maybe {number}"
            elif key == "u":
                (self._again,) = self._call(undo(self._services, self._name, by=self._by)).undone
                self._message = f"taken back: your decision on {self._again}"
            elif key == "n":
                if text := self._keyboard.read_line("Note"):
                    self._call(add_note(self._services, self._name, str(number), text, by=self._by))
                self._again = number
            elif key == "s":
                self._skipped.append(number)
                self._message = f"skipped {number}"
            else:
                self._again = number
                self._message = "\n".join(HELP)
        except SearchError as error:
            self._message, self._again = f"{error}", number
        return True

    def _ask_reason(self, candidate: Candidate) -> str | None:
        """The reason for an exclusion, empty for none; None to go back."""
        out, reasons = console(), candidate.reasons[:NUMBERED]
        for digit, reason in enumerate(reasons, start=1):
            out.print(Text(f"  {digit}  {one_line(reason)}"))
        out.print(Text("  r  another reason, Enter  none, Esc  back", style="dim"))
        while True:
            key = self._keyboard.read()
            if key in ENTER:
                return ""
            if key == ESCAPE:
                return None
            if key.isdecimal() and 1 <= int(key) <= len(reasons):
                return reasons[int(key) - 1]
            if key.lower() == "r":
                return self._keyboard.read_line("Reason")

    def _show(self, candidate: Candidate) -> None:
        out, view = console(), candidate.record
        if view is None:
            return
        record, terms = view.record, frozenset(candidate.terms)
        out.clear()
        seen = candidate.decided + candidate.left
        share = f" ({100 * candidate.decided // seen} %)" if seen else ""
        how = f", {candidate.shown.order} #{candidate.shown.rank}" if candidate.shown.rank else ""
        head = f"{candidate.review} · {one_line(candidate.by)} · {candidate.decided:,} decided{share}, {candidate.left:,} left{how}"
        out.print(Text(head, style="dim"), overflow="ellipsis", no_wrap=True)
        out.print(Text(f"{view.number}. ", style="bold") + highlight(one_line(record.title) or "(no title)", terms, "bold"))
        details = ", ".join(filter(None, (_name_authors(record.authors), str(record.year or ""), one_line(record.venue or ""))))
        if details:
            out.print(Text(details, style="dim"))
        if view.notices:
            out.print(Text(one_line(describe_notices(view.notices)), style="bold red"))
        out.print()
        abstract = record.abstract or record.description
        out.print(_mark_sentences(abstract, candidate.sentences, terms) if abstract else Text("(no abstract)", style="dim"))
        if record.tags:
            out.print(Text(f"\n{one_line('; '.join(record.tags[:20]))}", style="dim"))
        for one in view.decisions:
            out.print(Text(f"{one.by}: {one.verdict}{f' ({one.reason})' if one.reason else ''}", style="yellow"))
        for written in view.notes:
            out.print(Text(f"Note of {one_line(written.by)}: {one_line(written.text)}", style="yellow"))
        for remark in candidate.remarks:
            out.print(Text(one_line(remark), style="dim"))
        if self._message:
            out.print(Text(f"\n{self._message}", style="green"))
            self._message = ""
        out.print()
        out.print(Text("  ".join(f"{key} {name}" for key, name in KEYS.items()), style="dim"), overflow="ellipsis", no_wrap=True)


def highlight(text: str, terms: frozenset[str], style: str = "") -> Text:
    """The text with these words, in lower case, in another style."""
    shown = Text(text, style=style)
    for match in WORD.finditer(text):
        if match[0].lower() in terms:
            shown.stylize(TERM, match.start(), match.end())
    return shown


def _mark_sentences(text: str, sentences: tuple[tuple[int, int], ...], terms: frozenset[str]) -> Text:
    plain = "".join(char if char.isprintable() else " " for char in text)  # as long as the text: the places stay right
    shown = highlight(plain if without_control(plain) == plain else one_line(plain), terms)
    for start, end in sentences:
        shown.stylize(SENTENCE, start, end)
    return shown


def _name_authors(authors: tuple[str, ...]) -> str:
    if len(authors) <= 3:
        return "; ".join(map(one_line, authors))
    return f"{one_line(authors[0])} and {count(len(authors) - 1, 'other')}"
