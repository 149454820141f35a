"""The command over a library on object storage: no output, file or object holds its credentials."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from outrider.interfaces.cli import run
from outrider.services import Services
from outrider.settings.load import load
from support.http_app import open_client
from support.object_store import S3Server, s3

__all__ = ["s3"]
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning:botocore.*", "ignore::ResourceWarning")]

CANARIES = {
    "aws_access_key_id": "AKIACANARYCANARY0001",
    "aws_secret_access_key": "c4n4ry/secret+access+key0002",
    "aws_session_token": "c4n4ry.session.token0003==",
}
PAPERS = "@article{a, title={Aspirin and the liver}, abstract={Aspirin harms the liver.}, year={2020}}\n"


@pytest.fixture
def library(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    options = {**s3.options, **CANARIES}
    monkeypatch.setenv("OUTRIDER_LIBRARY__STORAGE_OPTIONS", json.dumps(options))
    monkeypatch.setenv("OUTRIDER_LIBRARY", "s3://shelf/lib")
    monkeypatch.setenv("OUTRIDER_SYSTEMATIC__FOLDER", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "papers.bib").write_text(PAPERS)
    return "s3://shelf/lib"


def find_canaries(content: str | bytes) -> set[str]:
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    return {name for name, canary in CANARIES.items() if canary in text}


def test_credentials_are_nowhere(
    library: str, s3: S3Server, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    commands = (
        (0, ["ingest", "papers.bib", "--json"]),
        (0, ["search", "aspirin", "--json", "--record", "run.zip"]),
        (0, ["plan", "aspirin", "--json"]),
        (0, ["systematic", "aspirin[tiab]", "--json", "--report", "report", "-o", "out.ris", "--record", "exact.zip"]),
        (0, ["library", "info", "--json"]),
        (0, ["library", "check", "--json"]),
        (0, ["doctor", "--json"]),
        (0, ["config", "show", "--json"]),
        (0, ["config", "show"]),
        (3, ["search", "aspirin", "-l", "s3://no-such-bucket/lib"]),
    )
    with caplog.at_level(logging.DEBUG):
        for code, command in commands:
            assert run(command) == code, (command, capfd.readouterr())
        s3.refuse = lambda method, path: method == "PUT"
        (tmp_path / "more.bib").write_text(PAPERS.replace("{a,", "{b,").replace("Aspirin and", "Statins and"))
        assert run(["ingest", "more.bib"]) == 3
        out, err = capfd.readouterr()
        assert "cannot be written by this user" in err
        s3.refuse = lambda method, path: True
        assert run(["search", "aspirin"]) == 3
        assert run(["doctor"]) in (0, 3)
    outputs = {"out": out, "err": err, "log": caplog.text, **dict(zip(("out2", "err2"), capfd.readouterr(), strict=True))}
    outputs |= {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    s3.refuse = lambda method, path: False
    outputs |= s3.read_objects()
    assert len(outputs) > 20
    assert "Aspirin and the liver" in out
    assert {name: found for name, content in outputs.items() if (found := find_canaries(content))} == {}


async def test_credentials_are_in_no_answer_of_the_server(library: str, tmp_path: Path) -> None:
    settings = load({}).settings
    services = Services(settings)
    await services.new_library()
    async with open_client(services) as client:
        for path in (
            "/health",
            "/readyz",
            "/api/library",
            "/api/library/records",
            "/api/search?query=aspirin",
            "/openapi.json",
            "/api/config",
        ):
            response = await client.get(path)
            assert not find_canaries(response.text + str(response.headers)), path
        assert (await client.get("/readyz")).status_code == 200
    assert not find_canaries(repr(settings) + str(settings) + settings.model_dump_json() + repr(vars(services)))


def test_what_doctor_says_of_the_store(library: str, s3: S3Server, capfd: pytest.CaptureFixture[str]) -> None:
    def check() -> dict[str, str]:
        run(["doctor", "--json"])
        rows = {row["what"]: row for row in json.loads(capfd.readouterr().out)["checks"]}
        return {name: str(value) for name, value in rows["object store"].items()}

    assert "can be reached" in check()["says"]
    assert run(["ingest", "papers.bib"]) == 0
    capfd.readouterr()
    assert "can be read and written" in check()["says"]
    s3.refuse = lambda method, path: method == "PUT"
    assert "cannot be written by this user" in check()["says"]
    s3.refuse = lambda method, path: True
    assert "may not be read" in check()["says"]
