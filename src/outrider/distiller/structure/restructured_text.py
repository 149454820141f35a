"""Blocks of reStructuredText, by docutils.

Specification: https://docutils.sourceforge.io/docs/ref/rst/restructuredtext.html. docutils gives the source of each node and the line of
a paragraph, but not its place, so each is looked up on its line or else behind the one before it. Comments, link targets, images and
substitutions are no blocks there, so they never appear. A directive that docutils does not know (many are Sphinx's) is read as if its
content stood there.
"""

from __future__ import annotations

import copy
import itertools
import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.nodes import Element
from docutils.parsers.rst import Parser, states
from docutils.utils import new_document

from outrider.distiller.structure.block import Block, BlockKind, Lines, in_order, is_sentence

UNKNOWN_DIRECTIVE = re.compile(r"\.\. [\w.+:-]+::[^\n]*(?:\n[ \t]+:[\w-]+:[^\n]*)*\n?")
"""The first lines of a directive: name, arguments and options."""
UNSHOWN_DIRECTIVES = re.compile(
    r"\.\. (?:toctree|contents|index|auto\w+|currentmodule|module|highlight|meta|only|raw|include|image|figure)::"
)
FIELD_NAME = re.compile(r"(?:[ \t]*:[^:\n]+:|[ \t]*-{1,2}[\w-]+[^\n]*?)[ \t\n]+\Z")
MAX_DEPTH = 10
"""Unknown directives within each other that are read."""
FAR, FAR_CELL = 20_000, 1_000
"""Characters behind the last block, or the last cell, in which the next one is looked for."""
WORD = re.compile(r"\w")
SOURCE_LINE = re.compile(r"\r\n|[\n\r\x1c-\x1e\x85\u2028\u2029]")
"""As docutils counts lines: it reads the breaks `\\v` and `\\f` as blanks."""
CHANGED = re.compile(r"^(?:[^\S\n]|[>|](?=[\s>|]|$))+|[^\S\n]+|\n+", re.MULTILINE)
"""What docutils changes in a source: white space, and marks before quoted lines and cells."""
SPHINX_HEADER = re.compile(r"^[ \t]*\|=+(?:\|=+)*\|[ \t]*$", re.MULTILINE)
"""The line below a header as Sphinx's text builder draws it; docutils asks for `+` at its corners."""
BORDER = re.compile(r"[ \t]*[+|=-][-=+| \t]*\Z")
"""A line between two rows."""
MAX_LINES = 1_000
"""Of a row, behind the last line of its paragraphs."""
PROMPT = re.compile(r"\s*([>|]+)[ \t]")
MAX_INLINE_CHARS = 2_000
"""A longer paragraph is text, whatever its marks: docutils takes quadratic time for those that nothing closes."""
MAX_PIECES = 5_000
"""Paragraphs, items and cells of a text; the longest of 290 READMEs has 989. Each takes docutils up to a millisecond."""

WHOLE: dict[type[Element], BlockKind] = {nodes.literal_block: "code", nodes.doctest_block: "code", nodes.caption: "caption"}
"""Nodes that are one block each."""


class TooManyPieces(Exception):
    """A text that docutils would read for too long."""


def read_restructured_text(text: str) -> list[Block]:
    """The blocks in order, without overlap. Raises `TooManyPieces`, and what docutils raises for a text that it cannot read."""
    return _read(text, itertools.count(1))


def _read(text: str, pieces: Iterator[int], depth: int = 0) -> list[Block]:
    """`pieces` numbers those of the whole text."""
    text = SPHINX_HEADER.sub(lambda line: line[0].replace("|", "+"), text)  # the offsets stay
    settings = copy.copy(_load_settings())
    settings.line_length_limit = len(text) + 1
    document = new_document("text", settings)
    inliner: Any = _Inliner(pieces)
    Parser(inliner=inliner).parse(text, document)
    source = _Source(text)
    blocks: list[Block] = []
    for node in document.findall(Element):
        for block in _read_node(source, node, pieces, depth):
            blocks.append(block)
            source.cursor = block.end
    return in_order(text, blocks)


@lru_cache(maxsize=1)
def _load_settings() -> Any:
    settings = get_default_settings(Parser)
    settings.report_level = settings.halt_level = 5  # of 4: nothing is printed, and nothing ends the parsing
    settings.warning_stream = False
    settings.file_insertion_enabled = settings.raw_enabled = False  # a text reads no other file
    settings.syntax_highlight = "none"
    return settings


