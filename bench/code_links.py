"""Links between papers and repositories: precision and recall on labelled texts.

The plain rule beside it takes every identifier in a text as its own.

`code_link_labels.jsonl` has a row for each text: where it is, its repository or paper, and all papers or repositories that are its own
(each with its names), its archives, and those that may count either way. Whatever else a text names is a hard negative: the papers of what
a package builds on, of the algorithms that it implements, of its organisation, data sets, examples, tools that a paper used. Labels were
made by reading the texts. Half of the texts, every second one, was kept apart until the rules were done.

Texts are the long descriptions of installed packages (of the version in the label), of wheels in the folder `OUTRIDER_CODE_LINKS`
(`pip download --no-deps -d FOLDER -r bench/code_link_packages.txt`), and recorded answers and texts of the data folder. A text that is not
there is skipped, and the notes say so.
"""

from __future__ import annotations

import json
import os
import re
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.parser import HeaderParser
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from bench.data import data_folder
from bench.report import Report
from outrider.code_links.names import find_papers, find_repositories, title_name
from outrider.code_links.read_record import read_evidence
from outrider.code_links.readme_structure import find_bibtex
from outrider.linkage.identifiers import normal_distribution
from outrider.sources.openalex import parse_paper as parse_openalex
from outrider.sources.semantic_scholar import parse_paper as parse_s2
from outrider.state.code_links import OWN
from outrider.state.records import Identifiers, Paper, Record, Repository

LABELS = Path(__file__).with_name("code_link_labels.jsonl")
WHEELS = "OUTRIDER_CODE_LINKS"
COLUMNS = (
    "method",
    "half",
    "texts",
    "own pairs",
    "said",
    "right",
    "precision",
    "recall",
    "hard negatives",
    "false",
    "archives",
    "archive recall",
)


@dataclass(frozen=True, slots=True)
class Label:
    source: str
    own: tuple[tuple[str, ...], ...]
    archive: frozenset[str]
    unclear: frozenset[str]
    half: str
    names: tuple[str, ...]


@dataclass(slots=True)
class Score:
    counts: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def add(self, label: Label, own: frozenset[str], archives: frozenset[str], named: frozenset[str]) -> None:
        """`own` and `archives` as said; `named` is everything that the text names."""
        labelled = {name for names in label.own for name in names}
        right = sum(not own.isdisjoint(names) for names in label.own)
        false = own - labelled - label.unclear
        self.counts.update(texts=1, own=len(label.own), right=right, false=len(false), archives=len(label.archive))
        self.counts.update(negatives=len(named - labelled - label.unclear - label.archive), archived=len(label.archive & archives))
        self.errors += [f"{label.source}: {name} is not its own" for name in sorted(false)]
        self.errors += [f"{label.source}: missed {names[0]}" for names in label.own if own.isdisjoint(names)]
        self.errors += [f"{label.source}: missed archive {name}" for name in sorted(label.archive - archives)]

    def row(self, method: str, half: str) -> tuple[str | int | float | None, ...]:
        count = self.counts
        said = count["right"] + count["false"]
        return (
            method, half, count["texts"], count["own"], said, count["right"], count["right"] / said if said else None,
            count["right"] / count["own"] if count["own"] else None, count["negatives"], count["false"], count["archives"],
            count["archived"] / count["archives"] if count["archives"] else None,
        )  # fmt: skip


def run() -> Report:
    labels = [parse_label(json.loads(line)) for line in LABELS.read_text(encoding="utf-8").splitlines()]
    records = {label.source: load_record(label) for label in labels}
    absent = sorted(source for source, record in records.items() if record is None)
    halves = ("develop", "apart", "both")
    scores = {(method, half): Score() for method in ("Outrider", "every identifier") for half in halves}
    started, chars = time.process_time(), 0
    for label in labels:
        record = records[label.source]
        if record is None:
            continue
        own, archives = find_own(record)
        named = frozenset(list_named(record))
        chars += len(record.text) + len(record.abstract)
        for half in (label.half, "both"):
            scores["Outrider", half].add(label, own, archives, named)
            zenodo = frozenset(name for name in named if "zenodo" in name)
            scores["every identifier", half].add(label, named - zenodo, zenodo, named)
    spent = time.process_time() - started
    rows = tuple(score.row(method, half) for (method, half), score in scores.items())
    notes = [f"read {chars:,} characters in {spent:.2f} s of CPU time."]
    notes += [f"skipped, since they are not here: {', '.join(absent)}"] if absent else []
    notes += [f"{half}: {error}" for half in halves[:2] for error in scores["Outrider", half].errors]
    return Report("code_links", COLUMNS, rows, tuple(notes))


