"""PubMed's query syntax: its recognition, and the expression of a tree in it.

PubMed User Guide, pubmed.ncbi.nlm.nih.gov/help: "Truncation" (four characters or more before `*`, at the end of the last word), "Proximity
searching" (`[ti:~N]`, `[tiab:~N]`, `[ad:~N]`, any order, no truncation), "Search field tags". Abstracts have no tag of their own there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from outrider.boolean.diagnostics import BooleanSyntaxError
from outrider.boolean.field_tags import NAMES, TEXT_WORDS, TITLE_ABSTRACT, parse_tag
from outrider.boolean.parser import parse
from outrider.boolean.printer import format_tree
from outrider.boolean.relax import AllOf, AnyOf, join_all, join_any
from outrider.state.boolean import WORD_FIELDS, And, Dates, Either, Field, Heading, Leaf, Near, Node, Not, Pattern, Text, Words, children
from outrider.systematic_search.services.phrase_syntax import choices, is_wild, pieces, runs, stem
from outrider.systematic_search.services.translate import Condition, Nothing, RelaxedPart, Term, Wider, Without

SHORTEST_STEM = 4
OPEN = ("1000", "3000")
EVERYTHING = "all[sb]"
TAGS = {
    Field.TITLE: "ti", Field.KEYWORDS: "ot", Field.ALL: "all", Field.AUTHOR: "au", Field.JOURNAL: "ta", Field.LANGUAGE: "la",
    Field.PUBLICATION_TYPE: "pt", Field.PMID: "pmid", Field.DOI: "doi", Field.VOLUME: "vi", Field.ISSUE: "ip", Field.PAGES: "pg",
    Field.SUBSTANCE: "nm", Field.PHARMACOLOGICAL_ACTION: "pa", Field.AFFILIATION: "ad", Field.GRANT: "gr", Field.SUBSET: "sb",
    Field.ORIGINAL_TITLE: "tt",
}  # fmt: skip
VALUES = frozenset(tag for field, tag in TAGS.items() if field not in WORD_FIELDS)
"""Tags of fields that are compared as a whole."""
NEAR = frozenset({"ti", "tiab", "ad"})
OURS = frozenset({Field.ABSTRACT, Field.MESH, Field.BODY, Field.JOURNAL_WORDS})
_TAG_AFTER_PARENTHESIS = re.compile(r"\)\s*\[")
_TAGS = re.compile(r"\[([^\[\]]*)\]")
_QUOTED = re.compile(r'"[^"]*"')
_CURLY = str.maketrans("“”„‟″", '"""""')


def is_native(text: str, tree: Node) -> bool:
    """Whether PubMed reads this text as we do: it holds PubMed's syntax only, and the parser repaired nothing."""
    try:
        parsed = parse(text)
    except BooleanSyntaxError:
        return False
    if parsed.syntax != "pubmed" or parsed.tree != tree or any(warning.code == "quotes" for warning in parsed.warnings):
        return False
    unquoted = _QUOTED.sub(" ", text.translate(_CURLY))
    has_field_list = any("," in name and (tag := parse_tag(name)) and tag.kind == "text" for name in _TAGS.findall(unquoted))
    if _TAG_AFTER_PARENTHESIS.search(unquoted) or has_field_list or re.search(r"\bADJ\d*\b", unquoted):
        return False
    return _is_expressible(tree)


def native_text(text: str) -> str:
    """The text on one line, with straight quotation marks."""
    return " ".join(text.translate(_CURLY).split())


def _is_expressible(node: Node) -> bool:
    match node:
        case Not():
            return False  # as the first operand; the And below handles NOT after an operand
        case And(parts):
            return all(_is_expressible(part.part if isinstance(part, Not) and place else part) for place, part in enumerate(parts))
        case Text(pattern, fields):
            has_tag = fields in NAMES if len(fields) > 1 else fields[0] not in OURS
            return has_tag and _is_plain(pattern)
    return all(map(_is_expressible, children(node)))


def _is_plain(pattern: Pattern) -> bool:
    match pattern:
        case Words(words):
            return not any("{" in word for word in words)
        case Near(parts, _, ordered):
            return not ordered and all(isinstance(part, Words) and len(part.words) == 1 and _is_plain(part) for part in parts)
    return False


def translate_leaf(node: Leaf) -> RelaxedPart:
    """The leaf in PubMed's syntax; `Wider` or `Nothing` if PubMed cannot express it."""
    match node:
        case Text(pattern, fields):
            return _translate_text(pattern, fields)
        case Heading():
            return RelaxedPart(Term(format_tree(node), exact=True))
        case Dates(start, end, kind):
            dates = start if start == end and start else f"{start or OPEN[0]}:{end or OPEN[1]}"
            return RelaxedPart(Term(f"{dates}[{'edat' if kind == 'entry' else 'dp'}]", exact=True))
    return RelaxedPart(Term(EVERYTHING, exact=True))