class _Inliner:
    """docutils's reader of the marks within a paragraph, item or cell, for texts of strangers.

    No subclass: docutils builds its patterns from the attributes of the class itself.
    """

    def __init__(self, pieces: Iterator[int]) -> None:
        self._inliner = states.Inliner()  # one for each parsing, which adds patterns to it
        self._pieces = pieces

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inliner, name)

    def parse(self, text: str, lineno: int, memo: Any, parent: Element) -> tuple[list[Any], list[Any]]:
        if next(self._pieces) > MAX_PIECES:
            raise TooManyPieces
        if len(text) > MAX_INLINE_CHARS:
            return [nodes.Text(text)], []
        result: tuple[list[Any], list[Any]] = self._inliner.parse(text, lineno, memo, parent)
        return result


class _Source:
    """The text, in which sources of nodes are looked up without regard to what docutils changes in them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = Lines(text, SOURCE_LINE)
        self.cursor = 0
        """The end of the last block."""
        changed = [match.span() for match in CHANGED.finditer(text)]
        ends = [0, *(end for _, end in changed)]
        self._places = [at for begin, (end, _) in zip(ends, [*changed, (len(text), 0)], strict=True) for at in range(begin, end)]
        self._plain = CHANGED.sub("", text)

    def find(self, wanted: str, cursor: int, before: int | None = None) -> tuple[int, int] | None:
        """The span of the next such words that begin behind `cursor` and before `before`, None if they are not near."""
        plain = CHANGED.sub("", wanted)
        first = bisect_left(self._places, cursor)
        last = bisect_left(self._places, cursor + FAR if before is None else before) + len(plain) - (before is not None)
        while plain and (first := self._plain.find(plain, first, last)) >= 0:
            start, end = self._places[first], self._places[first + len(plain) - 1] + 1
            if not (WORD.match(self.text, start - 1) if start else None) and not WORD.match(self.text, end):
                return self._include_prompt(wanted, start), end
            first += 1
        return None

    def find_on_line(self, wanted: str, line: int | None) -> tuple[int, int] | None:
        """The span of such words that begin on a line, counted from 1."""
        return None if line is None else self.find(wanted, self.lines.offset(line - 1), self.lines.offset(line))

    def line(self, number: int) -> str:
        """A line, counted from 1; empty behind the last."""
        return self.text[self.lines.offset(number - 1) : self.lines.offset(number)].rstrip()

    def _include_prompt(self, wanted: str, start: int) -> int:
        """Where code begins whose first line has a prompt such as `>>>`, which `CHANGED` leaves out."""
        if not (prompt := PROMPT.match(wanted)):
            return start
        begin = start
        while begin and self.text[begin - 1] in " \t":
            begin -= 1
        begin -= len(prompt[1])
        return begin if begin >= 0 and self.text.startswith(prompt[1], begin) else start


def _read_node(source: _Source, node: Element, pieces: Iterator[int], depth: int) -> Iterator[Block]:
    parent = node.parent
    if isinstance(parent, nodes.system_message):
        if isinstance(node, nodes.literal_block) and depth < MAX_DEPTH:
            yield from _read_unknown_directive(source, node.astext(), pieces, depth)
    elif isinstance(node, nodes.title | nodes.subtitle) and not isinstance(parent, nodes.section | nodes.document):
        if not isinstance(parent, nodes.topic):  # such as the title of a table of contents, which docutils writes
            yield from _find(source, node, "caption")
    elif isinstance(node, nodes.title | nodes.subtitle | nodes.rubric):
        yield from _find(source, node, "heading", level=_level(node))
    elif kind := WHOLE.get(type(node)):
        yield from _find(source, node, kind)
    elif isinstance(node, nodes.row):
        yield from _read_row(source, node)
    elif isinstance(node, nodes.line_block):
        if not isinstance(parent, nodes.line_block):
            yield from _find(source, node, "paragraph")
    elif isinstance(node, nodes.term):
        if is_sentence(node.astext()):  # a shorter one is shown with its definition alone
            yield from _find(source, node, "paragraph")
    elif isinstance(node, nodes.paragraph) and not isinstance(parent, nodes.entry):
        yield from _read_paragraph(source, node)


def _read_paragraph(source: _Source, node: Element) -> Iterator[Block]:
    """A paragraph or the text of an item; a field's or an option's begins with its name."""
    parent = node.parent
    is_item = isinstance(parent, nodes.list_item | nodes.definition | nodes.field_body | nodes.description)
    for block in _find(source, node, _kind_of_inline(node) or ("item" if is_item else "paragraph")):
        name = FIELD_NAME.search(source.text, source.text.rfind("\n", 0, block.start) + 1, block.start)
        if isinstance(parent, nodes.definition):
            term = parent.parent[0].astext() if isinstance(parent.parent[0], nodes.term) else ""
            yield Block(block.start, block.end, block.kind, introduced_by=term)
        elif name and isinstance(parent, nodes.field_body | nodes.description):
            start = name.start() + len(name[0]) - len(name[0].lstrip())
            yield Block(start, block.end, block.kind, introduced_by=name[0].strip(" \t\n:"))
        else:
            yield block


def _kind_of_inline(node: Element) -> BlockKind | None:
    """`badge` for substitutions and images alone, `links` for links alone, None for text."""
    links = words = False
    for child in node.children:
        if isinstance(child, nodes.reference) and not all(isinstance(one, nodes.image) for one in child.children):
            links, words = True, words or is_sentence(child.astext())
        elif not isinstance(child, nodes.substitution_reference | nodes.image | nodes.target | nodes.reference):
            words = words or bool(WORD.search(child.astext()))
    return None if words else "links" if links else "badge"


def _read_row(source: _Source, row: Element) -> Iterator[Block]:
    """A row of a table, from the first to the last of its cells; its header names it."""
    if isinstance(row.parent, nodes.thead):
        return
    if span := _find_row(source, row):
        heads = (part for part in row.parent.parent.children if isinstance(part, nodes.thead))
        header = " | ".join(head.astext() for part in heads for head in part.findall(nodes.entry))
        yield Block(*span, "row", introduced_by=header)


def _find_row(source: _Source, row: Element) -> tuple[int, int] | None:
    """Where a row stands: on the lines of its cells, or else where its words are, such as those of a CSV table."""
    cells = _list_cells(row)
    places = [span for cell in cells if (span := source.find_on_line(cell.rawsource.split("\n")[0], cell.line))]
    if places and len(places) == len(cells):
        return min(places)[0], _find_end(source, row, max(cell.line + cell.rawsource.count("\n") for cell in cells))
    for border in ("", "|"):  # all cells of a line at once: a cell of one letter alone could be anywhere
        if span := source.find(border.join(cell.rawsource for cell in cells), source.cursor):
            return span
    spans: list[tuple[int, int]] = []
    for cell in cells:
        cursor = spans[-1][1] if spans else source.cursor
        spans += filter(None, [source.find(cell.rawsource, cursor, cursor + FAR_CELL)])
    return (spans[0][0], spans[-1][1]) if spans else None


def _list_cells(row: Element) -> list[Any]:
    """The paragraphs of a row's cells, without those in which docutils reports an error."""
    return [cell for cell in row.findall(nodes.paragraph) if not isinstance(cell.parent, nodes.system_message)]


