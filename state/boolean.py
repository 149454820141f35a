"""A Boolean query as a tree, independent of the syntax in which it was written.

Two layers. A **pattern** (`Words`, `Either`, `Near`) matches words in one text; a **node** matches records.
`Text` puts a pattern into fields; `Heading`, `Dates` and `Everything` are the other leaves; `And`, `Or`, `Not` join nodes.

Words are kept as written. Four signs inside a word stand for characters: `*` any number of them, `{*3}` at most three,
`{?}` one or none, `{#}` exactly one. `at` is the position of a node in the query; comparisons ignore it, so that a query that was
printed and parsed again equals the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple


class Span(NamedTuple):
    """Offsets into the query, in characters; `end` is exclusive."""

    start: int
    end: int


NOWHERE = Span(0, 0)


class Field(StrEnum):
    """A searchable part of a record. The order is that of a printed query."""

    TITLE = "title"
    ABSTRACT = "abstract"
    KEYWORDS = "keywords"
    MESH = "mesh"
    BODY = "text"
    ALL = "all"
    AUTHOR = "author"
    JOURNAL = "journal"
    JOURNAL_WORDS = "journal_words"
    LANGUAGE = "language"
    PUBLICATION_TYPE = "publication_type"
    PMID = "pmid"
    DOI = "doi"
    VOLUME = "volume"
    ISSUE = "issue"
    PAGES = "pages"
    SUBSTANCE = "substance"
    PHARMACOLOGICAL_ACTION = "pharmacological_action"
    AFFILIATION = "affiliation"
    GRANT = "grant"
    SUBSET = "subset"
    ORIGINAL_TITLE = "original_title"


WORD_FIELDS = frozenset((Field.TITLE, Field.ABSTRACT, Field.KEYWORDS, Field.MESH, Field.BODY, Field.ALL, Field.JOURNAL_WORDS))
"""Fields that are searched by words; the others are compared as a whole."""
LACKING = frozenset(
    (Field.SUBSTANCE, Field.PHARMACOLOGICAL_ACTION, Field.AFFILIATION, Field.GRANT, Field.SUBSET, Field.ORIGINAL_TITLE),
)
"""Fields of PubMed that a library lacks: they match nothing there."""
RecordPart = Field | Literal["year", "headings", "qualifiers"]
"""What a record may lack: a field, or what a leaf other than a text compares."""

MAX_DISTANCE = 1_000
"""Upper limit of the words allowed between two patterns."""


@dataclass(frozen=True, slots=True)
class Words:
    """One word, or several next to each other in this order."""

    words: tuple[str, ...]
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Either:
    """Any of the patterns."""

    parts: tuple[Pattern, ...]
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Near:
    """One occurrence of each pattern, no word used twice, with at most `distance` words among them that belong to none of them.

    `ordered` also requires the given order. Words between the words of one pattern belong to that pattern.
    """

    parts: tuple[Pattern, ...]
    distance: int
    ordered: bool = False
    at: Span = field(default=NOWHERE, compare=False)


Pattern = Words | Either | Near


@dataclass(frozen=True, slots=True)
class Text:
    """Records with the pattern inside one text of at least one of the fields."""

    pattern: Pattern
    fields: tuple[Field, ...]
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Heading:
    """Records indexed under a MeSH heading, with the qualifier if one is named.

    An empty `name` means any heading, an empty `qualifier` with or without one.
    """

    name: str
    qualifier: str = ""
    explode: bool = True
    major: bool = False
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Dates:
    """Records of a time, both ends included: `2019`, `2019/06` or `2019/06/30`; None is open.

    `entry` is the date on which PubMed added a record, which a library does not have.
    """

    start: str | None
    end: str | None
    kind: Literal["publication", "entry"] = "publication"
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Everything:
    """Every record."""

    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Node, ...]
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Node, ...]
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    part: Node
    at: Span = field(default=NOWHERE, compare=False)


Leaf = Text | Heading | Dates | Everything
Node = Leaf | And | Or | Not


def children(node: Node) -> tuple[Node, ...]:
    """The parts of a node; empty for a leaf."""
    match node:
        case And(parts) | Or(parts):
            return parts
        case Not(part):
            return (part,)
    return ()
