"""Ovid's dialect of tagged text, for MEDLINE, Embase, PsycINFO and others.

Tags differ from one database to the next (ospguides.ovid.com). A tag may be spelled out on a line of its own. Journal, volume, issue and
pages may stand in one line, `SO`. Names carry roles, degrees and marks, and titles carry the section of the journal.
"""

from __future__ import annotations

import re

from outrider.ingest.field_values import MAX_AUTHOR_CHARS, one_line, parse_source, split_list
from outrider.ingest.readers.dialects import Dialect, Tags, separate_headings
from outrider.state.records import Paper
from outrider.text.languages_and_work_types import normal_language

OVID_LABELS = {
    "Unique Identifier": "UI", "Accession Number": "AN", "Database": "DB", "Status": "ST", "Title": "TI", "Authors": "AU", "Author": "AU",
    "Authors Full Name": "FA", "Source": "SO", "Abbreviated Source": "AS", "Journal Name": "JN", "NLM Journal Name": "NJ",
    "Publisher": "PB", "Abstract": "AB", "MeSH Subject Headings": "MH", "Subject Headings": "MH", "Keyword Heading": "KW", "Keywords": "KW",
    "Author Keywords": "KW", "Language": "LG", "Publication Type": "PT", "Document Type": "PT", "Digital Object Identifier": "DO",
    "DOI Number": "DO", "DOI": "DO", "ISSN Print": "IS", "ISSN Electronic": "ES", "ISSN Linking": "IL", "ISSN": "IS", "ISBN": "IB",
    "Year of Publication": "YR", "Publication Year": "YR", "Date of Publication": "DP", "Volume": "VO", "Issue/Part": "IP", "Issue": "IP",
    "Page": "PG", "Pagination": "PG", "Institution": "IN", "Country of Publication": "CP", "CAS Registry/EC Number/Name of Substance": "RN",
    "Record Owner": "RO", "Version ID": "VI", "Comments": "CM", "Entry Date": "ED", "Update Date": "UP", "Copyright": "CR",
    "Grant Information": "GI", "Publication History Status": "PH", "Publishing Model": "PI", "Correspondence Address": "CA",
}  # fmt: skip
DEGREES = re.compile(r"(?<=[a-z.])(?:,?\s+(?:MD|PhD|Ph\.D\.|MPH|MSc|BSc|MA|BA|MS|RN|DrPH|MBBS|FRCP|FACC)\b\.?)+$")
"""`Gazic, Barbara MD, PhD`, but not the initials in `Kumar, MS`."""
LONG_LAST_WORD = re.compile(r"([^\W\d_]{3,})\.$")
"""`AHMED, Mughees.`, but not `Behan L.`"""
SECTION = re.compile(r"\s+\[([^\[\]]+)\]\.?$")
SECTIONS = frozenset("article articles report review editorial letter comment miscellaneous references refs".split())
"""Ovid writes behind a title the section of the journal (`[Article]`), how many references (`[83 refs]`), the language (`[German]`)."""
RUN_TOGETHER = re.compile(r"\s*([^\s.][^.]*?\s[A-Z]{1,4})\.(?=\s|$)")
"""`Smith J. Jones KL.`"""
TYPES_IN_A_LINE = re.compile(r"(?<=[a-z])\.\s+(?=[A-Z])")
"""`Journal Article. Research Support, U.S. Gov't.`"""
OVID_HEADING = re.compile(r"\*?(?P<name>.+?)\s*/\s*\*?[a-z]{2}(?:,\s*\*?[a-z]{2})*\s*\[(?P<qualifiers>[^\]]+)\]$")
"""`*Asthma/dt [Drug Therapy]`"""


def _clean_author(name: str) -> str:
    """Without roles (`Walsdorf, Neill B. [Inventor]`), degrees, and marks that point to the institution (`He, Zhimin 1,2,*`)."""
    name = one_line(name.partition("[")[0]).rstrip(" 0123456789,+*")
    family, comma, given = name.partition(", ")
    name = f"{family}{comma}{DEGREES.sub('', given)}".rstrip(" ,")
    return LONG_LAST_WORD.sub(r"\1", name) if name.endswith(".") else name


