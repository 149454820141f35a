from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest_asyncio

from outrider.sources.web.browser import Chromium
from support.shared_chromium import chromium_owner


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running_chromium() -> AsyncIterator[Chromium]:
    """One Chromium for all tests that are not about how it starts and ends; it starts at first use."""
    owner = chromium_owner()
    yield owner
    with suppress(RuntimeError):  # a test of loops has replaced the one that it was opened on; it ends with the process
        await owner.close()
