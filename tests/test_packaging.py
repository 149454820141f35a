"""Packaging: the links, the lists of folders, wheel and sdist, import paths, and imports that stay light."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from outrider.moved import MOVED

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "outrider"
HEAVY = (
    "torch",
    "lancedb",
    "pyarrow",
    "transformers",
    "trafilatura",
    "pypdfium2_raw",
    "openpyxl",
    "mammoth",
    "fastapi",
    "langserve",
    "numpy",
)


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folders() -> set[str]:
    """The packages at the top: folders with an `__init__.py`, except tooling."""
    return {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"bench", "tests", "docs"}


def test_the_four_folders_at_the_top_have_links(folders: set[str]) -> None:
    """`src/outrider/graph -> ../../graph`, relative, so that a clone anywhere works. Every other package is an ordinary folder."""
    links = {path.name: str(path.readlink()) for path in PACKAGE.iterdir() if path.is_symlink()}
    assert folders == {"graph", "nodes", "prompts", "state"}
    assert links == {name: f"../../{name}" for name in folders}


def test_build_and_lint_name_the_four_folders(project: dict[str, Any], folders: set[str]) -> None:
    """A folder that is missing in one of these lists would be left out of the wheel, or importable under its bare name."""
    build = project["tool"]["hatch"]["build"]
    links = {f"src/outrider/{name}" for name in folders}
    assert {path.removeprefix("/") for path in build["exclude"]} == links
    assert set(build["targets"]["wheel"]["only-include"]) == {"src/outrider", *folders}
    assert build["targets"]["wheel"]["sources"] == {"src/outrider": "outrider", **{name: f"outrider/{name}" for name in folders}}
    assert set(project["tool"]["ruff"]["extend-exclude"]) == links
    banned = project["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert {name: rule["msg"] for name, rule in banned.items()} == {name: f"import outrider.{name}" for name in folders}


def test_every_package_has_its_layer(project: dict[str, Any]) -> None:
    """A new folder or module below `src/outrider` needs its name in the layers and nothing else."""
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    packages = [path.parent.name for path in PACKAGE.glob("*/__init__.py")]
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__", "moved", "version"}
    assert sorted(name.strip() for layer in layers for name in layer.split("|")) == sorted([*packages, *modules])


def test_constraints_pin_exact_versions_of_every_direct_dependency(project: dict[str, Any]) -> None:
    """Every direct dependency has its tested version, without path or address; torch has it in the Makefile, which installs it first."""
    lines = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    pinned = dict(line.split("==") for line in lines)
    names = {_normalize_name(name) for name in pinned}
    assert "torch" not in names
    assert "pip install --quiet --disable-pip-version-check torch==" in (ROOT / "Makefile").read_text(encoding="utf-8")
    extras = [name for extra, group in project["project"]["optional-dependencies"].items() if extra != "all" for name in group]
    for requirement in [*project["project"]["dependencies"], *extras, *project["dependency-groups"]["dev"]]:
        assert _normalize_name(requirement) in {*names, "torch"}, f"{requirement} is not pinned"


def test_constraints_pin_the_dependencies_of_dependencies(project: dict[str, Any]) -> None:
    """The whole closure, as far as it is installed here: two installs a year apart are the same."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {_normalize_name(line) for line in lines if not line.startswith("#")} | {"torch"}
    extras = [name for extra, group in project["project"]["optional-dependencies"].items() if extra != "all" for name in group]
    pending = [Requirement(one) for one in (*project["project"]["dependencies"], *extras, *project["dependency-groups"]["dev"])]
    visited: set[tuple[str, frozenset[str]]] = set()
    while pending:
        one = pending.pop()
        key = _normalize_name(one.name), frozenset(one.extras)
        if key not in visited and (requirements := _read_requirements(one)) is not None:
            assert key[0] in pinned, f"{one.name} is not pinned"
            visited.add(key)
            pending += requirements
    assert len(visited) > 100


def _read_requirements(requirement: Requirement) -> list[Requirement] | None:
    """None for a package that is not installed."""
    try:
        requirements = [Requirement(one) for one in metadata.requires(requirement.name) or ()]
    except metadata.PackageNotFoundError:
        return None
    return [
        one
        for one in requirements
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras))
    ]


def _normalize_name(requirement: str) -> str:
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


