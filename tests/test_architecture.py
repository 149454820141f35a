"""Imports between the files of the package, read from the source alone."""

from __future__ import annotations

import ast
import os
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "outrider"


def test_no_circle_between_files() -> None:
    """Imports for type checkers and imports inside functions count; the re-exports of `outrider/__init__.py` do not."""
    graph = _imports()
    assert len(graph) > 200
    del graph["outrider"]
    try:
        TopologicalSorter({name: imports - {"outrider"} for name, imports in graph.items()}).prepare()
    except CycleError as error:
        raise AssertionError(" <- ".join(error.args[1])) from None


def test_no_module_imports_the_public_names() -> None:
    """`outrider/__init__.py` offers names of the upper layers: an import of it from inside the package runs upwards.

    One module names the types of its signatures by it, so that they are loaded only where a framework resolves them.
    """
    assert [name for name, imports in _imports().items() if "outrider" in imports] == ["outrider.usecases.search"]


def _imports() -> dict[str, set[str]]:
    """The modules of the package, each with those that its source names in an import statement."""
    files = _modules()
    graph: dict[str, set[str]] = {}
    for name, file in files.items():
        named: set[str] = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                named |= {full if (full := f"{node.module}.{alias.name}") in files else node.module for alias in node.names}
            elif isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
        graph[name] = (named & files.keys()) - {name}
    return graph


def _modules() -> dict[str, Path]:
    """By dotted name. `Path.rglob` would not follow the links in `src/outrider`."""
    modules: dict[str, Path] = {}
    for folder, _, names in os.walk(PACKAGE, followlinks=True):
        for file in (Path(folder) / name for name in names if name.endswith(".py")):
            parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return modules
