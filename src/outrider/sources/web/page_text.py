"""Text of a page as Markdown, block by block

Headings, lists, tables and code have their marks, and all blocks stand apart.
Trafilatura's own text puts every block on the next line, and that of a small page all on one: a reader cannot tell where a heading ends
and its paragraph begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxml.etree import _Element as Element  # type: ignore[import-untyped]

BLOCKS = frozenset({"ab", "body", "code", "div", "head", "item", "list", "p", "quote", "row", "table"})
"""Of the vocabulary that trafilatura extracts, which is that of TEI. A `quote` may be preformatted text: its lines are kept."""
INLINE_PARENTS = frozenset({"head", "item", "p"})
"""Code in one of these is a part of its line."""
HTML_NAMES = {
    **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "head"), **dict.fromkeys(("ul", "ol", "dl", "menu"), "list"),
    **dict.fromkeys(("li", "dt", "dd"), "item"), "tr": "row", "td": "cell", "th": "cell", "br": "lb", "pre": "code", "code": "hi",
    **dict.fromkeys(("address", "article", "blockquote", "caption", "center", "details", "fieldset", "figcaption", "figure", "form",
                     "header", "hr", "legend", "main", "nav", "option", "section", "summary"), "div"),
    **dict.fromkeys(("aside", "footer", "head", "noscript", "script", "style", "template", "title"), ""),
}  # fmt: skip
"""The names of HTML's elements in that vocabulary; empty for those that are not read."""
STOP = re.compile(r"[.!?…]+[\"'”’»)]*\Z")
CONTROLS = dict.fromkeys([*range(9), *range(11, 32), 127])
"""Control characters, which are no text."""


