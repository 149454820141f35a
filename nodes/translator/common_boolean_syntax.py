"""Boolean queries that any source understands: words, phrases, AND, OR, NOT."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from outrider.state.boolean import WORD_FIELDS, And, Either, Field, Heading, Near, Node, Not, Or, Pattern, Text, Words
from outrider.state.request import searchable
from outrider.text.words import STOP_WORDS, stems, words

PART = re.compile(r'\s*("[^"]*"|[()]|[^\s()"]+)')
OPERATORS = frozenset({"AND", "OR", "NOT"})
OPERATOR = re.compile(r"\b(?:AND|OR|NOT)\b")
FIELD = re.compile(r"[\[\]]|^\w+:")
"""`[Title]`, `title:`: each source has its own names."""
SYNONYM = re.compile(r"([^:]+):\s+(.*\w.*)")
"""`liver injury: hepatotoxicity`, but neither `std::vector` nor `10:1`."""
WILDCARD = re.compile(r"\{[^}]*\}.*|\*.*")
"""Of a word of a tree; only a `*` at the end is common to all sources."""
TRUNCATED = re.compile(r"[^\W_]+\*")
STRAIGHT_QUOTES = str.maketrans("“”„‟″«»", '"' * 7)
AROUND = ".,;:!?()[]'’"
PLAIN = re.compile(r"[^\W_]+(?:[-+#.'’/][^\W_]+)*[+#]*")


def conjunction(terms: Iterable[str], left_out: Iterable[str] = ()) -> str:
    """Terms joined with AND, each quoted unless it is one plain word; then NOT before each operand of `left_out`, unchanged."""
    return " NOT ".join((" AND ".join(quote(term) for term in terms), *left_out))


def quote(term: str) -> str:
    """The term as one operand: in quotes unless it is one plain word."""
    return term if PLAIN.fullmatch(term) and term.upper() not in OPERATORS else f'"{term.replace(chr(34), " ").strip()}"'


def parses(query: str) -> bool:
    """Whether operands stand between operators, and parentheses and quotes are closed. Adjacent words mean AND."""
    parts = _split(query)
    expects_operand, depth, before = True, 0, "("
    for part in parts:
        if part == ")":
            if expects_operand or not depth:
                return False
            depth -= 1
        elif part == "(":
            expects_operand, depth = True, depth + 1
        elif part in OPERATORS:
            if expects_operand and (part != "NOT" or before not in ("AND", "OR")):
                return False
            expects_operand = True
        elif not searchable(part) or (part[0] != '"' and FIELD.search(part)):
            return False
        else:
            expects_operand = False
        before = part
    return bool(parts) and not expects_operand and not depth


def to_common_syntax(query: str) -> str:
    """A query in the syntax of PubMed, Ovid, Scopus or another platform as words, phrases, AND, OR, NOT; empty if it cannot be read.

    Fields, dates, values such as authors, and stop words are left out; proximity becomes AND, and a heading its words. An alternative
    that excludes something is left out too: almost every record would match it. So is NOT before a field or proximity: without these it
    would exclude more. A query that says the same already stays as it is.
    """
    from outrider.boolean.diagnostics import BooleanSyntaxError
    from outrider.boolean.parser import parse  # here, since a request without operators does not need it

    try:
        query = query.translate(STRAIGHT_QUOTES)
        tree = parse(query).tree
        common = _write(tree)
        is_same = bool(common) and parse(common).tree == tree
    except BooleanSyntaxError:
        return ""
    is_clear = "NOT" not in query  # of words after NOT, parsers exclude one or all; the common form has parentheses
    return query if is_same and is_clear and parses(query) else common


def _write(node: Node) -> str:
    """The node as one operand or as operands joined by one operator; empty if no word of it is left."""
    match node:
        case And(parts):
            parts = tuple(inner for part in parts for inner in (part.parts if isinstance(part, And) else (part,)))
            required = list(dict.fromkeys(filter(None, (_write(part) for part in parts if not isinstance(part, Not)))))
            left_out = [part.part for part in parts if isinstance(part, Not) and _is_in_any_text(part.part)]
            excluded = [operand for part in left_out if (operand := _enclose(_write(part)))]
            if excluded and len(required) == 1:
                required = [_enclose(required[0])]
            return " NOT ".join((_join(required, " AND "), *excluded)) if required else ""
        case Or(parts):
            return _join([_write(part) for part in parts], " OR ")
        case Text(pattern, fields) if WORD_FIELDS & set(fields):
            return _write_pattern(pattern)
        case Heading(name):
            return _write_words(name.split())
    return ""


def _is_in_any_text(node: Node) -> bool:
    """Whether the common syntax, which has no fields and no proximity, excludes no more than NOT before this node."""
    match node:
        case Text(Words(), fields):
            return not {Field.ALL, Field.ABSTRACT}.isdisjoint(fields)
        case And(parts) | Or(parts):
            return all(map(_is_in_any_text, parts))
    return False


def _write_pattern(pattern: Pattern) -> str:
    match pattern:
        case Words(parts):
            return _write_words(parts)
        case Either(parts):
            return _join([_write_pattern(part) for part in parts], " OR ")
        case Near(parts):
            return _join([_write_pattern(part) for part in parts], " AND ")


def _write_words(parts: Sequence[str]) -> str:
    text = " ".join(WILDCARD.sub("*", part).strip(AROUND) for part in parts).strip()
    is_left_out = len(parts) == 1 and (STOP_WORDS.issuperset(words(text.casefold())) or FIELD.search(text))
    if not searchable(text) or is_left_out:
        return ""
    return text if TRUNCATED.fullmatch(text) else quote(text)


def _join(operands: Iterable[str], operator: str) -> str:
    known = list(dict.fromkeys(filter(None, operands)))
    return known[0] if len(known) == 1 else operator.join(map(_enclose, known))


def _enclose(operand: str) -> str:
    return f"({operand})" if len(_split(operand)) > 1 else operand


def split_negated(query: str) -> tuple[str, tuple[str, ...]]:
    """The words and phrases that a query requires or allows, and the operands that NOT excludes. Without valid syntax all words count.

    `liver (scan OR "x-ray") NOT heart` gives `liver scan "x-ray"` and `heart`.
    """
    if not parses(query):
        return OPERATOR.sub(" ", query), ()
    parts = _split(query)
    included: list[str] = []
    excluded: list[str] = []
    at = 0
    while at < len(parts):
        begin, at = at, at + 1
        if parts[begin] == "NOT":
            depth = (parts[at] == "(") - (parts[at] == ")")
            while depth and at + 1 < len(parts):  # the operand ends with its closing parenthesis
                at += 1
                depth += (parts[at] == "(") - (parts[at] == ")")
            at += 1
            excluded.append(" ".join(parts[begin + 1 : at]))
        elif parts[begin] not in {"(", ")", *OPERATORS}:
            included.append(parts[begin])
    return " ".join(included), tuple(excluded)


def says_more(query: str, text: str) -> bool:
    """Whether the query names a word that the text does not name, or excludes one."""
    included, excluded = split_negated(query)
    return bool(excluded) or not set(stems(included)) <= set(stems(text))


def list_phrases(query: str) -> tuple[str, ...]:
    """Terms of several words, without those that NOT excludes; each once."""
    return tuple(dict.fromkeys(part for part in list_terms(split_negated(query)[0]) if len(words(part)) > 1))


def join_synonyms(query: str, synonyms: Iterable[str]) -> str:
    """The query with each synonym joined by OR to the term of its concept.

    A synonym may name its concept: `liver injury: hepatotoxicity`. Else the concept is the term of which it is the abbreviation, or that
    is its own; then the term with which it shares most words, then the first one without an alternative, then the first. A synonym that
    the query has already, or excludes, is left out. A query that cannot be read stays as it is.
    """
    for synonym in synonyms:
        parts = _split(query) if parses(query) else ()
        concept, name = split_synonym(synonym)
        included, excluded = split_negated(query)
        known = {_key(term) for operand in (included, *excluded) for term in list_terms(operand)}
        if not parts or not searchable(name) or _key(name) in known:
            continue
        at = _find_concept(parts, concept, name)
        if at is not None:
            around = {parts[at - 1] if at else "(", parts[at + 1] if at + 1 < len(parts) else ")"}
            is_alternative = "OR" in around and around <= {"OR", "(", ")"}
            joined = f"{parts[at]} OR {quote(name)}"
            query = " ".join((*parts[:at], joined if is_alternative else f"({joined})", *parts[at + 1 :]))
            query = query.replace("( ", "(").replace(" )", ")")
    return query


def split_synonym(synonym: str) -> tuple[str, str]:
    """Concept and name; the concept is empty for a plain name."""
    named = SYNONYM.fullmatch(synonym)
    return (named[1], named[2]) if named else ("", synonym)


def _find_concept(parts: Sequence[str], concept: str, synonym: str) -> int | None:
    """The place of the term that a synonym joins."""
    excluded = _find_excluded(parts)
    places = [place for place, part in enumerate(parts) if part not in {"(", ")", *OPERATORS} and place not in excluded]
    if not places:
        return None

    def rank(place: int) -> tuple[bool, bool, int, bool, int]:
        term = parts[place].strip('"')
        shared = set(stems(concept or synonym)) & set(stems(term))
        is_alone = "OR" not in parts[max(place - 1, 0) : place + 2]
        return _key(term) == _key(concept), _abbreviates(term, synonym), len(shared), is_alone, -place

    return max(places, key=rank)


def _find_excluded(parts: Sequence[str]) -> set[int]:
    """The places of NOT's operands: a term each, or all of its parentheses."""
    places: set[int] = set()
    for place, part in enumerate(parts):
        if part == "NOT":
            depth, at = 0, place + 1
            while at < len(parts):
                depth += (parts[at] == "(") - (parts[at] == ")")
                places.add(at)
                if not depth:
                    break
                at += 1
    return places


def _abbreviates(one: str, other: str) -> bool:
    """Whether one is made of the initials of the other: `LLM` of `large language models`."""
    short, long = sorted((one, other), key=len)
    letters = short.casefold().rstrip("s")
    initials = "".join(word[0] for word in words(long))
    return len(letters) > 1 and letters == initials


def _key(term: str) -> str:
    return " ".join(stems(term)) or term.casefold().strip('" ')


def list_terms(query: str) -> list[str]:
    """The words and phrases of a query, without quotation marks."""
    return [part.strip('"') for part in PART.findall(query) if part not in {"(", ")", *OPERATORS}]


@lru_cache(maxsize=256)
def _split(query: str) -> Sequence[str]:
    """Words, phrases, operators and parentheses; empty if a quote is not closed. Kept: every strategy of a search asks for the same."""
    parts: list[str] = []
    at, text = 0, query.strip()
    while at < len(text):
        match = PART.match(text, at)
        if not match:
            return ()
        parts.append(match.group(1))
        at = match.end()
    return tuple(parts)
