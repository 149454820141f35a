"""A tree in PubMed's own syntax, as far as it goes; and whether a query is written in it already.

PubMed User Guide, pubmed.ncbi.nlm.nih.gov/help: "Truncation" (four characters or more before `*`, at the end of the last word), "Proximity
searching" (`[ti:~N]`, `[tiab:~N]`, `[ad:~N]`, any order, no truncation), "Search field tags". Abstracts have no tag of their own there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from outrider.boolean.diagnostics import BooleanSyntaxError
from outrider.boolean.field_tags import NAMES, TEXT_WORDS, TITLE_ABSTRACT, tag_of
from outrider.boolean.parser import parse
from outrider.boolean.printer import printed
from outrider.boolean.relax import AllOf, AnyOf, all_of, any_of
from outrider.state.boolean import WORD_FIELDS, And, Dates, Either, Field, Heading, Leaf, Near, Node, Not, Pattern, Text, Words, children
from outrider.systematic_search.services.phrase_syntax import choices, is_wild, pieces, runs, stem
from outrider.systematic_search.services.relax import Bound, Bounded, Nothing, Term, Wider, Without

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
"""Of fields that are compared as a whole."""
NEAR = frozenset({"ti", "tiab", "ad"})
OURS = frozenset({Field.ABSTRACT, Field.MESH, Field.BODY, Field.JOURNAL_WORDS})
_TAG_BEHIND = re.compile(r"\)\s*\[")
_TAGS = re.compile(r"\[([^\[\]]*)\]")
_QUOTED = re.compile(r'"[^"]*"')
_CURLY = str.maketrans("“”„‟″", '"""""')


def is_native(text: str, tree: Node) -> bool:
    """Whether PubMed reads this text as it stands: its syntax alone, nothing mended, nothing of ours."""
    try:
        parsed = parse(text)
    except BooleanSyntaxError:
        return False
    if parsed.syntax != "pubmed" or parsed.tree != tree or any(finding.code == "quotes" for finding in parsed.warnings):
        return False
    bare = _QUOTED.sub(" ", text.translate(_CURLY))
    commas = any("," in said and (tag := tag_of(said)) and tag.kind == "text" for said in _TAGS.findall(bare))
    return not (_TAG_BEHIND.search(bare) or commas or re.search(r"\bADJ\d*\b", bare)) and _is_sayable(tree)


def native_text(text: str) -> str:
    """On one line, with straight quotation marks."""
    return " ".join(text.translate(_CURLY).split())


def _is_sayable(node: Node) -> bool:
    match node:
        case Not():
            return False  # at the beginning of something; what follows an operand is looked at below
        case And(parts):
            return all(_is_sayable(part.part if isinstance(part, Not) and place else part) for place, part in enumerate(parts))
        case Text(pattern, fields):
            own = len(fields) == 1 or fields in NAMES
            return own and (len(fields) > 1 or fields[0] not in OURS) and _is_plain(pattern)
    return all(map(_is_sayable, children(node)))


def _is_plain(pattern: Pattern) -> bool:
    match pattern:
        case Words(words):
            return not any("{" in word for word in words)
        case Near(parts, _, ordered):
            return not ordered and all(isinstance(part, Words) and len(part.words) == 1 and _is_plain(part) for part in parts)
    return False


def leaf(node: Leaf) -> Bounded:
    match node:
        case Text(pattern, fields):
            return _text(pattern, fields)
        case Heading():
            return Bounded(Term(printed(node), exact=True))
        case Dates(start, end, kind):
            said = start if start == end and start else f"{start or OPEN[0]}:{end or OPEN[1]}"
            return Bounded(Term(f"{said}[{'edat' if kind == 'entry' else 'dp'}]", exact=True))
    return Bounded(Term(EVERYTHING, exact=True))


def _text(pattern: Pattern, fields: tuple[Field, ...]) -> Bounded:
    if Field.JOURNAL_WORDS in fields:
        return Bounded(Wider("PubMed does not look for words of journals"))
    if fields == (Field.BODY,):
        return Bounded(Nothing("PubMed holds no full text"))
    tags, exact = _covering(fields)
    found = [_pattern(pattern, tag) for tag in tags]
    wider = next((one for one in found if isinstance(one.bound, Wider)), None)
    if wider is not None:
        return wider
    notes = [note for one in found for note in one.widened]
    widened = (*notes, *(() if exact else (f"{', '.join(field.value for field in fields)}: asked for as [{'], ['.join(tags)}]",)))
    bound = any_of(one.bound for one in found)
    return Bounded(bound if exact and not notes else _inexact(bound), widened)