def render_blocks(body: Element, names: Mapping[str, str] | None = None) -> str:
    """The text of a tree, in time linear in its size, without recursion; `names` for another vocabulary than trafilatura's."""
    from lxml.etree import iterwalk

    blocks: list[tuple[str, str]] = []
    parts: list[str] = []
    within: list[tuple[str, Element, str]] = []
    group = depth = 0

    def close_block() -> None:
        tag, element, role = within[-1] if within else ("", body, "")
        lines = [" ".join(line.split()) for line in "".join(parts).split("\n")]
        parts.clear()
        if not (text := (" " if tag in ("head", "item") else "\n").join(filter(None, lines))):
            return
        if tag == "head":
            level = (element.get("rend") or element.tag)[1:]
            blocks.append(("", f"{'#' * (int(level) if level in tuple('123456') else 2)} {text}"))
        elif tag == "item":
            is_defined = blocks[-1][0][:3] in ("dt ", "dd ") if blocks else False
            blocks.append(_mark_item(text, role if depth == 1 and (is_defined or role == "dt") else "", depth, group))
        else:
            blocks.append(("", text))

    walk = iterwalk(body, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        tag = (names or {}).get(element.tag, element.tag)
        is_block = tag in BLOCKS and not (tag == "code" and bool(within) and within[-1][0] in INLINE_PARENTS)
        if is_block:
            close_block()
        depth += (tag == "list") * {"start": 1, "end": -1}.get(event, 0)
        if event != "start":
            if is_block and within and within[-1][1] is element:
                within.pop()
            parts.append(_fold_lines(element.tail if element is not body else ""))
        elif not tag:
            walk.skip_subtree()
        elif tag == "row":
            blocks.append((f"table {group}", _render_row(element, names or {}, is_first=not blocks or blocks[-1][0] != f"table {group}")))
            walk.skip_subtree()
        elif tag == "code" and is_block:
            blocks.append(("", _fence(_join_texts(element, names or {}, "\n").strip("\n"))))
            walk.skip_subtree()
        else:
            group += tag == "table" or (tag == "list" and depth == 1)
            if is_block:
                is_in_item = tag in ("div", "p") and bool(within) and within[-1][0] == "item"
                role = within[-1][2] if is_in_item else _item_role(element) if tag == "item" else ""
                within.append(("item" if is_in_item else tag, element, role))
            parts.append("\n" if tag == "lb" else (element.text or "") if tag == "quote" else _fold_lines(element.text))
    close_block()
    return "".join(_join_blocks(blocks)).translate(CONTROLS)


def put_before_stop(mark: Element) -> None:
    """Put the full stop before a raised number of a note behind it, as in `an hour[1].`: only there does it end a sentence."""
    if mark.getparent().tag == "sup" and len(mark.getparent()) == 1:
        mark = mark.getparent()
    before, parent = mark.getprevious(), mark.getparent()
    text = (parent.text if before is None else before.tail) or ""
    if stop := STOP.search(text[-8:]):
        text = text[: len(text) - len(stop[0])]
        mark.tail = stop[0] + (mark.tail or "")
        if before is None:
            parent.text = text
        else:
            before.tail = text


def _item_role(item: Element) -> str:
    """`dt` for a term, `dd` for its definition, empty for another item."""
    name = item.tag if item.tag in ("dt", "dd") else (item.get("rend") or "")[:3].rstrip("-")
    return name if name in ("dt", "dd") else ""


def _mark_item(text: str, role: str, depth: int, group: int) -> tuple[str, str]:
    """The kind of an item and its text; a term and its definitions get their marks once it is known whether the term has any."""
    return (f"{role} {group}", text) if role else (f"list {group}", f"{'  ' * (depth - 1)}- {text}")


def _join_blocks(blocks: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Items of one list and rows of one table follow each other, other blocks with a line between them.

    Definitions are written as Pandoc reads them: below the term, after a colon. A term without a definition is an item.
    """
    lines: list[tuple[str, str]] = []
    for kind, text in reversed(blocks):
        role, _, group = kind.partition(" ")
        if role == "dt" and not (lines and lines[-1][0] in ("dt", "dd")):
            lines.append((f"list {group}", f"- {text}"))
        else:
            lines.append((role, f": {text}" if role == "dd" else text) if role in ("dt", "dd") else (kind, text))
    last = None
    for kind, text in reversed(lines):
        if last is not None:
            yield "\n" if kind and (kind == last or (last, kind) == ("dt", "dd")) else "\n\n"
        yield text
        last = kind


def _fold_lines(text: str | None) -> str:
    """Line ends of the source are blanks."""
    return (text or "").replace("\r", " ").replace("\n", " ")


def _render_row(row: Element, names: Mapping[str, str], *, is_first: bool) -> str:
    """A row; the first one of a table comes with the rule that makes it a table."""
    cells = [cell for cell in row if cell.tag in ("cell", "td", "th")]
    texts = (" ".join(_join_texts(cell, names, " ").split()).replace("|", "\\|") for cell in cells)
    line = f"| {' | '.join(texts)} |"
    if not is_first:
        return line
    rule = f"|{'---|' * len(cells)}"
    has_head = any(cell.tag == "th" or cell.get("role") == "head" for cell in cells)
    return f"{line}\n{rule}" if has_head else f"|{'  |' * len(cells)}\n{rule}\n{line}"


def _join_texts(whole: Element, names: Mapping[str, str], gap: str) -> str:
    """The text in a cell or in code, with a gap at the edges of the blocks within, and without comments, scripts and styles."""
    from lxml.etree import iterwalk

    parts = [""]
    walk = iterwalk(whole, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        tag = names.get(element.tag, element.tag)
        if event != "start":
            text = element.tail if element is not whole else ""
        elif tag:
            text = "\n" if tag == "lb" else element.text
        else:
            text = ""
            walk.skip_subtree()
        is_edge = element is not whole and (tag in BLOCKS or tag == "cell") and not parts[-1].endswith(gap)
        parts += filter(None, (gap if is_edge else "", text))
    return "".join(parts)


def _fence(code: str) -> str:
    marks = "````" if "```" in code else "```"
    return f"{marks}\n{code}\n{marks}" if code.strip() else ""
