"""Results of MCP tools: each process of a server finds those of the others, and without Redis its own."""

from __future__ import annotations

import asyncio

import pytest

from outrider.interfaces.mcp import kept_results
from outrider.interfaces.mcp.kept_results import KeptResults
from outrider.interfaces.mcp.server import Tools
from outrider.services import Services
from outrider.settings.model import Settings, SharedSettings
from outrider.settings.sections import SourcesSettings
from support.redis import redis_url

__all__ = ["redis_url"]
NOWHERE = "redis://127.0.0.1:1/0"


async def test_each_process_finds_the_results_of_another_and_the_oldest_are_dropped(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_results, "MAX_RESULTS", 2)
    one, other = KeptResults(redis_url), KeptResults(redis_url)
    names = [await one.keep(f"answer {number} ü") for number in range(3)]
    assert [await other.find(name) for name in names] == [None, "answer 1 ü", "answer 2 ü"]
    assert await other.find("guessed") is None
    for results in (one, other):
        await results.close()


async def test_without_redis_a_process_finds_its_own_results(caplog: pytest.LogCaptureFixture) -> None:
    for url in ("", NOWHERE):
        results = KeptResults(url)
        name = await results.keep("answer")
        assert await results.find(name) == "answer"
        assert await results.find("other") is None
        await results.close()
    assert caplog.text.count("could not be shared") == 2


async def test_no_result_leaves_this_machine_where_nothing_else_is_contacted(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(shared=SharedSettings(redis_url="redis://redis.example.org"), sources=SourcesSettings(offline=True))
    tools = Tools(await asyncio.to_thread(Services, settings))
    name = await tools._results.keep("answer")
    assert await tools.result(name) == "answer"
    assert tools._results._redis is None
    assert caplog.text == ""
