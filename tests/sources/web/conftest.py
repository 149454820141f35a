from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from outrider.sources.web.browser import Chromium
from support.shared_chromium import chromium_owner


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running_chromium() -> AsyncIterator[Chromium]:
    """One Chromium for all tests that are not about how it starts and ends; it starts at first use."""
    owner = chromium_owner()
    yield owner
    await owner.close()
