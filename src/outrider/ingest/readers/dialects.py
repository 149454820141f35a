"""Dialects of tagged text, such as RIS, MEDLINE and Web of Science.

A dialect is data: which lines carry a tag, how records begin and end, which tag holds which field. `tagged` reads all of
them, and defines Ovid's, which needs code of its own.

Sources: NLM, "MEDLINE/PubMed Data Element (Field) Descriptions" (www.nlm.nih.gov/bsd/mms/medlineelements.html); Clarivate, "Web of Science
Core Collection Field Tags"; the RIS tag set of 2011; the Refer tags of EndNote's manual; RefWorks, "RefWorks Tagged Format".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from outrider.linkage.identifiers import normal_doi, normal_pmid
from outrider.sources.pubmed import NO_TITLE, RETRACTED_BY
from outrider.state.records import Edge, Paper
from outrider.text.languages_and_work_types import normal_language, split_languages

Tags = dict[str, list[str]]
"""The values of one record by tag, in the order of the file."""
NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one program writes records as tagged lines. `name` is the reader's name in reports, `title` that for people."""

    name: str
    title: str
    signature: re.Pattern[str]
    """Matches the first lines of a file."""
    line: re.Pattern[str]
    """A tag line: the tag and its value. Other lines continue the value before them."""
    names: Mapping[str, tuple[str, ...]]
    """Field or identifier of a record -> tags."""
    start: str
    """What a record starts with, in words, for the message about a file that has none."""
    opens: frozenset[str] = NONE
    """Tags that begin a record wherever they stand. Lines before the first one are a preamble."""
    marker: re.Pattern[str] | None = None
    """A line without a tag that begins a record."""
    once: frozenset[str] = NONE
    """Where no tag opens: tags that no record has twice. A second one shows that another record began."""
    ends: str = ""
    """The tag that ends a record."""
    file_tags: frozenset[str] = NONE
    """Tags of the file, not of a record."""
    is_prose: Callable[[str, str], bool] | None = None
    """Whether a line that looks like a tag line is text, by its tag and what stands between tag and hyphen."""
    items: frozenset[str] = NONE
    """Tags that hold one value a line: a line without a tag is the next value."""
    lists: frozenset[str] = NONE
    """Tags whose values are whole, semicolons included."""
    splits: frozenset[str] = NONE
    """Tags that hold several values separated by semicolons."""
    known: frozenset[str] = NONE
    """All tags. Where continuation lines are not indented, a line with another tag is text."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Names of fields, each on a line of its own above its values -> tags."""
    wraps: bool = True
    """Whether an indented line continues the line before it. If not, it is a line of its own."""
    indents: bool = True
    """Whether continuation lines are indented, as far as the format goes; some programs drop the blanks."""
    own_id: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    """Metadata that alone are no record."""
    prepare: Callable[[Tags], None] = lambda tags: None
    finish: Callable[[Paper], Paper] = lambda paper: paper

    def starts(self, text: str) -> bool:
        """Whether a file with this beginning is of the dialect."""
        return (self.signature.search(text) if self.signature.flags & re.MULTILINE else self.signature.match(text)) is not None


# RIS

SINGLE_BLANK_TAGS = frozenset("TY ER TI T1 T2 AU A1 AB N2 PY Y1 JO JF DO KW UR VL IS SP EP SN LA ID".split())
"""Tags that count with a single blank before the hyphen too; any other such line is prose."""


PMID_TAGS = {"embase": "C5", "scopus": "C2"}
"""Database -> where its export has the PMID. Other programs write years, article numbers and notes under these tags."""
BARE_PMID = re.compile(r"\d{5,8}")
"""Long enough to be no year."""
MARKED_PMID = re.compile(r"\b(?:PubMed|MEDLINE)[ :]+(\d{1,8})\b", re.IGNORECASE)
"""`XR  - PUBMED 28000000` (Cochrane), `AN  - MEDLINE:28000000` (Web of Science)."""
HOST = re.compile(r"https?://(?:[\w-]+\.)*(embase|scopus)\.com/")


def _prepare_ris(tags: Tags) -> None:
    values = tags.pop("M3", [])  # the type of the work; some exporters write its DOI there
    tags["types"] = [value for value in values if not normal_doi(value)]
    tags["M3"] = [value for value in values if normal_doi(value)]
    origin = " ".join([*tags.get("DB", ()), *tags.get("DP", ()), *HOST.findall(" ".join(tags.get("UR", ())))]).casefold()
    bare = (tag for database, tag in PMID_TAGS.items() if database in origin and all(map(BARE_PMID.fullmatch, tags.get(tag, ()))))
    tags["pmid"] = [value for tag in bare for value in tags.pop(tag, ())]
    tags["pmid"] += [pmid for tag in ("XR", "C3", "AN") for value in tags.get(tag, ()) for pmid in MARKED_PMID.findall(value)]


