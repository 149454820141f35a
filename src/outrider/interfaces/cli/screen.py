"""Layout of hits on a terminal: lines that fit its width, pieces that share its height.

For a file or a program nothing is wrapped, cut to a width or coloured.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from outrider.interfaces.cli.terminal import count
from outrider.text.strip_markup import fold_text
from outrider.text.words import CONTINUOUS, WORD, stem, words

if TYPE_CHECKING:
    from rich.console import Console

ROOMY_LINES = 3
"""Lines of the best sentences that come before blank lines between the hits."""
MATCH = "bold magenta"
INDENT = 4
GUTTER = Text(" " * INDENT)
SENTENCE_MARK, CODE_MARK, GAP_MARK = "│ ", "┊ ", "⋮ "
"""Before a sentence, a line of code, and the first line of code that does not follow the code above it."""
HANG = "  "
"""Before the second line of a sentence and later ones: where the next sentence begins is seen."""
CONTINUED = "↪ "
"""Before the rest of a long line of code."""
PLAIN_MARKS = str.maketrans("│┊⋮·…★↪", "|:+-~*>")
"""For an output that cannot encode them: each as wide as the sign that it replaces."""


@dataclass(frozen=True, slots=True)
class View:
    """How an answer is shown. `width` is None where it goes to a file or a program."""

    out: Console
    width: int | None
    terms: Collection[str]
    """Stems of the request's words, which are highlighted."""
    explain: bool = False

    def wrap(self, text: Text, gutter: Text, lines: int | None = None, hang: str = "") -> list[Text]:
        """The text in lines after a gutter, and `hang` from the second on: at most so many, then an ellipsis where text is left out."""
        if self.width is None:
            return [gutter + text]
        room = self.width - cell_len(gutter.plain) - len(hang)
        long = lines is not None and len(text) > 2 * room * lines  # a novel on one line would take seconds to wrap
        wrapped = (text[: 2 * room * lines] if long and lines is not None else text).wrap(self.out, room, overflow="fold")
        parts = [part for part in wrapped if part.plain.strip()]
        for part in parts:
            part.rstrip()
        if lines is not None and parts and (long or len(parts) > lines):
            parts = parts[:lines]
            parts[-1] = add_ellipsis(parts[-1], room)
        return [(gutter + Text(hang) if at else gutter) + part for at, part in enumerate(parts)]

    def end(self, line: Text) -> Text:
        """The last line that is shown of a piece that goes on."""
        return line if self.width is None else add_ellipsis(line.copy(), self.width)

    def line(self, text: Text, gutter: Text) -> Text:
        """The text on one line after a gutter, cut to the width."""
        if self.width is not None:
            text = text.copy()
            text.truncate(self.width - cell_len(gutter.plain), overflow="ellipsis")
        return gutter + text

    def count_hidden(self, number: int) -> Text:
        """The line below code of which so many lines are left out."""
        return GUTTER + Text(CODE_MARK, "dim cyan") + Text(f"… {count(number, 'more line')}", "dim")

    def highlight(self, text: str, style: str = "") -> Text:
        """The text with the request's words in another style, also in other forms (`harms` for `harm`)."""
        shown = Text(text, style=style)
        for match in WORD.finditer(text) if self.terms else ():
            word = match[0]
            if CONTINUOUS.search(word):
                pairs = (at for at in range(len(word)) if word[at : at + 2] in self.terms)
                places = [(match.start() + at, min(match.start() + at + 2, match.end())) for at in pairs]
            else:
                places = [match.span()] if any(stem(part) in self.terms for part in words(fold_text(word))) else []
            for start, end in places:
                shown.stylize(MATCH, start, end)
        return shown


