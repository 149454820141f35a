"""Remarks that need the library: terms without a match, and values that records lack.

A leaf on a missing value is false. So a limit to years drops every record without a year, `Aspirin[mh]` every record that nobody indexed,
and `NOT letter[pt]` keeps every record without a type. Each case is counted. Where more is at stake than the part alone, so are the records
whose match depends on it: those that would match, or be excluded, if the missing value fulfilled the leaves on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from outrider.boolean.diagnostics import Finding, Findings, find_empty_terms, iter_leaves
from outrider.boolean.document import Document, Readable, lacks
from outrider.boolean.evaluator import Evaluator
from outrider.state.boolean import LACKING, And, Dates, Everything, Field, Heading, Leaf, Node, Not, Or, RecordPart, Text, children
from outrider.state.systematic import Matched, PinnedLibrary

NAMES: Mapping[RecordPart, str] = {
    "year": "year", "headings": "MeSH heading", "qualifiers": "MeSH heading with a qualifier", Field.TITLE: "title",
    Field.ABSTRACT: "abstract", Field.KEYWORDS: "keyword", Field.BODY: "stored text", Field.AUTHOR: "author", Field.JOURNAL: "journal",
    Field.LANGUAGE: "language", Field.PUBLICATION_TYPE: "publication type", Field.PMID: "PMID", Field.DOI: "DOI",
    Field.VOLUME: "volume", Field.ISSUE: "issue", Field.PAGES: "page number",
}  # fmt: skip
SAME_PART: Mapping[Field, RecordPart] = {Field.MESH: "headings", Field.JOURNAL_WORDS: Field.JOURNAL}
NOTHING = Not(Everything())
HITS_TESTED = 1_000
"""Hits of a run that show which terms match something; the library is asked about the others."""


@dataclass(frozen=True, slots=True)
class _Use:
    """A leaf that reads a part; `alone` if it reads nothing else."""

    leaf: Leaf
    part: RecordPart
    alone: bool
    negated: bool


@dataclass(slots=True)
class TermCheck:
    """Which terms of a query match nothing in a library, asked of the hits of a run first: most terms match one of them."""

    tree: Node
    text: str
    """The query as parsed."""
    _untested: int = HITS_TESTED
    _unseen: list[tuple[Leaf, Evaluator]] = field(init=False)

    def __post_init__(self) -> None:
        self._unseen = [(leaf, Evaluator(leaf)) for leaf in iter_leaves(self.tree)]

    def see(self, hits: Sequence[Matched]) -> None:
        """Note which terms match these hits."""
        for hit in hits[: self._untested]:
            document = Document(hit.record)
            self._unseen = [(leaf, evaluator) for leaf, evaluator in self._unseen if not evaluator.matches(document)]
        self._untested -= len(hits[: self._untested])

    async def find_empty(self, library: PinnedLibrary) -> tuple[Finding, ...]:
        """A remark on the terms that match no record. Raises `LibraryError`."""
        empty = {id(leaf) for leaf, _ in self._unseen if not await library.has_hits(leaf)}
        return find_empty_terms(self.tree, lambda leaf: 0 if id(leaf) in empty else None, self.text)


async def find_missing_values(tree: Node, text: str, library: PinnedLibrary) -> tuple[Finding, ...]:
    """A remark for each part that leaves read and records lack, with its place in `text`, the query as parsed. Raises `LibraryError`."""
    findings, total = Findings(text), await library.count(Everything())
    uses = list(_find_uses(tree, False, set()))
    lacking_by_part = {part: await library.count_without(part) for part in dict.fromkeys(use.part for use in uses)}
    uses = [use for use in uses if lacking_by_part[use.part]]
    counts = _Counts(tree, frozenset(use.part for use in uses if use.alone), library)
    for part in dict.fromkeys(use.part for use in uses):
        lacking = lacking_by_part[part]
        head = f"{lacking:,} of {total:,} records {'has' if lacking == 1 else 'have'} no {NAMES[part]}"
        of_part = [use for use in uses if use.part == part]
        for negated in (False, True):
            if leaves := [use.leaf for use in of_part if use.alone and use.negated is negated]:
                tail = await (counts.describe_kept if negated else counts.describe_lost)(part, lacking)
                for leaf in leaves:
                    findings.add("missing values", head + tail, leaf.at)
        for use in of_part:
            if not use.alone:
                findings.add("missing values", f"{head}: only {'its' if lacking == 1 else 'their'} other fields were searched", use.leaf.at)
    return findings.all()


def _find_uses(node: Node, negated: bool, visited: set[tuple[int, bool]]) -> Iterator[_Use]:
    """In the order of the query; a part that several lines share is visited once."""
    if (id(node), negated) in visited:
        return
    visited.add((id(node), negated))
    if not (below := children(node)):
        part, alone = _find_part(node)  # type: ignore[arg-type] # a node without children is a leaf
        if part is not None:
            yield _Use(node, part, alone, negated)  # type: ignore[arg-type]
    for child in below:
        yield from _find_uses(child, negated is not isinstance(node, Not), visited)


def _find_part(leaf: Leaf) -> tuple[RecordPart | None, bool]:
    """The part that a leaf reads, and whether it reads nothing else. Of several fields the abstract is the one whose absence matters."""
    match leaf:
        case Dates():
            return "year", True
        case Heading(_, qualifier):
            return ("qualifiers" if qualifier else "headings"), True
        case Text(_, fields):
            parts = {SAME_PART.get(field, field) for field in fields if field not in LACKING}
            if len(parts) == 1 and Field.ALL not in parts:
                return parts.pop(), True
            if not parts.isdisjoint((Field.ABSTRACT, Field.ALL)):
                return Field.ABSTRACT, False
    return None, False


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counts the records whose match depends on a part that they lack."""

    tree: Node
    parts: frozenset[RecordPart]
    """Those that some records lack, and that a leaf reads alone."""
    library: PinnedLibrary
    _evaluators: dict[tuple[frozenset[RecordPart], bool], Evaluator] = field(default_factory=dict)

    async def describe_lost(self, part: RecordPart, lacking: int) -> str:
        """The records that a positive leaf did not match. One that lacks other parts as well is taken to fulfil the leaves on these."""
        only_part = isinstance(_fulfil(self.tree, frozenset({part}), negated=False), Everything)

        def test(record: Readable) -> bool:
            missing = frozenset(other for other in self.parts if lacks(record, other))
            document = Document(record)
            return part in missing and self._matches(document, missing) and not self._matches(document, missing - {part})

        most = _fulfil(self.tree, self.parts, negated=False)
        lost = 0 if only_part else await self.library.count_if(most, part, test)
        if _can_match(self.tree, part):
            text = " and could match only by other parts of the query"
            return text + (f"; {lost:,} of them did not, and might with a fitting {NAMES[part]}" if lost else "")
        text = f" and {'was' if lacking == 1 else 'were'} not matched"
        rest = f"; {f'{lost:,}' if lost else 'none'} of them {'fits' if lost < 2 else 'fit'} the rest of the query"
        return text if only_part else text + rest

    async def describe_kept(self, part: RecordPart, lacking: int) -> str:
        """The records that a negated leaf did not exclude."""
        only = frozenset({part})

        def test(record: Readable) -> bool:
            document = Document(record)
            return lacks(record, part) and self._matches(document, frozenset()) and not self._matches(document, only, negated=True)

        kept = await self.library.count_if(self.tree, part, test)
        text = f" and {'was' if lacking == 1 else 'were'} not excluded"
        return f"{text}; {f'{kept:,}' if kept else 'none'} of them {'is' if kept < 2 else 'are'} among the hits"

    def _matches(self, document: Document, fulfilled: frozenset[RecordPart], *, negated: bool = False) -> bool:
        key = (fulfilled, negated)
        if key not in self._evaluators:
            self._evaluators[key] = Evaluator(_fulfil(self.tree, fulfilled, negated=negated))
        return self._evaluators[key].matches(document)


