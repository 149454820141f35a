"""Parser of the query languages of other platforms than PubMed and Ovid.

One scanner reads Web of Science, Scopus, Embase, EBSCOhost, ProQuest and the Cochrane Library. `platforms` has their fields, operators
and wildcards as data, and `platform_terms` what only one of them has: headings behind a slash, limits, years. What has no exact counterpart
here is reported as approximated, or refused by the platform's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from outrider.boolean.diagnostics import BooleanSyntaxError, Findings
from outrider.boolean.grammar import Lexeme, parse_tokens
from outrider.boolean.history import History, HistoryLine, split_lines
from outrider.boolean.line_ends import has_only_references
from outrider.boolean.occurrences import QUOTES
from outrider.boolean.platform_terms import SPECIAL_TERMS, Context, find_cochrane_limit
from outrider.boolean.platforms import SEARCH_SETTINGS, Platform
from outrider.boolean.tree_builder import Builder, Tags
from outrider.state.boolean import MAX_DISTANCE, And, Node, Span
from outrider.state.errors import did_you_mean

_OPERATOR = re.compile(r"(?P<not>AND\s+NOT|BUT\s+NOT|NOT)(?!\w)|(?P<word>AND|OR)(?!\w)", re.IGNORECASE)
_SETTINGS = (
    SEARCH_SETTINGS,
    "limits of the search's page are no terms; leave them out, or write them with fields, as those of language and years",
)
_LOST_SUFFIX = re.compile(r"[/:][a-z]{2,4}(?!\w)", re.IGNORECASE)
_GLUED = re.compile(r"(?<=[*?$])(?:AND|OR|NOT)$")
_CLOSING = {"{": "}", "‘": "’'", "'": "'’"}
_CLOSES_PHRASE = re.compile(r"['’](?:(?!['’\w])|(?=(?:AND|OR|NOT)\b|(?:NEAR|NEXT)/\d))")
_ONLY_S_NUMBERS = re.compile(r"[\s(]*S\d{1,3}(?:[\s()]|S\d{1,3}(?!\w)|\b(?:AND|OR|NOT)\b)*")
_FOREIGN_TAG = re.compile(r"\[[A-Za-z][A-Za-z /:~-]*\]")
_BRACKET = re.compile(r"[\[\]]")
_SIGNS = "*?$#!"
_WILDCARD = re.compile(r"(?<=\w)[?#](?=[\w*])|(?<=[a-z])\$")


def parse_platform(text: str, platform: Platform, findings: Findings) -> tuple[Node, list[HistoryLine]]:
    """The query's tree, and its lines if it is a history."""
    if not text.strip():
        raise BooleanSyntaxError("the query is empty", text, 0, ["a term"])
    history = History(text, findings)

    def parse_line(line: HistoryLine) -> Node:
        end = line.start + len(line.text)
        context = Context(text, findings, history, platform, end)
        years, context.end = find_cochrane_limit(context, line.start) if platform.key == "cochrane" else (None, end)
        lexemes = list(_Scanner(context, line).lexemes())
        if not lexemes:
            raise BooleanSyntaxError("the line is empty", text, line.start, ["a term"])
        if not history.is_numbered and _ONLY_S_NUMBERS.fullmatch(line.text):
            problem = "nothing but numbers of lines: write the lines that they mean above, or quote them if they are words"
            raise BooleanSyntaxError(problem, text, line.start)
        history.refuse_unclear_numbers(lexemes)
        tree = Builder(text, findings, platform.conventions).build(parse_tokens(lexemes, text, context.end))
        return tree if years is None else And((tree, years), Span(line.start, end))

    tree, parsed = history.parse(split_lines(text), parse_line)
    return tree, parsed if history.is_numbered else []


