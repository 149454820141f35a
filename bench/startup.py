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
    took_s = _measure_s()
    empty_s = took_s["python -c pass"]
    rows: list[tuple[Cell, ...]] = []
    for name, (_, code) in CASES.items():
        rows.append((name, took_s[name] * 1000, took_s[name] / empty_s, ", ".join(_heavy(code)) or "none"))
    ratio = took_s["from outrider import search"] / took_s["from pydantic import BaseModel"]
    target = f"Importing `search` takes {ratio:.2f} times as long as importing `BaseModel` (target: at most 1.5)."
    return Report("startup", COLUMNS, tuple(rows), (f"Medians of {RUNS} runs, the commands in turns.", target))


def _measure_s() -> dict[str, float]:
    """Medians by case, measured in turns on a machine whose speed drifts. The first round fills the caches and is not counted."""
    times_s: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(RUNS + 1):
        for name, (arguments, _) in CASES.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
            times_s[name].append(time.perf_counter() - started)
    return {name: statistics.median(times[1:]) for name, times in times_s.items()}


def _heavy(code: str) -> list[str]:
    script = f"{code}\nimport sys; print('LOADED', *sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = done.stderr.rpartition("LOADED")[2].split()
    return [name for name in HEAVY if name in loaded]