def _fulfil(node: Node, parts: frozenset[RecordPart], *, negated: bool, inside: bool = False) -> Node:
    """The tree with every leaf on one of the parts alone taken as fulfilled: the positive ones, or the negated ones. Simplified."""
    match node:
        case And(children) | Or(children):
            below = [_fulfil(child, parts, negated=negated, inside=inside) for child in children]
            neutral, absorbing = (Everything(), NOTHING) if isinstance(node, And) else (NOTHING, Everything())
            rest = tuple(child for child in below if child != neutral)
            if absorbing in rest or not rest:
                return absorbing if rest else neutral
            return rest[0] if len(rest) == 1 else type(node)(rest)
        case Not(child):
            inner = _fulfil(child, parts, negated=negated, inside=not inside)
            return inner.part if isinstance(inner, Not) else Not(inner)
    part, alone = _find_part(node)
    return Everything() if inside is negated and alone and part in parts else node


def _can_match(node: Node, part: RecordPart, *, wanted: bool = True) -> bool:
    """Whether a record without the part can match, as far as the operators show; with `wanted` false, whether it can fail to."""
    match node:
        case And(parts) | Or(parts):
            combine = all if isinstance(node, And) is wanted else any
            return combine(_can_match(child, part, wanted=wanted) for child in parts)
        case Not(child):
            return _can_match(child, part, wanted=not wanted)
        case Everything():
            return wanted
    return not wanted or _find_part(node) != (part, True)
