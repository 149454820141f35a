"""The cache of translations."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider.nodes.translator.translator import MODEL, Translation
from outrider.services import Services
from outrider.settings.model import Settings
from outrider.settings.sections import CacheSettings
from outrider.sources.http.cache import flush_cache
from outrider.state.errors import KeyRejected
from support.chat_client import KEY, chat_over, llm_settings
from support.chat_server import ChatServer, Reply
from support.fakes import OFFLINE, Shelf

PLAN = {"queries": [{"text": "hepatic injury"}], "expanded_keywords": ["enzyme", "dose"]}


async def translate_twice(server: ChatServer, cache: CacheSettings, **by_hand: Any) -> list[Translation]:
    """Two translations, each with its own services, like two commands."""
    translations = []
    for _ in range(2):
        settings = Settings(llm=llm_settings(server), cache=cache, sources=OFFLINE)
        services = Services(settings, shelf=Shelf(), **by_hand)
        translations.append(await outrider.translate("liver injury", services=services))
        await asyncio.to_thread(flush_cache)
    return translations


def read_files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_a_plan_of_the_configured_model_is_cached_on_disk(tmp_path: Path) -> None:
    with ChatServer(lambda request: Reply(PLAN)) as server:
        first, second = await translate_twice(server, CacheSettings(folder=str(tmp_path)))
        assert len(server.requests) == 1
    assert (first.strategy, first.usage.calls, second.usage.calls) == (second.strategy, 1, 0)
    assert [step.step for step in second.bypassed] == [MODEL]


@pytest.mark.parametrize("cache", [{"translations_s": 0.0}, {"url": "redis://127.0.0.1:1/0"}, {"folder": "/dev/null/none"}])
async def test_without_a_working_cache_each_call_reaches_the_model_and_none_fails(cache: dict[str, Any], tmp_path: Path) -> None:
    if "url" in cache:
        pytest.importorskip("redis")
    with ChatServer(lambda request: Reply(PLAN)) as server:
        translations = await translate_twice(server, CacheSettings.model_validate({"folder": str(tmp_path), **cache}))
    assert [(one.usage.calls, one.failures, one.strategy.made_by) for one in translations] == [(1, (), "model")] * 2


async def test_a_model_passed_by_keyword_is_called_each_time(tmp_path: Path) -> None:
    with ChatServer(lambda request: Reply(PLAN)) as server:
        translations = await translate_twice(server, CacheSettings(folder=str(tmp_path)), chat=chat_over(server))
    assert [one.usage.calls for one in translations] == [1, 1]
    assert read_files(tmp_path) == b""


async def test_a_rejected_key_writes_nothing(tmp_path: Path) -> None:
    with ChatServer(lambda request: Reply(f"bad key {KEY}", status=401)) as server, pytest.raises(KeyRejected):
        await translate_twice(server, CacheSettings(folder=str(tmp_path)))
    await asyncio.to_thread(flush_cache)
    assert b"queries" not in read_files(tmp_path)
    assert KEY.encode() not in read_files(tmp_path)
