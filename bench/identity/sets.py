"""Labelled sets of duplicates, read from `dedup/` in `$OUTRIDER_DATA`.

They are not part of the repository; without the variable, `../shared/data` is read.

ASySD's Diabetes set (Hair et al. 2023): the column `source` has one `unique` row for each work, but does not say which `duplicate` rows are
its copies. Each is assigned to the unique row that it resembles most in all fields (clearly so for all but five of 1,261). The four rows
that resemble none form a work of their own, for which the set lacks the unique row.
Cora: noisy references with clusters. DBLP-ACM: two bibliographies, only pairs across are judged. Tafenoquine: an EndNote export that marks
members of sets, but not which set.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.data import Absent, data_folder
from outrider.ingest.entry import Entry, ReadOptions
from outrider.ingest.readers import endnote
from outrider.linkage.clustering import Groups
from outrider.linkage.identifiers import normal_doi
from outrider.linkage.names_and_titles import normal_title
from outrider.state.records import Identifiers, Paper

JOINED_AUTHORS = re.compile(r"(?<=[A-Z]\.)(?=[A-Z][\w'’-]+ ?)(?![A-Z]\.)")
"""ASySD writes "Adeli K.Lewis G. F."."""
CORA_YEAR = re.compile(r"(?<!\d)(1[89]\d\d|20\d\d)(?!\d)")
INITIALS = re.compile(r"(?:[a-z]{1,2}\.[\s-]*|[a-z](?:[\s-]+|$))+")
OWN_WORK = 8.0
"""Below this likeness (of at most 11) to every unique row a row is none of their copies; of the others the least has 8.77."""
MARK = "Duplicate"


@dataclass(frozen=True, slots=True)
class LabelledSet:
    name: str
    records: tuple[Paper, ...]
    works: tuple[int, ...] | None
    """For each record the number of its work; None if only marks are known."""
    sides: tuple[int, ...] | None = None
    """For each record its bibliography, where only pairs across them are judged."""
    marked: frozenset[int] = frozenset()
    """Records that have a duplicate, in a set without works; all others have none."""

    def true_pairs(self) -> Iterator[tuple[int, int]]:
        if self.works is None:
            return
        members: dict[int, list[int]] = {}
        for at, work in enumerate(self.works):
            members.setdefault(work, []).append(at)
        for same in members.values():
            for place, one in enumerate(same):
                yield from ((one, other) for other in same[place + 1 :] if self.judged(one, other))

    def judged(self, one: int, other: int) -> bool:
        return self.sides is None or self.sides[one] != self.sides[other]


def labelled(name: str) -> LabelledSet:
    """`Absent` if its files are missing."""
    folder = data_folder() / "dedup"
    if not folder.is_dir():
        raise Absent(f"{folder} is not there; set OUTRIDER_DATA to a folder that holds dedup/")
    return SETS[name](folder)


def asysd(folder: Path) -> LabelledSet:
    records, unique = list[Paper](), list[int]()
    for at, row in enumerate(_rows(folder / "asysd_diabetes.csv", ",", "cp1252")):
        fields = {name: "" if value.strip() == "NA" else value.strip() for name, value in row.items()}
        if fields["source"] == "unique":
            unique.append(at)
        records.append(
            Paper(
                doc_id=f"asysd:{at}",
                title=fields["title"],
                abstract=fields["abstract"],
                authors=tuple(filter(None, map(str.strip, JOINED_AUTHORS.split(fields["author"])))),
                year=int(fields["year"]) if fields["year"].isdigit() else None,
                venue=fields["journal"] or None,
                volume=fields["volume"] or None,
                issue=fields["number"] or None,
                pages=fields["pages"] or None,
                identifiers=Identifiers(doi=normal_doi(fields["doi"])),
            )
        )
    return LabelledSet("ASySD Diabetes", tuple(records), tuple(_closest_unique(records, unique)))


def _closest_unique(records: Sequence[Paper], unique: Sequence[int]) -> Iterator[int]:
    """For each record the position of its closest unique row, or of the first record with its title if no unique row is similar enough."""
    from rapidfuzz.distance import Indel
    from rapidfuzz.process import cdist

    titles = [normal_title(record.title) for record in records]
    alike = cdist(titles, [titles[at] for at in unique], scorer=Indel.normalized_similarity)
    forgotten: dict[str, int] = {}
    for at, record in enumerate(records):
        near = [unique[place] for place in alike[at].argsort()[::-1][:5]]
        best = max(near, key=lambda other: (at == other, _likeness(record, records[other]), -abs(at - other)))
        yield best if at == best or _likeness(record, records[best]) > OWN_WORK else forgotten.setdefault(titles[at], at)


def _likeness(one: Paper, other: Paper) -> float:
    """Up to 11."""
    from rapidfuzz.distance import Indel

    def texts(first: str | None, second: str | None) -> float:
        return Indel.normalized_similarity(normal_title(first or ""), normal_title(second or "")) if first and second else 0.5

    def values(first: str | None, second: str | None) -> float:
        return 0.0 if not (first and second) else 1.0 if first == second else -1.0

    pages = [re.sub(r"\D*(\d+).*", r"\1", record.pages or "") for record in (one, other)]
    total = 4 * texts(one.title, other.title) + 2 * texts(one.abstract[:1500], other.abstract[:1500])
    total += (
        2 * texts(" ".join(one.authors), " ".join(other.authors)) + 0.5 * (one.year == other.year) + 0.3 * texts(one.venue, other.venue)
    )
    return total + values(pages[0], pages[1]) + values(one.identifiers.doi, other.identifiers.doi) + 0.25 * (one.volume == other.volume)


def cora(folder: Path) -> LabelledSet:
    rows = list(_rows(folder / "cora" / "cora.csv", "|"))
    place = {row["Entity Id"]: at for at, row in enumerate(rows)}
    groups = Groups(len(rows))
    with (folder / "cora" / "cora_gt.csv").open(encoding="utf-8") as lines:
        for line in lines:
            one, other = line.strip().split("|")
            groups.join(place[one], place[other])
    records = tuple(map(_reference, rows))
    return LabelledSet("Cora", records, tuple(map(groups.root, range(len(rows)))))


def _reference(row: Mapping[str, str]) -> Paper:
    authors = re.split(r"(?:,|\s)\s*(?:and|&)\s+|;\s*", row["author"].strip(" ,"))
    names = [name.strip(" ,") for part in authors for name in _cora_names(part)]
    year = CORA_YEAR.search(row["year"])
    return Paper(
        doc_id=f"cora:{row['Entity Id']}",
        title=row["title"].strip(" '`,."),
        authors=tuple(filter(None, names)),
        year=int(year.group()) if year else None,
        venue=row["venue"].strip(" ,.") or row["institution"].strip(" ,.") or None,
        volume=row["volume"].strip(" ,.") or None,
        pages=re.sub(r"^\W*pp?(?:ages?|\.)?\s*", "", row["pages"]).strip(" ,.()") or None,
    )


def _cora_names(part: str) -> Sequence[str]:
    """`y. freund, r. e. schapire` is two names, `freund, y.` one."""
    pieces = [piece.strip() for piece in part.split(",")]
    names: list[str] = []
    for piece in filter(None, pieces):
        if names and "," not in names[-1] and INITIALS.fullmatch(piece):
            names[-1] = f"{names[-1]}, {piece}"
        else:
            names.append(piece)
    return names


def dblp_acm(folder: Path) -> LabelledSet:
    records, sides = list[Paper](), list[int]()
    place: dict[tuple[int, str], int] = {}
    for side, name in enumerate(("dblp", "acm")):
        for row in _rows(folder / "dblp_acm" / f"{name}.csv", "%"):
            place[side, row["id"]] = len(records)
            records.append(_entry(name, row))
            sides.append(side)
    groups = Groups(len(records))
    for row in _rows(folder / "dblp_acm" / "gt.csv", "%"):
        groups.join(place[0, row["D1"]], place[1, row["D2"]])
    return LabelledSet("DBLP-ACM", tuple(records), tuple(map(groups.root, range(len(records)))), tuple(sides))


def _entry(name: str, row: Mapping[str, str]) -> Paper:
    authors = tuple(filter(None, map(str.strip, row["authors"].split(","))))
    year = int(row["year"]) if row["year"].isdigit() else None
    return Paper(doc_id=f"{name}:{row['id']}", source=name, title=row["title"], authors=authors, year=year, venue=row["venue"] or None)


def tafenoquine(folder: Path) -> LabelledSet:
    """The set, read by the readers of ingestion."""
    options = ReadOptions()
    parsed = endnote.read(folder / "tafenoquine.endnote.xml", options)
    papers = [entry.record for entry in parsed if isinstance(entry, Entry)]
    records = tuple(paper.model_copy(update={"doc_id": f"tafenoquine:{at}"}) for at, paper in enumerate(papers) if isinstance(paper, Paper))
    marked = frozenset(at for at, record in enumerate(records) if record.metadata.get("caption") == MARK)
    return LabelledSet("Tafenoquine", records, None, marked=marked)


SETS: Mapping[str, Callable[[Path], LabelledSet]] = {"asysd": asysd, "dblp_acm": dblp_acm, "cora": cora, "tafenoquine": tafenoquine}


def _rows(path: Path, delimiter: str, encoding: str = "utf-8") -> Iterator[dict[str, str]]:
    csv.field_size_limit(2**24)
    with path.open(encoding=encoding, errors="replace", newline="") as lines:
        yield from csv.DictReader(lines, delimiter=delimiter)