def parse_label(row: Mapping[str, Any]) -> Label:
    own = tuple(tuple(names) for names in row["own"])
    return Label(row["source"], own, frozenset(row["archive"]), frozenset(row["unclear"]), row["half"], tuple(row["names"]))


def find_own(record: Record) -> tuple[frozenset[str], frozenset[str]]:
    """Names that count as the record's own, and as its archives."""
    evidence = read_evidence(record)
    other = "work" if isinstance(record, Repository) else "target"
    own = frozenset(getattr(one, other) for one in evidence if one.kind in OWN)
    return own, frozenset(getattr(one, other) for one in evidence if one.kind == "archive")


def list_named(record: Record) -> Iterator[str]:
    """Everything that a text names: what the plain rule would take."""
    text = "\n".join((record.abstract, record.text, str(record.metadata.get("comment") or "")))
    if isinstance(record, Repository):
        yield from (one.name for one in find_papers(text))
        yield from filter(None, (title_name(entry.title) for entry in find_bibtex(text) if not entry.fields.keys() & {"doi", "eprint"}))
    else:
        yield from (one.name for one in find_repositories(text))


def load_record(label: Label) -> Record | None:
    """The labelled record; None if its text is not on this machine."""
    if label.source.startswith("package:"):
        return load_package(label)
    name, _, key = label.source.partition("#")
    path = data_folder() / name
    if not path.is_file():
        return None
    if "s2_cassettes" in name:
        return load_s2(path).get(key)
    if "arxiv" in name:
        return next((paper for paper in load_arxiv(path) if paper.identifiers.arxiv == key), None)
    if "openalex" in name:
        return parse_openalex(json.loads(path.read_text(encoding="utf-8")))
    root = ET.fromstring(path.read_text(encoding="utf-8"))
    return Paper(doc_id=name, title=label.names[0], text="\n".join(root.itertext()) + "\n".join(_targets(root)))


def _targets(root: ET.Element) -> list[str]:
    return [f"\n\n{target}\n" for node in root.iter() if (target := node.get("target"))]


def load_package(label: Label) -> Repository | None:
    """As a code host would show it: the whole long description."""
    name, _, version = label.source.removeprefix("package:").partition("==")
    text = read_metadata(name, version)
    if text is None:
        return None
    message = HeaderParser().parsestr(text)
    body = message.get_payload()
    github = label.names[0].removeprefix("github:")
    return Repository(
        doc_id=f"github:{github}",
        title=github,
        description=str(message.get("Summary") or ""),
        text=body if isinstance(body, str) and body.strip() else re.sub(r"\n {7}[ |]?", "\n", str(message.get("Description") or "")),
        identifiers=Identifiers(github=github, pypi=name),
        authors=tuple(filter(None, [str(message.get("Author") or "")])),
        metadata={
            "project_urls": {label.partition(",")[0]: label.partition(",")[2].strip() for label in message.get_all("Project-URL") or []}
        },
    )


def read_metadata(name: str, version: str) -> str | None:
    """Of an installed distribution or a downloaded wheel of this version."""
    try:
        installed = distribution(name)
        if installed.version == version:
            return installed.read_text("METADATA")
    except PackageNotFoundError:
        pass
    wheel = _wheels().get((normal_distribution(name), version))
    if wheel is None:
        return None
    with zipfile.ZipFile(wheel) as archive:
        inside = next(one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return archive.read(inside).decode("utf-8", "replace")


@cache
def _wheels() -> Mapping[tuple[str, str], Path]:
    folder = os.environ.get(WHEELS)
    files: Sequence[Path] = sorted(Path(folder).glob("*.whl")) if folder else []
    return {(normal_distribution(file.name.split("-")[0]), file.name.split("-")[1]): file for file in files}


@cache
def load_s2(path: Path) -> Mapping[str, Paper]:
    """Papers by their id at Semantic Scholar, wherever they stand in an answer."""
    papers: dict[str, Paper] = {}
    stack: list[Any] = [json.loads(path.read_text(encoding="utf-8"))]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            if isinstance(value.get("paperId"), str) and isinstance(value.get("abstract"), str) and (paper := parse_s2(value)):
                papers[value["paperId"]] = paper
            stack += value.values()
        elif isinstance(value, list):
            stack += value
    return papers


def load_arxiv(path: Path) -> Iterator[Paper]:
    from outrider.sources.arxiv import group_children, parse_paper

    body = json.loads(path.read_text(encoding="utf-8"))["body"]
    for entry in ET.fromstring(body).iter("{http://www.w3.org/2005/Atom}entry"):
        if paper := parse_paper(group_children(entry)):
            yield paper
