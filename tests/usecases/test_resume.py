"""Resumed searches: what was begun offline stays so, and another library is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider.services import Services
from outrider.state.checkpoints import PlanReview
from outrider.state.errors import BadRequest, OtherLibrary
from outrider.usecases import threads as threads_module
from outrider.usecases.threads import KeptContext, collect_response, open_threads
from support.fake_services import make_handler, settings
from support.http_server import serving


def make_services(folder: Path, library: Path, base_url: str, *, offline: bool) -> Services:
    world = settings(base_url, folder / "cache")
    sources = world.sources.model_copy(update={"offline": offline})
    return Services(
        world.model_copy(
            update={
                "sources": sources,
                "library": world.library.model_copy(update={"uri": str(library)}),
                "threads": world.threads.model_copy(update={"uri": str(folder / "threads.sqlite")}),
            }
        )
    )


async def begin_and_stop(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is recorded, and stopped before its first checkpoint."""

    def stop(*_: object) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(threads_module, "build", stop)
        async with open_threads(services) as threads:
            with pytest.raises(KeyboardInterrupt):
                await collect_response(threads.search("one", {"query": "aspirin"}))


async def test_a_run_begun_offline_is_resumed_offline_by_services_that_are_not(
    shelved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever resumes it: all do so by `Threads.resume` or `Threads.take_over`."""
    with serving(make_handler()) as server:
        await begin_and_stop(make_services(tmp_path, shelved, server.base_url, offline=True), monkeypatch)
        online = make_services(tmp_path, shelved, server.base_url, offline=False)
        async with open_threads(online) as threads:
            answer = await collect_response(threads.resume("one"))
            assert server.requests == []
            assert {row.source for row in answer.sources if row.status != "off"} == {"library"}
            assert answer.hits[0].doc_id == "a"
            await collect_response(threads.search("two", {"query": "aspirin"}))
        assert server.requests != []
        online.close()


async def test_a_row_of_an_earlier_release_is_resumed_as_the_settings_say(
    shelved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(make_handler()) as server:
        services = make_services(tmp_path, shelved, server.base_url, offline=False)
        await begin_and_stop(services, monkeypatch)
        async with open_threads(services) as threads:
            await threads.store.ledger.database.execute("UPDATE outrider_runs SET context = '{\"max_calls\": 3}'")
            (run,) = await threads.runs("one")
            assert KeptContext.read(run) == KeptContext(max_calls=3)
            await collect_response(threads.resume("one"))
        assert server.requests != []
        services.close()


def test_a_waiting_search_over_another_library_is_refused_and_still_waits(
    shelved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_LIBRARY", str(tmp_path / "none"))
    waiting = outrider.search("aspirin", thread="one", checkpoints=["plan"], library=shelved)
    assert isinstance(waiting.waiting, PlanReview)
    with pytest.raises(OtherLibrary, match=rf"read the library {shelved}, not .*none; name it with --library {shelved}"):
        outrider.resume("one", {"review": "plan"})
    shutil.copytree(shelved, tmp_path / "other")
    with pytest.raises(OtherLibrary):
        outrider.resume("one", {"review": "plan"}, library=tmp_path / "other")
    assert outrider.resume("one").waiting == waiting.waiting
    answer = outrider.resume("one", {"review": "plan"}, library=shelved)
    assert answer.hits[0].doc_id == "a"
    assert outrider.resume("one") == answer, "an ended search is shown, whatever the library"


async def test_a_password_in_the_address_of_a_library_is_not_stored(tmp_path: Path) -> None:
    world = settings("http://127.0.0.1:1", tmp_path)
    own = world.model_copy(update={"library": world.library.model_copy(update={"uri": "s3://me:secret@bucket/x"})})
    assert "secret" not in await Services(own).find_library_address()
    with pytest.raises(BadRequest):
        await Services(own.model_copy(update={"library": world.library.model_copy(update={"uri": "ftp://x/y"})})).find_library_address()
