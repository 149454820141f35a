"""Lines of a search history and references to them: `#1 OR #2`, `S1 AND S2`, `or/1-5`.

Platforms number the lines of a history as `1.`, `1`, `#1` or `S1`. PubMed's history page shows the last line first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from outrider.boolean.diagnostics import BooleanSyntaxError, Findings
from outrider.boolean.grammar import MAX_TERMS
from outrider.boolean.occurrences import QUOTES
from outrider.state.boolean import And, Node, Or, Span

_MARK = r"(?:[.):]|\t)"
_FIRST = re.compile(r"\s*+[#Ss]?1(?:\s*[.):]|\s)\s*(?!(?:and|or|not|adj\d*)\b)\S", re.IGNORECASE)
_NUMBERED = re.compile(rf"\s*[#Ss]?(?P<number>\d+)\s*(?:{_MARK}\s*|\s+|(?=[^\w\s/,-]))")
_LAST_FIRST = re.compile(r"\s*+[#Ss]?(\d{1,3})(?:\s*[.):]\s*|\s+)(?=\S)")
_HITS = re.compile(r"(?<=[\s./)\]])\(\s*\d[\d,]*\s*\)\s*$|\t[^\S\t]*\d[\d,]*\s*$")
_NUMBER_ALONE = re.compile(r"\s*[#Ss]?\d{1,3}\s*(?P<mark>[.):])?\s*")
_BARE_FIRST = re.compile(r"\s*[#Ss]?1[^\S\n]*\n\s*[^\d\s]")
_SETS = re.compile(r"\b(?:and|or)\s*/\s*\d|\d\s*/\s*(?:and|or)\b|^\s*limit\s+\d", re.IGNORECASE)
_BESIDE_OPERATOR = re.compile(r"^\s*(?:and|or|not|adj\d*)\b|\b(?:and|or|not|adj\d*)\s*$", re.IGNORECASE)
_BEGINS_WITH_OPERATOR = re.compile(r"\s*(?P<operator>and|or|not)\b", re.IGNORECASE)
_SEARCH = re.compile(r"\s*Search:?\s+")
"""PubMed's history pages begin each line with it."""
_QUOTED = re.compile(f"[{QUOTES}][^{QUOTES}\n]*[{QUOTES}]")
REFERENCE = re.compile(r"(?<![\w#&\[\"“”'.])#\d{1,4}(?![\w#-])")
"""A reference to a line by its number, outside words."""
ONLY_REFERENCES = re.compile(r"(?:[\s()]|#?\d{1,4}(?!\w)|\b(?:and|or|not)\b)+", re.IGNORECASE)