RIS = Dialect(
    name="ris",
    title="RIS",
    signature=re.compile(r"^\s*TY {1,2}- ?[A-Z]", re.MULTILINE),
    line=re.compile(r"(?P<tag>[A-Z][A-Z0-9])(?P<gap> {2}|[ \t]*\t| )-(?:[ \t]?(?P<value>.*))$"),
    is_prose=lambda tag, gap: gap == " " and tag not in SINGLE_BLANK_TAGS,
    start="TY",
    opens=frozenset({"TY"}),
    ends="ER",
    items=frozenset({"KW"}),
    lists=frozenset({"AU", "A1", "KW"}),
    splits=frozenset({"types"}),
    wraps=False,
    prepare=_prepare_ris,
    own_id=("ID",),
    ignored=("ID", "TY"),
    names={
        "title": ("TI", "T1", "CT"), "book": ("BT",), "abstract": ("AB", "N2"), "url": ("UR",), "authors": ("AU", "A1"),
        "year": ("PY", "Y1", "DA"), "venue": ("T2", "JF", "JO", "J2", "JA", "BT"), "volume": ("VL",), "issue": ("IS",),
        "first_page": ("SP",), "last_page": ("EP",), "language": ("LA",), "keywords": ("KW",), "types": ("types",),
        "issn": ("SN",), "doi": ("DO", "M3", "L3"), "pmid": ("pmid",), "pmcid": ("C2",), "isbn": ("SN",),
        "databases": ("DB", "DP"), "accession": ("AN",),
    },
)  # fmt: skip


# MEDLINE

NOTICES = {
    "RIN": "retraction_in", "ROF": "retraction_of", "EIN": "erratum_in", "EFR": "erratum_for", "ECI": "expression_of_concern_in",
    "ECF": "expression_of_concern_for", "CRI": "corrected_and_republished_in", "CRF": "corrected_and_republished_from",
    "RRI": "retracted_and_republished_in", "RRF": "retracted_and_republished_from", "RPI": "republished_in", "RPF": "republished_from",
    "UIN": "update_in", "UOF": "update_of",
}  # fmt: skip
"""Tag -> the kind of notice, as `sources.pubmed` names it."""
PMID = re.compile(r"PMID: ?(\d+)")


def _prepare_medline(tags: Tags) -> None:
    for tag in ("LID", "AID"):
        for value in tags.pop(tag, []):
            is_doi = value.endswith("[doi]") or "doi.org/" in value
            tags.setdefault("doi" if is_doi else "url" if value.startswith("http") else tag, []).append(value)
    tags["doi"] = list(dict.fromkeys(normal_doi(value) or value for value in tags.get("doi", ())))
    # since 2002 each name is there in full, too
    full, short = tags.pop("FAU", []), tags.pop("AU", [])
    tags["authors"] = [*(full if len(full) >= len(short) else short), *tags.pop("CN", [])]
    for tag in ("OT", "KW"):
        tags[tag] = [value.lstrip("*") for value in tags.get(tag, ())]
    tags["TI"] = [value for value in tags.get("TI", ()) if not NO_TITLE.fullmatch(value)]


def _finish_medline(paper: Paper) -> Paper:
    metadata = dict(paper.metadata)
    notices: list[JsonValue] = []
    edges: list[Edge] = []
    for tag, kind in NOTICES.items():
        value = metadata.pop(tag, [])
        for source in value if isinstance(value, list) else [value]:
            match = PMID.search(str(source))
            pmid = normal_pmid(match.group(1)) if match else None
            notices.append({"kind": kind, "pmid": pmid, "source": source})
            edges += [Edge(relation=kind, target=f"pmid:{pmid}")] if pmid else []
    if notices:
        metadata["notices"] = notices
    types = metadata.get("publication_types")
    kinds = {notice["kind"] for notice in notices if isinstance(notice, dict)}
    if (isinstance(types, list) and "Retracted Publication" in types) or not RETRACTED_BY.isdisjoint(map(str, kinds)):
        metadata["retracted"] = True
    headings = {heading: heading.replace("*", "").split("/") for heading in paper.mesh}
    return separate_headings(paper.model_copy(update={"edges": (*paper.edges, *edges), "metadata": metadata}), headings)


