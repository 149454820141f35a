"""`python -m bench [names...]`: run benchmarks, print their tables, keep them as JSON in `bench/results/`."""

from __future__ import annotations

import argparse
from importlib import import_module

from bench.report import surroundings, table, write

NAMES = ("quality", "stages", "latency", "ingestion", "startup")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Outrider.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to measure: {', '.join(NAMES)} (default: all)")
    names = parser.parse_args().names or NAMES
    for name in names:
        if name not in NAMES:
            parser.error(f"unknown benchmark {name!r}; known: {', '.join(NAMES)}")
    print(", ".join(f"{key} {value}" for key, value in surroundings().items()), end="\n\n", flush=True)
    for name in names:
        report = import_module(f"bench.{name}").run()
        path = write(report)
        print(table(report), f"-> {path}\n", sep="\n", flush=True)


if __name__ == "__main__":
    main()
