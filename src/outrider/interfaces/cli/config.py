"""`outrider config` and `outrider doctor`: settings with origins, what is installed."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from outrider.interfaces.cli.options import JsonOption, LibraryOption, open_services, wait_for
from outrider.interfaces.cli.terminal import console, errors, plain, print_json, table
from outrider.state.errors import install_hint
from outrider.text.sanitize import without_control
from outrider.version import __version__

config_app = typer.Typer(help="Show and check the settings.", no_args_is_help=True)

OPTIONAL = (
    ("models", ("torch", "transformers", "sentence-transformers"), "models on this machine: dense search and reranking"),
    ("openai", ("langchain-openai", "json-repair"), "chat models and embeddings from OpenAI-compatible servers"),
    ("serve", ("fastapi", "langserve", "sse-starlette", "uvicorn"), "the graph over HTTP: `outrider serve`"),
    ("mcp", ("mcp",), "tools for models: `outrider mcp`"),
    ("browser", ("playwright", "cssselect"), "web search and pages, with an installed Chromium"),
    ("llama-index", ("llama-index-core",), "a retriever and tools for LlamaIndex: `outrider.llama_index`"),
    ("postgres", ("langgraph-checkpoint-postgres", "psycopg"), "threads, jobs and saved searches in PostgreSQL"),
    ("redis", ("redis",), "what several servers share, and the response cache, in Redis"),
    ("cluster", ("ray", "lance-ray"), "batch work on a Ray cluster: --on ray"),
    ("tracing", ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"), "traces through OpenTelemetry"),
    ("errors", ("sentry-sdk",), "reports of unexpected errors to a tracker"),
    ("sign", ("cryptography",), "signed manifests of systematic runs"),
    ("object-storage", ("obstore",), "a library in an object store (s3://, gs://, az://)"),
    ("review", ("scikit-learn",), "screening in an order that learns from the decisions: `outrider review`"),
    ("studio", ("langgraph-cli", "langgraph-api"), "LangGraph Studio: `langgraph dev`"),
)
"""The extras and Studio: the packages that show whether they are installed, and what they add."""


@config_app.command()
def show(library: LibraryOption = None, as_json: JsonOption = False) -> None:
    """Show every setting, its value (secrets hidden) and its origin."""
    rows = _load_settings(library)
    if as_json:
        print_json(rows)
        return
    listing = table("setting", "value", "from")
    for name, row in rows.items():
        listing.add_row(plain(name), plain(json.dumps(row["value"], ensure_ascii=False)), plain(row["from"], "dim"))
    console().print(listing)


@config_app.command()
def check(library: LibraryOption = None, as_json: JsonOption = False) -> None:
    """Read all settings. An error, with exit code 2, names the setting and its location."""
    number = len(_load_settings(library))
    if as_json:
        print_json({"ok": True, "settings": number})
    else:
        console().print(f"All {number} settings are valid.")


def _load_settings(library: str | None) -> dict[str, dict[str, Any]]:
    from outrider.settings.load import load
    from outrider.settings.redact import redact

    loaded = load({"library.uri": library})
    settings: Any = redact(loaded.settings)
    rows = {}
    for name, origin in loaded.origins.items():
        value = settings
        for part in name.split("."):
            if not isinstance(value, dict) or part not in value:
                break  # a whole section is hidden
            value = value[part]
        rows[name] = {"value": value, "from": origin}
    return rows


MARKS = {"ok": ("✓", "green"), "missing": ("–", "yellow"), "warning": ("!", "yellow"), "broken": ("✗", "red")}
NOT_READY = 3
"""Exit code of `doctor --deployment`, as for a search that could search nothing."""


def doctor(
    library: LibraryOption = None,
    as_json: JsonOption = False,
    deployment: Annotated[
        bool, typer.Option("--deployment", help="Check the settings of several servers instead; exit code 3 if something is broken.")
    ] = False,
) -> None:
    """Show what is installed, what is missing, and what each missing part would add."""
    if deployment:
        _check_deployment(library, as_json=as_json)
        return
    from importlib.metadata import version

    from outrider.usecases.health import health

    rows = [{"what": "outrider", "status": "ok", "says": f"{__version__} on Python {platform.python_version()}"}]
    rows += [{"what": name, "status": "ok", "says": version(name)} for name in ("langgraph", "lancedb", "pydantic")]
    with errors().status("Checking the library and its models"):
        for part in wait_for(health(open_services(library))):
            rows.append({"what": part.what, "status": "broken" if part.broken else "ok" if part.on else "missing", "says": part.says})
            if part.command:
                rows[-1]["command"] = part.command
    rows += [_check_optional(*part) for part in OPTIONAL]
    if as_json:
        print_json({"checks": rows})
        return
    listing = table("", "what", "state")
    for row in rows:
        mark, style = MARKS[row["status"]]
        listing.add_row(plain(mark, style), row["what"], plain(row["says"]))
    console().print(listing)
    for row in rows:
        if command := row.get("command"):  # the table breaks long lines
            console().print(Text(without_control(command)), soft_wrap=True)


def _check_deployment(library: str | None, *, as_json: bool) -> None:
    from outrider.usecases.deployment import check_deployment

    with errors().status("Checking Redis, databases, folders and servers"):
        report = wait_for(check_deployment(open_services(library)))
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        listing = table("", "what", "state")
        for check in report.checks:
            mark, style = MARKS[check.status]
            listing.add_row(plain(mark, style), check.what, plain(check.says + (f" → {check.todo}" if check.todo else "")))
        console().print(listing)
    if not report.ready:
        raise typer.Exit(NOT_READY)


def _check_optional(name: str, packages: Sequence[str], purpose: str) -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    try:
        versions = [f"{package} {version(package)}" for package in packages]
    except PackageNotFoundError:
        install = "pip install 'langgraph-cli[inmem]'" if name == "studio" else install_hint(name)
        return {"what": name, "status": "missing", "says": f"would add {purpose}; install with: {install}"}
    return {"what": name, "status": "ok", "says": f"{purpose} ({', '.join(versions)})"}
