"""PRISMA reports of a run: flow counts and search log as JSON, Markdown and SVG.

Page MJ et al., BMJ 2021;372:n71 (PRISMA 2020, boxes "Identification" and "Screening"); Rethlefsen ML et al., Syst Rev 2021;10:39
(PRISMA-S, 16 items). Both are made from a manifest alone, and the flow of an updated review from a run of a saved protocol. Only facts of
the run are filled in; the later steps of a review are None or left to the authors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

from outrider.pictures.flow_chart import Row, draw_flow_chart
from outrider.state.citations import CitationSearchCounts
from outrider.state.errors import BadRequest
from outrider.state.records import LIBRARY
from outrider.state.saved import RunDifference, SavedRun
from outrider.systematic_search.manifest import Manifest, SourceResult

THEIRS = "to be stated by the authors"
DATABASES = {
    LIBRARY: "the reviewers' own library",
    "pubmed": "MEDLINE/PubMed, through NCBI E-utilities",
    "openalex": "OpenAlex, through its API",
    "semantic_scholar": "Semantic Scholar, through its bulk search API",
    "crossref": "Crossref, through its REST API",
    "github": "GitHub, through its search API",
}
"""Database and platform."""
LATER = "(n = ____)"


@dataclass(frozen=True, slots=True)
class Flow:
    """Counts of records; None for counts that only the reviewers know."""

    identified: tuple[tuple[str, int], ...]
    """Records by source."""
    duplicates: int
    deduplicated_by: str
    outside: int
    """Records that a service returned for a wider query, and that do not match the query."""
    for_screening: int
    complete: bool
    missing: tuple[str, ...]
    screened: int | None = None
    excluded: int | None = None
    sought: int | None = None
    not_retrieved: int | None = None
    assessed: int | None = None
    included: int | None = None

    @property
    def total(self) -> int:
        return sum(count for _, count in self.identified)


def make_flow(manifest: Manifest) -> Flow:
    """The counts of a run's manifest."""
    identified = tuple((source.source, source.fetched) for source in manifest.sources)
    outside = sum(source.fetched - source.hits for source in manifest.sources)
    return Flow(
        identified, manifest.duplicates, manifest.deduplicated_by, outside, manifest.unique, manifest.complete, manifest.missing
    )  # fmt: skip


def make_search_log(manifest: Manifest) -> dict[str, object]:
    """The items of PRISMA-S by number and name."""
    request = manifest.asked
    sources = [_describe_source(source, manifest) for source in manifest.sources]
    limits = [f"{source.source}: {part}" for source in manifest.sources for part in (*source.widened, *source.lacking)]
    return {
        "1. Database name": sources,
        "2. Multi-database searching": "each database was searched by itself" if len(sources) > 1 else "one database was searched",
        "3. Study registries": THEIRS,
        "4. Online resources and browsing": THEIRS,
        "5. Citation searching": THEIRS,
        "6. Contacts": THEIRS,
        "7. Other methods": THEIRS,
        "8. Full search strategies": {
            "as written": request.query,
            "syntax": request.syntax,
            "as parsed": request.tree,
            "remarks": list(request.findings),
            "by source": {source.source: source.query or f"refused: {source.refused}" for source in manifest.sources},
        },
        "9. Limits and restrictions": {"in the strategy": "see item 8; none were applied outside it", "not expressible": limits},
        "10. Search filters": THEIRS,
        "11. Prior work": THEIRS,
        "12. Updates": "`outrider replay` and `outrider saved run` run the search again and name each record gained or lost",
        "13. Dates of searches": {"begun": manifest.times.started_at, "ended": manifest.times.finished_at},
        "14. Peer review": THEIRS,
        "15. Total records": {
            "from each source": {source.source: source.hits for source in manifest.sources},
            "together": manifest.total,
            "complete": manifest.complete,
            "what is missing": list(manifest.missing),
        },
        "16. Deduplication": {
            "duplicates removed": manifest.duplicates,
            "by": manifest.deduplicated_by or "one source: none was looked for",
        },
        "proof": {"provenance_hash": manifest.provenance_hash, "seal": manifest.seal, "tool": request.tool},
    }


