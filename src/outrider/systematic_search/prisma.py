"""Flow counts of PRISMA 2020 and search log of PRISMA-S, made from a manifest alone.

Page MJ et al., BMJ 2021;372:n71 (PRISMA 2020, boxes "Identification" and "Screening"); Rethlefsen ML et al., Syst Rev 2021;10:39
(PRISMA-S, 16 items). Only facts of the run are filled in; the later steps of a review are None or left to the authors.
"""

from __future__ import annotations

from dataclasses import dataclass

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
