"""`python -m bench [names...]`: runs benchmarks, prints tables, saves JSON."""

from __future__ import annotations

import argparse
import os
from importlib import import_module

from bench.report import surroundings, table, write

RECORDS = 100_000
NAMES = (
    "quality", "stages", "retrieval", "late_interaction", "software", "scoring", "adaptive", "scout", "queries", "latency", "scale",
    "vector_index", "ingestion", "embedding", "startup", "identity", "distil", "questions", "abstracts", "exact", "strategies", "doors",
    "cold_serve", "first_requests", "jobs", "short_answer", "page", "warm_search", "chase", "references", "citation_jobs", "full_text",
    "code_links", "planner", "stopping", "recapture", "screening", "recorder", "saved", "model_servers", "warm_queries", "growth",
    "scale_simulation", "object_storage", "ray_ingest", "serving", "shared_limits", "ray_batch",
)  # fmt: skip
SIZED, OF_SERVICES, COMPARED = ("scale", "exact", "identity", "growth"), "queries", "warm_search"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Outrider.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"benchmarks to run: {', '.join(NAMES)} (default: all)")
    parser.add_argument(
        "--records", type=int, default=RECORDS, metavar="N", help=f"most records of {', '.join(SIZED)} (default: {RECORDS})"
    )
    parser.add_argument("--live", action="store_true", help=f"query the real services and model of your settings ({OF_SERVICES} only)")
    parser.add_argument("--base", metavar="SRC", help=f"the folder src of another checkout, to compare with ({COMPARED} only)")
    arguments = parser.parse_args()
    names = arguments.names or NAMES
    for name in names:
        if name not in NAMES:
            parser.error(f"unknown benchmark {name!r}; known: {', '.join(NAMES)}")
    if arguments.records < 1_000:
        parser.error(f"--records {arguments.records}: at least 1000")
    os.environ.setdefault("LANCEDB_LOG", "error")  # its hybrid search logs a warning with every query
    os.environ["OUTRIDER_SOURCES__OFFLINE"] = "true"
    os.environ["OUTRIDER_PLANNER__ENABLED"] = "false"  # measured searches are no history of this installation
    print(", ".join(f"{key} {value}" for key, value in surroundings().items()), end="\n\n", flush=True)
    for name in names:
        of_name = {OF_SERVICES: {"live": arguments.live}, COMPARED: {"base": arguments.base}}
        options = {**{sized: {"records": arguments.records} for sized in SIZED}, **of_name}.get(name, {})
        report = import_module(f"bench.{name}").run(**options)
        path = write(report)
        print(table(report), f"-> {path}\n", sep="\n", flush=True)


if __name__ == "__main__":
    main()
