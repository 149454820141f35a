"""A Ray cluster of three nodes with one CPU each, one for all tests of a session."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from bench.ray_nodes import RayCluster, start_cluster

__all__ = ("RayCluster", "ray_cluster", "start_cluster")


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    pytest.importorskip("ray", reason="needs ray: pip install 'outrider[cluster]'")
    before = os.environ.get("PYTHONPATH")
    cluster = start_cluster()
    yield cluster
    cluster.close()
    if before is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = before
