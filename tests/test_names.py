"""Names and first lines of docstrings: the lexicon of CONTRIBUTING.md, checked on the source."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

Node = TypeVar("Node", ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.arg)
Function = ast.FunctionDef | ast.AsyncFunctionDef
PACKAGE = Path(__file__).parents[1] / "src" / "outrider"
MODULES = set(
    """
    apart arrival asked asking beside bounds caller calls deciding doors envelope exchange filling found gate glance grey harvests helpers
    judging keeping kept kept_drafts leaving listening nearest place reading row said screening sent_away shelf speech streamed streaming
    tending texts unscored upkeep utils verdicts ways wellbeing world
    """.split()
)
"""Former names that a reader could not guess."""
CLASSES = set(
    """
    Asked Came Doors Drawn Found Gate Given Going Heard Held Kept Known Learnt Made Named Said Seen Shelf Shown Standing Told Turn World
    """.split()
)
IRREGULAR = set(
    """
    asked begun bought brought built caught chosen come done drawn found given gone grown heard held hidden kept known laid learnt left made
    meant said seen sent shown spent stood taken taught thrown told understood written
    """.split()
)
NO_PARTICIPLE = {"bleed", "embed", "exceed", "feed", "need", "proceed", "red", "reseed", "seed", "speed", "succeed"}
RIDDLES = {"asked", "found", "given", "heard", "held", "kept", "made", "said", "shown", "told"}
PUBLIC = {
    "src/outrider/state/ports.py": {"named", "connected", "asked"},  # documented ports, which others implement
    "src/outrider/library/graph_neighbours.py": {"named", "connected"},  # implements `Neighbours`
    "src/outrider/services/__init__.py": {"asked"},  # implements `RerankerProvider`, called with this keyword
    "src/outrider/library/library.py": {"ingested", "pinned"},  # documented methods of `Library`
    "src/outrider/ingest/library_writer.py": {"ingested"},  # the part of `Library` that ingestion needs
    "src/outrider/interfaces/web/explain_scoring.py": {"Named"},  # name of a schema in the OpenAPI document
}
"""Names that stay, by file: callers' code, or documents that the server publishes, depend on them."""


def test_no_module_has_a_name_that_the_lexicon_bans() -> None:
    """A module of a command is exempt, because it has the name of the command."""
    assert [str(file) for file, _ in _modules() if file.stem in MODULES and "cli" not in file.parts] == []


def test_no_class_has_a_name_that_the_lexicon_bans() -> None:
    """A class is a noun of the field."""
    assert [place for place, node in _nodes(ast.ClassDef) if node.name.strip("_") in CLASSES] == []


def test_no_function_is_a_bare_participle() -> None:
    """A function is a verb. One that answers yes or no, or a property, may be an adjective: `is_closed`, `finished`."""
    functions: list[tuple[str, Function]] = [*_nodes(ast.FunctionDef), *_nodes(ast.AsyncFunctionDef)]
    assert [place for place, node in functions if _is_participle(node.name) and not _is_adjective(node)] == []


def test_no_parameter_is_a_riddle() -> None:
    """A parameter is named after the thing it holds."""
    assert [place for place, node in _nodes(ast.arg) if node.arg in RIDDLES] == []


def test_the_list_of_public_names_has_no_name_that_is_gone() -> None:
    """An entry that nothing needs would excuse a later name."""
    defined = {
        (str(file), node.arg if isinstance(node, ast.arg) else node.name)
        for file, tree in _modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.arg)
    }
    assert {(file, name) for file, names in PUBLIC.items() for name in names} - defined == set()


def test_docstrings_of_modules_begin_with_a_short_line() -> None:
    """A noun phrase of at most 90 characters: what a reader of the folder sees."""
    long = [f"{file}: {line}" for file, tree in _modules() if len(line := (ast.get_docstring(tree) or "").partition("\n")[0]) > 90]
    assert long == []


def _nodes(kind: type[Node]) -> Iterator[tuple[str, Node]]:
    """Each definition of a kind with its place and name, except public ones."""
    for file, tree in _modules():
        for node in ast.walk(tree):
            if isinstance(node, kind):
                name = node.arg if isinstance(node, ast.arg) else node.name
                if name not in PUBLIC.get(str(file), ()):
                    yield f"{file}:{node.lineno}: {name}", node


def _is_participle(name: str) -> bool:
    word = name.strip("_")
    return word in IRREGULAR or (re.fullmatch("[a-z]{3,}ed", word) is not None and word not in NO_PARTICIPLE)


def _is_adjective(node: Function) -> bool:
    is_property = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
    return is_property or (node.returns is not None and "bool" in ast.unparse(node.returns))


@cache
def _modules() -> list[tuple[Path, ast.Module]]:
    """Every file of the package, through the links, by its path in the repository."""
    files = [
        Path(folder) / name for folder, _, names in os.walk(PACKAGE, followlinks=True) for name in sorted(names) if name.endswith(".py")
    ]
    return [(file.relative_to(PACKAGE.parents[1]), ast.parse(file.read_text(encoding="utf-8"))) for file in files]