_COMBINED = re.compile(r"[\s(]*\d{1,3}[\s)]+(?:and|or|not)\b(?:[\s()]|\d{1,3}(?!\w)|\b(?:and|or|not)\b)*", re.IGNORECASE)
"""A line such as `1 AND 2` below others."""


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One line. `text` is without its number and count of hits; `start` is its offset in the query, so that offsets are kept."""

    number: int
    text: str
    start: int
    tree: Node | None = None


@dataclass(slots=True)
class History:
    """The lines that were parsed so far, and those that others refer to."""

    text: str
    findings: Findings
    lines: dict[int, HistoryLine] = field(default_factory=dict)
    is_numbered: bool = False
    """Whether the query has a history at all, and not just one line."""
    _used: set[int] = field(default_factory=set)

    def parse(self, lines: list[HistoryLine], parse_line: Callable[[HistoryLine], Node]) -> tuple[Node, list[HistoryLine]]:
        """The tree of the last line, and every line with its tree."""
        self.is_numbered = len(lines) > 1
        for line in lines:
            self.lines[line.number] = replace(line, tree=parse_line(line))
        for line in lines[:-1]:
            if line.number not in self._used:
                self.findings.add("unused line", f"line {line.number} is not used by any other", line.start)
        parsed = list(self.lines.values())
        last = parsed[-1].tree
        assert last is not None  # noqa: S101 - every line was just parsed
        return last, parsed

    def look_up(self, number: int, at: int) -> Node:
        """The tree of an earlier line. Raises `BooleanSyntaxError` if there is none."""
        line = self.lines.get(number)
        if line is None or line.tree is None:
            hint = "" if self.is_numbered else ": this query has one line; write the lines of the history above it, one below the other"
            raise BooleanSyntaxError(f"there is no line {number} before this one{hint}", self.text, at, ["the number of an earlier line"])
        self._used.add(number)
        return line.tree

    def join(self, sets: str, operator: str, at: Span) -> Node:
        """`1-5,7` of `or/1-5,7`: the lines, joined."""
        numbers: list[int] = []
        for part in re.sub(r"[#Ss\s]", "", sets).split(","):
            first, _, last = part.partition("-")
            if last and int(first) in self.lines and int(last) not in self.lines:
                before = max(self.lines)
                problem = f"the range ends at line {last}, and the last line before this one is {before}"
                raise BooleanSyntaxError(problem, self.text, at.start, [f"{operator.lower()}/{first}-{before}"])
            numbers += range(int(first), int(last or first) + 1)[:MAX_TERMS]
        if not numbers:
            raise BooleanSyntaxError("a range of lines starts after its end", self.text, at.start)
        nodes = [self.look_up(number, at.start) for number in numbers]
        joint = And if operator.lower() == "and" else Or
        return nodes[0] if len(nodes) == 1 else joint(tuple(nodes), at)


def split_ovid_lines(text: str) -> list[HistoryLine]:
    """Every line that is not empty. Written numbers count if the first line has number 1; else lines are counted."""
    lines = _find_lines(text)
    numbered = _find_numbered(lines)
    if numbered:
        return _make_lines(numbered, counted=True)
    if len(lines) > 1 and _is_wrapped([line for _, line in lines]):
        return [HistoryLine(1, text.strip(), len(text) - len(text.lstrip()))]
    return _make_lines(lines)


def _is_wrapped(lines: list[str]) -> bool:
    """Whether the lines are one query that was broken: one ends inside a parenthesis or beside an operator, and none refers to another."""
    if any(ONLY_REFERENCES.fullmatch(line) or _SETS.search(line) for line in lines):
        return False
    return any(line.count("(") != line.count(")") or _BESIDE_OPERATOR.search(line) for line in lines)


def split_lines(text: str) -> list[HistoryLine]:
    """The lines of a history; the whole query as one line, unless its lines are numbered or refer to others by `#1` or `1 AND 2`."""
    lines = _find_lines(text)
    numbered = _find_numbered(lines) or _find_reversed(lines) if len(lines) > 1 else []
    if len(numbered) > 1:
        return _make_lines(numbered, counted=True)
    if len(lines) > 1 and (REFERENCE.search(_QUOTED.sub(" ", text)) or any(_COMBINED.fullmatch(line) for _, line in lines[1:])):
        for start, line in lines[1:]:
            if match := _BEGINS_WITH_OPERATOR.match(line):
                problem = "this may be a line of a history or continue the one above; number the lines"
                raise BooleanSyntaxError(problem, text, start + match.start("operator"))
        return _make_lines(lines)
    return [HistoryLine(1, text.rstrip(), 0)]


def _make_lines(parts: list[tuple[int, str]], *, counted: bool = False) -> list[HistoryLine]:
    """Numbered from 1; `counted` removes counts of hits at their ends."""
    texts = [(start, _HITS.sub("", part) if counted else part) for start, part in parts]
    prefixes = [_SEARCH.match(part) for _, part in texts] if counted else []
    if prefixes and all(prefixes):
        texts = [(start + match.end(), part[match.end() :]) for (start, part), match in zip(texts, prefixes, strict=True) if match]
    return [HistoryLine(number, part.strip(), start + len(part) - len(part.lstrip())) for number, (start, part) in enumerate(texts, 1)]


def _find_lines(text: str) -> list[tuple[int, str]]:
    """The lines that are not empty. A number on a line of its own joins the line below, whose number it is."""
    lines: list[tuple[int, str]] = []
    is_bare = _BARE_FIRST.match(text) is not None
    for match in re.finditer(r"[^\n]+", text):
        start, line = match.start(), match.group()
        if not line.strip():
            continue
        if lines and (number := _NUMBER_ALONE.fullmatch(lines[-1][1])) and (number["mark"] or is_bare):
            before, part = lines[-1]
            lines[-1] = (before, f"{part.rstrip()}{' ' * (start - before - len(part.rstrip()))}{line}")
        else:
            lines.append((start, line))
    return lines


def _find_numbered(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Each numbered line behind its number, with its continuations. A line without the next number continues the one before."""
    if not lines or not _FIRST.match(lines[0][1]):
        return []
    joined: list[tuple[int, str, int]] = []
    for start, line in lines:
        number = _NUMBERED.match(line)
        if number and number["number"] == str(len(joined) + 1):
            joined.append((start + number.end(), line[number.end() :], start + len(line)))
        else:
            first, part, end = joined[-1]
            joined[-1] = (first, part + "\n" + " " * (start - end - 1) + line, start + len(line))
    is_whole = len(joined) > 1 or len(joined) == len(lines)
    return [(start, part) for start, part, _ in joined] if is_whole else []


def _find_reversed(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The lines of a history that shows its last line first, in the order of their numbers."""
    matches = [_LAST_FIRST.match(line) for _, line in lines]
    numbers = [int(match.group(1)) if match else 0 for match in matches]
    if numbers != list(range(len(lines), 0, -1)):
        return []
    parts = [(start + match.end(), line[match.end() :]) for (start, line), match in zip(lines, matches, strict=True) if match]
    return parts[::-1]