def separate_headings(paper: Paper, headings: Mapping[str, list[str]]) -> Paper:
    """The paper with its headings apart from their qualifiers. `headings`: as written -> the name and its qualifiers."""
    qualified: list[JsonValue] = [f"{name}/{qualifier}" for name, *qualifiers in headings.values() for qualifier in qualifiers]
    major: list[JsonValue] = list(dict.fromkeys(name for written, (name, *_) in headings.items() if "*" in written))
    metadata = {**paper.metadata, **{key: value for key, value in (("mesh_qualified", qualified), ("mesh_major", major)) if value}}
    update = {"mesh": tuple(dict.fromkeys(name for name, *_ in headings.values())), "metadata": metadata}
    return normalize_language(paper.model_copy(update=update))


def normalize_language(paper: Paper) -> Paper:
    """The paper with its languages as codes, as PubMed's XML is read."""
    if not paper.language:
        return paper
    codes = [normal_language(language.rstrip(" .;")) for language in split_languages(paper.language)]
    return paper.model_copy(update={"language": "; ".join(filter(None, codes)) or paper.language})


MEDLINE = Dialect(
    name="medline",
    title="MEDLINE (PubMed)",
    signature=re.compile(r"\s*(?:PMID ?- ?\d|OWN ?- ?[A-Z])"),
    line=re.compile(r"(?P<tag>[A-Z][A-Z0-9]{1,3})(?P<gap> {0,2})-(?: +(?P<value>.*))?$"),
    start="PMID- or OWN -",
    once=frozenset({"PMID", "OWN", "TI"}),
    lists=frozenset({"authors", "MH", "OT", "KW", "PT"}),
    own_id=("PMID", "OID"),
    ignored=("OWN", "STAT"),
    prepare=_prepare_medline,
    finish=_finish_medline,
    names={
        "title": ("TI", "TT"), "book": ("BTI", "CTI"), "abstract": ("AB", "OAB"), "url": ("url",), "authors": ("authors",),
        "year": ("DP", "DEP"), "venue": ("JT", "TA", "BTI"), "abbreviation": ("TA",), "volume": ("VI",), "issue": ("IP",), "pages": ("PG",),
        "language": ("LA",), "keywords": ("OT", "KW"), "mesh": ("MH",), "types": ("PT",), "issn": ("IS", "ISSN"), "doi": ("doi", "SO"),
        "pmid": ("PMID",), "pmcid": ("PMC",), "isbn": ("ISBN", "IS"),
    },
)  # fmt: skip


# Web of Science

WEB_OF_SCIENCE_TAGS = frozenset(
    "AB AE AF AR AU BA BC BD BE BF BN BP BS C1 C3 CA CB CC CL CO CR CT CY D2 DA DE DG DI DN DS DT EA ED EF EI EM EN EP ER EY FD FN "
    "FU FX GA GE GI GN GP HC HO HP ID IS J9 JI KW LA LE LT MA MC MH MI MQ NM NO NR OA OI OR P1 P2 PA PC PD PE PG PI PL PM PN PR PS "
    "PT PU PV PY RI RC RN RP S1 SA SC SE SI SN SO SP SU T1 TA TC TI TM TN U1 U2 UC UR UT VL VR VY WC WE WP X1 X4 X5 Y1 Y4 Z1 Z2 Z3 "
    "Z4 Z8 Z9 ZA ZB ZR ZS".split()
)
E_MAIL = re.compile(r"(?<!\s)\s++\([^()@]*@[^()]*\)$")


def _prepare_web_of_science(tags: Tags) -> None:
    full, short = (next((tag for tag in pair if tags.get(tag)), "") for pair in (("AF", "BF"), ("AU", "BA")))
    authors = tags.get(full) or tags.get(short) or []
    for tag in (full, short):
        tags.pop(tag, None)
    tags["authors"] = [E_MAIL.sub("", author) for author in (*authors, *tags.pop("CA", []), *tags.pop("GP", []))]
    if tags.get("BP"):
        tags.pop("PS", None)
        if tags.get("EP") == tags["BP"]:
            del tags["EP"]
    else:  # an article number, for articles without pages
        tags.setdefault("PS", tags.pop("AR", []))


