"""Parser of PubMed's queries: words, quotations, field tags, operators, search histories.

docs/reference/boolean.md decides cases that PubMed's documentation leaves open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from outrider.boolean.diagnostics import BooleanSyntaxError, Findings
from outrider.boolean.field_tags import REFUSED, Tag, list_spellings, parse_tag
from outrider.boolean.field_values import AMPERSAND_PAIRS
from outrider.boolean.grammar import Lexeme, parse_tokens
from outrider.boolean.history import ROW_MARK, History, HistoryLine, split_lines
from outrider.boolean.line_ends import has_only_references
from outrider.boolean.occurrences import QUOTES
from outrider.boolean.tree_builder import LEFT_TO_RIGHT, Builder, Conventions, Tags, parse_adjacency
from outrider.state.boolean import Field, Node
from outrider.state.errors import did_you_mean
from outrider.text.words import tokens

CONVENTIONS = Conventions(
    name="PubMed",
    untagged=(Tag("text", (Field.ALL,)),),
    untagged_note="",
    words="and if untagged",
    # NLM Technical Bulletin, November-December 1997: "PubMed processes all Boolean connectors in a left-to-right sequence"
    levels=LEFT_TO_RIGHT,
    order="from left to right, as in PubMed",
)
UNCLOSED = "this quotation is never closed; it is read as ending before the next field tag, parenthesis or operator"
UNOPENED = "this quotation mark closes nothing; it is left out, and the words before it are read as a phrase"
OTHER_WILDCARD = "is a wildcard on other platforms, and no character of PubMed's terms; name the platform (--syntax), or write {?} or {#}"
_QUOTE = re.compile(f"[{QUOTES}]")
_WORD = re.compile(rf"(?:(?!&&)[^\s()\[\]|{QUOTES}])+")
_BLANK = re.compile(r"\s+")
_TAG = re.compile(r"\[([^\[\]]*)\]")
_STOP = re.compile(rf"[()]|\[[^\[\]]*\]|\b(?:AND|OR|NOT)\b|[{QUOTES}]")
_BETWEEN_TERMS = re.compile(r"\s*(?:\)|\b(?:AND|OR|NOT)\b).*\b(?:AND|OR|NOT)\b[\s(]*|\s*(?:AND|OR|NOT)\s*", re.DOTALL)
_OPERATORS = ("AND", "OR", "NOT")
_SIGNS = re.compile(r"\|\|?|&&")
_ENDS_WITH_OPERATOR = re.compile(r"\S\s+(?:AND|OR|NOT)\s+\Z")
_BESIDE = re.compile(r"([^\W\d_]+)\s+&\s+([^\W\d_]+)")
_GLUED = re.compile(r"(?<=\*)(?:AND|OR|NOT)$")
_ADJACENT = re.compile(r"ADJ(\d{0,4})|PRE(\d{1,4})")
_REFERENCE = re.compile(r"#(\d{1,4})")
_LABEL = re.compile(r"^[ \t]*((?:\d{1,3}[a-z]?|[A-Z])[.):]?)[ \t]*$", re.MULTILINE)
_OTHER_WILDCARD = re.compile(r"(?<=\w)[#?](?=\w)|(?<=\w)\?(?=[*?])|(?<=[a-z])\$")
_QUALIFIER_BEHIND = re.compile(r"/\*?[^\W\d_]+")
_FRACTION = re.compile(r"~\s*(?:\d*\.\d+|-\d+)")

_COLUMNS = frozenset(
    "search number,search,query,sort by,filters,search details,results,items found,time,actions,details,add to builder".split(",")
)
"""Of the history that PubMed's page "Advanced" downloads, and of the one that it shows."""
_COLUMN_NAMES = re.compile(rf"(?:(?:{'|'.join(sorted(_COLUMNS, key=len, reverse=True))})\s*)+", re.IGNORECASE)


def blank_columns(text: str) -> str:
    """PubMed's history with its columns, as CSV or separated by tabs, with blanks for all but numbers and queries; else the text itself.

    Offsets are kept. Raises `BooleanSyntaxError` for a row with filters, which narrow its results.
    """
    first = len(text) - len(text.lstrip())
    line = text[first:].partition("\n")[0]
    delimiter = "\t" if "\t" in line else ","
    names = [" ".join(name.strip('" \r\ufeff').lower().split()) for name in line.split(delimiter)]
    if "query" not in line.lower() or not text[first + len(line) :].strip():  # no rows below it: words, such as search query
        return text
    if not (_COLUMNS.issuperset(names) and "query" in names and names[0] in ("search number", "search")):
        is_header = _COLUMN_NAMES.fullmatch(line.strip()) and line.split()[0].lower() == "search"
        return text[:first] + " " * len(line) + text[first + len(line) :] if is_header else text
    chars = ["\n" if char == "\n" else " " for char in text]
    # behind a tab a quotation mark quotes the cell only if those inside are doubled
    quoted = r'"(?:[^"]|"")*"' if delimiter == "," else r'"(?:[^"\n]|"")*""(?:[^"\n]|"")*"'
    cell = re.compile(rf"(?:(?P<quoted>{quoted})(?=[{delimiter}\r\n]|\Z)|(?P<plain>[^{delimiter}\n]*))(?P<end>{delimiter}|\n|\Z)")
    at, column = first + len(line) + 1, 0
    while at < len(text) and (match := cell.match(text, at)):
        value = match["plain"] if match["quoted"] is None else " " + match["quoted"][1:-1].replace('""', ' "')
        name = names[column] if column < len(names) else ""
        if name == "filters" and value.strip():
            problem = (
                "filters that PubMed lists beside a query are not read; write them as conditions, such as AND english[la] AND review[pt],"
                " or replace the query by its Search Details, and empty this cell"
            )
            raise BooleanSyntaxError(problem, text, at)
        if column == 0 and value.strip():
            value = value.replace("#", " ").rstrip() + ROW_MARK
        if column == 0 or name == "query":
            chars[at : at + len(value)] = value
        at, column = match.end(), 0 if match["end"] == "\n" else column + 1
    return "".join(chars)


