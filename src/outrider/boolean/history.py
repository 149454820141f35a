"""Lines of a search history and references to them: `#1 OR #2`, `or/1-5`, `1a and A`.

Platforms number the lines of a history as `1.`, `1`, `(1)`, `#1` or `S1`; published ones have labels, too: `1a`, `A.`, `P1`, `2.1`.
PubMed's history page shows the last line first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from outrider.boolean.diagnostics import BooleanSyntaxError, Findings
from outrider.boolean.grammar import MAX_TERMS, Lexeme
from outrider.boolean.line_ends import DASHES, LABEL, SETS, cut_counts, cut_stop, is_combination
from outrider.boolean.occurrences import QUOTES
from outrider.state.boolean import And, Node, Or, Span

_MARK = r"(?:[.):]|[-–—](?=\s)|\t)"
_FIRST = re.compile(r"\s*+[#Ss(]?1(?:\s*(?:[.):]|[-–—](?=\s))|\s)\s*(?!(?:and|or|not|adj\d*)\b)\S", re.IGNORECASE)
_NUMBERED = re.compile(rf"\s*[#Ss(]?(?P<number>\d+)\s*(?:{_MARK}\s*|\s+|(?=[^\w\s/,-]))")
_LAST_FIRST = re.compile(r"\s*+[#Ss]?(\d{1,3})(?:\s*[.):]\s*|\s+)(?=\S)")
ROW_MARK = "\ue000"
"""Behind the number of a row whose columns were blanked; a character of nobody's query, shown as a blank."""
_MARKED_NUMBER = re.compile(rf"\s*+(?:#(?P<hash>\d{{1,4}})\s++|(?P<row>\d{{1,4}}){ROW_MARK}\s*+)(?!(?:and|or|not)\b)(?=\S)", re.IGNORECASE)
_HITS_BEHIND_TERM = re.compile(r"(?<=[./])\s+\(\s*\d[\d,]*\s*\)\s*$")
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
_COMBINED = re.compile(r"[\s(]*\d{1,3}[\s)]+(?:and|or|not)\b(?:[\s()]|\d{1,3}(?!\w)|\b(?:and|or|not)\b)*[.;,]?\s*", re.IGNORECASE)
"""A line such as `1 AND 2` below others."""

