"""Parser of PubMed's queries: words, quotations, field tags, operators.

docs/reference/boolean.md decides cases that PubMed's documentation leaves open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from outrider.boolean.diagnostics import BooleanSyntaxError, Findings
from outrider.boolean.field_tags import REFUSED, Tag, list_spellings, parse_tag
from outrider.boolean.grammar import Lexeme, parse_tokens
from outrider.boolean.occurrences import QUOTES
from outrider.boolean.tree_builder import Builder, Tags, parse_adjacency
from outrider.state.boolean import Field, Node
from outrider.state.errors import did_you_mean

UNTAGGED: Tags = (Tag("text", (Field.ALL,)),)
UNCLOSED = "this quotation is never closed; it is read as ending before the next field tag, parenthesis or operator"
UNOPENED = "this quotation mark closes nothing; it is left out, and the words before it are read as a phrase"
_QUOTE = re.compile(f"[{QUOTES}]")
_WORD = re.compile(rf"[^\s()\[\]{QUOTES}]+")
_BLANK = re.compile(r"\s+")
_TAG = re.compile(r"\[([^\[\]]*)\]")
_STOP = re.compile(rf"[()]|\[[^\[\]]*\]|\b(?:AND|OR|NOT)\b|[{QUOTES}]")
_BETWEEN_TERMS = re.compile(r"\s*(?:\)|\b(?:AND|OR|NOT)\b).*\b(?:AND|OR|NOT)\b[\s(]*|\s*(?:AND|OR|NOT)\s*", re.DOTALL)
_OPERATORS = ("AND", "OR", "NOT")
_ADJACENT = re.compile(r"ADJ(\d{0,4})")


def parse_pubmed(text: str, findings: Findings, default: Tags = ()) -> Node:
    """The query's tree. `default` are the fields of terms without a tag (a mapping's key); without it PubMed's rules apply."""
    lexemes = list(_Scanner(text, findings).lexemes())
    if not lexemes:
        raise BooleanSyntaxError("the query is empty", text, 0, ["a term"])
    tree = parse_tokens(lexemes, text, len(text.rstrip()))
    return Builder(text, findings, UNTAGGED, parts_words=True).build(tree, default)


@dataclass(slots=True)
class _Scanner:
    text: str
    findings: Findings

    def lexemes(self) -> Iterator[Lexeme]:
        """The lexemes, with adjacent words as one TEXT: a phrase, if a tag follows."""
        for is_word, group in groupby(self._scan(), key=lambda lexeme: lexeme.kind == "WORD"):
            if not is_word:
                yield from group
                continue
            words = list(group)
            yield Lexeme("TEXT", " ".join(word.value for word in words), words[0].start, words[-1].end)

    def _scan(self) -> Iterator[Lexeme]:
        at = 0
        before = ""
        while at < len(self.text):
            char = self.text[at]
            if blank := _BLANK.match(self.text, at):
                at = blank.end()
                continue
            if char in "()":
                lexeme = Lexeme("LPAR" if char == "(" else "RPAR", char, at, at + 1)
            elif char in "[]":
                lexeme = self._scan_field(at)
            elif char in QUOTES:
                lexeme = self._scan_quotation(at, after_word=before == "WORD")
            else:
                lexeme = self._scan_word(at, after_term=before in ("FIELD", "QUOTED"))
            if lexeme.kind != "BLANK":
                yield lexeme
            before, at = lexeme.kind, lexeme.end

    def _scan_word(self, at: int, *, after_term: bool) -> Lexeme:
        match = _WORD.match(self.text, at)
        if match is None:
            raise BooleanSyntaxError("this character is not allowed here", self.text, at)
        word = match.group()
        if word == ":" or (after_term and word.startswith(":")):
            return Lexeme("COLON", ":", at, at + 1)
        if adjacent := _ADJACENT.fullmatch(word):
            return Lexeme("ADJ", parse_adjacency(adjacent.group(1), self.text, at), at, match.end())
        if word.upper() not in _OPERATORS:
            return Lexeme("WORD", word, at, match.end())
        if word.upper() != word:
            self.findings.add("operator in lower case", "read as an operator; quote the phrase if the word belongs to it", at)
        return Lexeme(word.upper(), word, at, match.end())

    def _scan_field(self, at: int) -> Lexeme:
        match = _TAG.match(self.text, at)
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
            raise BooleanSyntaxError(problem, self.text, at + 1, ["a field tag such as [tiab]"])
        return Lexeme("FIELD", (tag,), at, match.end())

    def _scan_quotation(self, at: int, *, after_word: bool) -> Lexeme:
        """A quotation; a missing quotation mark is supplied where it was meant.

        A quotation ends at the next quotation mark, unless a field tag comes first: then the mark before the tag is missing. If a mark
        after a word is followed, up to the next mark, by operators as between two terms, it ends a quotation without a beginning, and is
        ignored.
        """
        closing = _QUOTE.search(self.text, at + 1)
        inside = self.text[at + 1 : closing.start()] if closing else None
        if closing and inside is not None and not any(parse_tag(tag.group(1)) for tag in _TAG.finditer(inside)):
            if not (after_word and _BETWEEN_TERMS.fullmatch(inside)):
                return Lexeme("QUOTED", inside, at, closing.end())
            return self._ignore_mark(at)
        stop = _STOP.search(self.text, at + 1)
        while stop and stop.group()[0] == "[" and parse_tag(stop.group()[1:-1]) is None:
            stop = _STOP.search(self.text, stop.end())
        quoted = self.text[at + 1 : stop.start() if stop else len(self.text)]
        if not quoted.strip():
            return self._ignore_mark(at)
        self.findings.add("quotes", UNCLOSED, at)
        return Lexeme("QUOTED", quoted, at, at + 1 + len(quoted.rstrip()))

    def _ignore_mark(self, at: int) -> Lexeme:
        self.findings.add("quotes", UNOPENED, at)
        return Lexeme("BLANK", "", at, at + 1)
