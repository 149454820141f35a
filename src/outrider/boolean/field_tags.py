"""PubMed's field tags and Ovid's field codes.

PubMed's spellings: PubMed User Guide, "Search field tags" (pubmed.ncbi.nlm.nih.gov/help/#search-tags), and the long names that its query
builder and its saved searches write. A tag may name several fields, separated by commas. Four tags are ours: `[Body]`, `[Abstract]`,
`[Heading Word]`, `[Journal Word]`.

Ovid's codes: Ovid MEDLINE Database Guide (ospguides.ovid.com/OSPguides/medline.htm), "Fields"; those of Embase and APA PsycInfo from their
guides, where MEDLINE has no field of that code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from outrider.state.boolean import MAX_DISTANCE, Field

TITLE_ABSTRACT = (Field.TITLE, Field.ABSTRACT, Field.KEYWORDS)
"""In PubMed `[tiab]` includes an article's keywords."""
TEXT_WORDS = (*TITLE_ABSTRACT, Field.MESH)

Kind = Literal["text", "heading", "qualifier", "dates", "entry"]


@dataclass(frozen=True, slots=True)
class Tag:
    """The meaning of a field tag: texts in `fields`, or a heading, a qualifier, dates."""

    kind: Kind
    fields: tuple[Field, ...] = ()
    explode: bool = True
    major: bool = False
    distance: int | None = None
    plus_explodes: bool = False
    """Whether a heading is exploded by `+` at its end, as on EBSCOhost."""


NAMES: dict[tuple[Field, ...], str] = {
    TITLE_ABSTRACT: "Title/Abstract",
    TEXT_WORDS: "Text Word",
    (Field.TITLE,): "Title",
    (Field.ABSTRACT,): "Abstract",
    (Field.KEYWORDS,): "Other Term",
    (Field.MESH,): "Heading Word",
    (Field.BODY,): "Body",
    (Field.ALL,): "All Fields",
    (Field.AUTHOR,): "Author",
    (Field.JOURNAL,): "Journal",
    (Field.JOURNAL_WORDS,): "Journal Word",
    (Field.LANGUAGE,): "Language",
    (Field.PUBLICATION_TYPE,): "Publication Type",
    (Field.PMID,): "PMID",
    (Field.DOI,): "DOI",
    (Field.VOLUME,): "Volume",
    (Field.ISSUE,): "Issue",
    (Field.PAGES,): "Pagination",
    (Field.SUBSTANCE,): "Supplementary Concept",
    (Field.PHARMACOLOGICAL_ACTION,): "Pharmacological Action",
    (Field.AFFILIATION,): "Affiliation",
    (Field.GRANT,): "Grants and Funding",
    (Field.SUBSET,): "Subset",
    (Field.ORIGINAL_TITLE,): "Transliterated Title",
}
"""The printed name of each field."""

_SPELLINGS: dict[tuple[Field, ...], str] = {
    TITLE_ABSTRACT: "tiab",
    TEXT_WORDS: "tw, text, text words",
    (Field.TITLE,): "ti, titl",
    (Field.ABSTRACT,): "ab",
    (Field.KEYWORDS,): "ot, keyword, keywords",
    (Field.MESH,): "hw",
    (Field.BODY,): "body - all words, full text",
    (Field.ALL,): "all, all field",
    (Field.AUTHOR,): "au, auth, author - full, full author name, fau, corporate author, cn, author - corporate",
    (Field.JOURNAL,): "ta, jour, journal name, journal title abbreviation, title abbreviation, jid, is, issn",
    (Field.JOURNAL_WORDS,): "jw",
    (Field.LANGUAGE,): "la, lang",
    (Field.PUBLICATION_TYPE,): "pt, ptyp, publication types",
    (Field.PMID,): "uid, pmid - pubmed id",
    (Field.DOI,): "aid, article identifier, lid, location id",
    (Field.VOLUME,): "vi, vol",
    (Field.ISSUE,): "ip, iss",
    (Field.PAGES,): "pg, page",
    (Field.SUBSTANCE,): "nm, substance name, substance, subs, rn, ec/rn number, registry number",
    (Field.PHARMACOLOGICAL_ACTION,): "pa, mesh pharmacological action",
    (Field.AFFILIATION,): "ad, affl, author - affiliation",
    (Field.GRANT,): "gr, grant, grant number, grants & funding",
    (Field.SUBSET,): "sb, filter",
    (Field.ORIGINAL_TITLE,): "tt",
}
HEADING, MAJOR, QUALIFIER = "MeSH Terms", "MeSH Major Topic", "MeSH Subheading"
PUBLISHED, ENTERED = "Date - Publication", "Date - Entry"

