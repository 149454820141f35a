"""The client of namespace servers that LanceDB imports with it, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

from outrider.library import CLIENT, TESTED

LOADED = f"any(name.startswith('{CLIENT}.api.') for name in sys.modules)"


def run_python(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_tested_version_is_installed() -> None:
    """After an update: look whether its `__init__` still only collects names, then change `TESTED`."""
    assert version(CLIENT.replace("_", "-")).startswith(TESTED)


def test_a_library_is_opened_without_the_client_of_servers() -> None:
    script = f"""
import asyncio, sys, tempfile
from outrider.library.library import Library
async def open_library(folder):
    (await Library.open(folder, create=True)).close()
asyncio.run(open_library(tempfile.mkdtemp()))
print('lancedb' in sys.modules, {LOADED})
"""
    assert run_python(script) == "True False"


USES = (
    f"from {CLIENT} import TableApi, ApiClient; TableApi(ApiClient())",
    f"import {CLIENT} as client; client.Configuration(); client.TagApi",
    f"import {CLIENT}.api.table_api as api; api.TableApi",
    f"import {CLIENT}; assert {CLIENT}.__version__.startswith('{TESTED}')",
    f"from {CLIENT}.models import Identity; import {CLIENT} as client; assert client.Identity is Identity; client.DataApi",
    f"import {CLIENT} as client; client.api.DataApi",
    f"from {CLIENT} import rest, models, BranchApi, api_client",
)


def test_the_client_is_complete_for_whoever_uses_it() -> None:
    """Each use in a copy of one process that has imported LanceDB, and nothing of the client yet."""
    script = f"""
import os, sys
import outrider.library; outrider.library.postpone_client()
import lancedb
assert not {LOADED}
for use in {USES!r}:
    copy = os.fork()
    if not copy:
        exec(use)
        os._exit(0 if {LOADED} else 3)
    print(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]))
"""
    assert run_python(script).split() == ["0"] * len(USES)


def test_looking_at_all_modules_does_not_load_it() -> None:
    script = f"""
import inspect, sys, warnings
import outrider.library; outrider.library.postpone_client()
import lancedb
for module in list(sys.modules.values()):
    getattr(module, '__warningregistry__', None), getattr(module, '__file__', None), getattr(module, '__wrapped__', None)
inspect.getmodule(lambda: 0)
print({LOADED})
"""
    assert run_python(script) == "False"


def test_a_name_that_it_does_not_have_is_missing() -> None:
    script = f"""
import outrider.library; outrider.library.postpone_client()
import lancedb, {CLIENT} as client
for _ in range(2):
    try:
        client.Nothing
    except AttributeError as error:
        print(error)
"""
    assert run_python(script).splitlines() == [f"module '{CLIENT}' has no attribute 'Nothing'"] * 2


def test_many_threads_get_the_whole_of_it() -> None:
    script = f"""
import threading
import outrider.library; outrider.library.postpone_client()
import lancedb, {CLIENT} as client
names = []
threads = [threading.Thread(target=lambda: names.append(client.TransactionApi.__name__)) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(names), *set(names))
"""
    assert run_python(script) == "8 TransactionApi"


def test_another_version_is_imported_as_usual() -> None:
    script = f"""
import importlib.metadata, sys
real = importlib.metadata.version
importlib.metadata.version = lambda name: '9.9.9' if name.startswith('lance-namespace') else real(name)
import outrider.library; outrider.library.postpone_client()
import lancedb
print({LOADED})
"""
    assert run_python(script) == "True"


def test_what_was_imported_before_stays() -> None:
    script = f"import sys, lancedb, {CLIENT} as client; import outrider.library as own; assert client is sys.modules['{CLIENT}']"
    assert run_python(f"{script}; print(own.postpone_client(), {LOADED})") == "False True"
