"""Formulas out of the code that computes them: the expression a function returns, with the names it was made with put in.

Nothing is written twice: what is shown changes with the code, and cannot fall behind it.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

READERS = {"count": "{}", "age_s": "age_s({})"}
"""How `Facts` reads an input, and what stands for it in a formula."""


class UnreadableFormula(ValueError):
    """A function is written in a way that this cannot read: a bug here, which a test sees."""


def returned(function: Callable[..., Any]) -> str:
    """The expression behind the last `return`."""
    return _plain(_last(function))


def of_part(part: Callable[..., Any], name: str, functions: Mapping[str, Callable[..., Any]]) -> str:
    """Of one part of a dimension over the input `name`: calls of `functions` are written out, and so are numbers it was made with.

    Raises `UnreadableFormula` for a part that is written in a way that this cannot read, which a test would see.
    """
    value = _last(part)
    if not isinstance(value, ast.IfExp):
        raise UnreadableFormula(f"the part over {name} does not begin with what happens where nothing is known")
    known: dict[str, ast.expr] = {}
    for node in ast.walk(_tree(part)):
        known |= _read(node, name)
    known |= {said: ast.Constant(number) for said, number in inspect.getclosurevars(part).nonlocals.items()}
    return _plain(_Written(known, functions).visit(value.orelse))


def source(function: Callable[..., Any]) -> str:
    return textwrap.dedent(inspect.getsource(function))


def _tree(function: Callable[..., Any]) -> ast.FunctionDef:
    found = ast.parse(source(function)).body[0]
    assert isinstance(found, ast.FunctionDef)  # noqa: S101 - it is asked of functions only
    return found


def _last(function: Callable[..., Any]) -> ast.expr:
    found = _tree(function).body[-1]
    if not isinstance(found, ast.Return) or found.value is None:
        raise UnreadableFormula(f"{function.__name__} does not end with the value that it returns")
    return found.value


def _read(node: ast.AST, name: str) -> dict[str, ast.expr]:
    """What local names stand for, of `count := facts.count(name)` and of assignments."""
    if isinstance(node, ast.NamedExpr):
        pairs = [(node.target, node.value)]
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
        pairs = [(to, value) for to, value in zip(node.targets[0].elts, node.value.elts, strict=True) if isinstance(to, ast.Name)]
    else:
        return {}
    return {to.id: ast.Name(_input(value, name)) for to, value in pairs}


def _input(value: ast.expr, name: str) -> str:
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in READERS):
        raise UnreadableFormula(f"an input beside {name} is read in a way that this does not know")
    asked = value.args[0]
    return READERS[value.func.attr].format(asked.value if isinstance(asked, ast.Constant) else name)


class _Written(ast.NodeTransformer):
    def __init__(self, known: Mapping[str, ast.expr], functions: Mapping[str, Callable[..., Any]]) -> None:
        self._known, self._functions = known, functions

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._known.get(node.id, node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = self._functions.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if function is None:
            return self.generic_visit(node)
        given = [self.visit(one) for one in node.args]
        parameters = dict(zip(inspect.signature(function).parameters, given, strict=True))
        written: ast.AST = _Written(parameters, self._functions).visit(_last(function))
        return written


def _plain(value: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(value)).replace("math.", "")
