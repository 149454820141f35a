"""Parser of Ovid's queries: numbered lines, fields after terms, `adj`, truncation.

The last line is the query.

Syntax: Ovid's help, "Command Line Syntax and Advanced Searching Techniques" (truncation, set operators, postqualification).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

from outrider.boolean.diagnostics import BooleanSyntaxError, Findings
from outrider.boolean.field_tags import CODES, MULTI_PURPOSE, QUALIFIERS, Tag, sort_fields
from outrider.boolean.field_values import date_node
from outrider.boolean.grammar import MAX_TERMS, Lexeme, parse_tokens
from outrider.boolean.occurrences import QUOTES, split_term
from outrider.boolean.tree_builder import Builder, Tags, parse_adjacency
from outrider.state.boolean import And, Field, Heading, Node, Or, Span, Text, Words
from outrider.text.languages_and_work_types import normal_language

_COMMENT = re.compile(r"\[[^\[\]]*\]")
_FIRST = re.compile(r"\s*#?1\s*(?:[.):\t]|\s(?=\s*\S))\s*(?!(?:and|or|not|adj\d*)\b)\S", re.IGNORECASE)
_HITS = re.compile(r"(?<=[\s./)])\(\s*\d[\d,]*\s*\)\s*$")
_CODE = "|".join(sorted(CODES))
_FIELDS = rf"\.\s*(?P<codes>(?:{_CODE})(?:\s*,\s*(?:{_CODE}))*)\s*(?:\.(?!\w)|(?=[\s)]|$))"
_FIELD = re.compile(_FIELDS, re.IGNORECASE)
_WORD = re.compile(rf"(?:(?!{_FIELDS.replace('?P<codes>', '?:')})[^\s(){QUOTES}])+", re.IGNORECASE)
_QUALIFIER = "|".join(sorted(QUALIFIERS))
_HEADING = re.compile(
    rf"(?P<explode>exp(?:lode)?\s+)?(?P<major>\*\s*)?(?P<name>[{QUOTES}][^{QUOTES}]+[{QUOTES}]|"
    rf"(?!(?:and|or|not|exp)\s)[^\s()/{QUOTES}]+(?:\s+(?!(?:and|or|not|adj\d*)\s)[^\s()/{QUOTES}]+)*)\s*/"
    rf"(?P<qualifiers>(?:{_QUALIFIER})(?:\s*,\s*(?:{_QUALIFIER}))*(?!\w))?(?=[\s)]|$)",
    re.IGNORECASE,
)
_SETS = re.compile(r"(?P<operator>and|or)\s*/\s*(?P<sets>\d+(?:\s*-\s*\d+)?(?:\s*,\s*\d+(?:\s*-\s*\d+)?)*)(?!\w)", re.IGNORECASE)
_SETS_AFTER = re.compile(r"(?P<sets>\d+(?:\s*-\s*\d+)?(?:\s*,\s*\d+(?:\s*-\s*\d+)?)*)\s*/\s*(?P<operator>and|or)\b", re.IGNORECASE)
_ADJACENT = re.compile(r"adj(\d{0,4})", re.IGNORECASE)
_REFERENCE = re.compile(r"[#sS]?(\d{1,4})")
_UNKNOWN_CODE = re.compile(r"\.\w{2}(?:,\w{0,2})*[.,]$")
_OPERATORS = ("AND", "OR", "NOT")
_LIMIT = re.compile(r"limit\s+(?P<line>\d+)\s+to\s+(?P<to>.+)", re.IGNORECASE | re.DOTALL)
_LIMIT_SHORT = re.compile(r"\.\.\s*l\s*/\s*(?P<line>\d+)\s+(?P<to>.+)", re.IGNORECASE | re.DOTALL)
_DEDUPED = re.compile(r"remove duplicates from\s+(?P<line>\d+)\s*", re.IGNORECASE)
_LIMIT_DATES = re.compile(
    r"(?P<code>yr|ed|dt|da|ep|dp|ez)\s*=\s*[\"“”]?\s*(?P<start>\d{0,8})\s*(?P<dash>-)?\s*(?P<end>\d{0,8}|current)\s*[\"“”]?", re.IGNORECASE
)
_TRUNCATED = re.compile(r"(?<=[\w?#])[$*:](\d{0,2})(?!\w)|(?<=[\w?#])[$](\d{0,2})")


@dataclass(frozen=True, slots=True)
class OvidLine:
    """One numbered line. In `text` blanks replace comments, which keeps the offsets; `start` is its offset in the query."""

    number: int
    text: str
    start: int
    tree: Node | None = None


def split_lines(text: str) -> list[OvidLine]:
    """Every line that is not empty. Written numbers count if the first line has number 1; else lines are counted."""
    blank = _COMMENT.sub(lambda comment: re.sub(r"[^\n]", " ", comment.group()), text)
    lines = [(line.start(), line.group()) for line in re.finditer(r"[^\n]+", blank) if line.group().strip()]
    numbered = _join_continuations(lines) if lines and _FIRST.match(lines[0][1]) else []
    is_numbered = len(numbered) > 1 or len(numbered) == len(lines)
    parts = [(start, _HITS.sub("", blank[start:end])) for start, end in numbered] if is_numbered else lines
    return [OvidLine(number, part.strip(), start + len(part) - len(part.lstrip())) for number, (start, part) in enumerate(parts, 1)]


def _join_continuations(lines: list[tuple[int, str]]) -> list[tuple[int, int]]:
    """Start (after the number) and end of each numbered line. A line without the next number continues the one before."""
    joined: list[tuple[int, int]] = []
    for start, line in lines:
        number = re.match(rf"\s*#?{len(joined) + 1}\s*(?:[.):]\s*|\s+|(?=[^\w\s/,-]))", line)
        if number:
            joined.append((start + number.end(), start + len(line)))
        else:
            joined[-1] = (joined[-1][0], start + len(line))
    return joined


def parse_ovid(text: str, findings: Findings) -> tuple[Node, list[OvidLine]]:
    """The tree of the last line, and every line with its tree."""
    lines = split_lines(text)
    if not lines:
        raise BooleanSyntaxError("the query is empty", text, 0, ["a term"])
    parsed: dict[int, OvidLine] = {}
    used: set[int] = set()
    for line in lines:
        parsed[line.number] = replace(line, tree=_LineParser(text, findings, parsed, line, used).parse())
    for line in lines[:-1]:
        if line.number not in used:
            findings.add("unused line", f"line {line.number} is not used by any other", line.start)
    history = list(parsed.values())
    last = history[-1].tree
    assert last is not None  # noqa: S101 - every line was just parsed
    return last, history


@dataclass(slots=True)
class _LineParser:
    text: str
    findings: Findings
    parsed: dict[int, OvidLine]
    """The lines before."""
    line: OvidLine
    used: set[int] = field(default_factory=set)
    """Numbers of the lines that others refer to."""

    def parse(self) -> Node:
        line, start = self.line.text, self.line.start
        if match := _DEDUPED.fullmatch(line):
            self.findings.add("unsupported", "duplicates are not removed here: every record of a library is one work", start)
            return self._look_up(int(match["line"]), start)
        if match := _LIMIT.fullmatch(line) or _LIMIT_SHORT.fullmatch(line):
            at = Span(start + match.start("to"), start + len(line))
            whole = self._look_up(int(match["line"]), start + match.start("line"))
            limits = re.split(r"\s+and\s+", match["to"].strip().strip("()").strip(), flags=re.IGNORECASE)
            return And((whole, *(self._parse_limit(limit.strip(), at) for limit in limits)), at)
        lexemes = list(self._join_words())
        if not lexemes:
            raise BooleanSyntaxError("the line is empty", self.text, start, ["a term"])
        tree = parse_tokens(lexemes, self.text, start + len(line))
        return Builder(self.text, self.findings, (MULTI_PURPOSE,), parts_words=False).build(tree)

    def _parse_limit(self, limit: str, at: Span) -> Node:
        """The leaf of `limit ... to`. An unknown limit is an error, since leaving it out would widen the search."""
        if match := _LIMIT_DATES.fullmatch(limit):
            start, end = _format_date(match["start"]), _format_date("" if match["end"].lower() == "current" else match["end"])
            dates = f"{start or '1000'}:{end or '3000'}" if match["dash"] else start
            return date_node(dates, CODES[match["code"].lower()].kind == "entry", self.text, at)
        name = limit.lower()
        if name in ("human", "humans"):
            return Heading("humans", explode=False, at=at)
        language = name.removesuffix(" language")
        if language != name or normal_language(language):
            return Text(Words((language,), at), (Field.LANGUAGE,), at)
        raise BooleanSyntaxError(
            f"the limit “{limit}” is not supported; write it as terms", self.text, at.start, ["yr=", "ed=", "a language", "humans"]
        )

    def _look_up(self, number: int, at: int) -> Node:
        line = self.parsed.get(number)
        if line is None or line.tree is None:
            raise BooleanSyntaxError(f"there is no line {number} before this one", self.text, at, ["the number of an earlier line"])
        self.used.add(number)
        return line.tree

    def _join_lines(self, sets: re.Match[str], at: int) -> Node:
        """`or/1-5,7`: the lines, joined."""
        numbers: list[int] = []
        for part in sets["sets"].split(","):
            first, _, last = part.partition("-")
            numbers += range(int(first), int(last or first) + 1)[:MAX_TERMS]
        if not numbers:
            raise BooleanSyntaxError("a range of lines starts after its end", self.text, at)
        nodes = [self._look_up(number, at) for number in numbers]
        operator = And if sets["operator"].lower() == "and" else Or
        return nodes[0] if len(nodes) == 1 else operator(tuple(nodes), Span(at, at + len(sets.group())))

    def _parse_heading(self, match: re.Match[str], at: Span) -> Node:
        """`exp *Liver/su, tr`: one heading for each qualifier."""
        name = " ".join(split_term(convert_wildcards(match["name"])))
        if not name:
            raise BooleanSyntaxError("a heading without a letter or digit", self.text, at.start, ["a subject heading"])
        explode, major = bool(match["explode"]), bool(match["major"])
        qualifiers = [QUALIFIERS[code.strip().lower()] for code in (match["qualifiers"] or "").split(",") if code.strip()]
        nodes = [Heading(name, qualifier, explode, major, at) for qualifier in qualifiers or [""]]
        return nodes[0] if len(nodes) == 1 else Or(tuple(nodes), at)

    def _join_words(self) -> Iterator[Lexeme]:
        """The lexemes, with adjacent words as one TEXT: a phrase. A single number refers to a line, unless a field follows."""
        for is_word, group in groupby(self._scan(), key=lambda lexeme: lexeme.kind == "WORD"):
            if not is_word:
                yield from group
                continue
            first, *others = words = list(group)
            end = words[-1].end
            reference = None if others else _REFERENCE.fullmatch(first.value)
            if reference and not _FIELD.match(self.line.text[end - self.line.start :].lstrip()):
                yield Lexeme("READY", self._look_up(int(reference.group(1)), first.start), first.start, end)
                continue
            if first.value.lower() in ("exp", "explode"):
                raise BooleanSyntaxError("exp needs a subject heading that ends with a slash", self.text, end, ["“/”"])
            yield Lexeme("TEXT", " ".join(convert_wildcards(word.value) for word in words), first.start, end)

    def _scan(self) -> Iterator[Lexeme]:
        at, in_words = 0, False
        while at < len(self.line.text):
            if self.line.text[at].isspace():
                at += 1
                continue
            lexeme = self._scan_lexeme(at, in_words=in_words)
            yield lexeme
            at, in_words = lexeme.end - self.line.start, lexeme.kind == "WORD"

    def _scan_lexeme(self, at: int, *, in_words: bool) -> Lexeme:
        line, start = self.line.text, self.line.start + at
        if line[at] in "()":
            return Lexeme("LPAR" if line[at] == "(" else "RPAR", line[at], start, start + 1)
        if match := _FIELD.match(line, at):
            tags = merge_tags(CODES[code.strip().lower()] for code in match["codes"].split(","))
            return Lexeme("FIELD", tags, start, self.line.start + match.end())
        if not in_words:
            if match := _SETS.match(line, at) or _SETS_AFTER.match(line, at):
                return Lexeme("READY", self._join_lines(match, start), start, self.line.start + match.end())
            if match := _HEADING.match(line, at):
                end = self.line.start + match.end()
                return Lexeme("READY", self._parse_heading(match, Span(start, end)), start, end)
        if line[at] in QUOTES:
            closing = next((place for place in range(at + 1, len(line)) if line[place] in QUOTES), None)
            if closing is None:
                raise BooleanSyntaxError("this quotation is never closed", self.text, start, ['“"”'])
            return Lexeme("QUOTED", convert_wildcards(line[at + 1 : closing]), start, self.line.start + closing + 1)
        return self._scan_word(at)

    def _scan_word(self, at: int) -> Lexeme:
        match, start = _WORD.match(self.line.text, at), self.line.start + at
        if match is None:
            raise BooleanSyntaxError("this character is not allowed here", self.text, start)
        word, end = match.group(), self.line.start + match.end()
        if unknown := _UNKNOWN_CODE.search(word):
            raise BooleanSyntaxError(
                f"“{unknown.group()}” is no field", self.text, start + unknown.start(), [".ti.", ".ti,ab.", "another field of Ovid"]
            )
        if adjacent := _ADJACENT.fullmatch(word):
            return Lexeme("ADJ", parse_adjacency(adjacent.group(1), self.text, start), start, end)
        return Lexeme(word.upper() if word.upper() in _OPERATORS else "WORD", word, start, end)


def merge_tags(tags: Iterator[Tag]) -> Tags:
    """`.ti,ab,sh.`: the text fields as one tag, each other code by itself."""
    unique = list(dict.fromkeys(tags))
    fields = sort_fields(field for tag in unique if tag.kind == "text" for field in tag.fields)
    return (*((Tag("text", fields),) if fields else ()), *(tag for tag in unique if tag.kind != "text"))


def convert_wildcards(text: str) -> str:
    """Ovid's truncation as our wildcards: `$`, `*` and `:` any ending, `$3` at most three characters, `?` one or none, `#` exactly one."""
    text = text.replace("{", " ").replace("}", " ")
    text = _TRUNCATED.sub(lambda sign: f"{{*{digits}}}" if (digits := sign.group(1) or sign.group(2)) else "*", text)
    return re.sub(r"(?<=\w)[?]", "{?}", re.sub(r"(?<=\w)#|#(?=\w)", "{#}", text))


def _format_date(digits: str) -> str:
    """`20190630` as `2019/06/30`."""
    return "/".join(part for part in (digits[:4], digits[4:6], digits[6:8]) if part)
