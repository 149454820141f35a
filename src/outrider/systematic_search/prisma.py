"""PRISMA reports of a run: flow counts and search log as JSON, Markdown and SVG.

Page MJ et al., BMJ 2021;372:n71 (PRISMA 2020, boxes "Identification" and "Screening"); Rethlefsen ML et al., Syst Rev 2021;10:39
(PRISMA-S, 16 items). Both are made from a manifest alone. Only facts of the run are filled in; the later steps of a review are None or left
to the authors.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from outrider.state.errors import BadRequest
from outrider.state.records import LIBRARY
from outrider.systematic_search.manifest import Manifest, SourceResult
from outrider.text.sanitize import without_control

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
WIDTH, LEFT_X, RIGHT_X, BOX = 860, 60, 470, 340
"""Pixels: width of the picture, left edges of the two columns, width of a box."""
LINE, PAD, GAP = 18, 12, 34
LETTER = 6.5
"""Height in pixels of a letter of a stage's vertical label."""
CHARS = 46
"""Maximum characters of a line in a box, with the font in `STYLE`."""
LATER = "(n = ____ )"
STYLE = "font-family:Helvetica,Arial,sans-serif;font-size:13px"


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
        "12. Updates": "`outrider replay` runs the search again and names each record gained or lost",
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


@dataclass(frozen=True, slots=True)
class _Row:
    stage: str
    included: Sequence[str]
    excluded: Sequence[str]
    dashed: bool = False


def flow_diagram(flow: Flow) -> str:
    """A whole SVG document; every text in it is escaped."""
    parts: list[str] = []
    y = 40
    for number, row in enumerate(rows := _make_rows(flow)):
        left_lines, right_lines = _wrap(row.included), _wrap(row.excluded)
        height = max(max(len(left_lines), len(right_lines)) * LINE, round(len(row.stage) * LETTER)) + 2 * PAD
        parts += _draw_stage(row.stage, y, height)
        parts += _draw_box(LEFT_X, y, height, left_lines, dashed=row.dashed)
        if right_lines:
            parts += _draw_box(RIGHT_X, y, height, right_lines, dashed=row.dashed)
            parts.append(_draw_arrow(LEFT_X + BOX, y + height // 2, RIGHT_X, y + height // 2))
        if number < len(rows) - 1:
            parts.append(_draw_arrow(LEFT_X + BOX // 2, y + height, LEFT_X + BOX // 2, y + height + GAP))
        y += height + GAP
    if not flow.complete:
        for line in textwrap.wrap(f"This search is not complete: {'; '.join(flow.missing)}", 100):
            parts.append(f'<text x="{LEFT_X}" y="{y}" fill="#b00020" style="{STYLE}">{_escape(line)}</text>')
            y += LINE
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 10}" viewBox="0 0 {WIDTH} {y + 10}" role="img">'
    marker = (
        '<defs><marker id="head" markerWidth="9" markerHeight="7" refX="8" refY="3.5" orient="auto">'
        '<polygon points="0 0, 9 3.5, 0 7"/></marker></defs>'
    )
    title = "<title>PRISMA 2020 flow diagram</title>"
    heading = f'<text x="{LEFT_X}" y="24" font-weight="bold" style="{STYLE}">Identification of studies via databases and registers</text>'
    background = f'<rect width="{WIDTH}" height="{y + 10}" fill="white"/>'
    return "\n".join([head, title, marker, background, heading, *parts, "</svg>", ""])


def _make_rows(flow: Flow) -> list[_Row]:
    identified = [f"Records identified (n = {flow.total:,}):", *(f"  {name} (n = {count:,})" for name, count in flow.identified)]
    removed = [
        "Records removed before screening:",
        f"  duplicates (n = {flow.duplicates:,})",
        f"  outside the query, as checked by automation (n = {flow.outside:,})",
    ]
    return [
        _Row("Identification", identified, removed),
        _Row("Screening", [f"Records to be screened (n = {flow.for_screening:,})"], [f"Records excluded {LATER}"]),
        _Row("", [f"Reports sought for retrieval {LATER}"], [f"Reports not retrieved {LATER}"], dashed=True),
        _Row("", [f"Reports assessed for eligibility {LATER}"], [f"Reports excluded, with reasons {LATER}"], dashed=True),
        _Row("Included", [f"Studies included in review {LATER}"], [], dashed=True),
    ]


def _wrap(lines: Sequence[str]) -> list[str]:
    return [part for line in lines for part in textwrap.wrap(line, CHARS, subsequent_indent="    ", drop_whitespace=False) or [""]]


def _draw_box(x: int, y: int, height: int, lines: Sequence[str], *, dashed: bool) -> list[str]:
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    drawn = [f'<rect x="{x}" y="{y}" width="{BOX}" height="{height}" fill="white" stroke="black"{dash}/>']
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        at = y + PAD + LINE * number + 13
        drawn.append(f'<text x="{x + PAD + 6 * indent}" y="{at}" style="{STYLE}">{_escape(line.strip())}</text>')
    return drawn


def _draw_stage(name: str, y: int, height: int) -> list[str]:
    if not name:
        return []
    middle = y + height // 2
    return [
        f'<rect x="14" y="{y}" width="28" height="{height}" rx="6" fill="#9db7d5"/>',
        f'<text x="32" y="{middle}" text-anchor="middle" transform="rotate(-90 32 {middle})" style="{STYLE};font-size:11px">{name}</text>',
    ]


def _draw_arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="black" marker-end="url(#head)"/>'


def _escape(text: str) -> str:
    return escape(without_control(text))
