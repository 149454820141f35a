"""A Postgres server of our own on loopback, as a fixture."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """A server of our own on loopback; it refuses to run as root."""
    pytest.importorskip("psycopg")
    initdb, postgres = map(_program, ("initdb", "postgres"))
    if not (initdb and postgres):
        pytest.skip("no Postgres server on this machine")
    user = "nobody" if os.getuid() == 0 else None
    folder = tempfile.mkdtemp(prefix="outrider-postgres-")
    if user:
        shutil.chown(folder, user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options: dict[str, Any] = {"user": user, "cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([initdb, "-D", f"{folder}/data", "-U", "me", "--auth=trust", "--no-sync"], check=True, **options)
    command = [postgres, "-D", f"{folder}/data", "-h", "127.0.0.1", "-p", str(port), "-k", folder, "-F"]
    server = subprocess.Popen(command, **options)
    try:
        address = f"postgresql://me:s3cret@127.0.0.1:{port}/postgres"
        _wait_until_reachable(address)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def _program(name: str) -> str | None:
    """Debian's package installs them outside PATH."""
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(installed[-1]) if installed else None)


def _wait_until_reachable(address: str) -> None:
    import psycopg

    for _ in range(300):
        try:
            psycopg.connect(address, connect_timeout=5).close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("Postgres did not start")
