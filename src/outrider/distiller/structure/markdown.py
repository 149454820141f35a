"""Blocks of Markdown: CommonMark with the tables of GitHub.

markdown-it-py parses (https://spec.commonmark.org/0.31.2). Link definitions are no blocks there, so they never appear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from outrider.distiller.structure.block import MAX_TERM_CHARS, MAX_TERMS, Block, BlockKind, Lines, holds_links_alone, in_order, is_sentence
from outrider.distiller.structure.html import read_html

MARKER = re.compile(r"(?:[ \t]*(?:>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t])))*[ \t]*(?:\[[ xX]\][ \t]+)?")
"""Marks of quotes, items and tasks before a block's own text."""
ALERT = re.compile(r"\[!\w+\][ \t]*\n?[> \t]*")
"""First line of GitHub's alerts (https://docs.github.com/en/get-started/writing-on-github)."""
WORD = re.compile(r"\w")
MARKDOWN_LINE = re.compile(r"\r\n|\n|\r")
BLOCKS = MarkdownIt("commonmark").enable("table").disable("inline")
INLINE = MarkdownIt("commonmark")
NO_WORD_FIRST = re.compile(r"^\W", re.MULTILINE)
"""A line that begins with a word holds text, not badges or links alone."""
DIAGRAMS = [["mermaid"], ["plantuml"], ["graphviz"], ["dot"]]
"""Languages of code that draws a picture (https://docs.github.com/en/get-started/writing-on-github)."""
LINK_BEFORE_WORDS = re.compile(r"\[\[|(?<!\S)\[?-?@\w|(?<!\S)#\w")
SENTENCE_END = re.compile(r"[.!?:…。！？]['\"”’)\]*_`]*\s*\Z")
DEFINITION = re.compile(r":[ \t]+(?=\S)")
"""The mark of a definition below its term (https://pandoc.org/MANUAL.html#definition-lists)."""
MARKED_DEFINITION = re.compile(r"(?:[ \t]*>)*[ \t]*:[ \t]+")
MAX_BRACKETS = 300
"""A paragraph with more of them is text: the parser takes quadratic time for those that nothing closes."""


def read_markdown(text: str) -> list[Block]:
    """The blocks in order, without overlap; offsets are in characters of `text`."""
    definitions: dict[str, object] = {}
    tokens = BLOCKS.parse(text, definitions)
    blocks = [*_blocks(text, Lines(text, MARKDOWN_LINE), tokens, definitions)]
    return in_order(text, [_without_marker(text, block) for block in blocks])


def _blocks(text: str, lines: Lines, tokens: Sequence[Token], definitions: dict[str, object]) -> Iterator[Block]:
    items, header = 0, ""
    for at, token in enumerate(tokens):
        first, last = token.map or (0, 0)
        start, end = lines.offset(first), lines.offset(last)
        match token.type:
            case "list_item_open" | "list_item_close":
                items += token.nesting
            case "heading_open":
                yield Block(start, end, "heading", int(token.tag[1]))
            case "code_block":
                yield Block(start, end, "code")
            case "fence":
                closed = text[lines.offset(last - 1) : end].lstrip("> \t").startswith(token.markup)
                kind: BlockKind = "furniture" if token.info.split()[:1] in DIAGRAMS else "code"
                yield Block(lines.offset(first + 1), lines.offset(last - closed), kind)
            case "html_block":
                yield from (block.shift(start) for block in read_html(text[start:end]))
            case "thead_open":
                header = text[start : lines.offset(first + 1)].strip()
            case "tr_open" if token.map and tokens[at - 1].type != "thead_open":
                yield Block(start, lines.offset(first + 1), "row", introduced_by=header)
            case "inline" if tokens[at - 1].type == "paragraph_open" and (definitions_of_terms := _list_definitions(text, lines, token)):
                yield from definitions_of_terms
            case "inline" if tokens[at - 1].type == "paragraph_open":
                yield from _divide_paragraph(lines, token, "item" if items else "paragraph", definitions)