def _describe_source(source: SourceResult, manifest: Manifest) -> dict[str, object]:
    row: dict[str, object] = {
        "source": source.source,
        "database and platform": DATABASES.get(source.source, source.source),
        "query": source.query,
        "parameters": dict(source.parameters),
        "read as written": source.native,
        "reproducible": source.reproducible,
        "records that it says match": source.total,
        "fetched": source.fetched,
        "hits": source.hits,
        "checked in the record's text": source.verified,
        "complete": source.complete,
        "slices": [f"{part.what}: {part.fetched:,} of {part.total:,}" for part in source.slices],
        "remarks": list(source.remarks),
    }
    if source.source == LIBRARY and (snapshot := manifest.asked.snapshot):
        row["snapshot"] = snapshot.model_dump(mode="json")
    return row


def write_reports(manifest: Manifest, folder: Path) -> tuple[Path, ...]:
    """Write PRISMA 2020 as JSON, Markdown and SVG, PRISMA-S as JSON and Markdown; existing files of these names are overwritten."""
    flow = make_flow(manifest)
    texts = {
        "prisma-2020.json": flow_json(flow),
        "prisma-2020.md": flow_markdown(flow),
        "prisma-2020.svg": flow_diagram(flow),
        "prisma-s.json": json.dumps(make_search_log(manifest), indent=2, ensure_ascii=False) + "\n",
        "prisma-s.md": log_markdown(manifest),
    }
    return _write_texts(texts, folder)


def _write_texts(texts: Mapping[str, str], folder: Path) -> tuple[Path, ...]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise BadRequest(f"the reports cannot be written to {folder}: {error.strerror or error}") from error
    return tuple(folder / name for name in texts)


def flow_json(flow: Flow) -> str:
    """The counts as JSON, None for counts of the reviewers."""
    counts = {name: getattr(flow, name) for name in flow.__slots__}
    return json.dumps({**counts, "identified": dict(flow.identified), "total": flow.total}, indent=2, ensure_ascii=False) + "\n"


def flow_markdown(flow: Flow) -> str:
    """The counts as a Markdown table."""
    method = f" ({_escape_cell(flow.deduplicated_by)})" if flow.deduplicated_by else ""
    rows = [f"| Records identified from {_escape_cell(name)} | {count:,} |" for name, count in flow.identified]
    rows += [
        f"| Records identified, together | {flow.total:,} |",
        f"| Removed before screening: duplicates{method} | {flow.duplicates:,} |",
        f"| Removed before screening: outside the query (given by a service that could not be asked exactly) | {flow.outside:,} |",
        f"| Records to be screened | {flow.for_screening:,} |",
        f"| Screened, excluded, sought, assessed, included | {THEIRS} |",
    ]
    warning = [] if flow.complete else ["", "**This search is not complete**: " + _escape_cell("; ".join(flow.missing))]
    return "\n".join(["# PRISMA 2020 flow", "", "| | n |", "|---|---:|", *rows, *warning, ""])


def log_markdown(manifest: Manifest) -> str:
    """The search log as Markdown, one section an item."""
    lines = ["# PRISMA-S search log", ""]
    for name, item in make_search_log(manifest).items():
        lines += [f"## {name[0].upper()}{name[1:]}", "", *_format_list(item), ""]
    return "\n".join(lines)


def _format_list(value: object, depth: int = 0) -> list[str]:
    """Nested Markdown lists. Text from outside is a code span, so it cannot become markup."""
    if isinstance(value, dict):
        lines = []
        for name, part in value.items():
            head = f"{'  ' * depth}- {_escape_cell(name)}:"
            is_nested = isinstance(part, dict | list) and part
            lines += [head, *_format_list(part, depth + 1)] if is_nested else [f"{head} {_format_value(part)}"]
        return lines
    if isinstance(value, list):
        return [line for part in value for line in _format_list(part, depth)] or [f"{'  ' * depth}- none"]
    return [f"{'  ' * depth}- {_format_value(value)}"]


def _format_value(value: object) -> str:
    if value is None or value in ([], {}, ""):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if value == THEIRS:
        return THEIRS
    # a code span is enclosed in more backticks than the text has in a row (CommonMark, "Code spans")
    inner = " ".join(str(value).split())
    ticks = "`"
    while ticks in inner:
        ticks += "`"
    return f"{ticks} {inner} {ticks}" if "`" in inner else f"`{inner}`"


def _escape_cell(text: object) -> str:
    return escape(" ".join(str(text).split()), quote=False).replace("|", "\\|")


