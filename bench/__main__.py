"""`python -m bench [names...]`: run benchmarks, print their tables, keep them as JSON in `bench/results/`."""

from __future__ import annotations

import argparse
import os
from importlib import import_module

from bench.report import surroundings, table, write

RECORDS = 100_000
NAMES = ("quality", "stages", "retrieval", "scoring", "adaptive", "latency", "scale", "vector_index", "ingestion", "embedding", "startup")
SIZED = "scale"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Outrider.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to measure: {', '.join(NAMES)} (default: all)")
    parser.add_argument("--records", type=int, default=RECORDS, metavar="N", help=f"how far {SIZED} goes (default: {RECORDS})")
    asked = parser.parse_args()
    names = asked.names or NAMES
    for name in names:
        if name not in NAMES:
            parser.error(f"unknown benchmark {name!r}; known: {', '.join(NAMES)}")
    if asked.records < 1_000:
        parser.error(f"--records {asked.records}: at least 1000, so that there is something to search")
    os.environ.setdefault("LANCEDB_LOG", "error")  # its hybrid search warns of its own call with every query
    os.environ["OUTRIDER_SOURCES__OFFLINE"] = "true"
    print(", ".join(f"{key} {value}" for key, value in surroundings().items()), end="\n\n", flush=True)
    for name in names:
        measure = import_module(f"bench.{name}").run
        report = measure(asked.records) if name == SIZED else measure()
        path = write(report)
        print(table(report), f"-> {path}\n", sep="\n", flush=True)


if __name__ == "__main__":
    main()
