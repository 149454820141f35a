"""No test asks a provider or a service of the world: keys of the shell that runs the tests are put away, and searches stay offline.

Only the live suite, where it is asked for, finds the services' keys. What is kept is kept for the tests alone.
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings
from worker_tasks import Counted

from outrider.settings.environment import SERVICE_KEYS

of_services = () if os.environ.get("OUTRIDER_LIVE") else (name for names in SERVICE_KEYS.values() for name in names)
for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DEEPSEEK_API_KEY", *of_services):
    os.environ.pop(variable, None)
os.environ["OUTRIDER_SOURCES__OFFLINE"] = "true"
_CACHE = tempfile.TemporaryDirectory(prefix="outrider-tests-", ignore_cleanup_errors=True)
os.environ["XDG_CACHE_HOME"] = _CACHE.name  # answers and plans that are kept

settings.register_profile("of these tests", settings(), deadline=None)  # machines are busy, and imports happen at first use
settings.load_profile("of these tests")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in its background; what tests start would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def workers() -> Iterator[Counted]:
    """None is started yet; those that a test starts end with it."""
    made = Counted()
    yield made
    made.close()


@pytest.fixture(scope="module", autouse=True)
def _what_was_loaded_is_not_collected_again() -> Iterator[None]:
    """Libraries that one file loaded are large, and each later collection would walk them. What a file left behind shows in that file."""
    yield
    gc.collect()
    gc.freeze()