WEB_OF_SCIENCE = Dialect(
    name="web_of_science",
    title="Web of Science (tagged)",
    signature=re.compile(r"\s*(?:FN [^\n]*\n+VR \d|PT [A-Z]\n(?:[A-Z][A-Z0-9] |\s))"),
    line=re.compile(r"(?P<tag>[A-Z][A-Z0-9])(?P<gap>)(?: (?P<value>.*))?$"),
    start="PT",
    opens=frozenset({"PT"}),
    ends="ER",
    file_tags=frozenset({"FN", "VR", "EF"}),
    known=WEB_OF_SCIENCE_TAGS,
    items=frozenset({"AU", "AF", "BA", "BF", "BE", "CA", "GP", "CR", "C1", "C3"}),
    splits=frozenset({"DE", "ID", "DT", "SC", "WC", "MC", "MQ", "MI", "MH", "OR", "BD"}),
    lists=frozenset({"authors", "CR"}),
    own_id=("UT",),
    ignored=("PT", "UT"),
    prepare=_prepare_web_of_science,
    finish=normalize_language,
    names={
        "title": ("TI",), "abstract": ("AB",), "url": (), "authors": ("authors",), "year": ("PY", "PD", "EY", "EA"), "venue": ("SO",),
        "abbreviation": ("JI", "J9"), "volume": ("VL",), "issue": ("IS",), "pages": ("PS",), "first_page": ("BP",), "last_page": ("EP",),
        "language": ("LA",), "keywords": ("DE", "ID", "MC", "MQ", "MI", "OR", "BD"), "mesh": ("MH",), "types": ("DT",),
        "issn": ("SN", "EI"),
        "doi": ("DI",), "pmid": ("PM",), "isbn": ("BN",), "references": ("CR",),
    },
)  # fmt: skip


# EndNote's Refer format and RefWorks


def _prepare_refer(tags: Tags) -> None:
    tags["%A"] = [name.rstrip(" ,") for name in (*tags.get("%A", ()), *tags.pop("%Q", []))]


ENDNOTE_REFER = Dialect(
    name="endnote_refer",
    title="EndNote (Refer)",
    signature=re.compile(r"\s*%[0A-Z] \S[^\n]*\n+(?:[^%\n][^\n]*\n+)*%[0-9A-Z@+!] "),
    line=re.compile(r"(?P<tag>%[0-9A-Z@!#$&'()*+,./:;<=>?\[\]\\^_~-])(?P<gap>)(?: (?P<value>.*))?$"),
    start="%0 or %T",
    once=frozenset({"%0", "%T"}),
    items=frozenset({"%K"}),
    lists=frozenset({"%A"}),
    own_id=("%F",),
    ignored=("%0", "%F"),
    prepare=_prepare_refer,
    finish=normalize_language,
    names={
        "title": ("%T",), "abstract": ("%X",), "url": ("%U",), "authors": ("%A",), "year": ("%D", "%8"), "venue": ("%J", "%B"),
        "volume": ("%V",), "issue": ("%N",), "pages": ("%P",), "language": ("%G",), "keywords": ("%K",), "types": ("%0", "%9"),
        "issn": ("%@",), "doi": ("%R",), "pmcid": ("%2",), "isbn": ("%@",), "databases": ("%~", "%W"), "accession": ("%M",),
    },
)  # fmt: skip

REFWORKS_TAGS = frozenset(
    "RT SR ID A1 A2 A3 A4 A5 A6 AB AD AN AU AV CA CL CN CR DB DO DS ED FD FR IS JF JO K1 LA LK LL LS ML NO OL OP PB PP PR RD RP SF "
    "SL SN SP ST T1 T2 T3 TI U1 U2 U3 U4 U5 U6 U7 U8 U9 U10 U15 UL UR VO WP WT WV YR".split()
)


def _prepare_refworks(tags: Tags) -> None:
    for tag in ("A1", "AU"):
        tags[tag] = [re.sub(r",(?=\S)", ", ", name) for name in tags.get(tag, ())]
    if not tags.get("SP"):  # CNKI writes the whole range behind the tag of the last page
        tags["SP"] = tags.pop("OP", [])


REFWORKS = Dialect(
    name="refworks",
    title="RefWorks (tagged)",
    signature=re.compile(r"\s*(?:\S[^\n]*\n\s*){0,3}?RT [A-Z][^\n]*\n+(?:SR|ID|A1|T1|K1|JF|YR|AB|AU|TI) "),
    line=re.compile(r"(?P<tag>[A-Z][A-Z0-9])(?P<gap>)(?: (?P<value>.*))?$"),
    start="RT",
    opens=frozenset({"RT"}),
    known=REFWORKS_TAGS,
    indents=False,
    items=frozenset({"K1"}),
    splits=frozenset({"K1"}),
    own_id=("ID",),
    ignored=("RT", "SR", "ID"),
    prepare=_prepare_refworks,
    finish=normalize_language,
    names={
        "title": ("T1", "TI"), "abstract": ("AB",), "url": ("UL", "LK", "UR"), "authors": ("A1", "AU"), "year": ("YR", "FD"),
        "venue": ("JF", "T2", "JO"), "abbreviation": ("JO",), "volume": ("VO",), "issue": ("IS",), "first_page": ("SP",),
        "last_page": ("OP",), "language": ("LA",), "keywords": ("K1",), "types": ("RT",), "issn": ("SN",), "doi": ("DO",),
        "isbn": ("SN",), "databases": ("DB", "DS"), "accession": ("AN",),
    },
)  # fmt: skip
