"""Isolation from the shell's keys, terminal, caches and the network, and Hypothesis profiles.

Only the live suite sees the keys of the services. Caches go to a temporary folder.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from blockbuster import BlockBuster
from hypothesis import settings

from outrider.settings.environment import SERVICE_KEYS
from support.shared_data import DATA
from support.worker_tasks import Counted

if TYPE_CHECKING:
    from outrider.library.library import Library

GRAPH_FOLDERS = frozenset({"langchain", "graph", "nodes", "services", "usecases", "interfaces", "sources", "library"})
"""Folders of tests that run the graph or its parts on an event loop."""
COMMAND_FOLDER = ("interfaces", "cli")
"""Tests of the command, whose process has its loop to itself: where it reads a file, nobody waits."""
CLUSTER_TESTS = "tests/cluster/"
MAY_BLOCK = (
    # a synchronous function that is called inside a loop blocks it, which its docstring says
    (("threading.Lock.acquire",), "runtime/threads_and_loops.py", {"run_in_background"}),
    # prompts are read once, when services are made: in a thread, outside tests
    (("io.TextIOWrapper.read", "os.stat", "os.path.abspath", "os.getcwd"), "prompts/__init__.py", {"load", "load_domain"}),
    # packages that look up their own version, or the working folder when they are imported; plug-ins, where a source is not one of ours
    (("io.TextIOWrapper.read", "os.stat", "os.listdir"), "importlib/metadata/__init__.py", {"version"}),
    (("os.stat", "os.listdir", "io.TextIOWrapper.read"), "importlib/metadata/__init__.py", {"entry_points"}),
    (("os.getcwd", "os.path.abspath"), "rich/__init__.py", {"<module>"}),
    (("io.TextIOWrapper.write", "io.BufferedWriter.write"), "logging/__init__.py", {"emit", "flush"}),
)
of_services = () if os.environ.get("OUTRIDER_LIVE") else (name for names in SERVICE_KEYS.values() for name in names)
for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DEEPSEEK_API_KEY", *of_services):
    os.environ.pop(variable, None)
for variable in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):  # a machine that runs tests may set them for its log
    os.environ.pop(variable, None)
os.environ["OUTRIDER_SOURCES__OFFLINE"] = "true"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # several workers with as many threads as cores each would mostly wait for one another
_CACHE = tempfile.TemporaryDirectory(prefix="outrider-tests-", ignore_cleanup_errors=True)
os.environ["XDG_CACHE_HOME"] = _CACHE.name  # cached answers and plans
os.environ["XDG_DATA_HOME"] = f"{_CACHE.name}/data"  # jobs that searches queue

# Machines are busy, and imports happen at first use: no deadline. `ci` is Hypothesis's own profile: derandomized, without a database.
_profile = "ci" if settings.get_current_profile_name() == "ci" else "dev"
settings.register_profile("dev", settings.get_profile("default"), deadline=None)
settings.register_profile("ci", settings.get_profile("ci"), deadline=None)
settings.load_profile(_profile)
gc.set_threshold(20_000, 20, 20)  # the default walks all loaded modules so often that it takes a twentieth of the time
# A shell ignores the signal for its background jobs, and processes that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--allow-blocking", action="store_true", help="Do not fail at blocking calls on event loops.")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow files first: begun last, they would leave the other workers without work."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture
def workers() -> Iterator[Counted]:
    """A pool without processes yet; those that a test starts end with it."""
    pool = Counted()
    yield pool
    pool.close()


@pytest.fixture(autouse=True)
def _restore_config_variable() -> Iterator[None]:
    """`--config` sets OUTRIDER_CONFIG for the whole process, as its children need it; no other test may inherit that."""
    before = os.environ.get("OUTRIDER_CONFIG")
    yield
    os.environ.pop("OUTRIDER_CONFIG", None)
    if before is not None:
        os.environ["OUTRIDER_CONFIG"] = before


@pytest.fixture(autouse=True)
def _forget_shared_limits() -> Iterator[None]:
    """Services with `shared.redis_url` share the limit of chat calls for the rest of the process; the server ends with its test."""
    yield
    if client := sys.modules.get("outrider.models.chat.client"):
        client.get_concurrency_limiter().redis = None


@pytest.fixture(autouse=True)
def _remove_log_of_commands() -> Iterator[None]:
    """`--verbose` logs to standard error for the rest of the process, which in tests is a stream that ends with the test."""
    yield
    root = logging.getLogger()
    for handler in [one for one in root.handlers if type(one.formatter).__name__ == "JsonFormatter"]:
        root.removeHandler(handler)
        logging.getLogger("outrider").setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def blocking_calls() -> BlockBuster:
    """Raises `BlockingError` for a blocking call on an event loop below any function of ours, as `langgraph dev` does."""
    guard = BlockBuster("outrider")
    for calls, file, functions in MAY_BLOCK:
        for call in calls:
            guard.functions[call].can_block_in(file, functions)
    return guard


@pytest.fixture(autouse=True)
def _refuse_blocking_calls(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests of the graph and of what it runs fail at a blocking call; `--allow-blocking` shows what fails besides."""
    folders = request.path.relative_to(Path(__file__).parent).parts
    is_guarded = folders[0] in GRAPH_FOLDERS and folders[:2] != COMMAND_FOLDER
    is_marked = request.node.get_closest_marker("blocking") is not None
    if not is_guarded or is_marked or request.config.getoption("--allow-blocking"):
        yield
        return
    guard: BlockBuster = request.getfixturevalue("blocking_calls")
    guard.activate()
    yield
    guard.deactivate()


@pytest.fixture(scope="module", autouse=True)
def _freeze_loaded_modules() -> Iterator[None]:
    """Collect once, which reports what a file leaked, and exempt the modules that it loaded from later collections."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
async def library(tmp_path: Path) -> AsyncIterator[Library]:
    """An empty library that the test may write."""
    from outrider.library.library import Library

    opened = await Library.open(tmp_path / "library", create=True)
    yield opened
    opened.close()


@pytest.fixture
def ir_data() -> Path:
    """The shared retrieval sets; the test skips where they are absent."""
    if not (DATA / "ir").is_dir():
        pytest.skip(f"no retrieval sets at {DATA / 'ir'}; set OUTRIDER_DATA")
    return DATA / "ir"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """With `--dist loadfile` one worker runs all tests that need a Ray cluster: several clusters at once would wait for one another."""
    if config.getoption("dist", "no") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneCluster(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return CLUSTER_TESTS if nodeid.startswith(CLUSTER_TESTS) else super()._split_scope(nodeid)

    return OneCluster(config, log)
