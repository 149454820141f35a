"""Links between papers and code at every interface: command, Python, doctor, HTTP, MCP."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

import outrider
from outrider.interfaces import cli
from outrider.services import Services
from outrider.state.records import Identifiers, Paper, Repository
from support.small_library import fill_library

RECORDS = (
    Paper(
        doc_id="p",
        title="Snowfall: weather at scale",
        abstract="We model snow. Our code is available at https://github.com/lab/snowfall.",
        identifiers=Identifiers(doi="10.1000/snow"),
    ),
    Repository(
        doc_id="github:lab/snowfall",
        title="lab/snowfall",
        identifiers=Identifiers(github="lab/snowfall"),
        text="# Snowfall\n\nIf you use this, please cite our paper https://doi.org/10.1000/snow.\n",
        archived=True,
    ),
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_library(tmp_path_factory.mktemp("library"), RECORDS)


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "true")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert cli.run([*map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_the_command_shows_code_evidence_and_why_it_is_dead(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = run(capsys, "library", "links", "10.1000/snow", "--library", library)
    assert "github:lab/snowfall" in output
    assert "both name each other" in output
    assert "dead: archived" in output
    assert "Our code is available" in output
    shown = json.loads(run(capsys, "library", "links", "lab/snowfall", "--library", library, "--json"))
    assert [(one["name"], one["title"], one["agree"]) for one in shown["papers"]] == [
        ("doi:10.1000/snow", "Snowfall: weather at scale", True)
    ]


def test_works_a_file_and_a_scan_exclude_each_other(library: Path) -> None:
    assert cli.run(["library", "links", "p", "--scan", "--library", str(library)]) == 2


def test_python_finds_links(library: Path) -> None:
    links = outrider.find_code_links("p", library=library)
    assert [(one.name, one.liveness, one.agree) for one in links.code] == [("github:lab/snowfall", "dead", True)]


def test_a_search_prints_code(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = run(capsys, "search", "snow at scale", "--library", library)
    assert "Code: lab/snowfall, dead (archived)" in output


def test_doctor_says_what_reading_repositories_would_need(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["doctor", "--library", str(library)])
    assert "repositories are not read at GitHub (sources.offline)" in " ".join(capsys.readouterr().out.split())


def test_doctor_names_a_damaged_table_and_shows_the_rest(library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = shutil.copytree(library, tmp_path / "damaged")
    for manifest in (damaged / "code_links.lance").rglob("*.manifest"):
        manifest.write_bytes(b"x")
    cli.run(["doctor", "--library", str(damaged), "--json"])
    checks = {check["what"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["library"]["status"] == "ok"
    assert checks["links to code"]["status"] == "broken"
    assert "is damaged" in checks["links to code"]["says"]


async def test_http_gives_links_and_queues_a_job(library: Path, tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from support.http_app import open_client

    services = await asyncio.to_thread(Services.from_file, {"library.uri": str(library), "jobs.uri": str(tmp_path / "jobs.sqlite")})
    async with open_client(services, timeout=60) as client:
        links = (await client.get("/api/library/links", params={"id": "10.1000/snow"})).json()
        assert [(one["name"], one["liveness"]) for one in links["code"]] == [("github:lab/snowfall", "dead")]
        assert (await client.get("/api/library/links", params={"id": "nobody"})).status_code == 404
        queued = await client.post("/api/library/links", json={"ids": ["p"]})
        assert queued.status_code == 202, queued.text
        assert (await client.get("/api/jobs")).json()["jobs"][0]["kind"] == "code_links"
    services.close()


async def test_mcp_gives_links(library: Path) -> None:
    pytest.importorskip("mcp")
    from mcp import Client

    from outrider.interfaces.mcp import make_server

    services = await asyncio.to_thread(Services.from_file, {"library.uri": str(library)})
    async with Client(make_server(services)) as client:
        result = (await client.call_tool("code_links", {"work": "lab/snowfall"})).structured_content
    assert [(one["name"], one["both_agree"]) for one in result["papers"]] == [("doi:10.1000/snow", True)]
    services.close()
