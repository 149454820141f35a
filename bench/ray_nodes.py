"""A Ray cluster of nodes with one CPU each on this machine, which can be killed, and commands on it"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.slow_embeddings import SlowEmbeddings, serve_embeddings

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
HEALTH = {"health_check_period_ms": 1_000, "health_check_timeout_ms": 2_000, "health_check_failure_threshold": 3}
"""A node that was killed counts as dead after some five seconds, not thirty as by default."""
ROOT = Path(__file__).resolve().parents[1]
WAIT_S = 900.0
"""For a command to end."""


@dataclass
class RayCluster:
    """Nodes can be killed and replaced; the head node stays.

    Call it on the main thread: Linux ends the processes of a node when the thread ends that started them.
    """

    cluster: Any

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def kill_node(self) -> None:
        """End a node at once, and add another one."""
        self.remove_node()
        self.add_node()

    def remove_node(self) -> None:
        self.cluster.remove_node(self.cluster.list_all_nodes()[-1], allow_graceful=False)

    def add_node(self) -> None:
        self.cluster.add_node(num_cpus=1)

    def close(self) -> None:
        self.cluster.shutdown()


def start_cluster(nodes: int = 3) -> RayCluster:
    """Its workers find this Outrider and the tests' own modules."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster

        folders = (str(ROOT / "src"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", ""))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
        head = {"num_cpus": 1, "include_dashboard": False, "_system_config": HEALTH}
        cluster = RayCluster(Cluster(initialize_head=True, head_node_args=head))
        for _ in range(nodes - 1):
            cluster.add_node()
    return cluster


@dataclass(frozen=True, slots=True)
class Scene:
    """What the runs of a benchmark share."""

    folder: Path
    cluster: RayCluster
    server: SlowEmbeddings

    def start(self, *command: str | Path, embedders: int) -> subprocess.Popen[bytes]:
        """A command of Outrider: on Ray with this number of actors, in one process with 0."""
        settings = {
            "OUTRIDER_EMBEDDING__BASE_URL": self.server.url,
            "OUTRIDER_EMBEDDING__MODEL_NAME": "slow",
            "OUTRIDER_SOURCES__OFFLINE": "true",
            "OUTRIDER_CLUSTER__EMBEDDERS": str(embedders),
        }
        on = ["--on", "ray", "--address", self.cluster.address] if embedders else []
        words = [sys.executable, "-m", "outrider", *map(str, command), "--json", *on]
        return subprocess.Popen(words, env=os.environ | settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@contextmanager
def make_scene(row_s: float) -> Iterator[Scene]:
    """A cluster, and an embedding server that waits so long for each row."""
    with tempfile.TemporaryDirectory(prefix="outrider-ray-") as name, serve_embeddings(row_s) as server:
        cluster = start_cluster()
        try:
            yield Scene(Path(name), cluster, server)
        finally:
            cluster.close()


def finish(command: subprocess.Popen[bytes]) -> bytes:
    """Its answer. Raises `RuntimeError` for a command that fails."""
    answer, errors = command.communicate(timeout=WAIT_S)
    if command.returncode:
        raise RuntimeError(f"the command ended with {command.returncode}: {errors.decode(errors='replace')[-2_000:]}")
    return answer
