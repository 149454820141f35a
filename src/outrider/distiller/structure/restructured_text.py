"""Blocks of reStructuredText, by docutils.

Specification: https://docutils.sourceforge.io/docs/ref/rst/restructuredtext.html. docutils gives the source of each node but not its
place, so each is looked up behind the one before it. Comments, link targets, images and substitutions are no blocks there, so they never
appear. A directive that docutils does not know (many are Sphinx's) is read as if its content stood there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from outrider.distiller.structure.block import Block, BlockKind, in_order, is_sentence

if TYPE_CHECKING:
    from docutils.nodes import Element, document

UNKNOWN_DIRECTIVE = re.compile(r"\.\. [\w.+:-]+::[^\n]*(?:\n[ \t]+:[\w-]+:[^\n]*)*\n?")
"""The first lines of a directive: name, arguments and options."""
UNSHOWN_DIRECTIVES = re.compile(
    r"\.\. (?:toctree|contents|index|auto\w+|currentmodule|module|highlight|meta|only|raw|include|image|figure)::"
)
FIELD_NAME = re.compile(r"(?:[ \t]*:[^:\n]+:|[ \t]*-{1,2}[\w-]+[^\n]*?)[ \t\n]+\Z")
MAX_DEPTH = 10
"""Unknown directives within each other that are read."""
FAR = 20_000
"""Characters behind the last block in which the next one is looked for."""
WORD = re.compile(r"\w")
BETWEEN_LINES, BETWEEN_CELLS = r"\s*\n[ \t>|]*", r"[ \t|]+"


def read_restructured_text(text: str, depth: int = 0) -> list[Block]:
    """The blocks in order, without overlap. Raises what docutils raises for a text that it cannot read."""
    from docutils.nodes import Element

    blocks: list[Block] = []
    cursor = 0
    for node in _parse(text).findall(Element):
        for block in _read_node(text, node, cursor, depth):
            blocks.append(block)
            cursor = block.end
    return in_order(text, blocks)


def _parse(text: str) -> document:
    from docutils.frontend import get_default_settings
    from docutils.parsers.rst import Parser
    from docutils.utils import new_document

    settings = get_default_settings(Parser)
    settings.report_level = settings.halt_level = 5  # of 4: nothing is printed, and nothing ends the parsing
    settings.warning_stream = False
    settings.file_insertion_enabled = settings.raw_enabled = False  # a text reads no other file
    settings.syntax_highlight = "none"
    settings.line_length_limit = len(text) + 1
    result = new_document("text", settings)
    Parser().parse(text, result)
    return result


def _read_node(text: str, node: Element, cursor: int, depth: int) -> Iterator[Block]:
    from docutils import nodes

    parent = node.parent
    if isinstance(parent, nodes.system_message):
        if isinstance(node, nodes.literal_block) and depth < MAX_DEPTH:
            yield from _read_unknown_directive(text, node.astext(), cursor, depth)
    elif isinstance(node, nodes.title | nodes.subtitle | nodes.rubric):
        yield from _find(text, node, cursor, "heading", level=_level(node))
    elif isinstance(node, nodes.literal_block | nodes.doctest_block):
        yield from _find(text, node, cursor, "code")
    elif isinstance(node, nodes.row):
        yield from _read_row(text, node, cursor)
    elif isinstance(node, nodes.caption):
        yield from _find(text, node, cursor, "caption")
    elif isinstance(node, nodes.line_block) and not isinstance(parent, nodes.line_block):
        yield from _find(text, node, cursor, "paragraph")
    elif isinstance(node, nodes.paragraph) and not isinstance(parent, nodes.entry):
        yield from _read_paragraph(text, node, cursor)


def _read_paragraph(text: str, node: Element, cursor: int) -> Iterator[Block]:
    """A paragraph or the text of an item; a field's or an option's begins with its name."""
    from docutils import nodes

    parent = node.parent
    is_item = isinstance(parent, nodes.list_item | nodes.definition | nodes.field_body | nodes.description)
    for block in _find(text, node, cursor, _kind_of_inline(node) or ("item" if is_item else "paragraph")):
        name = FIELD_NAME.search(text, text.rfind("\n", 0, block.start) + 1, block.start)
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
    from docutils import nodes

    links = words = False
    for child in node.children:
        if isinstance(child, nodes.reference) and not all(isinstance(one, nodes.image) for one in child.children):
            links, words = True, words or is_sentence(child.astext())
        elif not isinstance(child, nodes.substitution_reference | nodes.image | nodes.target | nodes.reference):
            words = words or bool(WORD.search(child.astext()))
    return None if words else "links" if links else "badge"


def _read_row(text: str, row: Element, cursor: int) -> Iterator[Block]:
    """A row of a table, from the first to the last of its cells; its header names it."""
    from docutils import nodes

    if isinstance(row.parent, nodes.thead):
        return
    cells = list(row.findall(nodes.paragraph))
    found = list(_find_row(text, cells, cursor))
    for cell in cells if not found else ():
        found += _find(text, cell, found[-1].end if found else cursor, "row")
    if found:
        group = row.parent.parent
        header = " | ".join(head.astext() for part in group.findall(nodes.thead) for head in part.findall(nodes.entry))
        yield Block(found[0].start, found[-1].end, "row", introduced_by=header)


def _find_row(text: str, cells: Sequence[Element], cursor: int) -> Iterator[Block]:
    """A row on one line, all cells at once: a cell of one letter alone could be anywhere."""
    parts = [re.escape(cell.rawsource.strip()) for cell in cells]
    if match := re.compile(rf"(?<!\S){BETWEEN_CELLS.join(parts)}(?!\w)").search(text, cursor, cursor + FAR):
        yield Block(match.start(), match.end(), "row")


def _read_unknown_directive(text: str, source: str, cursor: int, depth: int) -> Iterator[Block]:
    """The content of a directive that docutils does not know, where it stands in the text."""
    if not (head := UNKNOWN_DIRECTIVE.match(source)) or UNSHOWN_DIRECTIVES.match(source):
        return
    begin = text.find(source.splitlines()[0], cursor, cursor + FAR)
    if begin < 0:
        return
    line = text.rfind("\n", 0, begin) + 1
    lines = text[line:].split("\n")[: source.count("\n") + 1]
    # blanks in place of the first lines keep the offsets
    blanked = [" " * len(one) for one in lines[: head[0].count("\n")]]
    body = "\n".join([*blanked, *lines[len(blanked) :]])
    yield from (block.shift(line) for block in read_restructured_text(body, depth + 1))


def _level(title: Element) -> int:
    """The number of sections around a title."""
    from docutils import nodes

    level, node = 0, title.parent
    while node is not None:
        level += isinstance(node, nodes.section)
        node = node.parent
    return max(1, level)


def _find(text: str, node: Element, cursor: int, kind: BlockKind, level: int = 0) -> Iterator[Block]:
    """The node's place behind `cursor`; lines may be indented or quoted there. Nothing if its source was changed by docutils."""
    for source in (node.rawsource, node.astext()):
        lines = [re.escape(line.strip()) for line in source.splitlines() if line.strip()]
        pattern = rf"(?<!\w){BETWEEN_LINES.join(lines)}(?!\w)"
        if lines and (match := re.compile(pattern).search(text, cursor, cursor + FAR + len(source))):
            yield Block(match.start(), match.end(), kind, level)
            return
