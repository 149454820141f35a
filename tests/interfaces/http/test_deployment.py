"""Several servers: what one does not find is not missing while another keeps it in a folder of its own."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from outrider.services import Services, deployment
from outrider.services.deployment import Deployment, check_shared, digest_settings, list_differences, mark_folder
from outrider.settings.model import (
    LearningSettings,
    LibrarySettings,
    ReviewSettings,
    Settings,
    SharedSettings,
    SystematicSettings,
    ThreadSettings,
)  # fmt: skip
from outrider.settings.sections import ServeSettings, SourcesSettings
from outrider.state.errors import BadRequest, SettingsError
from support.http_app import open_client, until
from support.redis import redis_url

__all__ = ["redis_url"]
pytestmark = [pytest.mark.slow, pytest.mark.blocking]
KEY_HASH = "sha256:" + "ab" * 32


def make_settings(redis_url: str, folder: Path, **own: Any) -> Settings:
    fields: dict[str, Any] = {
        "shared": SharedSettings(redis_url=redis_url),
        "systematic": SystematicSettings(folder=str(folder / "runs")),
        "review": ReviewSettings(folder=str(folder / "reviews")),
    }
    return Settings(**fields | own)


async def open_server(stack: AsyncExitStack, settings: Settings, library: Path) -> httpx.AsyncClient:
    own = settings.model_copy(update={"library": LibrarySettings(uri=str(library)), "sources": SourcesSettings(offline=True)})
    return await stack.enter_async_context(open_client(Services(own)))


async def ask(client: httpx.AsyncClient, run: str) -> list[tuple[int, str]]:
    answers = [
        await client.get(f"/api/systematic/{run}/hits"),
        await client.get(f"/api/systematic/{run}"),
        await client.post("/api/systematic", json={"resume": run}),
        await client.get("/api/reviews/liver"),
    ]
    kinds = (answer.json()["type"].rpartition(":")[2] if answer.is_error else "" for answer in answers)
    return [(answer.status_code, kind) for answer, kind in zip(answers, kinds, strict=True)]


async def test_servers_with_other_folders_never_say_404_and_servers_with_one_folder_find_all(
    redis_url: str, tmp_path: Path, shelved: Path
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a", target_is_directory=True)
    async with AsyncExitStack() as stack:
        first = await open_server(stack, make_settings(redis_url, tmp_path / "a"), shelved)
        body = (await first.post("/api/systematic", json={"query": "aspirin[ti]"})).text
        run = json.loads(body.splitlines()[0])["run"]
        begun = await first.post("/api/reviews", json={"name": "liver"})
        assert begun.status_code < 300, begun.text
        assert await ask(first, "nothing") == [(404, "no-such-run")] * 3 + [(200, "")]

        same = await open_server(stack, make_settings(redis_url, tmp_path / "link"), shelved)
        assert [status for status, _ in await ask(same, run)] == [200] * 4
        assert (await ask(same, "nothing"))[:3] == [(404, "no-such-run")] * 3

        async with AsyncExitStack() as other_stack:
            other = await open_server(other_stack, make_settings(redis_url, tmp_path / "b"), shelved)
            assert await ask(other, run) == [(503, "folder-elsewhere")] * 4
            assert (await ask(first, "nothing"))[0] == (503, "folder-elsewhere"), "it may be at the other one"
        assert (await ask(first, "nothing"))[0] == (404, "no-such-run")


async def test_members_expire_and_agree_on_what_they_share(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "BEAT_S", 0.1)
    monkeypatch.setattr(deployment, "EXPIRE_S", 1)
    key: Any = {"ann": SecretStr(KEY_HASH)}
    plain, keyed = make_settings(redis_url, tmp_path), make_settings(redis_url, tmp_path, serve=ServeSettings(api_keys=key))
    async with AsyncExitStack() as stack:
        for settings in (plain, keyed):
            opened = await stack.enter_async_context(Deployment.open(settings))
            await stack.enter_async_context(opened.announce(Services(settings).library))
        members: tuple[deployment.Member, ...] = ()
        async with asyncio.timeout(30):
            while len(members) < 2:
                members = await opened.members()
        assert len(list_differences(members, "serve.api_keys")) == 2
        assert len(list_differences(members, "serve")) == 1
        assert members[0].folders == members[1].folders
        assert abs(members[0].skew_s) < 0.5
        assert KEY_HASH not in members[1].model_dump_json()
        assert opened.redis is not None
        assert 0 < await opened.redis.ttl(f"{deployment.PREFIX}{members[0].id}") <= 1
        assert await opened.redis.ttl(deployment.INDEX) > 0
    async with Deployment.open(plain) as command:
        assert await command.members() == ()
        dead = members[0].model_copy(update={"id": "dead"})
        assert command.redis is not None
        await command.redis.set(f"{deployment.PREFIX}dead", dead.model_dump_json(), px=200)
        await command.redis.sadd(deployment.INDEX, "dead", "gone")  # type: ignore[misc] # of both kinds of clients
        assert len(await command.members()) == 1
        await asyncio.sleep(0.3)
        assert await command.members() == ()


async def test_a_server_whose_library_does_not_answer_is_known_to_the_others(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: Services) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Services, "library", never)
    settings = make_settings(redis_url, tmp_path)
    async with Deployment.open(settings) as opened, opened.announce(Services(settings).library), asyncio.timeout(10):
        while not (members := await opened.members()):  # noqa: ASYNC110 - as another server looks
            await asyncio.sleep(0.01)
    assert [member.library for member in members] == [""]


async def test_a_foreign_entry_ends_no_server_s_signs_of_life(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "BEAT_S", 0.05)
    monkeypatch.setattr(deployment, "EXPIRE_S", 1)
    settings = make_settings(redis_url, tmp_path)
    async with Deployment.open(settings) as opened, opened.announce(Services(settings).library):
        async with asyncio.timeout(30):
            while not (members := await opened.members()):
                pass
        assert opened.redis is not None
        foreign = members[0].model_copy(update={"id": "foreign", "host": "\x1b[31mred\u202e", "version": "9\n"})
        for name, text in (("foreign", foreign.model_dump_json()), ("bad", "{"), ("bytes", b"\xff")):
            await opened.redis.set(f"{deployment.PREFIX}{name}", text, ex=60)
        await opened.redis.sadd(deployment.INDEX, "foreign", "bad", "bytes", b"\xff\xfe")  # type: ignore[misc] # of both kinds of clients
        await asyncio.sleep(1.5)
        alive = {member.id: member for member in await opened.members()}
        assert set(alive) == {members[0].id, "foreign"}
        assert (alive["foreign"].host, alive["foreign"].version) == ("[31mred", "9"), "nothing that a terminal obeys"


async def test_without_redis_a_server_answers_and_says_so_once(
    tmp_path: Path, shelved: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(deployment, "BEAT_S", 0.01)
    settings = make_settings("redis://:s3cret@127.0.0.1:1/0", tmp_path)
    with caplog.at_level(logging.WARNING, logger=deployment.__name__):
        async with AsyncExitStack() as stack:
            client = await open_server(stack, settings, shelved)
            await until(lambda: "other servers are not told" in caplog.text)
            await asyncio.sleep(0.2)
            assert (await ask(client, "nothing"))[0] == (404, "no-such-run")
    assert caplog.text.count("other servers are not told") == 1
    assert "s3cret" not in caplog.text


def test_a_folder_has_one_mark_whoever_makes_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    marks = {mark_folder(tmp_path / "new" / "runs") for _ in range(3)}
    assert len(marks) == 1
    assert len(marks.pop()) == 32
    assert [path.name for path in (tmp_path / "new" / "runs").iterdir()] == [deployment.MARK]
    (tmp_path / "file").write_text("")
    assert mark_folder(tmp_path / "file" / "runs") == ""
    assert "cannot be written" in caplog.text


def test_settings_are_compared_by_section_and_hidden_without_the_address_of_redis(tmp_path: Path) -> None:
    one = digest_settings(make_settings("redis://a/0", tmp_path))
    assert one == digest_settings(make_settings("redis://a/0", tmp_path / "other folder"))
    assert not set(one.values()) & set(digest_settings(make_settings("redis://b/0", tmp_path)).values())
    assert "embedding" not in one


@pytest.mark.parametrize("database", ["", "postgresql://localhost/x"])
def test_learning_is_refused_on_several_machines(database: str) -> None:
    settings = Settings(
        shared=SharedSettings(redis_url="redis://localhost"), threads=ThreadSettings(uri=database), learning=LearningSettings(enabled=True)
    )
    if database:
        with pytest.raises(BadRequest, match=r"learning\.enabled"):
            check_shared(settings)
    else:
        check_shared(settings)
    with pytest.raises(SettingsError, match=r"shared\.redis_url"):
        check_shared(Settings(shared=SharedSettings(redis_url="http://localhost")))


@pytest.mark.parametrize("url", ["redis://localhost", "unix:///run/redis.sock", "redis://ann:secret@redis.example.org"])
async def test_a_redis_on_another_machine_is_refused_where_nothing_else_is_contacted(url: str) -> None:
    settings = Settings(shared=SharedSettings(redis_url=url), sources=SourcesSettings(offline=True))
    if "example.org" in url:
        with pytest.raises(SettingsError, match=r"shared\.redis_url is redis://\*+@redis\.example\.org, and nothing but this machine"):
            check_shared(settings)
        with pytest.raises(SettingsError, match="this machine"):
            async with Deployment.open(settings):
                pass
    else:
        check_shared(settings)
