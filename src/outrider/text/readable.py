"""Text for reading: Markdown, reStructuredText and HTML without their marks.

The terminal and the page show sentences through this module. The distiller compares words, loses offsets and keeps less:
`distiller/structure/inline_markup.py`.
"""

from __future__ import annotations

import html
import re
from typing import NamedTuple

LINK = re.compile(r"!?\[([^\[\]]+)\]\(https?://[^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)|`([^`<>]+?)\s*<https?://[^<>`\s]+>`__?")
"""A link of Markdown or reStructuredText: its address is left out where a sentence is shown."""
TAG = re.compile(
    r"(?<!`)</?(?:abbr|a|b|code|dfn|em|i|kbd|mark|small|span|strong|sub|sup|u)(?:\s+[\w-]+=[^<>]*)?\s*/?>|<br\s*/?>", re.IGNORECASE
)
"""A tag of HTML within a sentence, which is left out as well."""
CODE = re.compile(r"(``?)(?!`)(.+?)(?<!`)\1(?!`)_{0,2}|:([a-zA-Z][\w:+-]*):`([^`\n]+)`", re.DOTALL)
"""Code within a sentence, and a role of reStructuredText."""
IMAGE = re.compile(r"!\[[^\]\n]*\](?:\([^)\n]*\)|\[[^\]\n]*\])|<img\b[^<>]*>", re.IGNORECASE)
OWN_LINK = re.compile(
    r"\[([^\[\]\n]*)\](?:\((?:https?://|mailto:|[./#?]|[\w./-]+\.(?:md|rst|html?|txt|py|ipynb|png|svg)\b)[^)\n]*\)|\[[^\]\n]*\])"
)
"""Besides `LINK`: addresses within a repository, titles, references."""
BLOCK_TAG = re.compile(
    r"<!--.*?-->|</?(?:center|dd|details|div|dl|dt|h[1-6]|hr|li|ol|p|picture|pre|source|summary|table|tbody|td|th|thead|tr|ul)"
    r"(?:\s+[\w-]+=[^<>]*)?\s*/?>",
    re.IGNORECASE | re.DOTALL,
)
EMPHASIS = re.compile(r"\*\*|(?<!\w)__(?=\w)|(?<=[\w.!?])__(?!\w)|(?<!\w)\*(?=\w)|(?<=[\w.!?)])\*(?!\w)|^\s*(?:#{1,6}|>)\s+|^\s*[-*+]\s+")
ESCAPE = re.compile(r"\\([\\`*_{}\[\]()#+.!|<>~-])")
RST_ESCAPE = re.compile(r"\\ |(?<!`)``(?!`)")
"""An escaped blank of reStructuredText, which joins a word to markup, and marks of code whose partner is in another sentence."""
TEX_QUOTE = re.compile(r"(?<!`)``([^`']+)''")
ROLE_TARGET = re.compile(r"^~(?:.*\.)?|^!|\s*<[^<>]*>$")
"""Of a role's text: the path of a name that is shown by its end, and the target of a link."""
CELL_END = re.compile(r"(?<!\\)\|")
AUTOLINK = re.compile(r"<(https?://[^<>\s]+)>")


class Run(NamedTuple):
    """A piece of a sentence, in one style."""

    text: str
    is_code: bool = False


def hide_markup(sentence: str) -> str:
    """A sentence without the addresses of its links and without tags within it; its words and marks of code stay."""
    return TAG.sub(lambda tag: " " if tag[0].lower().startswith("<br") else "", LINK.sub(r"\g<1>\g<2>", sentence))


def split_inline(text: str) -> tuple[Run, ...]:
    """The text on one line, in plain pieces and pieces of code: of links the words, of images, tags and emphasis nothing."""
    text = LINK.sub(r"\g<1>\g<2>", IMAGE.sub("", text) if "![" in text or "<" in text else text)
    if "``" in text and "''" in text:
        text = TEX_QUOTE.sub(r"“\1”", text)
    runs: list[Run] = []
    at = 0
    for match in CODE.finditer(text) if "`" in text else ():
        runs += _plain(text[at : match.start()])
        runs.append(_read_role(match[3], match[4]) if match[3] else Run(" ".join(match[2].split()), is_code=True))
        at = match.end()
    return tuple(run for run in (*runs, *_plain(text[at:])) if run.text)


def _read_role(role: str, text: str) -> Run:
    name = " ".join(ROLE_TARGET.sub("", text).split())
    return Run(f"{role.upper()} {name}") if role.lower() in ("rfc", "pep") else Run(name, is_code=True)


def read_plainly(text: str) -> str:
    """The text of `split_inline` in one piece, for titles and summaries."""
    return "".join(run.text for run in split_inline(text)).strip()


def name_cells(header: str, row: str) -> str:
    """`year 1391 · price 22` for a row below the header of its table; the cells alone where the header has not as many."""
    lines = (line.strip() for line in (header, row))
    inner = (line[1:].removesuffix("|") if line.startswith("|") else line for line in lines)
    names, cells = ([cell.strip() for cell in CELL_END.split(line)] for line in inner)
    if len(names) != len(cells):
        names = [""] * len(cells)
    return " · ".join(f"{name} {cell}".strip() for name, cell in zip(names, cells, strict=True) if cell)


def _plain(text: str) -> list[Run]:
    """White space at the ends stays as one blank: the next piece may follow after it."""
    if "[" in text:
        text = OWN_LINK.sub(r"\1", text)
    if "<" in text:
        text = AUTOLINK.sub(r"\1", BLOCK_TAG.sub(" ", hide_markup(text)))
    if "``" in text or "\\ " in text:
        text = RST_ESCAPE.sub("", text)
    text = ESCAPE.sub(r"\1", EMPHASIS.sub("", text))
    if "&" in text:
        text = html.unescape(text)
    return [Run(re.sub(r"\s+", " ", text))]
