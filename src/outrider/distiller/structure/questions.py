"""Questions of a list of frequent ones, which introduce their answers.

`Q.` or `Question:` before a paragraph, `A.` or `Answer:` before the next one. A question without an answer stays prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from outrider.distiller.structure.block import Block

QUESTION = re.compile(r"(?:\*\*|__)?(?:Q|Question)(?: ?\d{1,3})?[.:](?:\*\*|__)?\s+(?=\S)")
ANSWER = re.compile(r"(\*\*|__)?(?:A|Answer)(?: ?\d{1,3})?[.:](?(1)\1|)\s+(?=\S)")
ANSWER_LINE = re.compile(rf"\n[ \t>]*(?={ANSWER.pattern})")
MARK_BEFORE = re.compile(r"(?<![^\n])[QA]\.[ \t]+\Z")
"""reStructuredText reads `Q. Why?` as an item with its marker."""
MARK_CHARS = 8
MAX_QUESTION_BLOCKS = 4
"""Blocks of several questions with one answer, or of a long question."""
MAX_QUESTION_CHARS = 300


def introduce_answers(text: str, blocks: Sequence[Block]) -> list[Block]:
    """The questions as terms; their answers without mark, introduced by them."""
    result: list[Block] = []
    questions: list[int] = []
    question = ""
    """The one whose answer is being read."""
    for block in _divide(text, blocks):
        is_prose = block.kind in ("paragraph", "item")
        introduced_by = ""
        answer = ANSWER.match(text, block.start, block.end) if is_prose and questions else None
        if is_prose and QUESTION.match(text, block.start, block.end):
            questions, question = [*questions, len(result)][-MAX_QUESTION_BLOCKS:], ""
        elif answer:
            introduced_by = question = " ".join(_read_question(text, result[at]) for at in questions)[:MAX_QUESTION_CHARS]
            for at in questions:
                result[at] = replace(result[at], kind="term")
            questions = []
        elif questions:
            questions = [*questions, len(result)] if is_prose and len(questions) < MAX_QUESTION_BLOCKS else []
        elif question and block.kind == "paragraph":
            introduced_by = question
        elif block.kind != "code":
            question = ""
        start = answer.end() if answer else block.start
        result.append(replace(block, start=start, introduced_by=introduced_by) if introduced_by else block)
    return result


def _divide(text: str, blocks: Sequence[Block]) -> Iterator[Block]:
    """The blocks with their marks; one that holds a question and, on a later line, its answer as two."""
    for own in blocks:
        mark = MARK_BEFORE.search(text, max(0, own.start - MARK_CHARS), own.start) if own.kind == "item" else None
        block = replace(own, start=mark.start(), kind="paragraph") if mark else own
        is_question = block.kind in ("paragraph", "item") and QUESTION.match(text, block.start, block.end)
        if is_question and (line := ANSWER_LINE.search(text, block.start, block.end)):
            yield replace(block, end=line.start())
            yield replace(block, start=line.end())
        else:
            yield block


def _read_question(text: str, block: Block) -> str:
    mark = QUESTION.match(text, block.start, block.end)
    return " ".join(text[mark.end() if mark else block.start : block.end].strip("*_ \t\n").split())
