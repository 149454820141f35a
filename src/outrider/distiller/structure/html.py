"""Blocks of HTML, by the standard library's parser, which gives the place of each tag."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from outrider.distiller.structure.block import MAX_TERM_CHARS, MAX_TERMS, Block, BlockKind, Lines, in_order, is_sentence

BREAKS = frozenset(
    "address article aside blockquote body br caption center dd details dialog div dl dt fieldset figcaption figure footer form "
    "h1 h2 h3 h4 h5 h6 head header hgroup hr html li main nav ol p pre search section summary table tbody td tfoot th thead title tr "
    "ul".split()
)
"""Elements that end a paragraph (https://html.spec.whatwg.org/multipage/rendering.html#flow-content-3), and cells."""
UNSHOWN = frozenset({"script", "style", "template", "noscript", "svg", "nav", "footer", "select", "textarea", "button", "head"})
KINDS: dict[str, BlockKind] = {
    "li": "item",
    "dd": "item",
    "dt": "item",
    "pre": "code",
    "tr": "row",
    "figcaption": "caption",
    "caption": "caption",
}
HEADING = re.compile(r"h[1-6]|summary")
SUMMARY_LEVEL = 7
"""Below all headings: the summary of `<details>` names what is folded below it."""
HTML_LINE = re.compile(r"\n")
WORD = re.compile(r"\w")
NO_REFERENCE = re.compile(r"&#(?!\d|[xX][\da-fA-F])")
TAG = re.compile(r"<[^<>]{0,500}>")
MAX_OPEN = 200
"""Open elements that are remembered: a page that ends none of its items opens any number."""


def read_html(text: str) -> list[Block]:
    """The blocks of shown text in order, without overlap; what is between two tags of one block belongs to it."""
    parser = _BlockParser(text)
    # the parser would search to the end of the text for each tag that does not end, and show all behind a bare `&#`
    last = text.rfind(">") + 1
    parser.feed(NO_REFERENCE.sub("& ", text[:last] + text[last:].replace("<", " ")))
    parser.close()
    parser.end_block()
    return in_order(text, parser.blocks)


class _BlockParser(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.blocks: list[Block] = []
        self._lines = Lines(text, HTML_LINE)
        self._open: list[str] = []
        """The open elements that decide on kind or visibility."""
        self._start = self._end = -1
        self._words = self._links = 0
        self._text = text
        self._terms: list[Block] = []
        """Of the definition that comes next or is being read."""
        self._last = ""
        """The element of the last block."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        row = "tr" in self._open and tag in ("td", "th", "p", "br", "div")
        if tag in BREAKS and not row:
            self.end_block()
        if tag in KINDS or tag in UNSHOWN or tag == "a" or HEADING.fullmatch(tag):
            self._open.append(tag)
            if len(self._open) > MAX_OPEN:
                del self._open[0]

    def handle_endtag(self, tag: str) -> None:
        row = "tr" in self._open and tag in ("td", "th", "p", "div")
        if tag in BREAKS and not row:
            self.end_block()
        if tag in self._open:
            del self._open[len(self._open) - 1 - self._open[::-1].index(tag)]

    def parse_comment(self, i: int, report: bool = True) -> int:
        """A comment that does not end reaches to the end of the text (https://html.spec.whatwg.org/multipage/parsing.html)."""
        end = self.rawdata.find("-->", i + len("<!--"))
        return end + len("-->") if end >= 0 else len(self.rawdata)

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """`<![` begins a comment up to the next `>`; the library's parser raises an error."""
        return self.rawdata.find(">", i) + 1 or len(self.rawdata)

    def handle_data(self, data: str) -> None:
        if data.strip() and not any(tag in UNSHOWN for tag in self._open):
            lead = len(data) - len(data.lstrip())
            self._extend(lead, len(data.rstrip()))
            if WORD.search(data):
                self._words += "a" not in self._open or is_sentence(data)
                self._links += "a" in self._open

    def handle_entityref(self, name: str) -> None:
        if self._start >= 0:
            self._extend(0, len(name) + 2)

    def handle_charref(self, name: str) -> None:
        if self._start >= 0:
            self._extend(0, len(name) + 3)

    def _extend(self, first: int, last: int) -> None:
        line, column = self.getpos()
        place = self._lines.offset(line - 1) + column
        if self._start < 0:
            self._start = place + first
        self._end = place + last

    def end_block(self) -> None:
        """End the block that is being read, if there is one."""
        if self._start >= 0:
            kind: BlockKind = "paragraph"
            level, own = 0, ""
            for tag in reversed(self._open):
                if HEADING.fullmatch(tag):
                    kind, level = "heading", SUMMARY_LEVEL if tag == "summary" else int(tag[1])
                    break
                if tag in KINDS:
                    kind, own = KINDS[tag], tag
                    break
            if kind in ("paragraph", "item") and not self._words:
                kind = "links" if self._links else "badge"
            self._append(Block(self._start, self._end, kind, level), own)
        self._start = self._end = -1
        self._words = self._links = 0

    def _append(self, block: Block, element: str) -> None:
        """Add a block. A term that has a definition introduces it."""
        if element == "dt":
            self._terms = [*(self._terms if self._last == "dt" else ()), block][-MAX_TERMS:]
        elif element == "dd" and self._terms and self._last in ("dt", "dd"):
            if self._last == "dt":
                self.blocks[-len(self._terms) :] = [replace(term, kind="term") for term in self._terms]
            terms = (TAG.sub("", self._text[term.start : term.end])[:MAX_TERM_CHARS] for term in self._terms)
            block = replace(block, introduced_by=", ".join(" ".join(term.split()) for term in terms))
        self._last = element
        self.blocks.append(block)
