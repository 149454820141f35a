"""`outrider doctor --deployment`: what is broken between several servers is found and named, and no secret is shown."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from outrider.interfaces.cli import run
from outrider.jobs.job_table import JobTable
from outrider.services import Services, deployment
from outrider.services.deployment import Deployment
from outrider.settings.model import (
    JobSettings,
    LearningSettings,
    LibrarySettings,
    ReviewSettings,
    SavedSettings,
    Settings,
    SharedSettings,
    SystematicSettings,
    ThreadSettings,
)  # fmt: skip
from outrider.settings.sections import ServeSettings, SourcesSettings
from outrider.usecases.deployment import DeploymentReport, check_deployment
from support.postgres import postgres
from support.redis import find_free_port, redis_url, run_redis

__all__ = ["postgres", "redis_url"]
pytestmark = [pytest.mark.slow, pytest.mark.blocking]
KEYS: dict[str, Any] = {"ann": SecretStr("sha256:" + "ab" * 32)}
OTHER_KEYS: dict[str, Any] = {"bob": SecretStr("sha256:" + "cd" * 32)}
GOOD_SERVER: dict[str, Any] = {"api_keys": KEYS, "drain_s": 10.0, "trusted_proxies": "10.0.0.0/8"}


@pytest.fixture
def make_settings(postgres: str, redis_url: str, tmp_path: Path) -> Callable[..., Settings]:
    def make(folder: str = "shared", **own: Any) -> Settings:
        fields: dict[str, Any] = {
            "library": LibrarySettings(uri=str(tmp_path / "library")),
            "threads": ThreadSettings(uri=postgres),
            "shared": SharedSettings(redis_url=redis_url),
            "systematic": SystematicSettings(folder=str(tmp_path / folder / "runs")),
            "review": ReviewSettings(folder=str(tmp_path / folder / "reviews")),
            "serve": ServeSettings(**GOOD_SERVER),
            "sources": SourcesSettings(offline=True),
        }
        return Settings(**fields | own)

    return make


@asynccontextmanager
async def servers(*all_settings: Settings) -> AsyncIterator[None]:
    """Entries of servers with these settings."""
    if not all_settings:
        yield
        return
    async with Deployment.open(all_settings[0]) as opened, opened.announce(Services(all_settings[0]).library), servers(*all_settings[1:]):
        until = time.monotonic() + 30
        while opened._member is None or opened._member.id not in {one.id for one in await opened.members()}:
            assert time.monotonic() < until
        yield


def broken(report: DeploymentReport) -> set[str]:
    assert report.ready is not any(check.status == "broken" for check in report.checks)
    assert all(check.todo for check in report.checks if check.status != "ok"), "each problem says what to do"
    return {check.what for check in report.checks if check.status == "broken"}


async def test_servers_that_share_everything_are_ready(make_settings: Callable[..., Settings], postgres: str) -> None:
    settings = make_settings()
    JobTable(postgres).create()
    async with servers(settings, settings):
        report = await check_deployment(Services(settings))
    assert (broken(report), report.servers) == (set(), 2)
    says = {check.what: (check.status, check.says) for check in report.checks}
    assert says["systematic runs"][1].endswith("is the same folder at 2 servers")
    assert [says[what][0] for what in ("redis", "clock", "threads", "jobs", "saved searches", "keys", "stop", "proxy")] == ["ok"] * 8
    assert says["library"][0] == "warning", "a folder, whatever is mounted there"
    assert "s3cret" not in report.model_dump_json()


async def test_each_difference_between_servers_is_named(make_settings: Callable[..., Settings]) -> None:
    settings = make_settings()
    async with servers(settings, make_settings("own", serve=ServeSettings(**GOOD_SERVER | {"api_keys": OTHER_KEYS, "at_once": 3}))):
        report = await check_deployment(Services(settings))
    assert broken(report) == {"systematic runs", "reviews", "settings"}
    differences = [check.says.split()[0] for check in report.checks if check.what == "settings"]
    assert differences == ["serve", "serve.api_keys"]
    assert "ab" * 32 not in report.model_dump_json()


async def test_what_is_not_shared_or_not_reached_is_broken(make_settings: Callable[..., Settings], tmp_path: Path) -> None:
    away = "postgresql://me:s3cret@127.0.0.1:1/x"
    one = make_settings(
        shared=SharedSettings(), threads=ThreadSettings(uri=str(tmp_path / "threads.sqlite")), saved=SavedSettings(uri="redis://x/0")
    )
    report = await check_deployment(Services(one))
    assert broken(report) == {"redis", "saved searches"}
    assert [check.status for check in report.checks if check.what in ("threads", "jobs")] == ["warning", "warning"]
    gone = make_settings(
        shared=SharedSettings(redis_url="redis://:s3cret@127.0.0.1:1/0"),
        jobs=JobSettings(uri=away),
        learning=LearningSettings(enabled=True),
    )
    report = await check_deployment(Services(gone))
    assert broken(report) == {"redis", "jobs", "saved searches", "learning"}
    assert "s3cret" not in report.model_dump_json()


async def test_who_is_refused_by_redis_learns_why_and_no_address_shows_its_password(
    make_settings: Callable[..., Settings], redis_url: str, tmp_path: Path
) -> None:
    settings = make_settings(
        shared=SharedSettings(redis_url=redis_url.replace("//", "//:s3cret@") + "?client_name=x"),
        threads=ThreadSettings(uri="mysql://me:s3/cret@db/x"),
        jobs=JobSettings(uri=str(tmp_path / "jobs.sqlite")),
    )
    report = await check_deployment(Services(settings))
    refused = next(check for check in report.checks if check.what == "redis")
    assert broken(report) == {"redis", "threads"}
    assert "refuses its user" in refused.says
    assert "password" in refused.todo
    assert [check for check in report.checks if "cret" in check.model_dump_json()] == []


async def test_a_redis_cluster_is_refused(make_settings: Callable[..., Settings], tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    with run_redis(tmp_path / "cluster", "--cluster-enabled", "yes", "--cluster-port", str(find_free_port())) as url:
        report = await check_deployment(Services(make_settings(shared=SharedSettings(redis_url=url))))
    assert "redis" in broken(report)
    assert next(check.todo for check in report.checks if check.what == "redis").startswith("name a single server")


async def test_a_redis_that_drops_keys_or_is_full_is_named(make_settings: Callable[..., Settings]) -> None:
    settings = make_settings()
    async with Deployment.open(settings) as opened:
        redis: Any = opened.redis
        for policy, megabytes, expected in (
            ("allkeys-lru", "100mb", "broken"), ("volatile-lru", "100mb", "broken"), ("noeviction", "100mb", "ok"),
            ("allkeys-lru", "0", "ok"), ("noeviction", "1mb", "warning"),
        ):  # fmt: skip
            await redis.config_set("maxmemory-policy", policy)
            await redis.config_set("maxmemory", megabytes)
            report = await check_deployment(Services(settings))
            assert {check.what: check.status for check in report.checks}["redis memory"] == expected, (policy, megabytes)


async def test_a_clock_that_is_off_is_named(make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time

    class Ahead:
        perf_counter = staticmethod(time.perf_counter)

        @staticmethod
        def time() -> float:
            return now() + 3.0

    monkeypatch.setattr(deployment, "time", Ahead)
    settings = make_settings()
    async with servers(settings):
        report = await check_deployment(Services(settings))
    clocks = {check.what: check.status for check in report.checks if "clock" in check.what}
    assert clocks.pop("clock of Postgres") == "ok"
    assert set(clocks.values()) == {"warning"}
    assert len(clocks) == 2


def test_the_command_ends_with_3_and_prints_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OUTRIDER_SHARED__REDIS_URL", "redis://:s3cret@127.0.0.1:1/0")
    for name in ("SYSTEMATIC", "REVIEW"):
        monkeypatch.setenv(f"OUTRIDER_{name}__FOLDER", str(tmp_path / name))
    answers = []
    for flags in ([], ["--json"]):
        assert run(["doctor", "--deployment", "--library", str(tmp_path / "l"), *flags]) == 3
        answers.append(capsys.readouterr())
    report = json.loads(answers[1].out)
    assert (report["ready"], report["servers"], report["checks"][0]["what"]) == (False, 0, "redis")
    assert "let this machine reach it" in " ".join(answers[0].out.split())
    assert "s3cret" not in str(answers)


async def test_a_redis_that_is_away_is_logged_once(
    make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = 0

    async def fail(_: Deployment) -> float:
        nonlocal tries
        tries += 1
        raise TimeoutError

    monkeypatch.setattr(Deployment, "measure_skew", fail)
    monkeypatch.setattr(deployment, "BEAT_S", 0.01)
    settings = make_settings()
    async with Deployment.open(settings) as opened, opened.announce(Services(settings).library):
        async with asyncio.timeout(30):
            while tries < 3:  # noqa: ASYNC110 - it beats by itself
                await asyncio.sleep(0.01)
    assert [record.message for record in caplog.records if "not told of this one" in record.message] == [
        "shared.redis_url: other servers are not told of this one: TimeoutError"
    ]