def test_the_wheel_holds_every_module_and_prompt_and_nothing_else(wheel: Path) -> None:
    """Each source file once, under `outrider`; the type marker, the prompts and the page's files with it; no generic top-level name."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert len(names) == len(set(names))
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"outrider"}
    assert {f"outrider/{path.relative_to(PACKAGE)}" for path in _package_files()} | {"outrider/py.typed"} <= set(names)


def _package_files() -> list[Path]:
    """All files of the package that an installation needs; `Path.rglob` would not follow the links."""
    files = [Path(folder) / name for folder, _, names in os.walk(PACKAGE, followlinks=True) for name in names]
    return sorted(path for path in files if path.suffix in {".py", ".md", ".json", ".html", ".css", ".js", ".svg"})


def test_a_clone_without_symbolic_links_builds_the_same_wheel(wheel: Path, folders: set[str], tmp_path: Path) -> None:
    """Where git cannot make links it writes files with their targets. `pip install .` works there; an editable install does not."""
    clone = tmp_path / "clone"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "site", "tests", "bench", "results")
    shutil.copytree(ROOT, clone, symlinks=True, ignore=ignored)
    for name in folders:
        link = clone / "src" / "outrider" / name
        link.unlink()
        link.write_text(f"../../{name}", encoding="utf-8")
    _hatch(clone, "wheel", tmp_path)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as here, zipfile.ZipFile(wheel) as there:
        assert sorted(here.namelist()) == sorted(there.namelist())


def test_an_editable_install_imports_the_folders_at_the_top(tmp_path: Path, folders: set[str]) -> None:
    """The links lead every import path to the real files, under one name."""
    script = f"import importlib; print(*(importlib.import_module('outrider.' + name).__file__ for name in {sorted(folders)!r}))"
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [Path(file).resolve() for file in done.stdout.split()] == [(ROOT / name / "__init__.py").resolve() for name in sorted(folders)]


def test_langgraph_json_names_objects_that_exist() -> None:
    """By module, since the path form would load a second copy."""
    named = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
    paths = [named["http"]["app"], *(graph["path"] for graph in named["graphs"].values())]
    assert paths
    for path in paths:
        module, name = path.split(":")
        assert hasattr(import_module(module), name), path


@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not on PATH")
def test_pyright_resolves_every_import(tmp_path: Path) -> None:
    """An editor finds every module without running code. Libraries of extras that are not installed do not count."""
    settings = {"include": [str(PACKAGE)], "extraPaths": [str(ROOT / "src")], "typeCheckingMode": "basic", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(
        ["pyright", "-p", tmp_path, "--outputjson", "--pythonpath", sys.executable], capture_output=True, text=True, check=False
    )
    diagnostics = json.loads(done.stdout)["generalDiagnostics"]
    assert [one["message"] for one in diagnostics if one.get("rule") == "reportMissingImports" and "outrider" in one["message"]] == []


def test_the_wheel_imports_without_the_repository(wheel: Path, tmp_path: Path) -> None:
    """Unpacked next to the dependencies, every package imports from the wheel and none from this checkout."""
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


def test_import_of_outrider_loads_neither_models_nor_import_machinery() -> None:
    """`importlib.abc` takes longer to load than all else that `import outrider` needs."""
    script = "import sys, outrider; print(*({'importlib.abc', 'pydantic', 'typer', 'rich'} & set(sys.modules)))"
    script = f"import sys; sys.path[:0] = {[*sys.path]!r}; {script}"
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [], "")


def test_importing_search_loads_less_than_pydantic(tmp_path: Path) -> None:
    """A script's first line costs next to nothing: what a search needs is loaded by its first call."""
    heavy = ("pydantic", "asyncio", "importlib.metadata", "langgraph", "lark", *HEAVY)
    script = f"import sys; from outrider import asearch, search; print(*(name for name in {heavy!r} if name in sys.modules))"
    script = f"import sys; sys.path[:0] = {[*sys.path]!r}; {script}"
    done = subprocess.run([sys.executable, "-S", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [], "")


def test_dir_lists_the_public_names_before_they_are_loaded() -> None:
    script = "import sys, outrider; print(*dir(outrider)); print(*outrider.__all__, '__version__'); print('pydantic' in sys.modules)"
    script = f"import sys; sys.path[:0] = {[*sys.path]!r}; {script}"
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=False)
    listed, public, loaded = done.stdout.splitlines()
    assert (sorted(public.split()), loaded) == (listed.split(), "False"), done.stderr


HINT = "from outrider.state.errors import MissingExtra; print(MissingExtra('a server', 'serve'))"


def test_a_missing_extra_names_the_command_for_this_clone() -> None:
    done = subprocess.run([sys.executable, "-c", HINT], capture_output=True, text=True, check=False)
    command = done.stdout.partition("install them with: ")[2].partition(" (")[0]
    assert command == f"pip install -e {shlex.quote(f'{ROOT}[serve]')}", done.stderr
    assert "(outside this clone: pip install 'outrider[serve]')" in done.stdout


@pytest.mark.parametrize(
    ("source", "requirement"),
    [
        (None, "outrider[serve]"),
        ({"url": "file:///home/me/outrider", "dir_info": {}}, "outrider[serve] @ file:///home/me/outrider"),
        (
            {"url": "https://example.org/outrider.git", "vcs_info": {"vcs": "git", "commit_id": "0" * 40}},
            "outrider[serve] @ git+https://example.org/outrider.git",
        ),
    ],
)
def test_a_missing_extra_names_the_command_for_an_installation(
    wheel: Path, tmp_path: Path, source: dict[str, Any] | None, requirement: str
) -> None:
    """Unpacked as pip would: from an index, from a folder, from a repository."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    if source is not None:
        (next(tmp_path.glob("*.dist-info")) / "direct_url.json").write_text(json.dumps(source), encoding="utf-8")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", HINT], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.stdout.rstrip().endswith(f"install them with: pip install '{requirement}'"), done.stderr
    assert Requirement(requirement).extras == {"serve"}


def test_every_module_has_a_docstring() -> None:
    """Its first line is what a reader of the folder sees: at most 90 characters."""
    files = [file for file in _package_files() if file.suffix == ".py"]
    assert len(files) > 200
    docstrings = {file: ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "" for file in files}
    first = {str(file.relative_to(PACKAGE)): docstring.split("\n")[0] for file, docstring in docstrings.items()}
    assert [name for name, line in first.items() if not line] == []


@pytest.mark.parametrize(("former", "today"), sorted(MOVED.items()))
def test_a_former_import_path_gives_the_module_of_today(former: str, today: str) -> None:
    """Programs written for the last release still work, and are warned once."""
    for name in [name for name in sys.modules if name == former]:
        del sys.modules[name]
    with pytest.warns(DeprecationWarning, match=re.escape(today)):
        module = import_module(former)
    assert module is import_module(today)


def test_a_path_that_never_existed_is_not_found() -> None:
    """Only documented paths have an alias."""
    with pytest.raises(ModuleNotFoundError):
        import_module("outrider.serve.nothing")
