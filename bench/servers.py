"""Real Postgres, Redis, HAProxy, nginx and `outrider serve` processes on loopback, for benchmarks and tests."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import yaml

ROOT = Path(__file__).parents[1]
STARTED_WITHIN_S = 300.0
"""Patience for a busy machine."""
PROGRAMS = ("redis-server", "haproxy", "initdb", "postgres")


class ProgramMissing(Exception):
    """A server that is not installed."""


def find_program(name: str) -> str:
    """Debian's package of Postgres installs outside PATH. Raises `ProgramMissing`."""
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin") or (str(installed[-1]) if installed else None)
    if found is None:
        raise ProgramMissing(f"{name} is not installed")
    return found


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def run_process(command: Sequence[str], log: Path, *, until: int = 0, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process while the block runs, which has bound the port `until` before it begins."""
    with log.open("ab") as output:
        process = subprocess.Popen([*command], stdin=subprocess.DEVNULL, stdout=output, stderr=output, **options)
    try:
        if until:
            _wait_for_port(until, process, log)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    ends_at = time.monotonic() + STARTED_WITHIN_S
    while time.monotonic() < ends_at:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended: {log.read_text(errors='replace')[-2_000:]}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise TimeoutError(f"{process.args!r} did not start")


@contextmanager
def postgres_server() -> Iterator[str]:
    """The address of an empty database; the server refuses to run as root."""
    initdb, postgres = find_program("initdb"), find_program("postgres")
    user = "nobody" if os.getuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="outrider-postgres-"))
    if user:
        shutil.chown(folder, user)
    port, options = free_port(), {"user": user, "cwd": folder}
    try:
        subprocess.run(
            [initdb, "-D", f"{folder}/data", "-U", "me", "--auth=trust", "--no-sync"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options,  # type: ignore[call-overload]
        )  # fmt: skip
        command = [
            postgres,
            "-D",
            f"{folder}/data",
            "-h",
            "127.0.0.1",
            "-p",
            str(port),
            "-k",
            str(folder),
            "-F",
            "-c",
            "max_connections=200",
        ]
        with run_process(command, folder / "log", until=port, **options):
            time.sleep(0.5)  # it listens before it answers
            yield f"postgresql://me:s3cret@127.0.0.1:{port}/postgres"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    port = free_port()
    command = [find_program("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with run_process([*command, "--dir", str(folder)], folder / "redis.log", until=port):
        yield f"redis://127.0.0.1:{port}/0"


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """One `outrider serve`."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_until_ready(self) -> None:
        ends_at = time.monotonic() + STARTED_WITHIN_S
        while time.monotonic() < ends_at:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended: {self.log.read_text(errors='replace')[-2_000:]}")
            try:
                with urlopen(f"{self.url}/readyz", timeout=30):
                    return
            except HTTPError as error:
                error.close()
            except OSError:
                pass
            time.sleep(0.1)
        raise TimeoutError(f"{self.name} was not ready: {self.log.read_text(errors='replace')[-2_000:]}")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def outrider_servers(
    names: Sequence[str], settings: Mapping[str, Any], folder: Path, environ: Mapping[str, str] | None = None
) -> Iterator[list[ServerProcess]]:
    """Processes with one settings file, started at once; they need not be ready yet."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "settings.yaml"
    path.write_text(yaml.safe_dump(dict(settings)), encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
    own = {**inherited, "XDG_DATA_HOME": str(folder / "data"), "XDG_CACHE_HOME": str(folder / "cache"), **(environ or {})}
    with ExitStack() as stack:
        servers = []
        for name in names:
            port, log = free_port(), folder / f"{name}.log"
            command = [sys.executable, "-m", "outrider", "--config", str(path), "serve", "--host", "127.0.0.1", "--port", str(port)]
            process = stack.enter_context(run_process(command, log, env=own, cwd=folder))
            servers.append(ServerProcess(name, port, process, log))
        yield servers


@contextmanager
def haproxy(servers: Sequence[ServerProcess], folder: Path, **replacements: str) -> Iterator[str]:
    """`deploy/haproxy.cfg` before these servers; the address of the proxy. `replacements` change further words of the file."""
    port = free_port()
    lines = "\n".join(f"    server {server.name} 127.0.0.1:{server.port}" for server in servers)
    text = (ROOT / "deploy" / "haproxy.cfg").read_text(encoding="utf-8")
    text = re.sub(r"    server-template .*", lines, text).partition("resolvers docker")[0].replace("bind :8080", f"bind 127.0.0.1:{port}")
    for old, new in replacements.items():
        text = text.replace(old, new)
    path = folder / f"haproxy-{port}.cfg"
    path.write_text(text, encoding="utf-8")
    with run_process([find_program("haproxy"), "-W", "-db", "-f", str(path)], folder / "haproxy.log", until=port):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def nginx(servers: Sequence[ServerProcess], folder: Path) -> Iterator[str]:
    """`deploy/nginx.conf` before these servers; the address of the proxy."""
    port = free_port()
    lines = "\n".join(f"        server 127.0.0.1:{server.port} max_fails=1 fail_timeout=2s;" for server in servers)
    text = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    text = re.sub(r"        server outrider:8000 .*", lines, text).replace("listen 8080", f"listen 127.0.0.1:{port}")
    path = folder / f"nginx-{port}.conf"
    path.write_text(text, encoding="utf-8")
    where = f"daemon off; pid {folder}/nginx-{port}.pid; error_log stderr;"
    with run_process([find_program("nginx"), "-p", str(folder), "-c", str(path), "-g", where], folder / "nginx.log", until=port):
        yield f"http://127.0.0.1:{port}"
