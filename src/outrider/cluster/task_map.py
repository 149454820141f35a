"""Where blocking work runs: in this process, or on the workers of a Ray cluster.

Nothing of the cluster is imported for work in this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from outrider.runtime.task_map import TaskMap, map_here
from outrider.state.errors import BadRequest


def check_on(on: str, address: str | None = None) -> bool:
    """Whether work runs on Ray. Raises `BadRequest` for a place of no known name, and for an address of a cluster that is not used."""
    if on not in {"", "ray"}:
        raise BadRequest(f"work runs on this machine or on ray, not on {on!r}")
    if address is not None and not on:
        raise BadRequest("--address belongs to --on ray, which is missing")
    return on == "ray"


@contextmanager
def open_task_map(on: str = "", address: str | None = None) -> Iterator[TaskMap]:
    """Where tasks run: in this process, or with `on="ray"` on the cluster at an address, by default that of the settings.

    Raises `BadRequest` for another place, and what `open_cluster` raises.
    """
    if not check_on(on, address):
        yield map_here
        return
    from outrider.cluster.ray_map import map_on_ray
    from outrider.settings.load import load

    with map_on_ray(load({"cluster.address": address}).settings.cluster) as tasks:
        yield tasks