_OTHER: dict[str, Tag] = {
    **dict.fromkeys(("mh", "mesh", "mesh term", "mesh terms", "mesh heading", "mesh headings"), Tag("heading")),
    **dict.fromkeys(("majr", "mesh major", "mesh major topic", "major mesh topic"), Tag("heading", major=True)),
    **dict.fromkeys(("sh", "subheading", "subheadings", "mesh subheading", "mesh subheadings"), Tag("qualifier")),
    **dict.fromkeys(("dp", "pdat", "date - publication", "publication date", "year", "ppdat", "epdat"), Tag("dates")),
    **dict.fromkeys(("date - entry", "edat", "entrez date", "entry date", "date - entrez", "crdt", "date - create"), Tag("entry")),
    **dict.fromkeys(("mhda", "date - mesh", "lr", "date - modification", "dcom", "date - completion"), Tag("entry")),
}  # fmt: skip
_FIELDS: dict[str, tuple[Field, ...]] = {name.lower(): fields for fields, name in NAMES.items()} | {
    spelling: fields for fields, spellings in _SPELLINGS.items() for spelling in spellings.split(", ")
}
REFUSED = {
    **dict.fromkeys(("1au", "author - first", "first author name", "first author"), "the place of an author in the list; use [Author]"),
    **dict.fromkeys(("lastau", "author - last", "last author name", "last author"), "the place of an author in the list; use [Author]"),
    **dict.fromkeys(("ir", "investigator", "fir", "full investigator name", "investigator - full"), "investigators"),
    **dict.fromkeys(("si", "secondary source id"), "numbers of other databanks"),
    **dict.fromkeys(("ps", "personal name as subject", "subject - personal name"), "persons as subjects"),
    **dict.fromkeys(("pl", "place of publication", "pubn", "publisher"), "publishers and places"),
    **dict.fromkeys(("cois", "conflict of interest statements"), "statements of interest"),
    **dict.fromkeys(("ed", "editor", "isbn", "book", "chapter"), "books"),
    **dict.fromkeys(("auid", "author - identifier"), "identifiers of authors"),
}
"""Unsupported tags of PubMed, and their subject."""
PLAIN_WORDS = frozenset(
    "body,book,chapter,editor,full text,grant,investigator,issue,keyword,keywords,page,publisher,subset,substance,text,volume,year".split(
        ","
    )
)
"""Names of tags that also occur in brackets in plain text."""
_MODIFIED = re.compile(r"(?P<name>.*?)\s*:\s*(?:~\s*(?P<distance>\d+)|(?P<noexp>no\s?exp|no explosion))", re.IGNORECASE)


def parse_tag(text: str) -> Tag | None:
    """The tag of a text in brackets; None for an unknown or unsupported tag."""
    name = " ".join(text.replace("–", "-").split()).lower()
    modified = _MODIFIED.fullmatch(name)
    if modified is None:
        return _find_tag(name)
    tag = _find_tag(modified["name"])
    if tag is None:
        return None
    if modified["noexp"]:
        if tag.kind == "qualifier":
            return tag
        return Tag("heading", explode=False, major=tag.major) if tag.kind == "heading" else None
    distance = int(modified["distance"][:6])
    return Tag("text", tag.fields, distance=distance) if tag.kind == "text" and distance <= MAX_DISTANCE else None


def is_tag_name(text: str) -> bool:
    """Whether the name is a tag of PubMed, supported or not, and no plain text; spaces around hyphens may be missing."""
    name = re.sub(r"\s*[-–]\s*", " - ", " ".join(text.split())).lower()
    return name not in PLAIN_WORDS and (name in REFUSED or _find_tag(name) is not None)


def _find_tag(name: str) -> Tag | None:
    if name in _OTHER:
        return _OTHER[name]
    groups = [_FIELDS.get(part.strip()) for part in ([name] if name in _FIELDS else name.split(","))]
    if not all(groups):
        return None
    return Tag("text", sort_fields(field for fields in groups for field in fields or ()))


def sort_fields(fields: Iterable[Field]) -> tuple[Field, ...]:
    """Each field once, in the order of `Field`."""
    chosen_fields = set(fields)
    return tuple(field for field in Field if field in chosen_fields)


def format_fields(fields: tuple[Field, ...]) -> str:
    """The text of these fields' tag; `parse_tag` gives the fields again."""
    return NAMES.get(fields) or ", ".join(NAMES[field,] for field in fields)


