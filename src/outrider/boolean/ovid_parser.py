"""The lines of an Ovid search history: their numbers, their comments, what goes on in the next line.

Ovid's queries: numbered lines that refer to each other, fields behind terms, `adj`, truncation. The last line is what is asked for.

Syntax: Ovid's help, "Command Line Syntax and Advanced Searching Techniques" (truncation, set operators, postqualification).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

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


@dataclass(frozen=True, slots=True)
class OvidLine:
    """One numbered line. `said` is what it says, blanks in place of comments, so that its offsets hold; `start` is where it begins."""

    number: int
    text: str
    start: int
    tree: Node | None = None


def split_lines(text: str) -> list[OvidLine]:
    """Every line that says something. Numbers that were written count, where the first line is number 1; else they are counted."""
    blank = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
    every = [(found.start(), found.group()) for found in re.finditer(r"[^\n]+", blank) if found.group().strip()]
    if every and _FIRST.match(every[0][1]):
        numbered = _numbered(every, blank)
        if len(numbered) > 1 or len(every) == 1:
            return numbered
    return [_line(number, start, said) for number, (start, said) in enumerate(every, 1)]


def _numbered(every: list[tuple[int, str]], text: str) -> list[OvidLine]:
    """A line that does not begin with the next number goes on from the one before."""
    begun: list[tuple[int, int, int]] = []
    for start, said in every:
        found = re.match(rf"\s*#?{len(begun) + 1}\s*(?:[.):]\s*|\s+|(?=[^\w\s/,-]))", said)
        end = start + len(said)
        if found:
            begun.append((len(begun) + 1, start + found.end(), end))
        else:
            number, first, _ = begun[-1]
            begun[-1] = (number, first, end)
    return [_line(number, start, text[start:end], numbered=True) for number, start, end in begun]


def _line(number: int, start: int, said: str, *, numbered: bool = False) -> OvidLine:
    if numbered:
        said = _HITS.sub("", said)
    return OvidLine(number, said.strip(), start + len(said) - len(said.lstrip()))


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
_BLANKS = re.compile(r"\s*")
_UNKNOWN_CODE = re.compile(r"\.\w{2}(?:,\w{0,2})*[.,]$")
_OPERATORS = ("AND", "OR", "NOT")

_LIMIT = re.compile(r"limit\s+(?P<line>\d+)\s+to\s+(?P<to>.+)", re.IGNORECASE | re.DOTALL)
_LIMIT_SHORT = re.compile(r"\.\.\s*l\s*/\s*(?P<line>\d+)\s+(?P<to>.+)", re.IGNORECASE | re.DOTALL)
_DEDUPED = re.compile(r"remove duplicates from\s+(?P<line>\d+)\s*", re.IGNORECASE)
_LIMIT_DATES = re.compile(
    r"(?P<code>yr|ed|dt|da|ep|dp|ez)\s*=\s*[\"“”]?\s*(?P<start>\d{0,8})\s*(?P<dash>-)?\s*(?P<end>\d{0,8}|current)\s*[\"“”]?", re.IGNORECASE
)
_TRUNCATED = re.compile(r"(?<=[\w?#])[$*:](\d{0,2})(?!\w)|(?<=[\w?#])[$](\d{0,2})")


def parse_ovid(text: str, findings: Findings) -> tuple[Node, list[OvidLine]]:
    """The tree of the last line, and every line with its tree."""
    lines = split_lines(text)
    if not lines:
        raise BooleanSyntaxError("the query is empty", text, 0, ["a term"])
    known: dict[int, OvidLine] = {}
    used: set[int] = set()
    for line in lines:
        reader = _Line(text, findings, known, line, used)
        known[line.number] = replace(line, tree=reader.tree())
    for line in lines[:-1]:
        if line.number not in used:
            findings.add("unused line", f"line {line.number} is not used by any other", line.start)
    done = list(known.values())
    last = done[-1].tree
    assert last is not None  # noqa: S101 - every line was just read
    return last, done


@dataclass(slots=True)
class _Line:
    text: str
    findings: Findings
    known: dict[int, OvidLine]
    line: OvidLine
    used: set[int] = field(default_factory=set)

    def tree(self) -> Node:
        said = self.line.text
        if found := _DEDUPED.fullmatch(said):
            self.findings.add("unsupported", "duplicates are not removed here: every record of a library is one work", self.line.start)
            return self._referred(int(found["line"]), self.line.start)
        if found := _LIMIT.fullmatch(said) or _LIMIT_SHORT.fullmatch(said):
            return self._limited(found)
        lexemes = list(self._lexemes())
        if not lexemes:
            raise BooleanSyntaxError("the line is empty", self.text, self.line.start, ["a term"])
        tree = parse_tokens(lexemes, self.text, self.line.start + len(said))
        return Builder(self.text, self.findings, (MULTI_PURPOSE,), parts_words=False).build(tree)

    def _limited(self, found: re.Match[str]) -> Node:
        start = self.line.start + found.start("to")
        at = Span(start, self.line.start + len(self.line.text))
        whole = self._referred(int(found["line"]), self.line.start + found.start("line"))
        wanted = [self._limit(part, at) for part in re.split(r"\s+and\s+", found["to"].strip().strip("()").strip(), flags=re.IGNORECASE)]
        return And((whole, *wanted), at)

    def _limit(self, said: str, at: Span) -> Node:
        """What `limit ... to` asks for, as a leaf; one that cannot be answered is refused, since leaving it out would widen the search."""
        if dates := _LIMIT_DATES.fullmatch(said.strip()):
            return self._limit_dates(dates, at)
        name = said.strip().lower()
        if name in ("human", "humans"):
            return Heading("humans", explode=False, at=at)
        language = name.removesuffix(" language")
        if language != name or normal_language(language):
            return Text(Words((language,), at), (Field.LANGUAGE,), at)
        raise BooleanSyntaxError(
            f"the limit “{said.strip()}” is not supported; write it as terms", self.text, at.start, ["yr=", "ed=", "a language", "humans"]
        )

    def _limit_dates(self, dates: re.Match[str], at: Span) -> Node:
        start, end = _dated(dates["start"]), _dated("" if dates["end"].lower() == "current" else dates["end"])
        said = f"{start or '1000'}:{end or '3000'}" if dates["dash"] else start
        return date_node(said, CODES[dates["code"].lower()].kind == "entry", self.text, at)

    def _referred(self, number: int, at: int) -> Node:
        line = self.known.get(number)
        if line is None or line.tree is None:
            raise BooleanSyntaxError(f"there is no line {number} before this one", self.text, at, ["the number of an earlier line"])
        self.used.add(number)
        return line.tree

    def _combined(self, found: re.Match[str], at: int) -> Node:
        """`or/1-5,7`: the lines, joined."""
        numbers: list[int] = []
        for part in found["sets"].split(","):
            first, _, last = part.partition("-")
            numbers += range(int(first), int(last or first) + 1)[:MAX_TERMS]
        if not numbers:
            raise BooleanSyntaxError("a range of lines starts after its end", self.text, at)
        nodes = [self._referred(number, at) for number in numbers]
        joined = And if found["operator"].lower() == "and" else Or
        return nodes[0] if len(nodes) == 1 else joined(tuple(nodes), Span(at, at + len(found.group())))

    def _headings(self, found: re.Match[str], at: Span) -> Node:
        """`exp *Liver/su, tr`: one heading for each qualifier."""
        name = " ".join(split_term(convert_wildcards(found["name"])))
        if not name:
            raise BooleanSyntaxError("a heading without a letter or digit", self.text, at.start, ["a subject heading"])
        explode, major = bool(found["explode"]), bool(found["major"])
        qualifiers = [QUALIFIERS[code.strip().lower()] for code in (found["qualifiers"] or "").split(",") if code.strip()]
        nodes = [Heading(name, qualifier, explode, major, at) for qualifier in qualifiers or [""]]
        return nodes[0] if len(nodes) == 1 else Or(tuple(nodes), at)

    def _lexemes(self) -> Iterator[Lexeme]:
        """Neighbouring words are one TEXT: a phrase."""
        words: list[Lexeme] = []
        for one in (*self._raw(), Lexeme("END", None, 0, 0)):
            if one.kind == "WORD":
                words.append(one)
                continue
            if words:
                yield self._run(words)
                words = []
            if one.kind != "END":
                yield one

    def _run(self, words: list[Lexeme]) -> Lexeme:
        first, last = words[0], words[-1]
        if len(words) == 1 and (found := _REFERENCE.fullmatch(first.value)) and not self._field_follows(first.end):
            return Lexeme("READY", self._referred(int(found.group(1)), first.start), first.start, first.end)
        if first.value.lower() in ("exp", "explode"):
            raise BooleanSyntaxError("exp stands before a subject heading, which a slash ends", self.text, last.end, ["“/”"])
        return Lexeme("TEXT", " ".join(convert_wildcards(word.value) for word in words), first.start, last.end)

    def _field_follows(self, at: int) -> bool:
        blank = _BLANKS.match(self.line.text, at - self.line.start)
        return bool(_FIELD.match(self.line.text, blank.end() if blank else 0))

    def _raw(self) -> Iterator[Lexeme]:
        said, base = self.line.text, self.line.start
        at, in_words = 0, False
        while at < len(said):
            if said[at].isspace():
                at += 1
                continue
            one, at = self._next(said, at, base, in_words=in_words)
            yield one
            in_words = one.kind == "WORD"

    def _next(self, said: str, at: int, base: int, *, in_words: bool) -> tuple[Lexeme, int]:
        if said[at] in "()":
            return Lexeme("LPAR" if said[at] == "(" else "RPAR", said[at], base + at, base + at + 1), at + 1
        if found := _FIELD.match(said, at):
            tags = merge_tags(CODES[code.strip().lower()] for code in found["codes"].split(","))
            return Lexeme("FIELD", tags, base + at, base + found.end()), found.end()
        if not in_words:
            if found := _SETS.match(said, at) or _SETS_AFTER.match(said, at):
                return Lexeme("READY", self._combined(found, base + at), base + at, base + found.end()), found.end()
            if found := _HEADING.match(said, at):
                return Lexeme(
                    "READY", self._headings(found, Span(base + at, base + found.end())), base + at, base + found.end()
                ), found.end()
        if said[at] in QUOTES:
            return self._quoted(said, at, base)
        return self._word(said, at, base)

    def _quoted(self, said: str, at: int, base: int) -> tuple[Lexeme, int]:
        end = next((place for place in range(at + 1, len(said)) if said[place] in QUOTES), None)
        if end is None:
            raise BooleanSyntaxError("this quotation is never closed", self.text, base + at, ['“"”'])
        return Lexeme("QUOTED", convert_wildcards(said[at + 1 : end]), base + at, base + end + 1), end + 1

    def _word(self, said: str, at: int, base: int) -> tuple[Lexeme, int]:
        found = _WORD.match(said, at)
        if found is None:
            raise BooleanSyntaxError("this character cannot stand here", self.text, base + at)
        word, end = found.group(), found.end()
        if unknown := _UNKNOWN_CODE.search(word):
            raise BooleanSyntaxError(
                f"“{unknown.group()}” is no field", self.text, base + at + unknown.start(), [".ti.", ".ti,ab.", "another field of Ovid"]
            )
        if adjacent := _ADJACENT.fullmatch(word):
            return Lexeme("ADJ", parse_adjacency(adjacent.group(1), self.text, base + at), base + at, base + end), end
        kind = word.upper() if word.upper() in _OPERATORS else "WORD"
        return Lexeme(kind, word, base + at, base + end), end


def merge_tags(tags: Iterator[Tag]) -> Tags:
    """`.ti,ab,sh.`: the text fields as one, each other code by itself."""
    every = list(dict.fromkeys(tags))
    fields = sort_fields(one for tag in every if tag.kind == "text" for one in tag.fields)
    return (*((Tag("text", fields),) if fields else ()), *(tag for tag in every if tag.kind != "text"))


def convert_wildcards(said: str) -> str:
    """Ovid's truncation in ours: `$`, `*` and `:` any ending, `$3` at most three characters, `?` one or none, `#` exactly one."""
    said = said.replace("{", " ").replace("}", " ")
    said = _TRUNCATED.sub(lambda found: f"{{*{digits}}}" if (digits := found.group(1) or found.group(2)) else "*", said)
    return re.sub(r"(?<=\w)[?]", "{?}", re.sub(r"(?<=\w)#|#(?=\w)", "{#}", said))


def _dated(digits: str) -> str:
    """`20190630` as `2019/06/30`."""
    return "/".join(part for part in (digits[:4], digits[4:6], digits[6:8]) if part)
