"""Blocks: what a text consists of before it is divided into sentences."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

BlockKind = Literal["paragraph", "item", "row", "code", "heading", "caption", "term", "badge", "links", "furniture"]
"""`term` introduces its definition; `badge` and `links` hold images or links alone; `furniture`
is what frames a text: running heads, authors, references."""
LINE_BREAK = re.compile(r"\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")

MAX_TERMS, MAX_TERM_CHARS = 3, 200
"""Terms that share a definition, and the length of each."""
SENTENCE_WORDS = 5
NOTE_LINK = re.compile(r"!?\[\[([^\[\]\n]{1,300})\]\]|\[[^\[\]\n]{0,300}@\w[^\[\]\n]{0,300}\]")
"""A link between notes (`[[Wax trade]]`), or a citation with its place (`[@rybina2001, p. 12]`), as Obsidian and Pandoc write them."""
NO_WORDS = re.compile(r"\W*|-?@\w\S*|#\w[\w/-]*|\^[\w-]+")
"""A mark, the key of a citation, a tag, the name of a block: no word of a sentence."""


@dataclass(frozen=True, slots=True)
class Block:
    """`text[start:end]`, a half-open range of characters."""

    start: int
    end: int
    kind: BlockKind = "paragraph"
    level: int = 0
    """Level of a heading; 1 is the highest."""
    introduced_by: str = ""
    """What names the block in the text: the term of a definition, the header of a table, a field's name."""

    def shift(self, by: int) -> Block:
        return replace(self, start=self.start + by, end=self.end + by)


def trim_block(text: str, block: Block) -> Block:
    """The block without white space around it; empty (`start == end`) if it holds nothing else."""
    own = text[block.start : block.end]
    start = block.start + len(own) - len(own.lstrip())
    return replace(block, start=start, end=max(start, block.start + len(own.rstrip())))


def in_order(text: str, blocks: list[Block]) -> list[Block]:
    """The blocks without white space around them, in order of their places, without empty ones and overlaps; of two that overlap the
    later one is cut.
    """
    trimmed = sorted((trim_block(text, block) for block in blocks), key=lambda block: (block.start, block.end))
    result: list[Block] = []
    for block in trimmed:
        begin = result[-1].end if result else 0
        rest = block if block.start >= begin else trim_block(text, replace(block, start=min(begin, block.end)))
        if rest.start < rest.end:
            result.append(rest)
    return result


def is_sentence(link: str) -> bool:
    """Whether the text of a link says something by itself: "Read the documentation of all settings" does, "Documentation" does not."""
    return len(link.split()) >= SENTENCE_WORDS


def holds_links_alone(line: str) -> bool:
    """Whether a line or sentence is made of links between notes, citations and tags, none of which is a sentence."""
    if not re.search(r"\w", line) or any(is_sentence(match[1] or "") for match in NOTE_LINK.finditer(line)):
        return False
    return all(NO_WORDS.fullmatch(part) for part in NOTE_LINK.sub(" ", line).split())


class Lines:
    """Offsets of the lines of a text, with line breaks as `pattern` finds them."""

    def __init__(self, text: str, pattern: re.Pattern[str] = LINE_BREAK) -> None:
        self._starts = [0, *(match.end() for match in pattern.finditer(text))]
        self._end = len(text)

    def offset(self, line: int) -> int:
        """Where a line begins, counted from 0; the end of the text for one after the last."""
        return self._starts[line] if 0 <= line < len(self._starts) else self._end

    def spans(self) -> list[tuple[int, int]]:
        return list(pairwise([*self._starts, self._end]))
