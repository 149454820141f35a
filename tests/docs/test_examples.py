"""Complete examples of the guide: each runs as written and prints what the page shows."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

import outrider

pytestmark = pytest.mark.slow


GUIDE = Path(__file__).parents[2] / "docs" / "guide"
PAPERS = (
    {"id": "a", "title": "Aspirin and the liver", "abstract": "Aspirin harms the liver at high doses. Liver enzymes rose in one of ten."},
    {"id": "b", "title": "Acetylsalicylic acid in children", "abstract": "Aspirin is avoided in children, since it may harm their liver."},
)


class Block(NamedTuple):
    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page of the guide, in order."""
    text = (GUIDE / page).read_text(encoding="utf-8")
    return [Block(*parts) for parts in re.findall(r'^```(\w+)(?: title="([^"\n]*)")?\n(.*?)^```$', text, re.DOTALL | re.MULTILINE)]


def example(page: str, title: str) -> tuple[str, str]:
    """A Python block and the text block after it, the output of the script."""
    in_order = blocks(page)
    (index,) = [index for index, block in enumerate(in_order) if block.language == "python" and block.title == title]
    following = in_order[index + 1] if index + 1 < len(in_order) else Block("", "", "")
    return in_order[index].text, following.text if following.language == "text" else ""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder with no library and no settings; modules imported from it are removed."""
    for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.setenv("OUTRIDER_LIBRARY", str(tmp_path / "papers"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in {path.stem for path in tmp_path.glob("*.py")}:
        sys.modules.pop(name, None)


@pytest.fixture
def library(folder: Path) -> Path:
    """The same with a library of two papers."""
    (folder / "papers.jsonl").write_text("\n".join(map(json.dumps, PAPERS)), encoding="utf-8")
    outrider.add_to_library("papers.jsonl", library=str(folder / "papers"))
    return folder


def run(folder: Path, page: str, title: str) -> None:
    script, _ = example(page, title)
    path = folder / (title or "untitled.py")
    path.write_text(script, encoding="utf-8")
    runpy.run_path(str(path), run_name="__main__")


@contextmanager
def serve(folder: Path, page: str, title: str) -> Iterator[str]:
    """The handler of an example's server, on a free port."""
    path = folder / title
    path.write_text(example(page, title)[0], encoding="utf-8")
    handler = runpy.run_path(str(path))["Handler"]
    handler.log_message = lambda *_: None
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_source_in_a_script(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(folder, "extend.md", "notes_source.py")
    assert capsys.readouterr().out == example("extend.md", "notes_source.py")[1] != ""


def test_embedder_server(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("langchain_openai")
    script, printed = example("extend.md", "")
    with serve(folder, "extend.md", "embedder.py") as address:
        (folder / "use.py").write_text(script.replace("127.0.0.1:8090", address), encoding="utf-8")
        runpy.run_path(str(folder / "use.py"))
    assert capsys.readouterr().out == printed != ""


def test_library_with_vectors_of_the_embedder_server(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("langchain_openai")
    monkeypatch.setenv("OUTRIDER_EMBEDDING__MODEL_NAME", "my-model")
    with serve(library, "extend.md", "embedder.py") as address:
        monkeypatch.setenv("OUTRIDER_EMBEDDING__BASE_URL", f"http://{address}/v1")
        assert outrider.reindex(library=str(library / "papers")).embedded == 2
        answer = outrider.search("aspirin liver", library=str(library / "papers"))
    assert [(row.strategy, row.status) for row in answer.sources if row.strategy == "lance_dense"] == [("lance_dense", "ok")]


def test_reranker_server(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (console,) = [block.text for block in blocks("extend.md") if "reranked_by" in block.text and block.language == "console"]
    (printed,) = re.findall(r'^"(.*)"$', console, re.MULTILINE)
    monkeypatch.setenv("OUTRIDER_RERANKER__MODEL_NAME", "my-reranker")
    with serve(library, "extend.md", "reranker.py") as address:
        monkeypatch.setenv("OUTRIDER_RERANKER__BASE_URL", f"http://{address}")
        answer = outrider.search("aspirin liver", library=str(library / "papers"))
    assert answer.reranked_by == printed.replace("127.0.0.1:8091", address)


def test_reranker_in_a_script(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(library, "extend.md", "shortest_first.py")
    assert capsys.readouterr().out == example("extend.md", "shortest_first.py")[1] != ""


def test_graph_inside_another_graph(library: Path) -> None:
    """In a process of their own: the graph reads the settings when it is imported."""
    titles = ("research_assistant.py", "progress.py", "as_a_node.py")
    examples = [example("subgraph.md", title) for title in titles]
    for title, (script, _) in zip(titles, examples, strict=True):
        (library / title).write_text(script, encoding="utf-8")
    one_by_one = f"import runpy\nfor title in {titles}:\n    runpy.run_path(title, run_name='__main__')"
    ended = subprocess.run([sys.executable, "-c", one_by_one], capture_output=True, text=True, check=False)
    assert all(printed for _, printed in examples)
    assert (ended.stderr, ended.stdout) == ("", "".join(printed for _, printed in examples))


def test_documents_of_the_retriever(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(library, "langchain.md", "documents.py")
    assert capsys.readouterr().out == example("langchain.md", "documents.py")[1] != ""


def test_graph_over_another_library(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(library, "subgraph.md", "two_libraries.py")
    assert capsys.readouterr().out == example("subgraph.md", "two_libraries.py")[1] != ""


def test_every_example_with_a_title_is_run() -> None:
    """A new complete example needs a test; the package of `acme_papers.py` is tested with the plugins."""
    titled = {
        block.title
        for page in ("extend.md", "langchain.md", "subgraph.md")
        for block in blocks(page)
        if block.language == "python" and block.title
    }
    tests = Path(__file__).read_text(encoding="utf-8")
    assert {title for title in titled - {"acme_papers.py"} if f'"{title}"' not in tests} == set()
    assert "acme_papers.py" in titled
