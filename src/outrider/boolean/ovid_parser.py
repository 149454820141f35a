"""Parser of Ovid's queries: numbered lines, fields after terms, `adj`, truncation.

The last line is the query.

Syntax: Ovid's help, "Command Line Syntax and Advanced Searching Techniques" (truncation, set operators, postqualification). Order of
operators: Clinical Information Access Portal, NSW Health, "Combining terms with Boolean operators on Ovid databases": AND is processed
before NOT and OR, and OR last, so that `children OR adolescents AND obesity` finds all records about children.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from outrider.boolean.diagnostics import BooleanSyntaxError, Findings
from outrider.boolean.field_tags import CODES, MULTI_PURPOSE, REFUSED_CODES, Tag, parse_tag, sort_fields
from outrider.boolean.field_values import QUALIFIERS, find_qualifier
from outrider.boolean.filters_and_limits import parse_limits
from outrider.boolean.grammar import MAX_DEPTH, Lexeme, parse_tokens
from outrider.boolean.history import History, HistoryLine, split_ovid_lines
from outrider.boolean.line_ends import LABEL, SETS, has_only_references
from outrider.boolean.occurrences import QUOTES, split_term
from outrider.boolean.tree_builder import Builder, Conventions, Tags, parse_adjacency
from outrider.state.boolean import And, Field, Heading, Node, Or, Span, Text, Words

CONVENTIONS = Conventions(
    name="Ovid",
    untagged=(MULTI_PURPOSE,),
    untagged_note="a term without a field is searched in title, abstract, keywords and headings (.mp.)",
    words="phrase",
    levels=(frozenset(("AND",)), frozenset(("NOT",)), frozenset(("OR",))),
    order="AND first, then NOT, then OR, as on Ovid",
)
_COMMENT = re.compile(r"\[[^\[\]]*\]")
_CODE = "|".join(sorted(CODES))
_FIELDS = rf"\.\s*(?P<codes>(?:{_CODE})(?:(?:\s*,\s*|\.)(?:{_CODE}))*)\s*,?(?:\.(?!\w)|\.(?=(?:and|or|not)\b)|(?=[\s)]|$))"
"""Codes behind a full stop; `.ti.ab.` and a last comma are slips of published strategies."""
_FIELD = re.compile(_FIELDS, re.IGNORECASE)
_WORD = re.compile(rf"(?:(?!{_FIELDS.replace('?P<codes>', '?:')})[^\s(){QUOTES}])+", re.IGNORECASE)
_QUALIFIER = "|".join((*(re.escape(name).replace("\\&", "(?:&|and)") for name in sorted(set(QUALIFIERS.values()))), r"[a-z]{2}"))
_HEADING = re.compile(
    rf"(?P<explode>exp(?:lode)?\s+)?(?P<major>\*\s*)?(?P<name>[{QUOTES}][^{QUOTES}]+[{QUOTES}]|"
    rf"(?!(?:and|or|not|exp)[\s/])[^\s()/{QUOTES}]+(?:\s+(?!(?:and|or|not|adj\d*)\s)[^\s()/{QUOTES}]+)*)\s*/"
    rf"(?P<qualifiers>(?:{_QUALIFIER})(?!\w)(?:\s*,\s*(?:{_QUALIFIER})(?!\w))*)?(?=[\s)]|$)",
    re.IGNORECASE,
)
_COMMENT_ON = re.compile(r"comment on\s*\.cm(?:\.|(?=[\s)]|$))", re.IGNORECASE)
_SETS = re.compile(rf"(?P<operator>and|or)\s*/\s*(?P<sets>{SETS})(?!\w)", re.IGNORECASE)
_SETS_AFTER = re.compile(rf"(?P<sets>(?=\d){SETS})\s*/\s*(?P<operator>and|or)\b", re.IGNORECASE)
_GLUED = re.compile(r"[*$:](?P<operator>and|or|not)\Z", re.IGNORECASE)
_ADJACENT = re.compile(r"adj(\d{0,4})", re.IGNORECASE)
_REFERENCE = re.compile(r"[#sS]?(\d{1,4})")
_UNKNOWN_CODE = re.compile(
    r"\.(\w{2})(?:,\w{0,2})*[.,]$|\.([a-z_]{3,10})(?:,[a-z_]{0,10})*\.$|\.(tiab|title|abstract|mesh)$", re.IGNORECASE
)
_UNKNOWN_QUALIFIER = re.compile(r"\*[^/]+/(?P<qualifier>[a-z]+)", re.IGNORECASE)
_OPERATORS = ("AND", "OR", "NOT")
_LIMIT = re.compile(rf"limit\s+(?P<line>{LABEL})\s+to\s+(?P<to>.+)", re.IGNORECASE | re.DOTALL)
_LIMIT_INSIDE = re.compile(r"\blimit\s+\d+\s+to\b", re.IGNORECASE)
_LIMIT_SHORT = re.compile(r"\.\.\s*l\s*/\s*(?P<line>\d+)\s+(?P<to>.+)", re.IGNORECASE | re.DOTALL)
_DEDUPED = re.compile(rf"remove duplicates from\s+(?P<line>{LABEL})\s*", re.IGNORECASE)
_OF_DATABASE = re.compile(rf"(?P<line>{LABEL})\s+use\s+(?P<databases>[a-z]\w{{2,7}}(?:\s*,\s*[a-z]\w{{2,7}})*)", re.IGNORECASE)
_OF_DATABASE_INSIDE = re.compile(
    r"(?:^|(?<=[\s(]))(?:\d+\s+use\s+[a-z]\w{2,7}|use\s+(?:ppez\w?|med\w{0,5}|oemez\w?|em[ec]z\w?|psyh|cctr\w?))(?=[\s),]|$)", re.IGNORECASE
)
_KEPT = re.compile(rf"from\s+(?P<line>{LABEL})\s+keep\b.*", re.IGNORECASE | re.DOTALL)
_FREQUENCY = re.compile(r"(?:^|(?<=[\s).]))/\s?freq(?:uency)?\s?=\s?\d+", re.IGNORECASE)
_RANGE_IN_WORDS = re.compile(r"\b(?:and|or)\s*/\s*\d+\s+to\s+\d+", re.IGNORECASE)
_TRUNCATED = re.compile(r"(?<=[\w?#])[$*:](\d{0,2})(?!\w)|(?<=[\w?#])[$](\d{0,2})")
_LONGEST_UNIT = 3
"""Letters before the slash of a unit, such as `mg/kg`."""


def parse_ovid(text: str, findings: Findings) -> tuple[Node, list[HistoryLine]]:
    """The tree of the last line, and every line with its tree. Blanks replace comments, which keeps the offsets."""

    def blank(comment: re.Match[str]) -> str:
        if parse_tag(comment.group()[1:-1]) is not None:
            message = f"Ovid reads {comment.group()} as a comment; it is ignored, though PubMed has a field tag of that name"
            findings.add("unsupported", message, comment.start())
        return re.sub(r"[^\n]", " ", comment.group())

    lines = split_ovid_lines(_COMMENT.sub(blank, text))
    if not lines:
        raise BooleanSyntaxError("the query is empty", text, 0, ["a term"])
    history = History(text, findings)
    return history.parse(lines, lambda line: _LineParser(text, findings, history, line).parse())


@dataclass(slots=True)
class _LineParser:
    text: str
    findings: Findings
    history: History
    line: HistoryLine

    def parse(self) -> Node:
        line, start = self.line.text, self.line.start
        if match := _DEDUPED.fullmatch(line):
            self.findings.add("unsupported", "duplicates are not removed here: every record of a library is one work", start)
            return self.history.look_up(match["line"], start)
        if match := _OF_DATABASE.fullmatch(line):
            note = f"a record does not say which of Ovid's databases it is from; “use {match['databases']}” is left out"
            self.findings.add("approximated", note, start + match.end("line"))
            return self.history.look_up(match["line"], start)
        self._refuse_commands()
        if match := _LIMIT.fullmatch(line) or _LIMIT_SHORT.fullmatch(line):
            at = start + match.start("to")
            if match["to"].count("(") > MAX_DEPTH:
                raise BooleanSyntaxError(f"more than {MAX_DEPTH} parentheses inside each other", self.text, at)
            whole = self.history.look_up(match["line"], start + match.start("line"))
            limits = parse_limits(match["to"], at, self.text, self.findings)
            return And((whole, *(limits.parts if isinstance(limits, And) else (limits,))), Span(at, start + len(line)))
        if (match := _LIMIT_INSIDE.search(line)) and match.start():
            problem = "a limit is a line of its own; write the query above it"
            raise BooleanSyntaxError(problem, self.text, start + match.start(), ["a line that begins with “limit”"])
        lexemes = list(self._join_words())
        if not lexemes:
            raise BooleanSyntaxError("the line is empty", self.text, start, ["a term"])
        self.history.refuse_unclear_numbers(lexemes)
        tree = parse_tokens(lexemes, self.text, start + len(line))
        return Builder(self.text, self.findings, CONVENTIONS).build(tree)

    def _refuse_commands(self) -> None:
        """Raise `BooleanSyntaxError` for a command of Ovid that would be searched as words."""
        line, start = self.line.text, self.line.start
        if match := _KEPT.fullmatch(line):
            problem = (
                f"records that were chosen by their place in Ovid's list are not known here; delete the line, and use line {match['line']}"
            )
            raise BooleanSyntaxError(problem, self.text, start)
        if match := _OF_DATABASE_INSIDE.search(line):
            command = match.group().strip()
            problem = (
                f"“{command}” chooses one of Ovid's databases, which a record does not name; delete it, or write it behind a line's number"
            )
            raise BooleanSyntaxError(problem, self.text, start + match.start(), ["a line such as “5 use ppez”"])
        if match := _FREQUENCY.search(line):
            problem = f"“{match.group()}” counts how often a record has the term, which is not read here; leave it out"
            raise BooleanSyntaxError(problem, self.text, start + match.start())
        if match := _RANGE_IN_WORDS.search(line):
            fix = re.sub(r"\s+to\s+", "-", match.group())
            raise BooleanSyntaxError("a range of lines has a hyphen", self.text, start + match.start(), [fix])

    def _parse_heading(self, match: re.Match[str], at: Span) -> Node:
        """`exp *Liver/su, tr`: one heading for each qualifier."""
        name = " ".join(split_term(convert_wildcards(match["name"])))
        if not name:
            raise BooleanSyntaxError("a heading without a letter or digit", self.text, at.start, ["a subject heading"])
        explode, major = bool(match["explode"]), bool(match["major"])
        place = Span(self.line.start + match.start("qualifiers"), at.end)
        builder = Builder(self.text, self.findings, CONVENTIONS)
        codes = (match["qualifiers"] or "").split(",")
        qualifiers = [builder.name_qualifier(code.strip(), place) for code in codes if code.strip()]
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
            if not others and self.history.is_label(self.line, first.start, end) and not self._is_text(0, end - self.line.start):
                yield Lexeme("READY", self.history.look_up(first.value, first.start), first.start, end)
                continue
            reference = None if others else _REFERENCE.fullmatch(first.value)
            if reference and not self._is_text(int(reference.group(1)), end - self.line.start):
                yield Lexeme("READY", self.history.look_up(reference.group(1), first.start), first.start, end)
                continue
            if first.value.lower() in ("exp", "explode"):
                raise BooleanSyntaxError("exp needs a subject heading that ends with a slash", self.text, end, ["“/”"])
            yield Lexeme("TEXT", " ".join(convert_wildcards(word.value) for word in words), first.start, end)

    def _is_text(self, number: int, end: int) -> bool:
        """Whether a number is a word: a field follows it, or its parenthesis, as in `(2019 or 2020).tw.`, and no line has it."""
        rest, depth = self.line.text[end:], 0
        if _FIELD.match(rest.lstrip()):
            return True
        if number in self.history.lines:
            return False
        for place, char in enumerate(rest):
            depth += {"(": 1, ")": -1}.get(char, 0)
            if depth < 0:
                return _FIELD.match(rest[place + 1 :].lstrip()) is not None
        return False

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
        if line[at] in "&|" and has_only_references(line):
            return Lexeme("AND" if line[at] == "&" else "OR", line[at], start, start + 1)
        if match := _FIELD.match(line, at):
            codes = re.split(r"\s*[,.]\s*", match["codes"].lower())
            if "." in match["codes"] or match.group().rstrip(". ").endswith(","):
                self.findings.add("unsupported", f"“{match.group()}” is read as .{','.join(codes)}.", start)
            tags = merge_tags(CODES[code] for code in codes)
            return Lexeme("FIELD", tags, start, self.line.start + match.end())
        if not in_words:
            if match := _COMMENT_ON.match(line, at):
                end = self.line.start + match.end()
                note = "records do not say what they comment on; those of the publication type Comment are found"
                self.findings.add("approximated", note, start)
                return Lexeme("READY", Text(Words(("comment",), Span(start, end)), (Field.PUBLICATION_TYPE,), Span(start, end)), start, end)
            if match := _SETS.match(line, at) or _SETS_AFTER.match(line, at):
                end = self.line.start + match.end()
                return Lexeme("READY", self.history.join(match["sets"], match["operator"], Span(start, end)), start, end)
            match = _HEADING.match(line, at)
            if match and not _is_plain_text(match):
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
            place, subject = start + unknown.start(), REFUSED_CODES.get((unknown.group(1) or "").lower())
            if subject:
                problem = f"“{unknown.group()}” is a field of Ovid that is not read here: {subject}; leave the term out"
                raise BooleanSyntaxError(problem, self.text, place)
            raise BooleanSyntaxError(f"“{unknown.group()}” is no field", self.text, place, [".ti.", ".ti,ab.", "another field of Ovid"])
        if (slash := _UNKNOWN_QUALIFIER.fullmatch(word)) and find_qualifier(slash["qualifier"]) is None:
            raise BooleanSyntaxError(f"“{slash['qualifier']}” is no MeSH qualifier", self.text, start + slash.start("qualifier"))
        if glued := _GLUED.search(word):
            message = f"“{word}” is one word, as on Ovid; a blank may be missing before “{glued['operator']}”"
            self.findings.add("missing operator", message, start)
        if adjacent := _ADJACENT.fullmatch(word):
            return Lexeme("ADJ", parse_adjacency(adjacent.group(1), self.text, start), start, end)
        return Lexeme(word.upper() if word.upper() in _OPERATORS else "WORD", word, start, end)


def _is_plain_text(heading: re.Match[str]) -> bool:
    """Whether a match is text such as `mg/kg` or `phase I/II` and no heading with a qualifier."""
    code = heading["qualifiers"]
    if heading["explode"] or heading["major"] or not code or find_qualifier(code) or "," in code:
        return False
    return code.isupper() or len(heading["name"]) <= _LONGEST_UNIT


def merge_tags(tags: Iterator[Tag]) -> Tags:
    """`.ti,ab,sh.`: the text fields as one tag, each other code by itself."""
    unique = list(dict.fromkeys(tags))
    fields = sort_fields(field for tag in unique if tag.kind == "text" for field in tag.fields)
    return (*((Tag("text", fields),) if fields else ()), *(tag for tag in unique if tag.kind != "text"))


def convert_wildcards(text: str) -> str:
    """Ovid's truncation as our wildcards: `$`, `*` and `:` any ending, `$3` at most three characters, `?` one or none, `#` exactly one."""
    text = text.replace("{", " ").replace("}", " ")
    text = _TRUNCATED.sub(lambda sign: f"{{*{digits}}}" if (digits := sign.group(1) or sign.group(2)) else "*", text)
    return re.sub(r"(?<=\w)[?]|[?](?=\w)", "{?}", re.sub(r"(?<=\w)#|#(?=\w)", "{#}", text))
