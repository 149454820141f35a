"""Import paths that the documentation of version 0.1.0 prints: each still gives its name, an old one with a DeprecationWarning."""

from __future__ import annotations

import ast
import importlib
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from compatibility.shapes import FROZEN, frozen

ROOT = Path(__file__).parents[2]
PATHS: dict[str, dict[str, list[str]]] = frozen("import_paths")
"""By document and module. Of a module that `docs/reference/api.md` renders whole, the names that it renders."""
EACH = sorted({(module, name) for modules in PATHS.values() for module, names in modules.items() for name in names})
MODULES = sorted({module for module, _ in EACH})


@contextmanager
def only_deprecations() -> Iterator[None]:
    """Let an old path of Outrider warn; every other warning stays an error, as everywhere in these tests."""
    with warnings.catch_warnings(record=True) as told:
        warnings.filterwarnings("always", message=r".*\boutrider\b", category=DeprecationWarning)
        yield
    assert {one.category for one in told} <= {DeprecationWarning}


def imported(module: str, name: str) -> Any:
    """Do what `from module import name` does."""
    space: dict[str, Any] = {}
    with only_deprecations():
        exec(f"from {module} import {name}", space)
    return space[name]


@pytest.mark.parametrize(("module", "name"), EACH)
def test_a_documented_path_gives_its_name(module: str, name: str) -> None:
    assert imported(module, name) is not None


@pytest.mark.parametrize("module", MODULES)
def test_a_documented_module_has_its_names_as_attributes(module: str) -> None:
    names = {name for each, name in EACH if each == module}
    with only_deprecations():
        loaded = importlib.import_module(module)
        assert {name for name in names if not hasattr(loaded, name)} == set()


def test_a_name_is_one_object_whichever_path_it_is_imported_by() -> None:
    import outrider

    public = [(module, name) for module, name in EACH if name in outrider.__all__]
    assert public
    for module, name in public:
        assert imported(module, name) is getattr(outrider, name), (module, name)
    for name in {name for _, name in EACH}:
        objects = {id(imported(module, name)) for module, each in EACH if each == name}
        assert len(objects) == 1, name


@pytest.mark.parametrize("name", ["user_script", "acme_papers"])
def test_what_the_scripts_of_these_tests_import_is_in_the_list(name: str) -> None:
    """The scripts were written from the documentation: nothing that they import is missing in the list."""
    for node in ast.walk(ast.parse((FROZEN / f"{name}.txt").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("outrider."):
            assert {(node.module, one.name) for one in node.names} <= set(EACH)


def test_what_the_documentation_prints_now_can_be_imported() -> None:
    """Also paths that are newer than the list."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")) if "adr" not in path.parts]
    texts.append((ROOT / "langgraph.json").read_text(encoding="utf-8"))
    printed: set[tuple[str, str]] = set()
    for text in texts:
        for module, names in re.findall(r"^from (outrider[\w.]*) import ([\w, ]+)", text, re.MULTILINE):
            printed |= {(module, name.strip()) for name in names.split(",")}
        printed |= set(re.findall(r'"(outrider[\w.]+):(\w+)"', text))
        for path in re.findall(r"^::: (outrider[\w.]+)$", text, re.MULTILINE):
            printed.add(tuple(path.rsplit(".", 1)))
    assert len(printed) > 30
    for module, name in sorted(printed):
        with only_deprecations():
            owner = importlib.import_module(module)
            assert hasattr(owner, name) or importlib.import_module(f"{module}.{name}")
