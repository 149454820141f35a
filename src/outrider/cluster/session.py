"""Session on a Ray cluster: connected or started, checked, and ended with all its work.

Nothing of Ray is imported before a session is opened. Ray itself waits for a minute or longer for an address where nobody answers, and
for ever for a worker that cannot start; here every wait has the time limit `cluster.connect_s`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import secrets
import socket
import warnings
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from outrider.runtime.threads_and_loops import finish, run_in_thread, run_isolated
from outrider.settings.model import ClusterSettings
from outrider.state.errors import ClusterError, MissingExtra, SettingsError
from outrider.version import __version__

ON_THIS_MACHINE = "local"
RUNNING = "auto"
CLIENT = "ray://"
PORT = 6379
"""Of a head node, unless its address names another one."""
AUTH_VARIABLES = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE")
PROBE_SHARE = 0.8
"""Of the time limit, for a host that does not answer at all: its own message is clearer than that of the limit."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # the default of coming versions, which else warn
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}
"""Variables of Ray that keep it from writing to the terminal, unless the user has set them."""


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cluster:
    """An open session."""

    ray: Any
    """The module."""
    address: str
    """For messages."""
    settings: ClusterSettings

    def count_cpus(self) -> int:
        """Of the nodes that are alive now, at least 1."""
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def count_gpus(self) -> int:
        return int(self.ray.cluster_resources().get("GPU", 0))


@asynccontextmanager
async def open_cluster(settings: ClusterSettings) -> AsyncIterator[Cluster]:
    """A session on the cluster of the settings. Its tasks and actors end with it, and a cluster that it started does, too.

    A process that has connected to Ray before keeps its own connection. Raises `MissingExtra`, `SettingsError`, `ClusterError`.
    """
    ray = await run_in_thread(_import_ray)
    address = settings.address or os.environ.get("RAY_ADDRESS", "") or ON_THIS_MACHINE
    shown = "this machine" if address == ON_THIS_MACHINE else "the running cluster" if address == RUNNING else address
    is_own = not ray.is_initialized()
    try:
        if is_own:
            await _within(partial(_connect, ray, address, settings.connect_s), settings.connect_s, f"Ray at {shown} did not answer")
        cluster = Cluster(ray, shown, settings)
        await _within(partial(_check_worker, cluster), settings.connect_s, f"no worker of Ray at {shown} began a task")
        yield cluster
    finally:
        if is_own and ray.is_initialized():
            await finish(asyncio.to_thread(ray.shutdown))


def _import_ray() -> Any:
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray
    except ModuleNotFoundError as error:
        raise MissingExtra("work on Ray (--on ray)", "cluster") from error
    # Ray 2.60 prints the death of a worker to standard output, whatever its options say; that belongs to the command's answer
    if hasattr(ray._private.worker, "print_to_stdstream"):  # noqa: SLF001
        ray._private.worker.print_to_stdstream = _log_message  # noqa: SLF001
    return ray


def _log_message(message: Mapping[str, Any], *_args: object, **_options: object) -> None:
    log.debug("Ray: %s", "\n".join(map(str, message.get("lines", ()))))


async def _within(work: Callable[[], None], seconds: float, problem: str) -> None:
    """On a thread that lives as long as the process: Linux ends the processes that Ray starts when the thread ends that started them."""

    async def call() -> None:
        work()

    try:
        (await run_isolated("ray", call, seconds)).result()
    except TimeoutError as error:
        raise ClusterError(f"{problem} within {seconds:g} s (cluster.connect_s); `ray status` shows the state of a cluster") from error


def _connect(ray: Any, address: str, connect_s: float) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL, "configure_logging": True}
    if address.startswith(CLIENT):
        raise SettingsError(
            f"cluster.address {address}: Ray Client cannot stream results; start the command on a machine of the cluster "
            "(`ray job submit`) and give the address HOST:PORT of its head node, or auto"
        )
    if address not in {ON_THIS_MACHINE, RUNNING}:
        address = _probe(address, connect_s)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if address not in {ON_THIS_MACHINE, RUNNING} and hasattr(ray._raylet, "GcsClient"):  # noqa: SLF001
                # raises where something else listens there, or wants a token; `ray.init` would end this process after a minute
                ray._raylet.GcsClient(address=address)  # noqa: SLF001
            if address == ON_THIS_MACHINE:
                _set_own_token()
                ray.init(address=ON_THIS_MACHINE, include_dashboard=False, **quiet)
            else:
                ray.init(address=address, **quiet)
    except ConnectionError as error:
        remedy = "start one (`ray start --head`), give --address HOST:PORT, or leave --address out to use this machine alone"
        raise ClusterError(f"no running Ray cluster was found on this machine ({RUNNING}); {remedy}") from error
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise ClusterError(f"Ray at {address} refuses the connection: {last_line(error)}") from error


def _probe(address: str, connect_s: float) -> str:
    """The address with its port. Raises `ClusterError` at once where nobody listens; `ray.init` would wait."""
    host, _, port = address.rpartition(":") if ":" in address else (address, "", str(PORT))
    if not port.isdecimal():
        raise SettingsError(f"cluster.address {address!r} is no address of a Ray cluster; write HOST:PORT, auto or local")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PROBE_SHARE * connect_s).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(
            f"no Ray cluster answers at {address}: {last_line(error)}; is it the address of the head node (`ray start --head` prints it)?"
        ) from error
    return f"{host}:{port}"


def _set_own_token() -> None:
    """A secret of this process alone. Else Ray would write one to the home folder, which may not be writable, and leave it there.

    Ray itself turns tokens on for a cluster that it starts, unless RAY_AUTH_MODE forbids it.
    """
    if not ((Path.home() / ".ray" / "auth_token").is_file() or any(name in os.environ for name in AUTH_VARIABLES)):
        os.environ[AUTH_VARIABLES[0]] = secrets.token_hex(32)  # it stays: a second session of the process presents it again


def _check_worker(cluster: Cluster) -> None:
    """Raise `ClusterError` unless a worker runs this Outrider on this Python: pickled records mean the same there."""
    ray = cluster.ray
    task = ray.remote(_read_versions).options(num_cpus=0, max_retries=3, scheduling_strategy="SPREAD")
    try:
        versions = ray.get(task.remote())
    except ray.exceptions.RayError as error:
        raise ClusterError(
            f"a worker of Ray at {cluster.address} cannot import Outrider ({last_line(error)}); install {__version__} on all nodes"
        ) from error
    own = _read_versions()
    if versions != own:
        names = " and Python ".join
        raise ClusterError(
            f"the nodes of Ray at {cluster.address} have Outrider {names(versions)}, this machine {names(own)}; make them equal"
        )


def _read_versions() -> tuple[str, str]:
    """Of Outrider and Python, without its last number."""
    return __version__, ".".join(platform.python_version_tuple()[:2])


def last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
