"""A small library, and settings of its own for each test of an interface or a use case."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from outrider.library.library import Library
from outrider.state.records import Record, Repository
from support.fakes import doi, paper

RECORDS: tuple[Record, ...] = (
    paper(
        "a",
        "Aspirin and the liver",
        abstract="Aspirin harms the liver at high doses. The weather was fine.",
        year=2020,
        venue="Hepatology",
        authors=("Doe, Jane", "Roe, Richard"),
        identifiers=doi("10.1000/x"),
    ),
    paper("b", "Statins in practice", abstract="Statins lower cholesterol.", year=2001, venue="The Lancet"),
    paper("c", "深度学习与图像", abstract="深度学习用于医学图像诊断。", year=2022, language="zh"),
    Repository(doc_id="pypi:x", title="x-client", description="An HTTP client for Rust", language="Rust", stars=900),
)


@pytest.fixture(scope="session")
def shelved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real library with a few records; tests only read it."""
    folder = tmp_path_factory.mktemp("library")

    return fill_library(folder, RECORDS)


def fill_library(folder: Path, records: Sequence[Record]) -> Path:
    """A library of these records, with its indexes complete."""

    async def fill() -> None:
        library = await Library.open(folder, create=True)
        await library.upsert(records)
        await library.optimize(force=True)

    asyncio.run(fill())
    return folder


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings file or variable of this machine reaches a test, and no test the network."""
    for name in [name for name in os.environ if name.startswith("OUTRIDER_") and name != "OUTRIDER_DATA"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "true")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