def _list_definitions(text: str, lines: Lines, inline: Token) -> list[Block]:
    """The blocks of a paragraph that is a term with definitions below it; empty for another paragraph."""
    first, last = inline.map or (0, 0)
    rows = inline.content.split("\n")
    marked = [at for at, row in enumerate(rows) if DEFINITION.match(row)]
    terms = rows[: marked[0]] if marked else []
    if not 1 <= len(terms) <= MAX_TERMS or max(map(len, terms)) > MAX_TERM_CHARS:
        return []
    result = [Block(lines.offset(first + at), lines.offset(first + at + 1), "term") for at in range(len(terms))]
    for begin, end in pairwise([*marked, last - first]):
        start = lines.offset(first + begin)
        match = MARKED_DEFINITION.match(text, start)
        result.append(Block(match.end() if match else start, lines.offset(first + end), "item", introduced_by=", ".join(terms)))
    return result


def _divide_paragraph(lines: Lines, inline: Token, kind: BlockKind, definitions: dict[str, object]) -> Iterator[Block]:
    """The paragraph without its lines that hold badges or links alone, which are blocks of their own unless a sentence goes on there."""
    first, last = inline.map or (0, 0)
    texts = inline.content.split("\n")
    has_links = LINK_BEFORE_WORDS.search(inline.content) is not None
    if inline.content.count("[") > MAX_BRACKETS or not (has_links or NO_WORD_FIRST.search(inline.content)):
        yield Block(lines.offset(first), lines.offset(last), kind)
        return
    rows: list[list[Token]] = [[]]
    hard: set[int] = set()
    """Rows that begin a new line when they are shown."""
    for child in INLINE.parseInline(inline.content, definitions)[0].children or ():
        if child.type in ("softbreak", "hardbreak"):
            hard.update([len(rows)] if child.type == "hardbreak" else [])
            rows.append([])
        else:
            rows[-1].append(child)
    if len(rows) != last - first:  # a line break within a link or code: the lines cannot be told apart
        rows = [[child for row in rows for child in row]]
    kinds = [_kind_of_line(row) or kind for row in rows]
    if has_links and len(texts) == len(kinds):
        kinds = ["links" if holds_links_alone(text) else own for text, own in zip(texts, kinds, strict=True)]
    if len(texts) == len(kinds):
        _join_sentences(texts, kinds, kind, hard)
    begin = 0
    for at in range(1, len(kinds) + 1):
        if at == len(kinds) or kinds[at] != kinds[begin]:
            end = last if at == len(kinds) else first + at
            yield Block(lines.offset(first + begin), lines.offset(end), kinds[begin])
            begin = at


def _join_sentences(lines: Sequence[str], kinds: list[BlockKind], kind: BlockKind, hard: set[int]) -> None:
    """Make a line of links text where the sentence of the line before goes on, or its own in the line behind."""
    for at in range(1, len(kinds)):
        ends = SENTENCE_END.search(lines[at - 1]) is not None or at in hard
        is_note = lines[at][:1] == "(" or (holds_links_alone(lines[at]) and not SENTENCE_END.search(lines[at]))  # such as `#tag`
        if kinds[at] == "links" and kinds[at - 1] == kind and not ends and not is_note:
            kinds[at] = kind
    for at in reversed(range(len(kinds) - 1)):
        goes_on = lines[at + 1].lstrip("(,;–— ")[:1].islower() and at + 1 not in hard and not SENTENCE_END.search(lines[at])
        if kinds[at] == "links" and kinds[at + 1] == kind and goes_on:
            kinds[at] = kind


def _kind_of_line(tokens: Sequence[Token]) -> BlockKind | None:
    """`badge` for images alone, `links` for links alone, None for text."""
    depth, linked = 0, False
    for token in tokens:
        if token.type in ("link_open", "link_close"):
            depth += token.nesting
        elif token.type in ("text", "code_inline") and WORD.search(token.content):
            if depth == 0 or is_sentence(token.content):
                return None
            linked = True
    return "links" if linked else "badge"


def _without_marker(text: str, block: Block) -> Block:
    if block.kind not in ("paragraph", "item"):
        return block
    marker = MARKER.match(text, block.start, block.end)
    start = marker.end() if marker else block.start
    if alert := ALERT.match(text, start, block.end):
        start = alert.end()
    return Block(start, block.end, block.kind, block.level, block.introduced_by)