def _without_section(title: str) -> str:
    title = one_line(title)
    while match := SECTION.search(title):
        words = match.group(1).casefold()
        is_section = len(words.split()) <= 3 and not SECTIONS.isdisjoint(words.split())
        if not (is_section or (len(words) > 3 and normal_language(words))):
            break
        title = title[: match.start()]
    return title


def _prepare_ovid(tags: Tags) -> None:
    full = [name for name in tags.get("FA", ()) if "," in name]
    authors = tags.pop("AU", [])
    if len(full) >= len(authors) > 0:
        authors = full
        del tags["FA"]
    authors = [name for line in authors for name in map(str, split_list(line, commas=False))]
    split = ((line, RUN_TOGETHER.findall(line) if len(line) <= MAX_AUTHOR_CHARS else []) for line in authors)
    authors = [name for line, names in split for name in (names if len(names) > 1 else [line])]
    tags["authors"] = [_clean_author(name) for name in authors]
    tags["TI"] = [_without_section(title) for title in tags.get("TI", ())]
    # PsycINFO separates its identifiers by commas
    tags["ID"] = [str(item).strip() for value in tags.get("ID", ()) for item in split_list(value, commas=True)]
    tags["PT"] = [part.rstrip(".") for tag in ("PT", "DT") for value in tags.pop(tag, []) for part in TYPES_IN_A_LINE.split(value)]
    # `BT` holds a whole citation of a book, `SO` one of an article
    if not any(tags.get(tag) for tag in ("JN", "NJ", "VO", "PG")) and (source := next(iter(tags.get("SO", ())), "")):
        tags.update({tag: [value] for tag, value in parse_source(one_line(source)).items() if tag != "year" or not tags.get("YR")})
    if any("medline" in name.casefold() or "pubmed" in name.casefold() for name in tags.get("DB", ())):
        tags["pmid"] = [value.partition(" ")[0].rstrip(".") for value in tags.get("UI", [])[:1] or tags.get("AN", [])[:1]]
    tags["pmid"] = tags.get("pmid") or [value.partition(" ")[0] for value in tags.get("PM", [])[:1]]


def _finish_ovid(paper: Paper) -> Paper:
    headings: dict[str, list[str]] = {}
    for heading in paper.mesh:
        match = OVID_HEADING.match(heading)
        headings[heading] = [match["name"], *match["qualifiers"].lower().split(", ")] if match else [heading.lstrip("*")]
    return separate_headings(paper, headings)


OVID = Dialect(
    name="ovid",
    title="Ovid (tagged)",
    signature=re.compile(r"\s*(?:<\s*\d+\s*\.?\s*>\s*\n(?: *[A-Z][A-Z0-9] {1,2}- |" + "|".join(OVID_LABELS) + r")|VN {1,2}- Ovid)"),
    line=re.compile(r"(?P<tag>[A-Z][A-Z0-9])(?P<gap> {1,2})-(?: (?P<value>.*))?$"),
    start="<1. >",
    opens=frozenset({"VN"}),
    marker=re.compile(r"<\s*\d+\s*\.?\s*>\s*$"),
    labels=OVID_LABELS,
    items=frozenset({"AU", "FA", "IN", "MH", "PT", "RN"}),
    splits=frozenset({"KW"}),
    lists=frozenset({"authors", "ID", "MH", "PT"}),
    own_id=("UI", "AN"),
    ignored=("VN", "DB"),
    prepare=_prepare_ovid,
    finish=_finish_ovid,
    names={
        "title": ("TI",), "book": ("BT",), "abstract": ("AB",), "url": (), "authors": ("authors",), "year": ("YR", "DP", "year"),
        "venue": ("JN", "NJ", "JT", "venue"), "abbreviation": ("AS", "JA"), "volume": ("VO", "volume"), "issue": ("IP", "issue"),
        "pages": ("PG", "pages"), "language": ("LG", "LA"), "keywords": ("KW", "ID"), "mesh": ("MH",), "types": ("PT",),
        "issn": ("IS", "IL", "ES", "IT"), "doi": ("DO", "DI", "SO"), "pmid": ("pmid",), "isbn": ("IB",),
    },
)  # fmt: skip
