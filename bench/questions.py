"""Questions over READMEs and full papers: whether the kept sentences answer, and how much else is kept.

The questions, spans and figures are those of `answers` in the shared data, development half; its own `score.py` counts. The texts of the
READMEs are those of the installed packages, so the versions of `constraints.txt` must be installed.
"""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from bench.data import Absent, data_folder
from bench.model import CACHE, NAME, Remembering, model
from bench.report import Cell, Report, progress
from outrider.distiller.distiller import Distiller
from outrider.distiller.engines.select import EngineName, make_engine
from outrider.distiller.selection import SelectionSettings
from outrider.settings.model import DistillerSettings
from outrider.state.distilling import Reading

RESAMPLES = 2_000
ENGINES: tuple[EngineName, ...] = ("words", "words+")
FIGURES = ("answer_recall", "precision", "junk_rate", "unanswerable_nothing_kept", "kept_share_of_text", "all_answers_recall")
COLUMNS = (
    "engine", "texts", "questions", "units a question", "answered", "95 %", "precision by characters", "95 %", "junk",
    "nothing kept where nothing answers", "uncertain among the rest", "share of the text", "all parts of the answer",
)  # fmt: skip
Kept = dict[str, list[tuple[int, int]]]


def run() -> Report:
    try:
        score = load_score()
        rows = [json.loads(line) for line in (data_folder() / "answers" / "dev.jsonl").read_text("utf-8").splitlines() if line.strip()]
        embedder = Remembering(model(), CACHE / f"question-units-{NAME}.npz")
    except (Absent, OSError) as error:
        return Report("questions", COLUMNS, (), (f"skipped: {error}",))
    table: list[tuple[Cell, ...]] = []
    skipped = [row["id"] for row in rows if score.check.sha(score.check.load_text(row)) != row.get("sha256", row.get("text_sha256"))]
    rows = [row for row in rows if row["id"] not in skipped]
    for name in ENGINES:
        progress(f"questions: {name}")
        engine = make_engine(name, None if name == "words" else embedder)
        few = DistillerSettings()
        selection = SelectionSettings(max_units=few.max_units, max_units_first=few.max_units_first, max_tokens=few.max_context_tokens)
        kept, uncertain = keep(Distiller(engine, selection=selection), rows, score)
        for kind in ("all", "readme", "paper"):
            some = [row for row in rows if kind in ("all", row["kind"])]
            table.append((name, kind, len(some), *figures(some, kept, uncertain, score)))
    notes = (f"Intervals: bootstrap over texts, {RESAMPLES:,} samples. The embedding model is {NAME}.",)
    return Report("questions", COLUMNS, tuple(table), (*notes, *([f"skipped, other versions: {', '.join(skipped)}"] if skipped else [])))


def load_score() -> ModuleType:
    """The module `score` of the shared data with its `check`."""
    folder = data_folder() / "answers"
    for name in ("check", "score"):
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        if spec is None or spec.loader is None or not (folder / f"{name}.py").is_file():
            raise Absent(f"{folder} is not there")
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    sys.modules["check"].DATA = str(data_folder())  # type: ignore[attr-defined]
    return sys.modules["score"]


def keep(distiller: Distiller, rows: Sequence[Mapping[str, Any]], score: ModuleType) -> tuple[Kept, set[str]]:
    """The kept spans by question, and the questions whose units are all marked as uncertain."""
    kept: Kept = {}
    uncertain = set()
    for row in rows:
        text = score.check.load_text(row)
        result = distiller.distil(row["question"], [Reading("a", text)])
        kept[row["id"]] = [(unit.start, unit.end) for unit in result.units]
        if all(unit.why == "best" for unit in result.units):
            uncertain.add(row["id"])
    return kept, uncertain


def figures(rows: Sequence[Mapping[str, Any]], kept: Kept, uncertain: set[str], score: ModuleType) -> tuple[Cell, ...]:
    counted = {row["id"]: score.one(row, kept[row["id"]]) for row in rows}
    own = score.figures(list(counted.values()))
    rest = [row["id"] for row in rows if not counted[row["id"]]["answerable"] and kept[row["id"]]]
    interval = partial(_bootstrap, rows, counted, score)
    return (
        sum(len(kept[row["id"]]) for row in rows) / len(rows),
        own["answer_recall"],
        interval("answer_recall"),
        own["precision"],
        interval("precision"),
        own["junk_rate"],
        own["unanswerable_nothing_kept"],
        sum(one in uncertain for one in rest) / len(rest) if rest else None,
        own["kept_share_of_text"],
        own["all_answers_recall"],
    )


def _bootstrap(rows: Sequence[Mapping[str, Any]], counted: Mapping[str, Any], score: ModuleType, figure: str) -> str:
    """The middle 95 % of a figure over samples of texts, with replacement."""
    by_text: dict[str, list[Any]] = {}
    for row in rows:
        by_text.setdefault(row.get("package") or row["file"], []).append(counted[row["id"]])
    rng, texts = random.Random(0), sorted(by_text)
    values = []
    for _ in range(RESAMPLES):
        value = score.figures([one for text in rng.choices(texts, k=len(texts)) for one in by_text[text]])[figure]
        if value is not None:
            values.append(value)
    values.sort()
    return f"{values[len(values) * 25 // 1000]:.2f} to {values[len(values) * 975 // 1000]:.2f}"