_LABELLED = re.compile(rf"[^\S\n]*(?P<label>{LABEL})(?:[.):](?=\s|$)|(?=\s|$))[^\S\n]*")
_FINAL = re.compile(r"[^\S\n]*(?:(?P<label>[A-Za-z][A-Za-z ]{2,40}?):[^\S\n]*)?")
"""A last line such as `Final search: A or B`."""
_TITLE = re.compile(r"\s*[A-Z][\w ,/-]*:\s[\w ,/-]+")
"""A title above the query that it names, such as `Target condition: sciatica`."""
_SECTION = re.compile(r"[A-Z][a-z]+(?: [a-z]+)*(?: \([a-z ]+\)|:)\s*")
"""A title between two lines, such as `Searches (combinations)`."""
_ENDS_TERM = re.compile(r"[])*./\"”]\s*\Z")
_SUBLABEL = re.compile(r"\d{1,3}[a-z]", re.IGNORECASE)
_ENDS_OPEN = re.compile(r"\b(?:and|or|not|adj\d*)\s*$", re.IGNORECASE)
_S_NUMBER = re.compile(r"(?:^|\s)[Ss]\d{1,4}\W*\Z")
_S_REFERENCE = re.compile(r"[Ss]\d{1,4}")
_NUMBERS_AND_SIGNS = re.compile(rf"(?:[#Ss]?\d{{1,4}}(?!\w)|[^\w{QUOTES}])+")
_COMMENT_LINE = re.compile(r"^[^\S\n]*(?P<sign>#(?!\s*\w?\d)|//|/\*)|(?<=\s)(?P<inside>/\*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One line. `text` is without its number and count of hits; `start` is its offset in the query, so that offsets are kept."""

    number: int
    text: str
    start: int
    tree: Node | None = None
    label: str = ""
    """What other lines call it, if that is not its number."""
    titles: tuple[int, ...] = ()
    """Offsets of titles above and below its query."""
    count_at: int = -1
    """Offset of a count of hits that stood behind a mere blank."""


@dataclass(slots=True)
class History:
    """The lines that were parsed so far, and those that others refer to."""

    text: str
    findings: Findings
    lines: dict[int, HistoryLine] = field(default_factory=dict)
    is_numbered: bool = False
    """Whether the query has a history at all, and not just one line."""
    labels: dict[str, int] = field(default_factory=dict)
    """The number of each line by its label, in lower case; empty if lines are called by their numbers."""
    has_s_numbers: bool = False
    """Whether the lines are numbered as `S1`, and may be referred to so."""
    _used: set[int] = field(default_factory=set)

    def parse(self, lines: list[HistoryLine], parse_line: Callable[[HistoryLine], Node]) -> tuple[Node, list[HistoryLine]]:
        """The tree of the last line, and every line with its tree."""
        self.is_numbered = len(lines) > 1
        self.labels = {line.label.lower(): line.number for line in lines if line.label}
        self.has_s_numbers = self.is_numbered and all(_S_NUMBER.search(self.text, max(0, line.start - 40), line.start) for line in lines)
        for line in lines:
            if line.count_at >= 0:
                self.findings.add("unsupported", "a number at the end of a line is read as its count of hits, and left out", line.count_at)
            for at in line.titles:
                self.findings.add("unsupported", f"“{self.text[at:].splitlines()[0].strip()}” is read as a title, and left out", at)
            self.lines[line.number] = replace(line, tree=parse_line(line))
        for line in lines[:-1]:
            if line.number not in self._used:
                self.findings.add("unused line", f"line {line.label or line.number} is not used by any other", line.start)
        parsed = list(self.lines.values())
        last = parsed[-1].tree
        assert last is not None  # noqa: S101 - every line was just parsed
        return last, parsed

    def number(self, label: str) -> int:
        """The number of the line of this label; 0 if there is none."""
        if self.labels:
            return self.labels.get(label.lower(), 0)
        digits = label.lstrip("#Ss")
        return int(digits) if digits.isdecimal() else 0

    def is_label(self, line: HistoryLine, start: int, end: int) -> bool:
        """Whether the word from `start` to `end` is a label between operators and parentheses, and not a word of a term."""
        word = self.text[start:end]
        is_known = self.labels and (word.lower() in self.labels or _SUBLABEL.fullmatch(word))
        if not is_known and not (self.has_s_numbers and _S_REFERENCE.fullmatch(word)):
            return False
        before, after = self.text[line.start : start].rstrip(), self.text[end : line.start + len(line.text)].lstrip()
        return (not before or before[-1] == "(" or _ENDS_OPEN.search(before) is not None) and (
            not after or after[0] == ")" or _BEGINS_WITH_OPERATOR.match(after) is not None
        )

    def look_up(self, label: str, at: int) -> Node:
        """The tree of an earlier line. Raises `BooleanSyntaxError` if there is none."""
        number = self.number(label)
        line = self.lines.get(number)
        if line is None or line.tree is None:
            hint = "" if self.is_numbered else ": this query has one line; write the lines of the history above it, one below the other"
            raise BooleanSyntaxError(f"there is no line {label} before this one{hint}", self.text, at, ["the number of an earlier line"])
        self._used.add(number)
        return line.tree

    def refuse_unclear_numbers(self, lexemes: Sequence[Lexeme]) -> None:
        """Raise `BooleanSyntaxError` for a term that has no field and is the number of a line above: it may mean the line."""
        kinds = ["", *(lexeme.kind for lexeme in lexemes), ""]
        with_field: set[int] = set()
        opened: list[int] = []
        for place, kind in enumerate(kinds):
            if kind == "LPAR":
                opened.append(place)
            elif kind == "RPAR" and opened:
                first = opened.pop()
                if kinds[first - 1] == "PREFIX" or kinds[place + 1] == "FIELD":
                    with_field.update(range(first, place))
        for place, lexeme in enumerate(lexemes, 1):
            word = self.text[lexeme.start : lexeme.end]
            if lexeme.kind != "TEXT" or place in with_field or not _NUMBERS_AND_SIGNS.fullmatch(word):
                continue
            if kinds[place - 1] in ("PREFIX", "COLON", "ADJ") or kinds[place + 1] in ("FIELD", "COLON", "ADJ"):
                continue
            if any(self.number(digits) in self.lines for digits in re.findall(r"\d+", word)):
                problem = f"“{word}” may be the number of a line or a word: write lines as #1, joined by AND, OR or NOT, or quote it"
                raise BooleanSyntaxError(problem, self.text, lexeme.start)

    def join(self, sets: str, operator: str, at: Span) -> Node:
        """`1-5,7` of `or/1-5,7`: the lines, joined."""
        numbers: list[int] = []
        for part in re.sub(r"\s" if self.labels else r"[#Ss\s]", "", re.sub(f"[{DASHES}]", "-", sets)).split(","):
            first, _, last = part.partition("-")
            if self.number(first) not in self.lines:
                self.look_up(first, at.start)  # raises
            if last and self.number(last) not in self.lines:
                before = self.lines[max(self.lines)].label or max(self.lines)
                problem = f"the range ends at line {last}, and the last line before this one is {before}"
                raise BooleanSyntaxError(problem, self.text, at.start, [f"{operator.lower()}/{first}-{before}"])
            numbers += range(self.number(first), self.number(last or first) + 1)[:MAX_TERMS]
        if not numbers:
            raise BooleanSyntaxError("a range of lines starts after its end", self.text, at.start)
        nodes = [self.look_up(self.lines[number].label or str(number), at.start) for number in numbers]
        joint = And if operator.lower() == "and" else Or
        return nodes[0] if len(nodes) == 1 else joint(tuple(nodes), at)


def split_ovid_lines(text: str) -> list[HistoryLine]:
    """Every line that is not empty. Written numbers count if the first line has number 1; else lines are counted."""
    lines = _find_lines(text)
    if labelled := find_labelled(text):
        return labelled
    numbered = _find_numbered(lines)
    if numbered:
        return _make_lines(numbered, text)
    # one query that was broken: a line ends inside a parenthesis or beside an operator, and none refers to another
    if (
        len(lines) > 1
        and any(line.count("(") != line.count(")") or _BESIDE_OPERATOR.search(line) for _, line in lines)
        and not any(is_combination(cut_stop(line)) or _SETS.search(line) for _, line in lines)
    ):
        return [HistoryLine(1, text.strip(), len(text) - len(text.lstrip()))]
    return _make_lines([(start, _HITS_BEHIND_TERM.sub("", line)) for start, line in lines])


def split_lines(text: str) -> list[HistoryLine]:
    """The lines of a history; the whole query as one line, unless its lines are numbered or refer to others by `#1` or `1 AND 2`."""
    if labelled := find_labelled(text):
        return labelled
    lines = _find_lines(text)
    numbered = _find_numbered(lines) or _find_reversed(lines) if len(lines) > 1 else []
    if len(numbered) > 1:
        return _make_lines(numbered, text)
    if (len(lines) > 1 or ROW_MARK in text) and (gapped := _find_gapped(lines, text)):
        return gapped
    if len(lines) > 1 and (REFERENCE.search(_QUOTED.sub(" ", text)) or any(_COMBINED.fullmatch(line) for _, line in lines[1:])):
        for start, line in lines[1:]:
            if match := _BEGINS_WITH_OPERATOR.match(line):
                problem = "this may be a line of a history or continue the one above; number the lines"
                raise BooleanSyntaxError(problem, text, start + match.start("operator"))
        return _make_lines(lines)
    return [HistoryLine(1, text.rstrip(), 0)]


@dataclass(slots=True)
class _Part:
    """A labelled line from `first` to `last`; `titles` are the offsets of titles above and below its query."""

    label: str
    first: int
    last: int
    titles: tuple[int, ...] = ()
    depth: int = 0
    last_line: str = ""

    def add_line(self, line: str, end: int) -> None:
        """Kept line by line, since a count over the whole part for each line would be quadratic."""
        self.depth += line.count("(") - line.count(")")
        self.last_line, self.last = line, end

    def is_unfinished(self) -> bool:
        return self.depth > 0 or not self.last_line.strip() or _ENDS_OPEN.search(self.last_line) is not None


def find_labelled(text: str) -> list[HistoryLine]:
    """The lines of a history whose labels are more than numbers, such as `1a`, `A.` or `P1`; none if it has no such labels.

    Some line must be nothing but a combination of such labels. Raises `BooleanSyntaxError` for a line that neither has a label nor
    continues the one above.
    """
    lines = [(match.start(), match.group()) for match in re.finditer(r"[^\n]+", text) if match.group().strip()]
    candidates = {match["label"].lower() for _, line in lines if (match := _LABELLED.match(line))}
    labels = {label for label in candidates if not label.lstrip("s").isdecimal()}
    if not labels or not _LABELLED.match(lines[0][1]):
        return []
    names = "|".join(map(re.escape, sorted(candidates, key=len, reverse=True)))
    one = rf"[\s(]*(?:{names}|{_SUBLABEL.pattern})(?!\w|\.\w)[\s)]*"
    combination = re.compile(rf"(?:{one}(?:(?:and|or|not)\b{one})+|\s*(?:and|or)\s*/\s*{SETS}\s*)[.;,]?\s*", re.IGNORECASE)
    parts: list[_Part] = []
    stray: list[tuple[int, str]] = []
    for start, line in lines:
        part = parts[-1] if parts else _Part("", 0, 0)
        match = None if parts and part.is_unfinished() else _match_label(line, combination)
        if match:
            parts.append(_Part(match["label"] or "", start + match.end(), start + match.end()))
            parts[-1].add_line(line[match.end() :], start + len(line))
        elif not parts:
            return []
        else:
            is_stray = _continue_part(part, text, start, line)
            if is_stray:
                stray.append((start + len(line) - len(line.lstrip()), part.label))
    bodies = [text[part.first : part.last] for part in parts]
    words = (set(re.split(rf"[^\w.]+|[{DASHES}]", body.lower())) for body in bodies if combination.fullmatch(body))
    if all(labels.isdisjoint(names_used) for names_used in words):
        return []
    if stray:
        at, label = stray[0]
        problem = f"this line has no label and does not continue line {label}; give it one, join it to the line above, or delete a title"
        raise BooleanSyntaxError(problem, text, at, ["a label such as 1a"])
    return _make_labelled(text, parts, combination)


def _match_label(line: str, combination: re.Pattern[str]) -> re.Match[str] | None:
    """The label of a line; an empty one before a combination that has none."""
    match = _LABELLED.match(line)
    if match and (combination.fullmatch(line, match.end()) or not _BEGINS_WITH_OPERATOR.match(line, match.end())):
        return match
    final = _FINAL.match(line)
    return final if final and combination.fullmatch(line, final.end()) else None


def _continue_part(part: _Part, text: str, start: int, line: str) -> bool:
    """Add a line without a label to the part above it; whether it does not belong there."""
    if _TITLE.fullmatch(text, part.first, part.last):
        part.titles, part.first = (part.first,), start
    elif _ENDS_TERM.search(part.last_line) and _SECTION.fullmatch(line):
        part.titles = (*part.titles, start)
        return False
    elif not part.is_unfinished() and not _BEGINS_WITH_OPERATOR.match(line):
        return True
    part.add_line(line, start + len(line))
    return False


def _make_labelled(text: str, parts: list[_Part], combination: re.Pattern[str]) -> list[HistoryLine]:
    """Raises `BooleanSyntaxError` for a label that two lines have, since a reference to it has two meanings."""
    made: list[HistoryLine] = []
    for number, part in enumerate(parts, 1):
        if part.label and any(line.label.lower() == part.label.lower() for line in made):
            raise BooleanSyntaxError(f"two lines have the label {part.label}; rename one, and the references to it", text, part.first)
        [(_, inside, _)] = cut_counts([(part.first, text[part.first : part.last])], text)
        inside = inside.rstrip(" \t.;,") if combination.fullmatch(inside) else cut_stop(inside)
        start = part.first + len(inside) - len(inside.lstrip())
        made.append(HistoryLine(number, inside.strip(), start, label=part.label, titles=part.titles))
    return made


def refuse_comments(text: str) -> None:
    """Raise `BooleanSyntaxError` for a comment in the style of a program, whose words would be searched."""
    if match := _COMMENT_LINE.search(text):
        place = match.start("sign") if match["sign"] else match.start("inside")
        raise BooleanSyntaxError("comments are not read in this form; delete it", text, place)


def _make_lines(parts: list[tuple[int, str]], text: str = "") -> list[HistoryLine]:
    """Numbered from 1. Lines of a numbered history lose their counts of hits, which needs its `text`."""
    texts = cut_counts(parts, text) if text else [(start, part, -1) for start, part in parts]
    prefixes = [_SEARCH.match(part) for _, part, _ in texts] if text else []
    if prefixes and all(prefixes):
        texts = [(start + match.end(), part[match.end() :], at) for (start, part, at), match in zip(texts, prefixes, strict=True) if match]
    return [
        HistoryLine(number, cut_stop(part).strip(), start + len(part) - len(part.lstrip()), count_at=at)
        for number, (start, part, at) in enumerate(texts, 1)
    ]


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


def _find_gapped(lines: list[tuple[int, str]], text: str) -> list[HistoryLine]:
    """The lines of a history with numbers such as `#7`, `#4`, `#3`, some of which were deleted, in the order of their numbers."""
    matches = [_MARKED_NUMBER.match(line) for _, line in lines]
    numbers = [int(match["hash"] or match["row"]) if match else 0 for match in matches]
    ascending = sorted(set(numbers))
    if 0 in numbers or (numbers != ascending and numbers[::-1] != ascending):
        return []
    parts = [(start + match.end(), line[match.end() :]) for (start, line), match in zip(lines, matches, strict=True) if match]
    order = sorted(range(len(parts)), key=numbers.__getitem__)
    return [replace(line, number=numbers[place]) for place, line in zip(order, _make_lines([parts[i] for i in order], text), strict=True)]


def _find_reversed(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The lines of a history that shows its last line first, in the order of their numbers."""
    matches = [_LAST_FIRST.match(line) for _, line in lines]
    numbers = [int(match.group(1)) if match else 0 for match in matches]
    if numbers != list(range(len(lines), 0, -1)):
        return []
    parts = [(start + match.end(), line[match.end() :]) for (start, line), match in zip(lines, matches, strict=True) if match]
    return parts[::-1]