def list_spellings() -> list[str]:
    """Every supported spelling, for suggestions."""
    return sorted({*_FIELDS, *_OTHER})


_TITLE_ABSTRACT = (Field.TITLE, Field.ABSTRACT)
MULTI_PURPOSE = Tag("text", (Field.TITLE, Field.ABSTRACT, Field.KEYWORDS, Field.MESH))
"""`.mp.`: those of Ovid's fields that a library has."""
EXPLODED, SUBJECT = Tag("heading"), Tag("heading", explode=False)

CODES: dict[str, Tag] = {
    "ti": Tag("text", (Field.TITLE,)),
    "m_titl": Tag("text", (Field.TITLE,)),
    "ab": Tag("text", (Field.ABSTRACT,)),
    "tw": Tag("text", _TITLE_ABSTRACT),
    "kw": Tag("text", (Field.KEYWORDS,)),
    "kf": Tag("text", (Field.KEYWORDS,)),
    "mp": MULTI_PURPOSE,
    "af": Tag("text", (Field.ALL,)),
    "tx": Tag("text", (Field.BODY,)),
    "hw": Tag("text", (Field.MESH,)),
    "sh": SUBJECT,
    "xs": Tag("qualifier"),
    "fs": Tag("qualifier"),
    "xm": EXPLODED,
    "nm": Tag("text", (Field.SUBSTANCE,)),
    "pa": Tag("text", (Field.PHARMACOLOGICAL_ACTION,)),
    "rn": Tag("text", (Field.SUBSTANCE,)),
    "pt": Tag("text", (Field.PUBLICATION_TYPE,)),
    "au": Tag("text", (Field.AUTHOR,)),
    "jn": Tag("text", (Field.JOURNAL,)),
    "jw": Tag("text", (Field.JOURNAL_WORDS,)),
    "ja": Tag("text", (Field.JOURNAL,)),
    "is": Tag("text", (Field.JOURNAL,)),
    "la": Tag("text", (Field.LANGUAGE,)),
    "lg": Tag("text", (Field.LANGUAGE,)),
    "ui": Tag("text", (Field.PMID,)),
    "an": Tag("text", (Field.PMID,)),
    "do": Tag("text", (Field.DOI,)),
    "vo": Tag("text", (Field.VOLUME,)),
    "ip": Tag("text", (Field.ISSUE,)),
    "pg": Tag("text", (Field.PAGES,)),
    "in": Tag("text", (Field.AFFILIATION,)),
    "ot": Tag("text", (Field.ORIGINAL_TITLE,)),
    "sb": Tag("text", (Field.SUBSET,)),
    "no": Tag("text", (Field.GRANT,)),
    "yr": Tag("dates"),
    "dp": Tag("dates"),
    "ed": Tag("entry"),
    "dt": Tag("entry"),
    "da": Tag("entry"),
    "ep": Tag("entry"),
    "ez": Tag("entry"),
    "dc": Tag("entry"),
    "dd": Tag("entry"),
    "em": Tag("entry"),
    "rd": Tag("entry"),
    "up": Tag("entry"),
    "fx": Tag("qualifier"),
    "id": Tag("text", (Field.KEYWORDS,)),
    "dq": Tag("text", (Field.KEYWORDS,)),
    "jx": Tag("text", (Field.JOURNAL_WORDS,)),
    "nj": Tag("text", (Field.JOURNAL,)),
    "pm": Tag("text", (Field.PMID,)),
    **dict.fromkeys(("rw", "rx", "ox", "px", "os", "ps", "dm", "dv", "mf", "tn"), Tag("text", (Field.SUBSTANCE,))),
}
REFUSED_CODES = {
    "cm": "comments on other works",
    **dict.fromkeys(("cp", "pl"), "places of publication"),
    **dict.fromkeys(("pb", "pu"), "publishers"),
    **dict.fromkeys(("ai", "oi"), "identifiers of authors"),
    **dict.fromkeys(("ci", "cr", "rf"), "references"),
    **dict.fromkeys(("ir", "fa", "be", "bk", "ib"), "investigators, editors and books"),
    **dict.fromkeys(("cc", "gw", "lm", "st", "tc", "tm"), "codes that only the database itself has"),
}
"""Unsupported codes of Ovid, and their subject."""

AMBIGUOUS_CODES = frozenset("an da dc dd dm do ed em ep id in ip is la mf no os pg pm ps px rd rw rx tn ui up".split())
"""Codes that also occur between full stops in plain text, as words, abbreviations or parts of addresses ("cat.no. 5")."""