def flow_diagram(flow: Flow) -> str:
    """A whole SVG document."""
    warning = "" if flow.complete else f"This search is not complete: {'; '.join(flow.missing)}"
    return draw_flow_chart("PRISMA 2020 flow diagram", "Identification of studies via databases and registers", _make_rows(flow), warning)


@dataclass(frozen=True, slots=True)
class UpdateFlow:
    """Counts of a search that was run again, for the flow of an updated review ("previous studies" and "new studies")."""

    flow: Flow
    previous: int
    """Works of the previous search."""
    known: int
    """Works of this search that the previous one had."""
    new: int
    changed: int
    """Works of both searches whose record changed."""
    retracted: int
    """Of these, works that are reported as retracted since."""
    gone: int
    unknown: int
    """Works of the previous search that a failed source may still have."""


def make_update_flow(run: SavedRun, difference: RunDifference | None) -> UpdateFlow:
    """The counts of a saved protocol's run. Raises `BadRequest` for the run of a ranked search."""
    facts = run.facts
    if facts is None or facts.identified is None:
        raise BadRequest("a PRISMA flow counts every match of a Boolean query, and this saved search ranks; save one with --systematic")
    counts = facts.identified
    flow = Flow(
        tuple(counts.by_source.items()), counts.duplicates, counts.deduplicated_by, counts.outside, counts.for_screening, counts.complete,
        counts.missing,
    )  # fmt: skip
    if difference is None:
        return UpdateFlow(flow, 0, 0, flow.for_screening, 0, 0, 0, 0)
    new = difference.count("new")
    retracted = sum(work.cause == "retracted" for work in difference.works)
    return UpdateFlow(
        flow, difference.works_before, difference.works_after - new, new, difference.count("changed"), retracted, difference.count("gone"),
        difference.count("missing") + difference.still_missing,
    )  # fmt: skip


def write_update_reports(update: UpdateFlow, folder: Path) -> tuple[Path, ...]:
    """Write the flow of an updated review as JSON, Markdown and SVG; existing files of these names are overwritten."""
    texts = {f"prisma-2020-update.{suffix}": format_update_flow(update, form) for suffix, form in UPDATE_FORMS.items()}
    return _write_texts(texts, folder)


UPDATE_FORMS = {"json": "prisma-json", "md": "prisma-markdown", "svg": "prisma-svg"}
"""Forms of the flow of an updated review, by the suffix of their files."""


def format_update_flow(update: UpdateFlow, form: str) -> str:
    """The flow of an updated review in one of `UPDATE_FORMS`. Boxes that only the reviewers know stay open."""
    flow = update.flow
    if form == "prisma-json":
        counts = {name: getattr(update, name) for name in update.__slots__ if name != "flow"}
        fields = {name: getattr(flow, name) for name in flow.__slots__} | {"identified": dict(flow.identified), "total": flow.total}
        return json.dumps({**fields, **counts}, indent=2, ensure_ascii=False) + "\n"
    if form == "prisma-markdown":
        rows = [
            f"| Studies and reports included in the previous version | {THEIRS} |",
            f"| Records of the previous search | {update.previous:,} |",
            *(f"| Records identified from {_escape_cell(name)} | {count:,} |" for name, count in flow.identified),
            f"| Removed before screening: duplicates | {flow.duplicates:,} |",
            f"| Removed before screening: outside the query | {flow.outside:,} |",
            f"| Removed before screening: found by the previous search | {update.known:,} |",
            f"| New records to be screened | {update.new:,} |",
            f"| Records of the previous search that changed | {update.changed:,} |",
            f"| Of these retracted since | {update.retracted:,} |",
            f"| Records of the previous search that are gone | {update.gone:,} |",
            f"| Not known, because a source failed | {update.unknown:,} |",
            f"| Screened, excluded, sought, assessed, included, total | {THEIRS} |",
        ]
        warning = [] if flow.complete else ["", "**This search is not complete**: " + _escape_cell("; ".join(flow.missing))]
        return "\n".join(["# PRISMA 2020 flow of an updated review", "", "| | n |", "|---|---:|", *rows, *warning, ""])
    warning_line = "" if flow.complete else f"This search is not complete: {'; '.join(flow.missing)}"
    heading = "Previous studies, and new studies via databases and registers"
    return draw_flow_chart("PRISMA 2020 flow diagram for updated reviews", heading, _make_update_rows(update), warning_line)


