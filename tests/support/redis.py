"""A Redis server of our own on loopback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    """The address of an empty server, which other processes of the test can reach too."""
    with run_redis(tmp_path) as url:
        yield url


@pytest.fixture(scope="module")
def module_redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same for all tests of a file."""
    with run_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


@contextmanager
def run_redis(folder: Path, *options: str, port: int = 0) -> Iterator[str]:
    """A server with these options of its command line, as long as the block runs."""
    pytest.importorskip("redis")
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server is installed")
    port = port or find_free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            _wait_until_reachable(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()


def find_free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_until_reachable(port: int) -> None:
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    pytest.fail("Redis did not start")