def _translate_text(pattern: Pattern, fields: tuple[Field, ...]) -> RelaxedPart:
    if Field.JOURNAL_WORDS in fields:
        return RelaxedPart(Wider("PubMed does not look for words of journals"))
    if fields == (Field.BODY,):
        return RelaxedPart(Nothing("PubMed holds no full text"))
    tags, exact = _choose_tags(fields)
    relaxed = [_translate_pattern(pattern, tag) for tag in tags]
    wider = next((part for part in relaxed if isinstance(part.condition, Wider)), None)
    if wider is not None:
        return wider
    notes = [note for part in relaxed for note in part.widened]
    widened = (*notes, *(() if exact else (f"{', '.join(field.value for field in fields)}: searched as [{'], ['.join(tags)}]",)))
    condition = join_any(part.condition for part in relaxed)
    return RelaxedPart(condition if exact and not notes else _mark_inexact(condition), widened)


def _choose_tags(fields: tuple[Field, ...]) -> tuple[list[str], bool]:
    """Tags that together search all of the fields, and whether they search no other field."""
    searched = set(fields) - {Field.BODY}
    if Field.ALL in searched:
        return ["all"], True
    words = searched & set(TEXT_WORDS)
    if Field.MESH in words:
        tags, exact = ["tw"], words == set(TEXT_WORDS)
    elif Field.ABSTRACT in words:
        tags, exact = ["tiab"], words == set(TITLE_ABSTRACT)
    else:
        tags, exact = [TAGS[field] for field in Field if field in words], True
    return [*tags, *(TAGS[field] for field in Field if field in searched - words)], exact


def _translate_pattern(pattern: Pattern, tag: str) -> RelaxedPart:
    match pattern:
        case Words(words):
            return _translate_words(words, tag)
        case Either(parts):
            relaxed = [_translate_pattern(part, tag) for part in parts]
            wider = next((part for part in relaxed if isinstance(part.condition, Wider)), None)
            notes = tuple(note for part in relaxed for note in part.widened)
            return wider or RelaxedPart(join_any(part.condition for part in relaxed), notes)
        case Near():
            return _translate_near(pattern, tag)


def _translate_words(words: tuple[str, ...], tag: str) -> RelaxedPart:
    # a lone wildcard after a hyphen (`IL-*`) adds no condition
    plain = [word if not is_wild(word) or any(map(is_wild, pieces([word]))) else " ".join(pieces([word])) for word in words]
    text, split = " ".join(plain), pieces(words)
    wild = [piece for piece in split if is_wild(piece)]
    if not wild or (wild == [split[-1]] and _is_truncation(wild[0])):
        return RelaxedPart(Term(f'"{text}"[{tag}]', exact=True))
    if tag not in VALUES:
        terms: list[str] = []
        for has_wildcard, run in runs(words):
            parts = [f"{stem(piece)}*" if is_wild(piece) else piece for piece in pieces(run)] if has_wildcard else [" ".join(run)]
            terms += [part for part in parts if not has_wildcard or not is_wild(part) or _is_truncation(part)]
        if terms:
            condition: Condition = join_all(Term(f'"{term}"[{tag}]') for term in terms)
            return RelaxedPart(condition, (f"“{text}”: PubMed truncates the last word only, behind four characters",))
    return RelaxedPart(Wider(f"PubMed cannot search for “{text}”"))


def _is_truncation(piece: str) -> bool:
    return piece == f"{stem(piece)}*" and len(stem(piece)) >= SHORTEST_STEM


def _translate_near(pattern: Near, tag: str) -> RelaxedPart:
    combinations = choices(pattern)
    if combinations and tag in NEAR:
        exact = all(len(pieces(words)) == 1 for words in _iter_terms(pattern)) and not pattern.ordered
        near: Condition = join_any(Term(f'"{" ".join(words)}"[{tag}:~{pattern.distance}]', exact=exact) for words in combinations)
        return RelaxedPart(near, () if exact else ("a proximity of phrases, or in order, is sent word by word in any order",))
    relaxed = [part for inner in pattern.parts if not isinstance((part := _translate_pattern(inner, tag)).condition, Wider)]
    if not relaxed:
        return RelaxedPart(Wider("PubMed does not support this proximity"))
    note = "a proximity is sent as words anywhere in the record: PubMed has none for truncated words, or for this field"
    return RelaxedPart(_mark_inexact(join_all(part.condition for part in relaxed)), (note,))


def _iter_terms(pattern: Pattern) -> Iterator[tuple[str, ...]]:
    if isinstance(pattern, Words):
        yield pattern.words
        return
    for part in pattern.parts:
        yield from _iter_terms(part)


def _mark_inexact(condition: Condition) -> Condition:
    match condition:
        case Term(text):
            return Term(text)
        case AllOf(parts):
            return AllOf(tuple(map(_mark_inexact, parts)))
        case AnyOf(parts):
            return AnyOf(tuple(map(_mark_inexact, parts)))
    return condition


def render_query(condition: Condition) -> str:
    """The query's text, with parentheses around each joined part, but not around the whole."""
    match condition:
        case Term(text):
            return text
        case AnyOf(parts):
            return " OR ".join(map(_render_operand, parts))
        case AllOf(parts):
            required = [part for part in parts if not isinstance(part, Without)]
            excluded = [part.part for part in parts if isinstance(part, Without)]
            first = " AND ".join(map(_render_operand, required)) or EVERYTHING
            return "".join([first, *(f" NOT {_render_operand(part)}" for part in excluded)])
        case Without(part):
            return f"{EVERYTHING} NOT {_render_operand(part)}"
    raise AssertionError(condition)  # omitted parts never get here


def _render_operand(condition: Condition) -> str:
    return render_query(condition) if isinstance(condition, Term) else f"({render_query(condition)})"