@dataclass(slots=True, eq=False)
class Piece:
    """A kept sentence or block of code, in lines that are ready to print."""

    start: int
    end: int
    lines: list[Text]
    telling: int = 0
    """The line from which it is shown where there is no room for all."""
    whole: bool = False
    """Whether it says little unless all of it is seen, such as a command."""
    is_code: bool = False
    hidden: int = 0
    """Lines of code that are left out already; the last line says so."""

    def cut(self, view: View, size: int) -> None:
        if size >= len(self.lines):
            return
        code = self.lines[:-1] if self.hidden else self.lines
        is_counted = self.is_code and not self.whole and size > 1  # a short piece has wrapped lines, which are no lines of code
        room = size - 1 if is_counted else size
        begin = min(self.telling, len(code) - room)
        kept = code[begin : begin + room]
        for end in (0, -1):
            while len(kept) > 1 and kept[end].plain.strip() == CODE_MARK.strip():
                kept.pop(end)
        if is_counted:
            kept.append(view.count_hidden(self.hidden + len(code) - len(kept)))
        else:
            marked = kept[-1] + Text(" …", "dim")  # apart from code, which could end so
            fits = self.is_code and view.width is not None and cell_len(marked.plain) <= view.width
            kept[-1] = marked if fits else view.end(kept[-1])
        self.lines = kept

    def mark_gap(self) -> None:
        """Mark that other text of the source stands between the code above and this code."""
        at = INDENT + len(CODE_MARK)
        self.lines[0] = GUTTER + Text(GAP_MARK, "dim cyan") + self.lines[0][at:]


@dataclass(slots=True)
class Block:
    """A hit: the lines of its title, the facts and reasons below, and its pieces, best first."""

    title: list[Text]
    facts: list[Text]
    pieces: list[Piece]
    text: str = ""
    """The text in which the pieces stand."""


def fit(view: View, blocks: Sequence[Block], room: int) -> tuple[int, bool]:
    """Drop and cut pieces so that the blocks take at most `room` lines, if their heads do.

    Titles are cut to a line where there is little room. Each block keeps its best piece, or the beginning of it: a line each, then those
    that should be seen whole, then line by line, in turn. Then come blank lines between the blocks, if there is room for all. The second
    pieces get what is left, in order of rank, and so on. Returns the number of pieces that were dropped, and whether there are blank lines.
    """
    if sum(len(block.title) + len(block.facts) + 1 for block in blocks) > room:
        for block in blocks:
            block.title = [block.title[0] if len(block.title) == 1 else view.end(block.title[0])]
    first = [block.pieces[0] for block in blocks if block.pieces]
    room -= sum(len(block.title) + len(block.facts) for block in blocks)
    roomy = room >= len(blocks) + sum(min(len(piece.lines), ROOMY_LINES) for piece in first)
    room -= len(blocks) if roomy else 0
    sizes = [0] * len(first)
    wanted = [(1 if turn and piece.whole else 2 * turn, place) for place, piece in enumerate(first) for turn in range(len(piece.lines))]
    for turn, place in sorted(wanted):
        if room > 0 or turn == 0:
            sizes[place] += 1
            room -= 1
    for piece, size in zip(first, sizes, strict=True):
        piece.cut(view, size)
    dropped = 0
    pending = [(turn, block, piece) for block in blocks for turn, piece in enumerate(block.pieces) if turn]
    for _, block, piece in sorted(pending, key=lambda entry: entry[0]):
        if len(piece.lines) <= room:
            room -= len(piece.lines)
        else:
            block.pieces.remove(piece)
            dropped += 1
    return dropped, roomy


def print_line(out: Console, text: Text) -> None:
    """One line without padding. Characters that the output cannot encode become question marks."""
    encoding = out.encoding
    if not encoding.startswith("utf"):
        text.plain = text.plain.translate(PLAIN_MARKS).encode(encoding, "replace").decode(encoding)
    out.print(text, soft_wrap=True)


def add_ellipsis(text: Text, width: int) -> Text:
    if not text.plain.endswith("…"):
        text.truncate(width - 1, overflow="crop")
        text.rstrip()
        text.append("…")
    return text


def cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)).rstrip() + "…"