def _make_update_rows(update: UpdateFlow) -> list[Row]:
    flow = update.flow
    previous = [f"Records of the previous search (n = {update.previous:,})", f"Studies included in previous version {LATER}"]
    since = ["Since the previous search:", f"  changed (n = {update.changed:,}), of these", f"  retracted (n = {update.retracted:,})"]
    since += [f"  gone (n = {update.gone:,})", f"  not known: source failed (n = {update.unknown:,})"]
    identified, screening, *later, included = _make_rows(flow)
    removed = [*identified.excluded, f"  found by the previous search (n = {update.known:,})"]
    return [
        Row("Previous studies", previous, since),
        Row("Identification", identified.included, removed),
        Row("Screening", [f"New records to be screened (n = {update.new:,})"], screening.excluded),
        *later,
        Row(
            "Included",
            [f"New studies included in review {LATER}", f"Total studies included in review {LATER}"],
            included.excluded,
            dashed=True,
        ),
    ]


CITATION_FORMS = ("prisma-json", "prisma-markdown", "prisma-svg")
"""Forms of the counts of citation searching."""
OTHER_METHODS = "Identification of studies via other methods"


def write_citation_flow(counts: CitationSearchCounts, form: str, target: str) -> str:
    """The boxes for citation searching ("other methods") in one of `CITATION_FORMS`. Boxes that only the reviewers know stay open."""
    open_boxes = ("not_retrieved", "assessed")
    if form == "prisma-json":
        fields: dict[str, object] = {name: getattr(counts, name) for name in counts.__slots__}
        return json.dumps({"method": "citation searching", "target": target, **fields}, indent=2, ensure_ascii=False) + "\n"
    if form == "prisma-markdown":
        rows = [
            f"| Records identified from citation searching | {counts.identified:,} |",
            f"| Records screened | {counts.screened:,} |",
            f"| Records excluded | {counts.excluded:,} |",
            f"| Records not screened | {counts.not_screened:,} |",
            f"| Reports sought for retrieval | {counts.sought:,} |",
            *(f"| Reports {name.replace('_', ' ')} | {_format_count(getattr(counts, name))} |" for name in open_boxes),
        ]
        return "\n".join([f"# PRISMA 2020: {OTHER_METHODS.lower()}", "", f"| {_escape_cell(target)} | n |", "|---|---:|", *rows, ""])
    identified = ["Records identified from:", f"  citation searching (n = {counts.identified:,})"]
    aside = [f"Records not screened (n = {counts.not_screened:,})"] if counts.not_screened else []
    boxes = [
        Row("Identification", identified, aside),
        Row("Screening", [f"Records screened (n = {counts.screened:,})"], [f"Records excluded (n = {counts.excluded:,})"]),
        Row("", [f"Reports sought for retrieval (n = {counts.sought:,})"], [f"Reports not retrieved {_count_box(counts.not_retrieved)}"]),
        Row(
            "",
            [f"Reports assessed for eligibility {_count_box(counts.assessed)}"],
            [f"Reports excluded, with reasons {LATER}"],
            dashed=True,
        ),
        Row("Included", [f"Studies included in review {LATER}"], [], dashed=True),
    ]
    return draw_flow_chart("PRISMA 2020 flow diagram: citation searching", OTHER_METHODS, boxes)


def _format_count(count: int | None) -> str:
    return THEIRS if count is None else f"{count:,}"


def _count_box(count: int | None) -> str:
    return LATER if count is None else f"(n = {count:,})"


def _name_database(name: str) -> str:
    return DATABASES.get(name, name).split(",")[0]


def _make_rows(flow: Flow) -> list[Row]:
    identified = [
        f"Records identified (n = {flow.total:,}):",
        *(f"  {_name_database(name)} (n = {count:,})" for name, count in flow.identified),
    ]
    removed = [
        "Records removed before screening:",
        f"  duplicates (n = {flow.duplicates:,})",
        f"  outside the query, as checked by automation (n = {flow.outside:,})",
    ]
    return [
        Row("Identification", identified, removed),
        Row("Screening", [f"Records to be screened (n = {flow.for_screening:,})"], [f"Records excluded {LATER}"]),
        Row("", [f"Reports sought for retrieval {LATER}"], [f"Reports not retrieved {LATER}"], dashed=True),
        Row("", [f"Reports assessed for eligibility {LATER}"], [f"Reports excluded, with reasons {LATER}"], dashed=True),
        Row("Included", [f"Studies included in review {LATER}"], [], dashed=True),
    ]
