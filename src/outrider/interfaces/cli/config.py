"""`outrider config` and `outrider doctor`: what is set, what is there, what is missing and what it would add."""

from __future__ import annotations

import importlib.util
import json
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, services, wait_for
from outrider.interfaces.cli.terminal import console, errors, plain, table
from outrider.version import __version__

config_app = typer.Typer(help="Show and check the settings.", no_args_is_help=True)

OPTIONAL = (
    ("models", ("torch", "transformers", "sentence_transformers"), "models on this machine: dense search and reranking"),
    ("openai", ("langchain_openai", "json_repair"), "chat models and embeddings from OpenAI-compatible servers"),
    ("serve", ("fastapi", "langserve", "sse_starlette", "uvicorn"), "the graph over HTTP: `outrider serve`"),
    ("studio", ("langgraph_cli", "langgraph_api"), "LangGraph Studio: `langgraph dev`"),
)
"""Parts that may be missing: their packages, and what they would add."""


@config_app.command()
def show(library: LibraryOption = None, as_json: JsonOption = False) -> None:
    """Every setting, its value (secrets hidden) and where it came from."""
    rows = _settings(library)
    if as_json:
        sys.stdout.write(json.dumps(rows, ensure_ascii=False) + "\n")
        return
    listing = table("setting", "value", "from")
    for name, row in rows.items():
        listing.add_row(plain(name), plain(json.dumps(row["value"], ensure_ascii=False)), plain(row["from"], "dim"))
    console().print(listing)


@config_app.command()
def check(library: LibraryOption = None, as_json: JsonOption = False) -> None:
    """Read all settings; exit code 2 names what is wrong and where it stands."""
    count = len(_settings(library))
    if as_json:
        sys.stdout.write(json.dumps({"ok": True, "settings": count}) + "\n")
    else:
        console().print(f"All {count} settings are right.")


def doctor(library: LibraryOption = None, as_json: JsonOption = False) -> None:
    """What is there, what is missing, and what each missing thing would add."""
    rows = [*_python(), *_engine(library), *map(_optional, OPTIONAL)]
    if as_json:
        sys.stdout.write(json.dumps({"checks": rows}, ensure_ascii=False) + "\n")
        return
    listing = table("", "what", "state")
    marks = {"ok": ("✓", "green"), "missing": ("–", "yellow"), "broken": ("✗", "red")}
    for row in rows:
        mark, style = marks[row["status"]]
        listing.add_row(plain(mark, style), row["what"], plain(row["says"]))
    console().print(listing)


def _settings(library: str | None) -> dict[str, dict[str, Any]]:
    from outrider.settings.load import load
    from outrider.settings.redact import redact

    loaded = load({"library.uri": library})
    shown = redact(loaded.settings)
    return {name: {"value": _at(shown, name), "from": origin} for name, origin in loaded.origins.items()}


def _at(shown: Any, name: str) -> Any:
    for part in name.split("."):
        if not isinstance(shown, dict) or part not in shown:
            return shown
        shown = shown[part]
    return shown


def _row(what: str, status: str, says: str) -> dict[str, str]:
    return {"what": what, "status": status, "says": says}


def _python() -> list[dict[str, str]]:
    rows = [_row("outrider", "ok", f"{__version__} on Python {platform.python_version()}")]
    return rows + [_row(name, "ok", version(name)) for name in ("langgraph", "lancedb", "pydantic")]


def _engine(uri: str | None) -> list[dict[str, str]]:
    """Library, dense search, reranker, model; a library that is there and cannot be read is broken, the rest is there or missing."""
    from outrider.usecases.health import health

    with errors().status("Looking at the library and its models"):
        parts = wait_for(health(services(uri)))
    return [_row(part.what, "broken" if part.broken else "ok" if part.on else "missing", part.says) for part in parts]


def _optional(part: tuple[str, tuple[str, ...], str]) -> dict[str, str]:
    name, modules, adds = part
    absent = [module for module in modules if importlib.util.find_spec(module) is None]
    if not absent:
        return _row(name, "ok", f"{adds} ({', '.join(map(_version, modules))})")
    how = "pip install 'langgraph-cli[inmem]'" if name == "studio" else f"pip install 'outrider[{name}]'"
    return _row(name, "missing", f"would add {adds}; install with: {how}")


def _version(module: str) -> str:
    distribution = module.replace("_", "-")
    try:
        return f"{distribution} {version(distribution)}"
    except PackageNotFoundError:
        return distribution
