"""PubMed to the last hit: queries in its own syntax, sliced by the date of entry.

ESearch returns at most the first 9,999 numbers of an answer: NBK25499, "ESearch", retmax. Every article has a date of entry (`edat`), so
slices by it lose none. Long queries and lists of numbers go by POST, as NBK25497 requires.

The syntax, by the PubMed User Guide, pubmed.ncbi.nlm.nih.gov/help: "Truncation"
(four characters or more before `*`, at the end of the last word), "Proximity searching" (`[ti:~N]`, `[tiab:~N]`, `[ad:~N]`, any order, no
truncation), "Search field tags". Abstracts have no tag of their own there.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date

from outrider.boolean.diagnostics import BooleanSyntaxError
from outrider.boolean.field_tags import NAMES, TEXT_WORDS, TITLE_ABSTRACT, parse_tag
from outrider.boolean.parser import parse
from outrider.boolean.printer import format_tree
from outrider.boolean.relax import AllOf, AnyOf, join_all, join_any
from outrider.sources.http.service import Reply
from outrider.sources.pubmed import NAME, parse_articles, parse_search
from outrider.state.boolean import (
    LACKING,
    WORD_FIELDS,
    And,
    Dates,
    Either,
    Everything,
    Field,
    Heading,
    Leaf,
    Near,
    Node,
    Not,
    Pattern,
    Text,
    Words,
    children,
)
from outrider.state.errors import Malformed
from outrider.state.records import Record
from outrider.state.systematic import Harvest, MatchedPage, SentQuery
from outrider.systematic_search.services.phrase_syntax import choices, is_wild, pieces, runs, stem
from outrider.systematic_search.services.slice_reader import NOTE, Part, ServiceClient, ServicePage, read_slices
from outrider.systematic_search.services.translate import Condition, Nothing, RelaxedPart, Term, Wider, Without, limit_notes, relax_query
from outrider.systematic_search.services.verify_hits import HitVerifier, RecordView

MOST = 9_999
FETCH_SIZE = 500
"""Articles of one request: megabytes of XML."""
PARAMETERS = (("db", "pubmed"),)
FIRST_DAY = date(1900, 1, 1).toordinal()
HIDDEN = frozenset(
    {Field.ALL, Field.PUBLICATION_TYPE, Field.LANGUAGE, Field.JOURNAL, Field.AUTHOR, Field.JOURNAL_WORDS, Field.MESH, *LACKING}
)
"""Fields that PubMed searches beyond what it returns: narrower types, codes, former names, words of headings and substances."""
ACCEPTED = frozenset({200, 400})


@dataclass(frozen=True, slots=True)
class PubmedSource:
    """A `RemoteSource`."""

    client: ServiceClient
    today: Callable[[], date] = date.today
    most: int = MOST
    fetch_size: int = FETCH_SIZE
    name: str = NAME

    def translate(self, tree: Node, text: str) -> SentQuery:
        return translate_query(tree, text)

    def harvest(self, tree: Node, sent_query: SentQuery, into: Harvest, after: str = "") -> AsyncIterator[MatchedPage]:
        verifier = HitVerifier(tree, view_record, keeps_all=sent_query.native)
        return read_slices(_Reader(self.client, sent_query, self.today(), self.most, self.fetch_size), verifier, into, after)


def translate_query(tree: Node, text: str) -> SentQuery:
    """The text itself, if PubMed reads it as we do; else the tree in PubMed's syntax."""
    if is_native(text, tree):
        return SentQuery(NAME, native_text(text), PARAMETERS, native=True)
    if isinstance(tree, Everything):
        return SentQuery(NAME, refused="it asks for every record of PubMed")
    relaxed = relax_query(tree, translate_leaf)
    if isinstance(relaxed.condition, Wider | Nothing):
        return SentQuery(NAME, refused=f"no part of the query can narrow the search there; {relaxed.condition.why}")
    query = render_query(relaxed.condition)
    return SentQuery(NAME, query, PARAMETERS, limit_notes(relaxed.widened), lacking=limit_notes(relaxed.lacking))


def view_record(record: Record) -> RecordView:
    """PubMed explodes headings, compares days, and searches text that it does not return: there a mismatch of ours proves nothing."""
    return RecordView(record, HIDDEN if record.abstract else HIDDEN | {Field.ABSTRACT}, headings=False, dates=False)


@dataclass(slots=True)
class _Reader:
    client: ServiceClient
    query: SentQuery
    today: date
    most: int | None
    fetch_size: int
    name: str = NAME
    _ids: dict[Part, tuple[tuple[int, ...], int | None, str]] = field(default_factory=dict)
    """Numbers, total and warning of the slice that is being read."""

    async def read(self, part: Part, place: str, *, anyway: bool) -> ServicePage:
        """The next articles, by PMID; `place` is the last one that was fetched."""
        if part not in self._ids:
            fields: dict[str, str | int] = {"term": self.query.query, **dict(self.query.parameters), "retmode": "json", "tool": "outrider"}
            if part is not None:
                fields |= {"datetype": "edat", "mindate": _format_day(part[0]), "maxdate": _format_day(part[1])}
            search_result = parse_search(await self._post("esearch", {**fields, "retmax": self.most or MOST}))
            self._ids = {part: (tuple(sorted(map(int, search_result.ids))), search_result.total, search_result.warned)}
        ids, total, warning = self._ids[part]
        if (total or 0) > (self.most or 0) and not anyway:
            return ServicePage((), total)
        start = bisect_right(ids, int(place)) if place else 0
        batch = ids[start : start + self.fetch_size]
        records = await self._fetch(batch) if batch else []
        remarks = [f"{NOTE}{NAME}: {warning}"] if warning and not place else []
        if len(records) < len(batch):
            missing = sorted(set(batch) - {int(record.identifiers.pmid or 0) for record in records})
            remarks.append(f"{len(missing):,} of {len(batch):,} numbers have no record: {', '.join(map(str, missing[:5]))}")
        is_last = not batch or start + self.fetch_size >= len(ids)
        return ServicePage(tuple(records), total, "" if is_last else str(batch[-1]), tuple(remarks))

    async def _fetch(self, ids: tuple[int, ...]) -> list[Record]:
        fields = {"db": "pubmed", "retmode": "xml", "tool": "outrider", "id": ",".join(map(str, ids))}
        fetched = await asyncio.to_thread(parse_articles, await self._post("efetch", fields))
        if not fetched.whole:
            raise Malformed(f"{NAME}: an answer with articles broke off")
        return [fetched.papers[str(pmid)] for pmid in ids if str(pmid) in fetched.papers]

    async def _post(self, tool: str, fields: Mapping[str, str | int]) -> Reply:
        return await self.client.post_form(f"/entrez/eutils/{tool}.fcgi", fields, ACCEPTED)

    def halves(self, part: Part) -> tuple[Part, Part] | None:
        """Split by days; the first and the last slice are open at their ends."""
        first, last = part or (1, date(3000, 12, 31).toordinal())
        if first == last:
            return None
        low, high = max(first, FIRST_DAY), min(last, self.today.toordinal() + 1)
        middle = (low + high) // 2 if low < high else (first + last) // 2
        return (first, middle), (middle + 1, last)

    def label(self, part: Part) -> str:
        return "all" if part is None else f"entered {' to '.join(map(_format_day, part))}"


def _format_day(number: int) -> str:
    day = date.fromordinal(number)
    return f"{day.year:04d}/{day.month:02d}/{day.day:02d}"


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
