"""PubMed's queries: words, quotations, field tags, operators. What the syntax leaves open is settled in docs/reference/boolean.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
_BETWEEN = re.compile(r"\s*(?:\)|\b(?:AND|OR|NOT)\b).*\b(?:AND|OR|NOT)\b[\s(]*|\s*(?:AND|OR|NOT)\s*", re.DOTALL)
_OPERATORS = ("AND", "OR", "NOT")
_ADJACENT = re.compile(r"ADJ(\d{0,4})")


def parse_pubmed(text: str, findings: Findings, default: Tags = ()) -> Node:
    """The query's tree. `default` are the fields of terms that name none (a mapping's key); without it PubMed's own rules hold."""
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
        """Neighbouring words are one TEXT: a phrase, if a tag follows."""
        words: list[tuple[int, int]] = []
        for one in self._raw():
            if one.kind == "WORD":
                words.append((one.start, one.end))
                continue
            if words:
                yield self._run(words)
                words = []
            yield one
        if words:
            yield self._run(words)

    def _run(self, words: list[tuple[int, int]]) -> Lexeme:
        said = " ".join(self.text[start:end] for start, end in words)
        return Lexeme("TEXT", said, words[0][0], words[-1][1])

    def _raw(self) -> Iterator[Lexeme]:
        at = 0
        before = ""
        while at < len(self.text):
            char = self.text[at]
            if blank := _BLANK.match(self.text, at):
                at = blank.end()
                continue
            if char in "()":
                one = Lexeme("LPAR" if char == "(" else "RPAR", char, at, at + 1)
            elif char in "[]":
                one = self._field(at)
            elif char in QUOTES:
                one = self._quoted(at, after_word=before == "WORD")
            else:
                one = self._word(at, after_term=before in ("FIELD", "QUOTED"))
            if one.kind != "BLANK":
                yield one
            before, at = one.kind, one.end

    def _word(self, at: int, *, after_term: bool) -> Lexeme:
        found = _WORD.match(self.text, at)
        if found is None:
            raise BooleanSyntaxError("this character cannot stand here", self.text, at)
        word = found.group()
        if word == ":" or (after_term and word.startswith(":")):
            return Lexeme("COLON", ":", at, at + 1)
        if adjacent := _ADJACENT.fullmatch(word):
            return Lexeme("ADJ", parse_adjacency(adjacent.group(1), self.text, at), at, found.end())
        if word.upper() not in _OPERATORS:
            return Lexeme("WORD", word, at, found.end())
        if word.upper() != word:
            self.findings.add("operator in lower case", "read as an operator; quote the phrase if the word belongs to it", at)
        return Lexeme(word.upper(), word, at, found.end())

    def _field(self, at: int) -> Lexeme:
        found = _TAG.match(self.text, at)
        if found is None:
            problem = "this bracket was never opened" if self.text[at] == "]" else "this bracket is never closed"
            raise BooleanSyntaxError(problem, self.text, at, ["a field tag such as [tiab]"])
        name = found.group(1)
        tag = parse_tag(name)
        if tag is None:
            raise BooleanSyntaxError(_unknown(name), self.text, at + 1, ["a field tag such as [tiab]"])
        return Lexeme("FIELD", (tag,), at, found.end())

    def _quoted(self, at: int, *, after_word: bool) -> Lexeme:
        """A quotation; one that lacks its other half is mended in what it means.

        It ends at the next quotation mark, unless a field tag comes first: then the mark before the tag is missing. A mark behind a word,
        with operators as between two terms from there to the next one, ends a quotation that has no beginning: it is left out.
        """
        closing = _QUOTE.search(self.text, at + 1)
        inside = self.text[at + 1 : closing.start()] if closing else None
        if closing and inside is not None and not _holds_tag(inside):
            if not (after_word and _BETWEEN.fullmatch(inside)):
                return Lexeme("QUOTED", inside, at, closing.end())
            return self._left_out(at)
        stop = _STOP.search(self.text, at + 1)
        while stop and stop.group()[0] == "[" and parse_tag(stop.group()[1:-1]) is None:
            stop = _STOP.search(self.text, stop.end())
        end = stop.start() if stop else len(self.text)
        said = self.text[at + 1 : end]
        if not said.strip():
            return self._left_out(at)
        self.findings.add("quotes", UNCLOSED, at)
        return Lexeme("QUOTED", said, at, at + 1 + len(said.rstrip()))

    def _left_out(self, at: int) -> Lexeme:
        self.findings.add("quotes", UNOPENED, at)
        return Lexeme("BLANK", "", at, at + 1)


def _holds_tag(said: str) -> bool:
    return any(parse_tag(found.group(1)) for found in _TAG.finditer(said))


def _unknown(name: str) -> str:
    plain = " ".join(name.split()).lower()
    if plain in REFUSED:
        return f"[{name}] is a field of PubMed that is not read here: {REFUSED[plain]}"
    return f"[{name}] is no field tag{did_you_mean(plain, list_spellings())}"
