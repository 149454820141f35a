"""Warnings about parts of a query that a library, or PubMed, may treat in an unexpected way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from outrider.boolean.diagnostics import Finding, Findings
from outrider.boolean.field_tags import NAMES
from outrider.boolean.occurrences import WILD, stem_length
from outrider.state.boolean import LACKING, Dates, Heading, Leaf, Node, Pattern, Text, Words, children

SHORTEST_STEM = 4
"""PubMed truncates from four characters on (User Guide, "Truncating search terms")."""


def add_remarks(tree: Node, findings: Findings) -> None:
    """Add the warnings about a tree to those about its text."""
    for leaf in iter_leaves(tree):
        match leaf:
            case Text():
                _remark_text(leaf, findings)
            case Heading(name, _, explode, major):
                if explode and name:
                    below = "PubMed also finds the headings below this one; a library has no tree, and finds the heading itself only"
                    findings.add("explosion", below, leaf.at)
                if major:
                    any_place = "a library does not know which headings are major; it finds the heading wherever it stands"
                    findings.add("major topic", any_place, leaf.at)
            case Dates(_, _, "entry"):
                findings.add("not in a library", "a library has no dates of entry; years of publication are compared instead", leaf.at)
            case Dates(start, end) if any(date and len(date) > 4 for date in (start, end)):
                findings.add("only years", "a library knows years; months and days are left out of account", leaf.at)


def iter_leaves(tree: Node) -> Iterator[Leaf]:
    """Each leaf once, in the order of the query."""
    seen: set[int] = set()
    stack = [tree]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        below = children(node)
        stack += reversed(below)
        if not below:
            yield node  # type: ignore[misc] # a node without children is a leaf


def find_empty_terms(tree: Node, hits: Callable[[Node], int | None], text: str) -> tuple[Finding, ...]:
    """A warning for each leaf without a hit. `hits` counts those of a node; None means unknown."""
    findings = Findings(text)
    for leaf in iter_leaves(tree):
        if hits(leaf) == 0:
            findings.add("empty", "this term matches nothing", leaf.at)
    return findings.all()


def iter_words(pattern: Pattern) -> Iterator[str]:
    if isinstance(pattern, Words):
        yield from pattern.words
    else:
        for part in pattern.parts:
            yield from iter_words(part)


def _remark_text(leaf: Text, findings: Findings) -> None:
    for name in leaf.fields:
        if name in LACKING:
            findings.add("not in a library", f"a library has no field [{NAMES[name,]}]: nothing in it matches", leaf.at)
    for word in iter_words(leaf.pattern):
        if "-" in word:
            findings.add("hyphen", "a hyphen is read as a blank: the words around it stand next to each other", leaf.at)
        sign = WILD.search(word)
        if sign and sign.start() == 0:
            findings.add("unsupported", "PubMed ignores truncation at the start of a word; a library does not", leaf.at)
        elif sign and stem_length(word) < SHORTEST_STEM and sign.group() == "*":
            findings.add(
                "short truncation", f"PubMed truncates from {SHORTEST_STEM} characters on; a library takes fewer, and finds much", leaf.at
            )