def _find_end(source: _Source, row: Element, last: int) -> int:
    """The end of a row whose cells reach at least to the line `last`; of a grid table before the next border."""
    following = row.next_node(nodes.row, descend=False, siblings=True)
    limit = min((cell.line - 1 for cell in _list_cells(following or nodes.row()) if cell.line), default=last + MAX_LINES)
    while last < limit and source.line(last + 1).lstrip()[:1] == "|" and not BORDER.match(source.line(last + 1)):
        last += 1
    last = min(last, limit)
    line = source.line(last)
    return source.lines.offset(last - 1) + len(line.rstrip("| \t") if line.lstrip()[:1] == "|" else line)


def _read_unknown_directive(source: _Source, directive: str, pieces: Iterator[int], depth: int) -> Iterator[Block]:
    """The content of a directive that docutils does not know, where it stands in the text."""
    if not (head := UNKNOWN_DIRECTIVE.match(directive)) or UNSHOWN_DIRECTIVES.match(directive):
        return
    if not (span := source.find(directive, source.cursor)):
        return
    line = source.text.rfind("\n", 0, span[0]) + 1
    lines = source.text[line : span[1]].split("\n")
    # blanks in place of the first lines keep the offsets
    blanked = [" " * len(one) for one in lines[: head[0].count("\n")]]
    body = "\n".join([*blanked, *lines[len(blanked) :]])
    yield from (block.shift(line) for block in _read(body, pieces, depth + 1))


def _level(title: Element) -> int:
    """The number of sections around a title; a rubric stands below that of its section."""
    level, node = int(isinstance(title, nodes.rubric)), title.parent
    while node is not None:
        level += isinstance(node, nodes.section)
        node = node.parent
    return max(1, level)


def _find(source: _Source, node: Element, kind: BlockKind, level: int = 0) -> Iterator[Block]:
    """The node's place on its line or else behind the last block. Nothing if docutils has changed more of its source than white space."""
    line = node.line if isinstance(node, nodes.paragraph) else None  # of others it may be the last line
    wanted = (node.rawsource, node.astext())
    spans = itertools.chain((source.find_on_line(one, line) for one in wanted), (source.find(one, source.cursor) for one in wanted))
    if span := next(filter(None, spans), None):
        yield Block(*span, kind, level)
