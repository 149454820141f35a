from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outrider.interfaces.cli import run
from outrider.services import Services
from outrider.state.embedding import TextRole
from support.token_embedder import TokenEmbedder


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Five records with vectors of a small model."""
    monkeypatch.setenv("OUTRIDER_EMBEDDING__MODEL_NAME", "words")
    monkeypatch.setattr(Services, "embedder", lambda services, space=None: TokenEmbedder())
    source = tmp_path / "rows.jsonl"
    rows = [{"id": n, "title": f"Liver study {n}", "abstract": "Doses of aspirin."} for n in range(5)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    target = str(tmp_path / "library")
    assert run(["ingest", str(source), "-l", target]) == 0
    return target


def read_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def reranker_command(capsys: pytest.CaptureFixture[str], library: str) -> str:
    """What `outrider doctor` advises."""
    capsys.readouterr()
    run(["doctor", "--json", "-l", library])
    rows = json.loads(capsys.readouterr().out)["checks"]
    return str(next(row.get("command", "") for row in rows if row["what"] == "reranker"))


def test_index_info_search_drop(library: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_json(capsys, "library", "info", "-l", library)["token_vectors"] is None
    done = read_json(capsys, "library", "index", "--late-interaction", "-l", library)
    assert done == {"model": "words", "records": 5, "indexed": 5, "dropped": 0, "mean_bytes": 24.0}
    assert read_json(capsys, "library", "info", "-l", library)["token_vectors"] == {"records": 5, "without": 0, "size_bytes": 120}
    assert run(["library", "index", "--late-interaction", "-l", library]) == 0
    assert "5 records with token vectors of words, 0.0 KiB each on average; 0 are new." in " ".join(capsys.readouterr().out.split())

    monkeypatch.setenv("OUTRIDER_RERANKER__MODEL_NAME", "late-interaction")
    assert reranker_command(capsys, library) == ""
    embedded: list[str] = []
    original = TokenEmbedder.token_vectors

    def embed(self: TokenEmbedder, texts: Sequence[str], role: TextRole) -> list[np.ndarray]:
        embedded.extend(texts)
        return original(self, texts, role)

    monkeypatch.setattr(TokenEmbedder, "token_vectors", embed)
    found = read_json(capsys, "search", "aspirin liver study", "--rerank", "-l", library)
    assert found["reranked_by"].startswith("late-interaction with words")
    assert len(found["hits"]) == 5
    assert not any("Doses" in text for text in embedded)  # the query alone is embedded

    assert read_json(capsys, "library", "index", "--late-interaction", "--drop", "-l", library) == {"dropped": 5}
    read_json(capsys, "search", "aspirin liver study", "--rerank", "-l", library)
    assert any("Doses" in text for text in embedded)
    assert reranker_command(capsys, library).startswith("outrider library index --late-interaction --library ")


def test_an_index_must_be_named(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "index", "-l", library]) == 2
    assert "--late-interaction" in capsys.readouterr().err
