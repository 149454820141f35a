"""What the settings share in Redis, and how its state is reported."""

from __future__ import annotations

import asyncio

import pytest

from outrider.runtime.shared_redis import get_shared_redis
from outrider.services import Services
from outrider.services.sources import is_cache_refused, make_link_sources, open_shared_redis
from outrider.settings.model import Settings
from outrider.usecases.health import Part, health
from support.redis import find_free_port, redis_url

__all__ = ["redis_url"]


def share(url: str, **settings: object) -> Settings:
    return Settings.model_validate({"shared": {"redis_url": url}, **settings})


def test_callers_of_services_share_their_limits_and_responses() -> None:
    settings = share("redis://127.0.0.1:1/0")
    sources = make_link_sources(settings, (), further=True)
    assert {source.caller.shared for source in sources} == {open_shared_redis(settings)}  # type: ignore[attr-defined]
    assert settings.answer_cache.url == settings.shared.redis_url
    own = share("redis://127.0.0.1:1/0", cache={"url": "redis://127.0.0.1:2/0"})
    assert own.answer_cache.url == "redis://127.0.0.1:2/0"
    assert open_shared_redis(Settings()) is None
    assert Settings().answer_cache.url == ""


def test_a_process_that_is_offline_reaches_no_server_on_the_network() -> None:
    offline = {"sources": {"offline": True}}
    there, here = share("redis://redis.example:6379/0", **offline), share("redis://127.0.0.1:1/0", **offline)
    assert open_shared_redis(there) is None
    assert is_cache_refused(there)
    assert open_shared_redis(here) is not None


async def find_part(settings: Settings) -> Part:
    """The line of the report of a user without a library."""
    (part,) = (part for part in await health(Services(settings)) if part.what == "shared limits")
    return part


async def test_doctor_reports_the_server(redis_url: str) -> None:
    part = await find_part(share(redis_url))
    assert part.on
    assert "processes that use it now: 1;" in part.says
    assert "appendonly no" in part.says
    await asyncio.to_thread(get_shared_redis(redis_url).close)


async def test_doctor_names_the_fault_of_a_server_and_no_password() -> None:
    url = f"redis://:very-secret@127.0.0.1:{find_free_port()}/0"
    pytest.importorskip("redis")
    part = await find_part(share(url))
    assert part.broken
    assert "unavailable" in part.says
    assert "very-secret" not in part.model_dump_json() + repr(share(url))
