from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import outrider.services as services_module
from outrider.services import Services
from outrider.settings.model import LibrarySettings, LlmSettings, Settings
from outrider.settings.sections import CacheSettings, LibrarySourceSettings, SourcesSettings, WebSettings
from outrider.state.errors import LibraryMissing, SettingsError
from support.fakes import Shelf


def at(folder: Path) -> Services:
    return Services(Settings(library=LibrarySettings(uri=str(folder))))


def test_the_library_is_opened_once(tmp_path: Path) -> None:
    async def twice() -> bool:
        made = at(tmp_path)
        return await made.library() is await made.library()

    assert asyncio.run(twice())


def test_a_library_that_is_not_there_is_looked_for_again(tmp_path: Path) -> None:
    """A failure is not kept: the next question finds the library that was made meanwhile."""

    async def look() -> str:
        made = at(tmp_path / "later")
        with pytest.raises(LibraryMissing):
            await made.library()
        await (await at(tmp_path / "later").new_library()).snapshot()
        return (await made.library()).library_id

    assert asyncio.run(look())


def test_a_cancelled_opening_blocks_nobody(tmp_path: Path) -> None:
    async def look() -> None:
        made = at(tmp_path)
        first = asyncio.create_task(made.library())
        await asyncio.sleep(0)
        first.cancel()
        async with asyncio.timeout(30):
            await made.library()

    asyncio.run(look())


def test_parts_are_replaced_by_keyword_also_by_nothing() -> None:
    shelf = Shelf()
    assert Services(Settings(), shelf=shelf).shelf is shelf
    assert Services(Settings(), sources=()).sources == ()
    off = Settings(sources=SourcesSettings(offline=True, library=LibrarySourceSettings(enabled=False)))
    assert Services(off).source_names == ()


def test_what_only_a_search_needs_breaks_nothing_else(tmp_path: Path) -> None:
    """A wrong address of the cache is told when services are to be asked."""
    made = Services(Settings(library=LibrarySettings(uri=str(tmp_path)), cache=CacheSettings(url="nonsense")))
    assert asyncio.run(made.library()).library_id
    with pytest.raises(SettingsError, match="redis://"):
        _ = made.sources


def test_versions_name_tool_and_prompts() -> None:
    prompts = {f"prompt:{name}" for name in ("context", "dedup", "translate", "score_papers", "score_repository")}
    assert set(Services(Settings()).versions) == {"outrider", *prompts}


def test_closing_gives_the_library_back(tmp_path: Path) -> None:
    async def reopen() -> bool:
        made = at(tmp_path)
        first = await made.library()
        made.close()
        made.close()
        return await made.library() is not first

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
async def test_the_browser_begins_to_start_where_the_web_will_be_searched(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    offline: bool,
    enabled: bool,
    sources: tuple[Shelf] | None,
    searches: bool,
    prepared: int,
) -> None:
    browsers = Browsers()
    monkeypatch.setattr(services_module, "find_browser", lambda asked: browsers if asked.web.enabled else None)
    settings = Settings(
        library=LibrarySettings(uri=str(tmp_path / "none")),
        llm=LlmSettings(model="none"),
        sources=SourcesSettings(offline=offline, web=WebSettings(enabled=enabled)),
    )
    await Services(settings, sources=sources).warm(searches=searches)
    assert browsers.prepared == prepared
