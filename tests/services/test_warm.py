"""What is got ready before a search."""

from __future__ import annotations

from pathlib import Path

import pytest

import outrider.services as module
from outrider.services import Services
from outrider.settings.model import LibrarySettings, LlmSettings, Settings
from outrider.settings.sources import SourcesSettings, WebSettings
from support.fakes import Shelf


class Browsers:
    """Counts who is told that a search is coming."""

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
    monkeypatch.setattr(module, "browser_of", lambda asked: browsers if asked.web.enabled else None)
    settings = Settings(
        library=LibrarySettings(uri=str(tmp_path / "none")),
        llm=LlmSettings(model="none"),
        sources=SourcesSettings(offline=offline, web=WebSettings(enabled=enabled)),
    )
    await Services(settings, sources=sources).warm(searches=searches)
    assert browsers.prepared == prepared
