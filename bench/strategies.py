"""Published search strategies: how many are read, refused, approximated, printed alike.

Strategies are read from `$OUTRIDER_STRATEGIES`, else from the folder `boolean` of the shared data, one row a folder: topic files of
CLEF-TAR (the text between `Query:` and `Pids:`; CLEF-TAR/tar on GitHub), JSON lines with `query` (ielab/sysrev-seed-collection), and texts
that are one strategy each. They are not part of the repository.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.data import data_folder
from bench.report import Cell, Report
from outrider.boolean.diagnostics import BooleanSyntaxError
from outrider.boolean.parser import parse
from outrider.boolean.printer import format_tree

MOST_REFUSED = 0.05
COLUMNS = ("folder", "strategies", "refused", "refused %", "approximated", "printed form differs", "read as")
_TOPIC = re.compile(r"^Query:[^\S\n]*\n(.*?)(?=^Pids:|\Z)", re.MULTILINE | re.DOTALL)


def run() -> Report:
    """Raises `AssertionError` if a printed form parses to another tree."""
    folder = Path(os.environ.get("OUTRIDER_STRATEGIES") or data_folder() / "boolean")
    rows: list[tuple[Cell, ...]] = []
    notes: list[str] = []
    total = refused = 0
    for name, strategies in sorted(group_strategies(folder).items()):
        row, reasons = _measure(name, strategies)
        rows.append(row)
        notes += reasons
        total += len(strategies)
        refused += len(reasons)
    if not total:
        return Report("strategies", COLUMNS, (), (f"no strategy in {folder}; set OUTRIDER_STRATEGIES",))
    verdict = "holds" if refused <= MOST_REFUSED * total else "is missed"
    notes.append(f"at most {MOST_REFUSED:.0%} refused {verdict}: {refused} of {total}")
    return Report("strategies", COLUMNS, tuple(rows), tuple(notes))


def group_strategies(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Name and text of each strategy, by folder. Files without a query, such as topics with a title only, are left out."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(("README", "."))):
        groups.setdefault(path.parent.name, []).extend(_read_strategies(path))
    return {name: strategies for name, strategies in groups.items() if strategies}


def _read_strategies(path: Path) -> Iterator[tuple[str, str]]:
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                record = json.loads(line)
                yield f"{path.name}:{record.get('id', number)}", record["query"]
        return
    text = path.read_text(encoding="utf-8")
    if match := _TOPIC.search(text):
        yield path.name, match.group(1).strip("\n")
    elif not text.startswith("Topic:"):
        yield path.name, text


def _measure(folder: str, strategies: list[tuple[str, str]]) -> tuple[tuple[Cell, ...], list[str]]:
    reasons, read_as = [], Counter[str]()
    approximated = different = 0
    for name, text in strategies:
        try:
            parsed = parse(text)
        except BooleanSyntaxError as error:
            reasons.append(f"{folder}/{name}: {str(error).splitlines()[0]}")
            continue
        read_as[parsed.syntax] += 1
        approximated += any(warning.code == "approximated" for warning in parsed.warnings)
        different += parse(format_tree(parsed.tree), "pubmed").tree != parsed.tree
    assert not different, f"{different} strategies of {folder} parse to another tree once they are printed"
    share = 100 * len(reasons) / len(strategies)
    names = ", ".join(f"{syntax} {count}" for syntax, count in read_as.most_common())
    return (folder, len(strategies), len(reasons), share, approximated, different, names), reasons
