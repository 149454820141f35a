"""What a review reports of its search: the flow counts of PRISMA 2020 and the search log of PRISMA-S, out of a manifest alone.

Page MJ et al., BMJ 2021;372:n71 (PRISMA 2020, boxes "Identification" and "Screening"); Rethlefsen ML et al., Syst Rev 2021;10:39
(PRISMA-S, 16 items). Only what the run knows is filled in: what reviewers do afterwards is theirs to write, and stands as None.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape

from outrider.state.records import LIBRARY
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


@dataclass(frozen=True, slots=True)
class Flow:
    """Counts of records. None is what the run cannot know."""

    identified: tuple[tuple[str, int], ...]
    """Records that came from each source."""
    duplicates: int
    deduplicated_by: str
    outside: int
    """Records that a service gave since it could not be asked exactly, and that do not match the query."""
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


def flow_of(manifest: Manifest) -> Flow:
    identified = tuple((one.source, one.fetched) for one in manifest.sources)
    outside = sum(one.fetched - one.hits for one in manifest.sources)
    return Flow(
        identified, manifest.duplicates, manifest.deduplicated_by, outside, manifest.unique, manifest.complete, manifest.missing
    )  # fmt: skip


def search_log(manifest: Manifest) -> dict[str, object]:
    """The items of PRISMA-S by number and name."""
    asked = manifest.asked
    sources = [_source(one, manifest) for one in manifest.sources]
    limits = [f"{one.source}: {part}" for one in manifest.sources for part in (*one.widened, *one.lacking)]
    return {
        "1. Database name": sources,
        "2. Multi-database searching": "each database was searched by itself" if len(sources) > 1 else "one database was searched",
        "3. Study registries": THEIRS,
        "4. Online resources and browsing": THEIRS,
        "5. Citation searching": THEIRS,
        "6. Contacts": THEIRS,
        "7. Other methods": THEIRS,
        "8. Full search strategies": {
            "as written": asked.query,
            "syntax": asked.syntax,
            "as parsed": asked.tree,
            "remarks": list(asked.findings),
            "by source": {one.source: one.query or f"refused: {one.refused}" for one in manifest.sources},
        },
        "9. Limits and restrictions": {"in the strategy": "see item 8; none were applied outside it", "not expressible": limits},
        "10. Search filters": THEIRS,
        "11. Prior work": THEIRS,
        "12. Updates": "`outrider replay` runs the search again and names each record gained or lost",
        "13. Dates of searches": {"begun": manifest.times.started_at, "ended": manifest.times.finished_at},
        "14. Peer review": THEIRS,
        "15. Total records": {
            "from each source": {one.source: one.hits for one in manifest.sources},
            "together": manifest.total,
            "complete": manifest.complete,
            "what is missing": list(manifest.missing),
        },
        "16. Deduplication": {
            "duplicates removed": manifest.duplicates,
            "by": manifest.deduplicated_by or "one source: none was looked for",
        },
        "proof": {"provenance_hash": manifest.provenance_hash, "seal": manifest.seal, "tool": asked.tool},
    }


def _source(one: SourceResult, manifest: Manifest) -> dict[str, object]:
    said: dict[str, object] = {
        "source": one.source,
        "database and platform": DATABASES.get(one.source, one.source),
        "query": one.query,
        "parameters": dict(one.parameters),
        "read as written": one.native,
        "reproducible": one.reproducible,
        "records that it says match": one.total,
        "fetched": one.fetched,
        "hits": one.hits,
        "checked in the record's text": one.verified,
        "complete": one.complete,
        "slices": [f"{part.what}: {part.fetched:,} of {part.total:,}" for part in one.slices],
        "remarks": list(one.remarks),
    }
    if one.source == LIBRARY and (snapshot := manifest.asked.snapshot):
        said["snapshot"] = snapshot.model_dump(mode="json")
    return said


def flow_json(flow: Flow) -> str:
    said = {name: getattr(flow, name) for name in flow.__slots__}
    return json.dumps({**said, "identified": dict(flow.identified), "total": flow.total}, indent=2, ensure_ascii=False) + "\n"


def log_json(manifest: Manifest) -> str:
    return json.dumps(search_log(manifest), indent=2, ensure_ascii=False) + "\n"


def flow_markdown(flow: Flow) -> str:
    by = f" ({_cell(flow.deduplicated_by)})" if flow.deduplicated_by else ""
    rows = [f"| Records identified from {_cell(name)} | {count:,} |" for name, count in flow.identified]
    rows += [
        f"| Records identified, together | {flow.total:,} |",
        f"| Removed before screening: duplicates{by} | {flow.duplicates:,} |",
        f"| Removed before screening: outside the query (given by a service that could not be asked exactly) | {flow.outside:,} |",
        f"| Records to be screened | {flow.for_screening:,} |",
        f"| Screened, excluded, sought, assessed, included | {THEIRS} |",
    ]
    warning = [] if flow.complete else ["", "**This search is not complete**: " + _cell("; ".join(flow.missing))]
    return "\n".join(["# PRISMA 2020 flow", "", "| | n |", "|---|---:|", *rows, *warning, ""])


def log_markdown(manifest: Manifest) -> str:
    lines = ["# PRISMA-S search log", ""]
    for name, said in search_log(manifest).items():
        lines += [f"## {name[0].upper()}{name[1:]}", "", *_listed(said), ""]
    return "\n".join(lines)


def _listed(said: object, depth: int = 0) -> list[str]:
    """As nested lists; what came from outside is code, and can be nothing else."""
    if isinstance(said, dict):
        pairs = [(f"{'  ' * depth}- {_cell(name)}:", part) for name, part in said.items()]
        return [line for head, part in pairs for line in _under(head, part, depth)]
    if isinstance(said, list):
        return [line for part in said for line in _listed(part, depth)] or [f"{'  ' * depth}- none"]
    return [f"{'  ' * depth}- {_shown(said)}"]


def _under(head: str, part: object, depth: int) -> list[str]:
    return [head, *_listed(part, depth + 1)] if isinstance(part, dict | list) and part else [f"{head} {_shown(part)}"]


def _shown(said: object) -> str:
    if said is None or said in ([], {}, ""):
        return "none"
    if isinstance(said, bool):
        return "yes" if said else "no"
    if isinstance(said, int):
        return f"{said:,}"
    return THEIRS if said == THEIRS else _code(str(said))


def _code(text: str) -> str:
    """In as many backticks as it takes (CommonMark, "Code spans")."""
    inner = " ".join(text.split())
    ticks = "`"
    while ticks in inner:
        ticks += "`"
    return f"{ticks} {inner} {ticks}" if "`" in inner else f"`{inner}`"


def _cell(text: object) -> str:
    return escape(" ".join(str(text).split()), quote=False).replace("|", "\\|")
