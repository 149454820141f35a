"""Records per second of `outrider ingest`: SciFact's corpus into a new library, then again."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.data import Absent, corpus_file
from bench.report import Cell, Report

COLUMNS = ("run", "records", "seconds", "records a second")


def run() -> Report:
    try:
        file = corpus_file("scifact")
    except Absent as absent:
        return Report("ingestion", COLUMNS, (), (f"skipped: {absent}",))
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "library"
        first, again = _ingest(file, library), _ingest(file, library)
    note = "A fresh process each time: start, reading, writing and all indexes are included."
    return Report("ingestion", COLUMNS, (("new library", *first), ("again, unchanged", *again)), (note,))


def _ingest(file: Path, library: Path) -> tuple[Cell, ...]:
    command = [sys.executable, "-m", "outrider", "ingest", str(file), "--library", str(library), "--json"]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    took_s = time.perf_counter() - started
    report: dict[str, Any] = json.loads(done.stdout)
    records = sum(int(report[key]) for key in ("added", "updated", "unchanged"))
    return records, took_s, records / took_s
