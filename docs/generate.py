"""Generator of the pages that follow from the code: the command's help, the settings, the diagram of the layers.

With `--check` it only compares, and a stale page is a failure. The page about the response is written by hand; the check makes sure that
it names every field.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import typer.main
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from outrider.interfaces.cli import make_app
from outrider.settings.setting_names import Leaf, leaves, sections
from outrider.state.hits import Duplicate, FoundBy, Hit, Related
from outrider.state.records import Identifiers
from outrider.state.response import (
    AnswerCitation,
    AnswerSentence,
    Bypass,
    ContextUnit,
    DistilledContext,
    Facets,
    Failure,
    ResultSet,
    SearchResponse,
    ShortAnswer,
    SourceReport,
    Usage,
)

DOCS = Path(__file__).parent
REFERENCE = DOCS / "reference"
NOTE = "<!-- Written by docs/generate.py; run `make docs` to refresh it. -->\n"
ANSWER = (
    SearchResponse, Facets, DistilledContext, ContextUnit, ShortAnswer, AnswerSentence, AnswerCitation, SourceReport, Failure, Bypass,
    Usage, ResultSet,
)  # fmt: skip
RESPONSE = (*ANSWER, Hit, Identifiers, FoundBy, Duplicate, Related)
BOUNDS = {"gt": "more than {}", "ge": "at least {}", "lt": "less than {}", "le": "at most {}", "min_length": "not empty"}


def settings_page() -> str:
    """A section and a table for each group of settings."""
    lines = [NOTE, "# Settings", "", "How they are read: [the guide](../guide/settings.md).", ""]
    for group, model in sections().items():
        own = [leaf for name, leaf in leaves().items() if name.rpartition(".")[0] == group]
        if own:
            lines += [f"## `{group}`", "", *([_words(model.__doc__), ""] if model.__doc__ and "!!!" not in model.__doc__ else [])]
            lines += ["| setting | default | takes | meaning |", "|---|---|---|---|", *map(_setting, own), ""]
    return "\n".join(lines).rstrip() + "\n"


def _setting(leaf: Leaf) -> str:
    variable = "OUTRIDER_" + leaf.name.upper().replace(".", "__")
    default = "the platform's data folder" if leaf.name == "library.uri" else f"`{_default(leaf.field)}`"
    return f"| `{leaf.name}`<br>`{variable}` | {default} | {_takes(leaf)} | {_cell(leaf.field.description or '')} |"


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _takes(leaf: Leaf) -> str:
    if leaf.of_mappings:
        return "a mapping for each name"
    if leaf.free:
        return "names and texts" + (", secret" if leaf.secret else "")
    if leaf.choices:
        return " or ".join(f"`{choice}`" for choice in leaf.choices)
    names = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`", SecretStr: "secret text"}
    bounds = [BOUNDS[rule].format(f"{bound:,}") for part in leaf.field.metadata for rule, bound in _bounds(part)]
    return ", ".join([names[leaf.kind], *bounds]) + (", or `null`" if leaf.may_be_empty else "")


def _bounds(bound: Any) -> Iterator[tuple[str, Any]]:
    """The names and values of a constraint, e.g. `("ge", 1)`."""
    return ((name, getattr(bound, name)) for name in BOUNDS if hasattr(bound, name))


def command_page() -> str:
    """A section for each subcommand, nested ones under their full name."""
    root = typer.main.get_command(make_app())
    lines = [NOTE, "# The command", ""]
    for name, command in _commands(root, "outrider"):
        lines += [f"{'#' * min(3, 1 + len(name.split()))} `{name}`", "", *_described(name, command)]
    return "\n".join(lines).rstrip() + "\n"


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    for child, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _commands(inner, f"{name} {child}")


def _described(name: str, command: Any) -> list[str]:
    parameters = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    arguments = [_argument(parameter) for parameter in parameters if parameter.param_type_name == "argument"]
    rest = "COMMAND [ARGUMENTS]" if getattr(command, "commands", None) else " ".join(arguments)
    lines = [*(command.help or "").replace("\b", "").strip().splitlines(), "", "```", f"{name} [OPTIONS] {rest}".rstrip(), "```", ""]
    rows = [_parameter(parameter) for parameter in parameters]
    return lines + (["| | default | meaning |", "|---|---|---|", *rows, ""] if rows else [])


def _argument(parameter: Any) -> str:
    shown = (parameter.metavar or parameter.name).strip("[].").upper() + ("..." if parameter.nargs == -1 else "")
    return shown if parameter.required else f"[{shown}]"


def _parameter(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = f"`{_argument(parameter)}`"
    else:
        names = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
    said = getattr(parameter, "show_default", None)
    known = parameter.default if isinstance(parameter.default, str | int | float) and not isinstance(parameter.default, bool) else None
    default = said if isinstance(said, str) else known
    return f"| {names} | {f'`{_cell(str(default))}`' if default is not None else ''} | {_cell(parameter.help or '')} |"


def layers_diagram() -> str:
    """The layers of `pyproject.toml` as SVG, top to bottom; each package with the first line of its docstring."""
    root = DOCS.parent
    contracts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    boxes, y = [], 8
    for layer in contracts[0]["layers"]:
        names = [name.strip() for name in layer.split("|")]
        height = 14 + 22 * len(names)
        boxes.append(f'<rect x="8" y="{y}" width="864" height="{height}" rx="6" fill="#eef2fb" stroke="#5468a8"/>')
        for row, name in enumerate(names):
            package = root / "src" / "outrider" / name
            file = package / "__init__.py" if package.is_dir() else package.with_suffix(".py")
            module = ast.parse(file.read_text(encoding="utf-8"))
            summary = (ast.get_docstring(module) or "").partition("\n")[0]
            text = (
                f'<tspan font-weight="bold">{f"{name}/" if package.is_dir() else file.name}</tspan><tspan x="190">{escape(summary)}</tspan>'
            )
            boxes.append(f'<text x="22" y="{y + 22 + 22 * row}">{text}</text>')
        y += height + 8
    style = 'font-family="system-ui, sans-serif" font-size="14" fill="#1b2342"'
    title = "Layers of Outrider, top to bottom: a package imports only from those below it"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 {y}" role="img" {style}><title>{title}</title>\n'
        + "\n".join(boxes)
        + "\n</svg>\n"
    )


def missing_fields() -> list[str]:
    """Fields of the response that its page does not name."""
    page = (REFERENCE / "response.md").read_text(encoding="utf-8")
    return [f"{model.__name__}.{name}" for model in RESPONSE for name in _fields(model) if f"`{name}`" not in page]


def _fields(model: type[BaseModel] | type[FoundBy]) -> list[str]:
    return [field.name for field in fields(model)] if is_dataclass(model) else list(model.model_fields)


def _words(text: str | None) -> str:
    return " ".join((text or "").split())


def _cell(text: str) -> str:
    return _words(text).replace("|", "\\|").replace("<", "&lt;")


def main() -> int:
    checking = sys.argv[1:] == ["--check"]
    stale = []
    pages = {"reference/settings.md": settings_page, "reference/command.md": command_page, "assets/layers.svg": layers_diagram}
    for name, make_page in pages.items():
        path, text = DOCS / name, make_page()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(f"docs/{name} is stale; run `make docs`")
            if not checking:
                path.write_text(text, encoding="utf-8")
    problems = (stale if checking else []) + [f"docs/reference/response.md does not name {field}" for field in missing_fields()]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
