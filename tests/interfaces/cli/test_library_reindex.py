from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from outrider.interfaces.cli import run
from outrider.library.library import Library
from outrider.library.reindex import ReindexReport
from outrider.services import Services
from outrider.state.errors import LibraryMissing, ModelUnavailable
from outrider.usecases.ingest import reindex
from support.word_embedder import WordEmbedder


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Five records without vectors; the model that the settings name is a small one."""
    monkeypatch.setenv("OUTRIDER_EMBEDDING__MODEL_NAME", "none")
    source = tmp_path / "rows.jsonl"
    rows = [{"id": n, "title": f"Liver study {n}", "abstract": "Doses of aspirin."} for n in range(5)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    target = str(tmp_path / "library")
    assert run(["ingest", str(source), "-l", target]) == 0
    monkeypatch.setenv("OUTRIDER_EMBEDDING__MODEL_NAME", "words")
    monkeypatch.setattr(
        Services, "embedder", lambda services, space=None: WordEmbedder(name=services.settings.embedding.model_name, context=4)
    )
    return target


def read_json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert run(list(arguments)) == code
    return json.loads(capsys.readouterr().out)


def test_reindex_info_check_show(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = read_json(capsys, "library", "reindex", "--json", "-l", library)
    assert (done["model"], done["before"], done["embedded"], done["cut"], done["without"]) == ("words", None, 5, 5, 0)
    about = read_json(capsys, "library", "info", "--json", "-l", library)["vectors"]
    assert about == {"model": "words", "dimension": 16, "vectors": 5, "without": 0, "index": "exact", "recall": None, "building": {}}
    assert read_json(capsys, "library", "check", "--json", "-l", library)["sound"]
    first = read_json(capsys, "library", "list", "--json", "-n", "1", "-l", library)["records"][0]["doc_id"]
    assert read_json(capsys, "library", "show", first, "--json", "-l", library)["embedded"] == {"tokens": 4, "of": 6}
    assert run(["library", "show", first, "-l", library]) == 0
    assert "embedded  4 of 6 tokens" in capsys.readouterr().out


def test_another_model_and_the_hint_to_change_the_settings(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "reindex", "-l", library]) == 0
    capsys.readouterr()
    assert run(["library", "reindex", "--model", "other", "-l", library]) == 0
    output = capsys.readouterr()
    assert "5 of 5 records have a vector of other; 5 were embedded now" in output.out
    assert "The vectors of words were replaced." in output.out
    assert "The settings still name words (environment variable OUTRIDER_EMBEDDING__MODEL_NAME); change" in output.err
    assert read_json(capsys, "library", "info", "--json", "-l", library)["vectors"]["model"] == "other"


def test_missing_edges_are_written(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where only some are."""

    async def break_edges() -> None:
        opened = await Library.open(library)
        await opened._edges.remove([record.doc_id for record in await opened.page(limit=3)])
        opened.close()

    asyncio.run(break_edges())
    assert "3 records have no edges" in read_json(capsys, "library", "check", "--json", "-l", library, code=3)["problems"][0]
    assert run(["library", "reindex", "-l", library]) == 0
    assert read_json(capsys, "library", "check", "--json", "-l", library)["sound"]


def test_vectors_of_an_interrupted_run_are_reported(
    library: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["library", "reindex", "-l", library]) == 0
    with monkeypatch.context() as patched:
        gone = WordEmbedder(name="other", error=ModelUnavailable("gone"), error_after=2)
        patched.setattr("outrider.library.reindex.PARTS", (2, 1))
        patched.setattr(Services, "embedder", lambda *_: gone)
        with pytest.raises(ModelUnavailable):
            reindex(library, "other")
    assert read_json(capsys, "library", "info", "--json", "-l", library)["vectors"]["building"] == {"other": 2}
    assert run(["library", "info", "-l", library]) == 0
    assert "building other 2" in " ".join(capsys.readouterr().out.split())
    assert run(["library", "reindex", "--model", "third", "-l", library]) == 0
    assert "2 vectors of other, from an interrupted reindex, were dropped" in " ".join(capsys.readouterr().err.split())


def test_from_python(library: str) -> None:
    stages: list[str] = []
    done = reindex(library, "other", lambda now: stages.append(now.stage))
    assert isinstance(done, ReindexReport)
    assert (done.model, done.embedded) == ("other", 5)
    assert {"embedding", "switching"} <= {*stages}
    with pytest.raises(LibraryMissing):
        reindex(f"{library}-gone")


def test_a_missing_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "reindex", "-l", str(tmp_path / "none")]) == 3
    assert "outrider ingest" in capsys.readouterr().err
