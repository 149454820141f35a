"""CPU and wall time of fresh commands, relative to the imports that each search needs, and their heavy modules.

All commands of a round run one after another, so that a busy machine slows them alike; the ratios are to be compared, not the seconds.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.data import Absent, collection
from bench.model import NAME, model_folder
from bench.report import Cell, Report, progress

RUNS = 10
RECORDS = 250
QUERY = "do statins lower the risk of stroke"
COLUMNS = ("command", "CPU s", "wall s", "compared with", "ratio of CPU", "ratio of wall", "at most", "heavy modules loaded")
HEAVY = (
    "torch", "transformers", "sentence_transformers", "scipy", "lancedb", "lance_namespace_urllib3_client.api", "langgraph", "pydantic",
    "httpx", "fastapi", "numpy", "tokenizers", "rich",
)  # fmt: skip
REFERENCE, TYPER = "python -c 'import lancedb, langgraph.graph'", "--help of a typer program with two commands"
TWO_COMMANDS = '''
import typer

app = typer.Typer()


@app.command()
def first(name: str = "a", count: int = 1) -> None:
    """Do the first thing."""


@app.command()
def second(name: str = "b") -> None:
    """Do the second thing."""


app()
'''


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    arguments: tuple[str, ...]
    base: str = REFERENCE
    at_most: float | None = None


def run(runs: int = RUNS) -> Report:
    notes = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        environment = _make_environment(place)
        (place / "two.py").write_text(TWO_COMMANDS, encoding="utf-8")
        commands = [
            Command(REFERENCE, ("-c", "import lancedb, langgraph.graph"), at_most=None),
            Command("from outrider import search", ("-c", "from outrider import search"), at_most=0.1),
            Command(TYPER, (str(place / "two.py"), "--help"), TYPER),
            Command("outrider --help", ("-m", "outrider", "--help"), TYPER, 1.3),
        ]
        try:
            commands += _make_searches(place, environment)
        except Absent as absent:
            notes.append(f"searches skipped: {absent}")
        times = _time(commands, environment, runs)
        rows = tuple(_make_row(command, times, environment) for command in commands)
    return Report("startup", COLUMNS, rows, (f"Medians of {runs} rounds; {RECORDS} abstracts of SciFact, {NAME}; offline.", *notes))


def _make_environment(place: Path) -> dict[str, str]:
    """No settings of this machine; bytecode is kept, as after an installation."""
    own = {name: str(place / name.lower()) for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_") and name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **own}


def _make_searches(place: Path, environment: Mapping[str, str]) -> list[Command]:
    """Raises `Absent` without the collection or the model."""
    model, file = model_folder(), place / "records.jsonl"
    records = collection("scifact").documents[:RECORDS]
    file.write_text("".join(f"{record.model_dump_json(exclude_none=True)}\n" for record in records), encoding="utf-8")
    plain, embedded = place / "plain", place / "embedded"
    progress(f"startup: a library of {RECORDS} records, without and with vectors")
    _run(("-m", "outrider", "ingest", str(file), "--offline", "-l", str(plain)), {**environment, "OUTRIDER_EMBEDDING__MODEL_NAME": "none"})
    shutil.copytree(plain, embedded)
    _run(("-m", "outrider", "library", "reindex", "-l", str(embedded)), {**environment, "OUTRIDER_EMBEDDING__MODEL_NAME": str(model)})

    def search(library: Path) -> tuple[str, ...]:
        return "-m", "outrider", "search", QUERY, "--offline", "-l", str(library)

    return [
        Command("outrider search, no vectors", search(plain), at_most=1.15),
        Command("outrider search, MiniLM vectors", search(embedded), at_most=1.5),
    ]


def _run(arguments: tuple[str, ...], environment: Mapping[str, str]) -> str:
    return subprocess.run([sys.executable, *arguments], capture_output=True, check=True, text=True, env=dict(environment)).stderr


def _time(commands: list[Command], environment: Mapping[str, str], runs: int) -> dict[str, tuple[float, float]]:
    """Median seconds of CPU and wall time by name. The first round fills the caches and is not counted."""
    times: dict[str, list[tuple[float, float]]] = {command.name: [] for command in commands}
    for number in range(runs + 1):
        progress(f"startup: round {number} of {runs}")
        for command in commands:
            before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            _run(command.arguments, environment)
            after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            if number:
                times[command.name].append((cpu_s, ended - started))
    return {name: (statistics.median(cpu for cpu, _ in each), statistics.median(wall for _, wall in each)) for name, each in times.items()}


def _make_row(command: Command, times: Mapping[str, tuple[float, float]], environment: Mapping[str, str]) -> tuple[Cell, ...]:
    (cpu_s, wall_s), (base_cpu_s, base_wall_s) = times[command.name], times[command.base]
    loaded = ", ".join(_list_heavy(command, environment)) or "none"
    return command.name, cpu_s, wall_s, command.base, cpu_s / base_cpu_s, wall_s / base_wall_s, command.at_most, loaded


def _list_heavy(command: Command, environment: Mapping[str, str]) -> list[str]:
    """As `-X importtime` lists them."""
    lines = _run(("-X", "importtime", *command.arguments), environment).splitlines()
    loaded = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    return [name for name in HEAVY if name in loaded]