def _covering(fields: Iterable[Field]) -> tuple[list[str], bool]:
    """Tags that together look into all of the fields, and whether into no other."""
    asked = set(fields) - {Field.BODY}
    if Field.ALL in asked:
        return ["all"], True
    words = asked & set(TEXT_WORDS)
    if Field.MESH in words:
        tags, exact = ["tw"], words == set(TEXT_WORDS)
    elif Field.ABSTRACT in words:
        tags, exact = ["tiab"], words == set(TITLE_ABSTRACT)
    else:
        tags, exact = [TAGS[field] for field in Field if field in words], True
    return [*tags, *(TAGS[field] for field in Field if field in asked - words)], exact


def _pattern(pattern: Pattern, tag: str) -> Bounded:
    match pattern:
        case Words(words):
            return _words(words, tag)
        case Either(parts):
            found = [_pattern(part, tag) for part in parts]
            wider = next((one for one in found if isinstance(one.bound, Wider)), None)
            return wider or Bounded(any_of(one.bound for one in found), tuple(note for one in found for note in one.widened))
        case Near():
            return _near(pattern, tag)


def _words(words: tuple[str, ...], tag: str) -> Bounded:
    cut = pieces(words)
    text = " ".join(word if any(map(is_wild, pieces([word]))) else _plain(word) for word in words)
    wild = [piece for piece in cut if is_wild(piece)]
    if not wild or (wild == [cut[-1]] and _is_truncation(wild[0])):
        return Bounded(Term(f'"{text}"[{tag}]', exact=True))
    if tag not in VALUES:
        said = [term for is_one, run in runs(words) for term in _run(is_one, run, tag)]
        if said:
            return Bounded(_inexact(all_of(said)), (f"“{text}”: PubMed truncates the last word only, behind four characters",))
    return Bounded(Wider(f"PubMed cannot be asked for “{text}”"))


def _plain(word: str) -> str:
    """A sign that stands alone behind a hyphen (`IL-*`) asks for nothing."""
    return " ".join(pieces([word])) if is_wild(word) else word


def _run(wild: bool, run: tuple[str, ...], tag: str) -> list[Term]:
    if not wild:
        return [Term(f'"{" ".join(run)}"[{tag}]')]
    cut = [f"{stem(piece)}*" if is_wild(piece) else piece for piece in pieces(run)]
    return [Term(f'"{piece}"[{tag}]') for piece in cut if not is_wild(piece) or _is_truncation(piece)]


def _is_truncation(piece: str) -> bool:
    return piece == f"{stem(piece)}*" and len(stem(piece)) >= SHORTEST_STEM


def _near(pattern: Near, tag: str) -> Bounded:
    chosen = choices(pattern)
    if chosen and tag in NEAR:
        single = all(len(pieces(word)) == 1 for word in _each(pattern)) and not pattern.ordered
        bound: Bound = any_of(Term(f'"{" ".join(words)}"[{tag}:~{pattern.distance}]', exact=single) for words in chosen)
        return Bounded(bound, () if single else ("a proximity of phrases, or in order, is asked for word by word in any order",))
    found = [one for part in pattern.parts if not isinstance((one := _pattern(part, tag)).bound, Wider)]
    if not found:
        return Bounded(Wider("PubMed cannot be asked for such a proximity"))
    note = "a proximity is asked for as words that stand anywhere: PubMed has none for truncated words, or for this field"
    return Bounded(_inexact(all_of(one.bound for one in found)), (note,))


def _each(pattern: Pattern) -> Iterator[tuple[str, ...]]:
    if isinstance(pattern, Words):
        yield pattern.words
        return
    for part in pattern.parts:
        yield from _each(part)


def _inexact(bound: Bound) -> Bound:
    match bound:
        case Term(text):
            return Term(text)
        case AllOf(parts):
            return AllOf(tuple(map(_inexact, parts)))
        case AnyOf(parts):
            return AnyOf(tuple(map(_inexact, parts)))
    return bound


def said(bound: Bound) -> str:
    """With parentheses around all that is joined."""
    match bound:
        case Term(text):
            return text
        case AnyOf(parts):
            return " OR ".join(map(_operand, parts))
        case AllOf(parts):
            held = [part for part in parts if not isinstance(part, Without)]
            taken = [part.part for part in parts if isinstance(part, Without)]
            first = " AND ".join(map(_operand, held)) or EVERYTHING
            return "".join([first, *(f" NOT {_operand(part)}" for part in taken)])
        case Without(part):
            return f"{EVERYTHING} NOT {_operand(part)}"
    raise AssertionError(bound)  # what is left out never comes here


def _operand(bound: Bound) -> str:
    return said(bound) if isinstance(bound, Term) else f"({said(bound)})"