@dataclass(slots=True)
class _Scanner:
    context: Context
    line: HistoryLine

    def lexemes(self) -> Iterator[Lexeme]:
        """The lexemes, with adjacent words as one TEXT."""
        for is_word, group in groupby(self._scan(), key=lambda lexeme: lexeme.kind == "WORD"):
            if not is_word:
                yield from group
                continue
            words = list(group)
            for word in words:
                if set(word.value) <= set(_SIGNS):
                    hint = f"write the number of words between with a proximity operator of {self._name}"
                    raise BooleanSyntaxError(f"a “{word.value}” that stands for a whole word is not read; {hint}", self._text, word.start)
            yield Lexeme("TEXT", " ".join(self._convert(word.value, word.start) for word in words), words[0].start, words[-1].end)

    @property
    def _text(self) -> str:
        return self.context.text

    @property
    def _name(self) -> str:
        return self.context.platform.conventions.name

    def _scan(self) -> Iterator[Lexeme]:
        at, before, words = self.line.start, "", 0
        while at < self.context.end:
            if self._text[at].isspace():
                at += 1
                continue
            lexeme = self._scan_lexeme(at, after_word=before == "WORD", after_term=before in ("WORD", "QUOTED", "RPAR", "READY"))
            if lexeme.kind == "FIELD" and words > 1:
                note = f"{self._name}: all words without quotation marks before this field are searched in it"
                self.context.findings.add("approximated", note, lexeme.start)
            yield lexeme
            before, at, words = lexeme.kind, lexeme.end, words + 1 if lexeme.kind == "WORD" else 0

    def _scan_lexeme(self, at: int, *, after_word: bool, after_term: bool) -> Lexeme:
        char, end, platform = self._text[at], self.context.end, self.context.platform
        if char in "()":
            return Lexeme("LPAR" if char == "(" else "RPAR", char, at, at + 1)
        if char in "&|" and has_only_references(self.line.text):
            return Lexeme("AND" if char == "&" else "OR", char, at, at + 1)
        for pattern, problem in (_SETTINGS, *platform.wrong):
            if match := pattern.match(self._text, at, end):
                raise BooleanSyntaxError(f"“{match.group()}”: {problem}", self._text, at)
        if special := self._scan_special(at):
            return special
        if match := _OPERATOR.match(self._text, at, end):
            kind = "NOT" if match["not"] else match["word"].upper()
            if match.group() != match.group().upper():
                message = "read as an operator; quote the phrase if the word belongs to it"
                self.context.findings.add("operator in lower case", message, at)
            return Lexeme(kind, match.group(), at, match.end())
        if after_term and (match := platform.proximity.match(self._text, at, end)):
            return self._scan_proximity(match)
        if not platform.is_suffix or after_term:
            match = platform.field.match(self._text, at, end)
            if match and (tags := self._find_tags(match, after_word=after_word)):
                return Lexeme("FIELD" if platform.is_suffix else "PREFIX", tags, at, match.end())
        if match := platform.reference.match(self._text, at, end):
            return Lexeme("READY", self.context.history.look_up(match.group(1), at), at, match.end())
        if char in QUOTES + platform.quotes and char not in "}’":
            return self._scan_quotation(at)
        return self._scan_word(at)

    def _scan_special(self, at: int) -> Lexeme | None:
        """A term in a form that only this platform has."""
        for pattern, make_node in SPECIAL_TERMS.get(self.context.platform.key, ()):
            if match := pattern.match(self._text, at, self.context.end):
                return Lexeme("READY", make_node(match, self.context, Span(at, match.end())), at, match.end())
        return None

    def _scan_proximity(self, match: re.Match[str]) -> Lexeme:
        groups, platform, at = match.groupdict(), self.context.platform, match.start()
        operator = (groups["operator"] or groups.get("bare") or "").upper()
        digits = groups["digits"]
        if digits is None and operator not in platform.distances:
            raise BooleanSyntaxError(f"{self._name} writes {operator} with a number", self._text, at, [f"{operator}/3"])
        number = int(digits) if digits else platform.distances[operator]
        distance = number if platform.counts_between else number - 1
        if not 0 <= distance <= MAX_DISTANCE:
            raise BooleanSyntaxError(f"proximity is at most {MAX_DISTANCE:,} words", self._text, at)
        return Lexeme("ADJ", (distance, operator in platform.ordered), at, match.end())

    def _find_tags(self, match: re.Match[str], *, after_word: bool) -> Tags:
        """The fields of a code or list of codes; empty if the text is no code. Raises `BooleanSyntaxError` for one that is not read."""
        platform, at = self.context.platform, match.start()
        text = match["codes"]
        is_case_sensitive = platform.key == "ebsco"
        codes = [" ".join((code if is_case_sensitive else code.lower()).split()) for code in text.split(",")]
        if any(code.upper() in ("AND", "OR", "NOT") for code in codes):
            return ()
        if is_case_sensitive and not self._is_ebsco_field(
            match, known=codes[0] in platform.fields or (codes[0] in platform.refused and not after_word)
        ):
            return ()
        for code in codes:
            if code in platform.refused:
                problem = f"“{text}” is a field of {self._name} that is not read here: {platform.refused[code]}; leave the term out"
                raise BooleanSyntaxError(problem, self._text, at)
            if code not in platform.fields:
                if after_word and not platform.is_suffix:
                    return ()
                hint = did_you_mean(code, sorted(platform.fields))
                raise BooleanSyntaxError(f"“{text}” is no field of {self._name} that is known here{hint}", self._text, at)
        found = [platform.fields[code] for code in codes]
        for one in found:
            if one.note:
                self.context.findings.add("approximated", f"{self._name}: {one.note}", at)
        return self.context.merge([tag for one in found for tag in one.tags])

    def _is_ebsco_field(self, match: re.Match[str], *, known: bool) -> bool:
        """Whether two capitals are a field and no word: `TI heart`, but not `TI AND heart` or `AI governance`."""
        place, end = match.end(), self.context.end
        if not known:
            return self._text[place : min(place + 1, end)] in QUOTES
        return not any(pattern.match(self._text, place, end) for pattern in (_OPERATOR, self.context.platform.proximity))

    def _scan_quotation(self, at: int) -> Lexeme:
        opening = self._text[at]
        if opening in "'‘":
            closing = _CLOSES_PHRASE.search(self._text, at + 1, self.context.end)
            end = closing.start() if closing else -1
        else:
            ends = _CLOSING.get(opening, QUOTES)
            end = next((place for place in range(at + 1, self.context.end) if self._text[place] in ends), -1)
        if end < 0:
            raise BooleanSyntaxError("this quotation is never closed", self._text, at, ["a quotation mark"])
        return Lexeme("QUOTED", self._convert(self._text[at + 1 : end], at + 1), at, end + 1)

    def _scan_word(self, at: int) -> Lexeme:
        stop, end = at, self.context.end
        is_suffix = self.context.platform.is_suffix
        while stop < end and not self._text[stop].isspace() and self._text[stop] not in "()" + QUOTES:
            if is_suffix and stop > at and self._text[stop] == ":" and self.context.platform.field.match(self._text, stop, end):
                break
            stop += 1
        if is_suffix and (suffix := _LOST_SUFFIX.match(self._text, at, stop)):
            raise BooleanSyntaxError(f"“{suffix.group()}” belongs behind a term; write it there, without a blank", self._text, at)
        if tag := _FOREIGN_TAG.search(self._text, at, stop):
            problem = f"“{tag.group()}” is PubMed's way to name a field; {self._name} has another: use one syntax in a query"
            raise BooleanSyntaxError(problem, self._text, tag.start())
        word = self._text[at:stop]
        if bracket := _BRACKET.search(word):
            problem = f"a “{bracket.group()}” is not read here; quote the term it belongs to"
            raise BooleanSyntaxError(problem, self._text, at + bracket.start())
        if glued := _GLUED.search(word):
            word, stop = word[: glued.start()], at + glued.start()
        if not word:
            raise BooleanSyntaxError("this character is not allowed here", self._text, at)
        if self.context.history.is_label(self.line, at, stop):
            return Lexeme("READY", self.context.history.look_up(word, at), at, stop)
        is_reference = word.isdigit() and len(word) < 5 and self.context.history.is_numbered
        if is_reference and has_only_references(self.line.text):
            return Lexeme("READY", self.context.history.look_up(word, at), at, stop)
        return Lexeme("WORD", word, at, stop)

    def _convert(self, text: str, at: int) -> str:
        """The platform's wildcards as ours. Raises `BooleanSyntaxError` for a wildcard that only others have."""
        signs = self.context.platform.wildcards
        for sign in _WILDCARD.finditer(text):
            if sign.group() not in signs:
                raise BooleanSyntaxError(f"“{sign.group()}” is no wildcard of {self._name}", self._text, at + sign.start(), sorted(signs))
        return "".join(" " if char in "{}" else signs.get(char, char) for char in text)
