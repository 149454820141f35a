"""The Python API as README, guides and reference describe it: names, calls, fields, and a user's whole script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from compatibility.machine import answering
from compatibility.shapes import FROZEN, broken_calls, frozen, missing, public_members, schema_paths
from compatibility.test_import_paths import imported
from pydantic import TypeAdapter

FUNCTIONS: dict[str, Any] = frozen("python_calls")
SCHEMAS: dict[str, dict[str, str]] = frozen("python_schemas")
CLASSES: dict[str, Any] = frozen("python_classes")
"""How a documented class is made, how its methods are called, and what else can be read of it."""
ERRORS: dict[str, Any] = frozen("python_errors")
SEEN: dict[str, Any] = frozen("user_script")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_is_called_as_before(name: str) -> None:
    import outrider

    assert name in outrider.__all__
    assert broken_calls(FUNCTIONS[name], getattr(outrider, name)) == []


def test_public_names_are_there() -> None:
    import outrider

    assert {*FUNCTIONS, "Embedder", "Hit", "SearchRequest", "SearchResponse"} <= set(outrider.__all__)
    with pytest.raises(AttributeError):
        outrider.nonsense  # noqa: B018


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_model_has_its_fields(name: str) -> None:
    import outrider

    way, _, owner = name.partition(" ")
    model = getattr(outrider, owner, None) or imported("outrider.state.pipeline", owner)
    schema = TypeAdapter(model).json_schema(mode="validation" if way == "takes" else "serialization")
    current = schema_paths(schema, schema.get("$defs", {}))
    assert missing(SCHEMAS[name], current) == []


@pytest.mark.parametrize("path", CLASSES)
def test_a_documented_class_is_used_as_before(path: str) -> None:
    owner = imported(*path.rsplit(".", 1))
    expected = CLASSES[path]
    if expected["made"] is not None:
        assert broken_calls(expected["made"], owner) == []
    for method, shape in expected["methods"].items():
        assert broken_calls(shape, getattr(owner, method)) == [], method
    assert set(expected["fields"]) <= set(public_members(owner))


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_stays_in_its_family(name: str) -> None:
    error = imported("outrider.state.errors", name)
    assert set(ERRORS[name]["family"]) <= {base.__name__ for base in error.__mro__}
    assert error.exit_code == ERRORS[name]["exit code"]


def test_a_users_script_runs_as_before(made_library: Path, notes: Path, tmp_path: Path, library: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text((FROZEN / "user_script.txt").read_text(encoding="utf-8"), encoding="utf-8")
    environ = {**os.environ, "OUTRIDER_LIBRARY": str(library)}
    command = [sys.executable, str(script), str(library), str(notes), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environ, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "seen.json").read_text(encoding="utf-8")) == SEEN
    assert "1 Aspirin and the liver" in done.stdout


def test_a_source_of_another_package_is_searched_as_before(tmp_path: Path, library: Path) -> None:
    """The package of the guide to sources, on the path as pip would put it there."""
    site = tmp_path / "site"
    info = site / "acme_papers-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "acme_papers.py").write_text((FROZEN / "acme_papers.txt").read_text(encoding="utf-8"), encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-papers\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[outrider.sources]\nacme = acme_papers:source\n", encoding="utf-8")

    def acme(path: str, _: Any) -> tuple[int, Any]:
        one = {"id": 7, "title": "Liver injury by drugs", "link": "https://acme.example/7", "doi": "10.1000/7"}
        return 200, {"papers": [one], "total": 1} if path.startswith("/search") else one

    with answering(acme) as address:
        environ = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "OUTRIDER_SOURCES__OFFLINE": "false",
            "OUTRIDER_ENRICH__ENABLED": "false",
            "OUTRIDER_SOURCES__EXTRA__ACME__BASE_URL": address,
            "OUTRIDER_SOURCES__EXTRA__ACME__API_KEY": "secret",
        }
        command = [sys.executable, "-m", "outrider", "search", "liver", "--source", "acme", "--json", "--library", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environ, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [hit["doc_id"] for hit in answer["hits"]] == ["acme:7"]
    assert [(row["source"], row["status"], row["total"]) for row in answer["sources"]] == [("acme", "ok", 1)]
