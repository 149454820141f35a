"""Start-up time of fresh processes relative to an empty one, and their heavy modules."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from bench.report import Cell, Report

RUNS = 9
HEAVY = (
    "torch",
    "lancedb",
    "pyarrow",
    "numpy",
    "langgraph",
    "langchain_core",
    "httpx",
    "fastapi",
    "trafilatura",
    "pypdfium2_raw",
    "openpyxl",
    "rich",
)
COLUMNS = ("command", "median ms", "ratio", "heavy modules loaded")
HELP = "import sys; from outrider.interfaces.cli import run\ntry: run(['--help'])\nexcept SystemExit: pass"
CASES = {
    "python -c pass": (["-c", "pass"], "pass"),
    "import outrider": (["-c", "import outrider"], "import outrider"),
    "from outrider import search": (["-c", "from outrider import search"], "from outrider import search"),
    "from pydantic import BaseModel": (["-c", "from pydantic import BaseModel"], "from pydantic import BaseModel"),
    "import outrider.graph.pipeline": (["-c", "import outrider.graph.pipeline"], "import outrider.graph.pipeline"),
    "outrider --help": (["-m", "outrider", "--help"], HELP),
}


def run() -> Report:
    took_s = {name: _median_s(arguments) for name, (arguments, _) in CASES.items()}
    empty_s = took_s["python -c pass"]
    rows: list[tuple[Cell, ...]] = []
    for name, (_, code) in CASES.items():
        rows.append((name, took_s[name] * 1000, took_s[name] / empty_s, ", ".join(_heavy(code)) or "none"))
    return Report("startup", COLUMNS, tuple(rows), (f"Medians of {RUNS} runs.",))


def _median_s(arguments: list[str]) -> float:
    """The first run fills the caches and is not counted."""
    times_s = []
    for _ in range(RUNS + 1):
        started = time.perf_counter()
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        times_s.append(time.perf_counter() - started)
    return statistics.median(times_s[1:])


def _heavy(code: str) -> list[str]:
    script = f"{code}\nimport sys; print('LOADED', *sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = done.stderr.rpartition("LOADED")[2].split()
    return [name for name in HEAVY if name in loaded]
