"""Published strategies: read from a folder, counted, and named with a reason if refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bench import strategies


def test_topics_json_lines_and_texts_are_read(tmp_path: Path) -> None:
    """Also that a file with a title only is no strategy."""
    (tmp_path / "clef").mkdir()
    (tmp_path / "clef" / "CD1").write_text("Topic: CD1\n\nQuery:\n1. exp Asthma/\n2. 1 and mite.tw.\n\nPids:\n    1\n", encoding="utf-8")
    (tmp_path / "clef" / "CD2").write_text("Topic: CD2\n\nTitle: Mites\n", encoding="utf-8")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "one.txt").write_text("asthma[tiab]\n", encoding="utf-8")
    with gzip.open(tmp_path / "topics.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(json.dumps({"id": 7, "query": "mite*[ti]"}))
    assert strategies.group_strategies(tmp_path) == {
        "clef": [("CD1", "1. exp Asthma/\n2. 1 and mite.tw.")],
        "texts": [("one.txt", "asthma[tiab]\n")],
        tmp_path.name: [("topics.jsonl.gz:7", "mite*[ti]")],
    }


def test_refusals_and_approximations_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_STRATEGIES", str(tmp_path))
    (tmp_path / "a.txt").write_text("TS=(asthma NEAR/3 mite*)", encoding="utf-8")
    (tmp_path / "b.txt").write_text("SU=(Medicine)", encoding="utf-8")
    report = strategies.run()
    assert report.rows == ((tmp_path.name, 2, 1, 50.0, 1, 0, "wos 1"),)
    assert report.notes[0].startswith(f"{tmp_path.name}/b.txt: line 1, column 1: ")
    assert report.notes[-1] == "at most 5% refused is missed: 1 of 2"


def test_no_folder_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_STRATEGIES", str(tmp_path / "none"))
    report = strategies.run()
    assert not report.rows
    assert "OUTRIDER_STRATEGIES" in report.notes[0]