def parse_pubmed(text: str, findings: Findings, default: Tags = ()) -> tuple[Node, list[HistoryLine]]:
    """The query's tree, and the lines if it is a history. `default` are the fields of terms without a tag (a mapping's key)."""
    if not text.strip():
        raise BooleanSyntaxError("the query is empty", text, 0, ["a term"])
    lines = split_lines(text)
    history = History(text, findings)
    for line in lines:
        label = _LABEL.search(line.text) if "\n" in line.text.strip() else None
        if label:
            problem = "labels of lines are not read; number the lines 1, 2, 3 and refer to them as #1"
            raise BooleanSyntaxError(f"a line with nothing but “{label.group(1)}”: {problem}", text, line.start + label.start(1))

    def parse_line(line: HistoryLine) -> Node:
        end = line.start + len(line.text)
        lexemes = list(_Scanner(text, findings, history, line, end).lexemes())
        if not lexemes:
            raise BooleanSyntaxError("the line is empty" if history.is_numbered else "the query is empty", text, line.start, ["a term"])
        history.refuse_unclear_numbers(lexemes)
        return Builder(text, findings, CONVENTIONS).build(parse_tokens(lexemes, text, end), default)

    tree, parsed = history.parse(lines, parse_line)
    return tree, parsed if history.is_numbered else []


