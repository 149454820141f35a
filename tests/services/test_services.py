from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pydantic import SecretStr

import outrider.services as services_module
from outrider.services import Services
from outrider.settings.model import LibrarySettings, LlmSettings, Settings
from outrider.settings.sections import CacheSettings, LibrarySourceSettings, SourcesSettings, WebSettings
from outrider.state.errors import LibraryError, LibraryMissing, SettingsError
from support.fakes import Shelf


def make_services(folder: Path) -> Services:
    return Services(Settings(library=LibrarySettings(uri=str(folder))))


def test_the_library_is_opened_once(tmp_path: Path) -> None:
    async def twice() -> bool:
        services = make_services(tmp_path)
        return await services.library() is await services.library()

    assert asyncio.run(twice())


def test_a_missing_library_is_opened_again_on_the_next_call(tmp_path: Path) -> None:
    """A failure is not cached: the next call finds the library that was created meanwhile."""

    async def look() -> str:
        services = make_services(tmp_path / "later")
        with pytest.raises(LibraryMissing):
            await services.library()
        await (await make_services(tmp_path / "later").new_library()).snapshot()
        return (await services.library()).library_id

    assert asyncio.run(look())


def test_a_cancelled_opening_blocks_nobody(tmp_path: Path) -> None:
    async def look() -> None:
        services = make_services(tmp_path)
        first = asyncio.create_task(services.library())
        await asyncio.sleep(0)
        first.cancel()
        async with asyncio.timeout(30):
            await services.library()

    asyncio.run(look())


async def test_offline_a_library_is_opened_wherever_it_is_on_this_machine(tmp_path: Path) -> None:
    """Also at a `file://` address, which names a folder. One in an object store is refused."""
    offline = SourcesSettings(offline=True)
    for uri in (str(tmp_path / "one"), f"file://{tmp_path / 'two'}"):
        services = Services(Settings(library=LibrarySettings(uri=uri), sources=offline))
        assert (await services.new_library()).library_id
        services.close()
    with pytest.raises(LibraryError, match="s3://shelf/lib is not on this machine"):
        await Services(Settings(library=LibrarySettings(uri="s3://shelf/lib"), sources=offline)).library()


@pytest.mark.parametrize("uri", ["az://shelf/lib", "gs://shelf/lib", "db://shelf"])
async def test_offline_the_address_of_another_store_does_not_count(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    library = LibrarySettings(uri=uri, storage_options={"aws_endpoint": SecretStr("http://127.0.0.1:9")})
    with pytest.raises(LibraryError, match=f"{uri} is not on this machine"):
        await Services(Settings(library=library, sources=SourcesSettings(offline=True))).library()


def test_parts_are_replaced_by_keyword_also_by_an_empty_tuple() -> None:
    shelf = Shelf()
    assert Services(Settings(), shelf=shelf).shelf is shelf
    assert Services(Settings(), sources=()).sources == ()
    off = Settings(sources=SourcesSettings(offline=True, library=LibrarySourceSettings(enabled=False)))
    assert Services(off).source_names == ()


def test_offline_services_have_every_part_that_a_caller_brought(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that a later version adds."""
    names = [name for name in inspect.signature(Services).parameters if name not in ("settings", "clock")]
    parts = {name: MagicMock(name=name) for name in names}
    services = Services(Settings(), clock=lambda: 1.0, **parts)
    passed: dict[str, object] = {}

    def make(settings: Settings, **options: object) -> None:
        passed.update(options, offline=settings.sources.offline)

    monkeypatch.setattr(services_module, "Services", make)
    services.clock = lambda: 2.0  # `Services.at` changes it
    services.go_offline()
    assert passed == {**parts, "clock": services.clock, "offline": True}


def test_a_saved_run_reads_no_full_texts(tmp_path: Path) -> None:
    """Whether or not a search of the same process has made their reader."""
    services = Services(Settings(library=LibrarySettings(uri=str(tmp_path)), sources=SourcesSettings(offline=False)))
    assert services.texts is not None
    assert services.for_saved_run().texts is None


def test_a_wrong_setting_of_a_search_breaks_nothing_else(tmp_path: Path) -> None:
    """A wrong address of the cache is an error only when the sources are opened."""
    services = Services(Settings(library=LibrarySettings(uri=str(tmp_path)), cache=CacheSettings(url="nonsense")))
    assert asyncio.run(services.library()).library_id
    with pytest.raises(SettingsError, match="redis://"):
        _ = services.sources


def test_versions_name_tool_and_prompts() -> None:
    prompts = {f"prompt:{name}" for name in ("context", "dedup", "short_answer", "translate", "score_papers", "score_repository")}
    assert set(Services(Settings()).versions) == {"outrider", *prompts}


def test_closing_releases_the_library(tmp_path: Path) -> None:
    async def reopen() -> bool:
        services = make_services(tmp_path)
        first = await services.library()
        services.close()
        services.close()
        return await services.library() is not first

    assert asyncio.run(reopen())


class Browsers:
    """Counts the announcements of a search."""

    def __init__(self) -> None:
        self.prepared = 0

    async def prepare(self) -> None:
        self.prepared += 1


@pytest.mark.parametrize(
    ("offline", "enabled", "sources", "searches", "prepared"),
    [
        (False, True, None, True, 1),
        (False, True, None, False, 0),
        (True, True, None, True, 0),
        (False, False, None, True, 0),
        (False, True, (Shelf(),), True, 0),
    ],
)
async def test_the_browser_starts_early_if_the_web_will_be_searched(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    offline: bool,
    enabled: bool,
    sources: tuple[Shelf] | None,
    searches: bool,
    prepared: int,
) -> None:
    browsers = Browsers()
    monkeypatch.setattr(services_module, "find_browser", lambda sources_settings: browsers if sources_settings.web.enabled else None)
    settings = Settings(
        library=LibrarySettings(uri=str(tmp_path / "none")),
        llm=LlmSettings(model="none"),
        sources=SourcesSettings(offline=offline, web=WebSettings(enabled=enabled)),
    )
    await Services(settings, sources=sources).warm(searches=searches)
    assert browsers.prepared == prepared
