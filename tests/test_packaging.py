"""One list of folders in five places, a wheel that holds what it should, and imports that stay light."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
LINKS = ROOT / "src" / "outrider"
HEAVY = ("torch", "lancedb", "pyarrow", "transformers", "trafilatura", "pypdf", "openpyxl", "fastapi", "langserve", "numpy")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folders() -> set[str]:
    """The packages at the top: folders with an `__init__.py` that are no tooling."""
    return {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"bench", "tests", "docs"}


def test_every_folder_has_a_link_and_every_link_a_folder(folders: set[str]) -> None:
    """`src/outrider/graph -> ../../graph`, relative, so that a clone anywhere works."""
    links = {path.name: str(path.readlink()) for path in LINKS.iterdir() if path.is_symlink()}
    assert links == {name: f"../../{name}" for name in folders}


def test_the_build_lint_and_layer_lists_name_the_same_folders(project: dict[str, Any], folders: set[str]) -> None:
    """A folder that is missing in one of them would be left out of the wheel, or escape a rule."""
    build = project["tool"]["hatch"]["build"]
    assert {path.removeprefix("/src/outrider/") for path in build["exclude"]} == folders
    assert set(build["targets"]["wheel"]["only-include"]) == {"src/outrider", *folders}
    assert build["targets"]["wheel"]["sources"] == {"src/outrider": "outrider", **{name: f"outrider/{name}" for name in folders}}
    banned = project["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert {name: rule["msg"] for name, rule in banned.items()} == {name: f"import outrider.{name}" for name in folders}
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    assert sorted(name.strip() for layer in layers for name in layer.split("|")) == sorted(folders)


def test_constraints_pin_exact_versions_of_what_is_demanded(project: dict[str, Any]) -> None:
    """Every direct dependency has its tested version, without path or address; torch has it in the Makefile, which takes it first."""
    lines = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    pinned = dict(line.split("==") for line in lines)
    names = {_normal(name) for name in pinned}
    assert "torch" not in names
    assert "pip install --quiet --disable-pip-version-check torch==" in (ROOT / "Makefile").read_text(encoding="utf-8")
    extras = [asked for extra, group in project["project"]["optional-dependencies"].items() if extra != "all" for asked in group]
    for asked in [*project["project"]["dependencies"], *extras, *project["dependency-groups"]["dev"]]:
        assert _normal(asked) in {*names, "torch"}, f"{asked} is not pinned"


def test_constraints_pin_what_the_demanded_demand(project: dict[str, Any]) -> None:
    """The whole closure, as far as it is installed here: two installs a year apart are the same."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {_normal(line) for line in lines if not line.startswith("#")} | {"torch"}
    extras = [asked for extra, group in project["project"]["optional-dependencies"].items() if extra != "all" for asked in group]
    asked = [Requirement(one) for one in (*project["project"]["dependencies"], *extras, *project["dependency-groups"]["dev"])]
    seen: set[tuple[str, frozenset[str]]] = set()
    while asked:
        one = asked.pop()
        key = _normal(one.name), frozenset(one.extras)
        if key not in seen and (wanted := _demanded(one)) is not None:
            assert key[0] in pinned, f"{one.name} is not pinned"
            seen.add(key)
            asked += wanted
    assert len(seen) > 100


def _demanded(of: Requirement) -> list[Requirement] | None:
    """None for what is not installed."""
    try:
        said = [Requirement(one) for one in metadata.requires(of.name) or ()]
    except metadata.PackageNotFoundError:
        return None
    return [one for one in said if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *of.extras))]


def _normal(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=]", requirement, maxsplit=1)[0]).lower()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from an unpacked sdist, as an installer would."""
    out = tmp_path_factory.mktemp("dist")
    _hatch(ROOT, "sdist", out)
    subprocess.run([sys.executable, "-m", "tarfile", "-e", next(out.glob("*.tar.gz")), out], check=True, timeout=60)  # of 3.11.2, too
    _hatch(next(path for path in out.iterdir() if path.is_dir()), "wheel", out)
    return next(out.glob("*.whl"))


def _hatch(folder: Path, target: str, out: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_wheel_holds_every_module_and_prompt_and_nothing_else(wheel: Path, folders: set[str]) -> None:
    """Each source file once, under `outrider`; the type marker, the prompts and the page's files with it; no generic top-level name."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert len(names) == len(set(names))
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"outrider"}
    files = [path for name in folders for path in (ROOT / name).rglob("*") if path.suffix in {".py", ".md", ".html", ".css", ".js", ".svg"}]
    wanted = {f"outrider/{path.relative_to(ROOT)}" for path in files}
    assert wanted | {"outrider/py.typed", "outrider/__init__.py"} <= set(names)


def test_the_wheel_imports_without_the_repository(wheel: Path, tmp_path: Path) -> None:
    """Unpacked beside the dependencies, every package imports from the wheel and none from this checkout."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    script = (
        "import importlib, pkgutil, outrider; "
        "names = [m.name for m in pkgutil.iter_modules(outrider.__path__, 'outrider.') if m.name != 'outrider.__main__']; "
        "print(*[importlib.import_module(name).__file__ for name in names])"
    )
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()
    assert all(file.startswith(str(tmp_path)) for file in done.stdout.split())


@pytest.mark.parametrize("module", ["outrider", "outrider.graph.pipeline", "outrider.interfaces.cli", "outrider.__main__"])
def test_imports_stay_light(module: str, tmp_path: Path) -> None:
    """Neither a model nor the store nor a reader is loaded before it is used."""
    script = f"import sys, {module}; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_every_public_module_says_what_it_is(folders: set[str]) -> None:
    """A module without a docstring is a module nobody can find."""
    files = sorted(file for name in folders for file in (ROOT / name).rglob("*.py"))
    assert files
    silent = [str(file.relative_to(ROOT)) for file in files if not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))]
    assert silent == []