@dataclass(slots=True)
class _Scanner:
    text: str
    findings: Findings
    history: History
    line: HistoryLine
    end: int

    def lexemes(self) -> Iterator[Lexeme]:
        """The lexemes, with adjacent words as one TEXT: a phrase, if a tag follows."""
        grouped: list[Lexeme] = []
        for is_word, group in groupby(self._scan(), key=lambda lexeme: lexeme.kind == "WORD"):
            words = list(group)
            grouped += [self._join_words(words)] if is_word else words
        for before, lexeme, after in zip([None, *grouped], grouped, [*grouped[1:], None], strict=False):
            is_stray = lexeme.kind == "TEXT" and not tokens(lexeme.value) and before and before.kind in ("FIELD", "QUOTED", "RPAR", "READY")
            if is_stray and (after is None or after.kind not in ("FIELD", "COLON")):
                if set(lexeme.value) & set("*?#$"):
                    problem = "a truncation sign stands inside a quotation, or at the end of a word without one"
                    raise BooleanSyntaxError(problem, self.text, lexeme.start)
                self.findings.add("unsupported", "punctuation without a letter or digit is ignored, as in PubMed", lexeme.start)
            else:
                yield lexeme

    def _join_words(self, words: list[Lexeme]) -> Lexeme:
        if len(words) > 1:
            for word in words:
                if set(word.value) <= set("*?#$"):
                    raise BooleanSyntaxError(
                        "a truncation sign stands after at least one letter", self.text, word.start, ["a word before it"]
                    )
        return Lexeme("TEXT", " ".join(word.value for word in words), words[0].start, words[-1].end)

    def _scan(self) -> Iterator[Lexeme]:
        at = self.line.start
        before = ""
        while at < self.end:
            char = self.text[at]
            if blank := _BLANK.match(self.text, at, self.end):
                at = blank.end()
                continue
            if char in "()":
                lexeme = Lexeme("LPAR" if char == "(" else "RPAR", char, at, at + 1)
            elif char in "[]":
                lexeme = self._scan_field(at)
            elif char in QUOTES:
                lexeme = self._scan_quotation(at, after_word=before == "WORD")
            elif sign := _SIGNS.match(self.text, at, self.end):
                # PubMed reads & as AND and | as OR
                lexeme = Lexeme("AND" if char == "&" else "OR", sign.group(), at, sign.end())
            else:
                lexeme = self._scan_word(at, after_term=before in ("FIELD", "QUOTED"))
            if lexeme.kind != "BLANK":
                yield lexeme
            before, at = lexeme.kind, lexeme.end

    def _scan_word(self, at: int, *, after_term: bool) -> Lexeme:
        match = _WORD.match(self.text, at, self.end)
        if match is None:
            raise BooleanSyntaxError("this character is not allowed here", self.text, at)
        word, end = match.group(), match.end()
        if glued := _GLUED.search(word):
            word, end = word[: glued.start()], at + glued.start()
        if after_term and (misplaced := _QUALIFIER_BEHIND.match(word)):
            problem = f"“{misplaced.group()}” stands behind its term; a qualifier belongs into it, such as Liver/surgery[mh]"
            raise BooleanSyntaxError(problem, self.text, at, ["an operator"])
        if word == ":" or (after_term and word.startswith(":")):
            return Lexeme("COLON", ":", at, at + 1)
        if adjacent := _ADJACENT.fullmatch(word):
            is_ordered = adjacent.group(2) is not None
            return Lexeme("ADJ", parse_adjacency(adjacent.group(1) or adjacent.group(2) or "", self.text, at, ordered=is_ordered), at, end)
        if word.startswith("&") and not self._is_qualifier(at):
            return Lexeme("AND", "&", at, at + 1)
        reference = _REFERENCE.fullmatch(word)
        if self.history.is_label(self.line, at, end):
            return Lexeme("READY", self.history.look_up(word, at), at, end)
        if reference or (self.history.is_numbered and word.isdigit() and len(word) < 5 and has_only_references(self.line.text)):
            return Lexeme("READY", self.history.look_up(word.lstrip("#"), at), at, end)
        if word.upper() not in _OPERATORS:
            if sign := _OTHER_WILDCARD.search(word):
                raise BooleanSyntaxError(f"“{sign.group()}” inside “{word}” {OTHER_WILDCARD}", self.text, at + sign.start())
            return Lexeme("WORD", word, at, end)
        if word.upper() != word:
            self.findings.add("operator in lower case", "read as an operator; quote the phrase if the word belongs to it", at)
        return Lexeme(word.upper(), word, at, end)

    def _is_qualifier(self, at: int) -> bool:
        """Whether the `&` at this place belongs to a qualifier's name, such as `prevention & control`."""
        start = max(self.line.start, at - 40)
        beside = next(
            (match for match in _BESIDE.finditer(self.text, start, min(self.end, at + 40)) if match.start() < at < match.end()), None
        )
        return beside is not None and tuple(word.lower() for word in beside.groups()) in AMPERSAND_PAIRS

    def _scan_field(self, at: int) -> Lexeme:
        match = _TAG.match(self.text, at, self.end)
        if match is None:
            problem = "this bracket was never opened" if self.text[at] == "]" else "this bracket is never closed"
            raise BooleanSyntaxError(problem, self.text, at, ["a field tag such as [tiab]"])
        name = match.group(1)
        tag = parse_tag(name)
        if tag is None:
            plain = " ".join(name.split()).lower()
            problem = f"[{name}] is no field tag{did_you_mean(plain, list_spellings())}"
            if plain in REFUSED:
                problem = f"[{name}] is a field of PubMed that is not read here: {REFUSED[plain]}"
            elif _FRACTION.search(name):
                problem = f"[{name}] is no field tag: a proximity is a whole number of words, from 0"
            raise BooleanSyntaxError(problem, self.text, at + 1, ["a field tag such as [tiab]"])
        return Lexeme("FIELD", (tag,), at, match.end())

    def _scan_quotation(self, at: int, *, after_word: bool) -> Lexeme:
        """A quotation; a missing quotation mark is supplied where it was meant.

        A quotation ends at the next quotation mark, unless a field tag comes first: then the mark before the tag is missing. If a mark
        after a word is followed, up to the next mark, by operators as between two terms, it ends a quotation without a beginning, and is
        ignored. A quotation that ends with an operator in capitals lacks its mark before the first operator inside.
        """
        closing = _QUOTE.search(self.text, at + 1, self.end)
        inside = self.text[at + 1 : closing.start()] if closing else None
        is_cut = inside is not None and _ENDS_WITH_OPERATOR.search(inside) and not _BETWEEN_TERMS.fullmatch(inside)
        if closing and inside is not None and not is_cut and not any(parse_tag(tag.group(1)) for tag in _TAG.finditer(inside)):
            if not (after_word and _BETWEEN_TERMS.fullmatch(inside)):
                return Lexeme("QUOTED", inside, at, closing.end())
            return self._ignore_mark(at)
        stop = _STOP.search(self.text, at + 1, self.end)
        while stop and stop.group()[0] == "[" and parse_tag(stop.group()[1:-1]) is None:
            stop = _STOP.search(self.text, stop.end(), self.end)
        quoted = self.text[at + 1 : stop.start() if stop else self.end]
        if not quoted.strip():
            return self._ignore_mark(at)
        self.findings.add("quotes", UNCLOSED, at)
        return Lexeme("QUOTED", quoted, at, at + 1 + len(quoted.rstrip()))

    def _ignore_mark(self, at: int) -> Lexeme:
        self.findings.add("quotes", UNOPENED, at)
        return Lexeme("BLANK", "", at, at + 1)
