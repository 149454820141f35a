from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outrider.cluster.session import open_cluster
from outrider.cluster.tasks import TaskCrashed, run_task, run_tasks
from outrider.settings.model import ClusterSettings
from outrider.state.errors import ClusterError, MissingExtra, SettingsError, UnreadableFile
from support.ray_cluster import RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def settings(cluster: RayCluster) -> ClusterSettings:
    return ClusterSettings(address=cluster.address)


def double(number: int) -> int:
    return 2 * number


def refuse(path: str) -> None:
    raise UnreadableFile(f"{path} is refused")


def miss(_: int) -> None:
    raise MissingExtra("a worker", "models")


def die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def wait_for_file(numbers: tuple[str, int]) -> int:
    folder, number = numbers
    Path(folder, f"begun-{number}-{os.getpid()}").touch()
    while not Path(folder, "go").exists():
        time.sleep(0.02)
    return number


async def test_results_come_in_the_order_of_the_items(ray_cluster: RayCluster) -> None:
    async with open_cluster(settings(ray_cluster)) as cluster:
        assert [result async for result in run_tasks(cluster, double, range(12), at_once=3)] == [2 * number for number in range(12)]


async def test_expected_errors_of_workers_keep_their_type_and_text(ray_cluster: RayCluster) -> None:
    async with open_cluster(settings(ray_cluster)) as cluster:
        with pytest.raises(UnreadableFile, match=r"^a.pdf is refused$"):
            await run_task(cluster, refuse, "a.pdf", cpus=0)
        with pytest.raises(MissingExtra, match="a worker needs packages"):
            await run_task(cluster, miss, 1, cpus=0)


async def test_an_item_that_kills_its_process_is_given_up(ray_cluster: RayCluster) -> None:
    async with open_cluster(settings(ray_cluster)) as cluster:
        with pytest.raises(TaskCrashed, match="died 3 times"):
            await run_task(cluster, die, 1, cpus=0)
        assert await run_task(cluster, double, 4) == 8


async def test_the_death_of_a_node_costs_no_result(ray_cluster: RayCluster, tmp_path: Path) -> None:
    """Each item is begun once on each of the three nodes before one of them is killed."""

    def count_begun() -> int:
        return len(list(tmp_path.glob("begun-*")))

    async def kill() -> None:
        async with asyncio.timeout(60):
            while await asyncio.to_thread(count_begun) < 3:  # noqa: ASYNC110 - other processes write the files
                await asyncio.sleep(0.05)
        ray_cluster.kill_node()
        await asyncio.to_thread((tmp_path / "go").touch)

    async with open_cluster(settings(ray_cluster)) as cluster:
        killing = asyncio.create_task(kill())
        items = [(str(tmp_path), number) for number in range(6)]
        assert [result async for result in run_tasks(cluster, wait_for_file, items)] == list(range(6))
        await killing


async def test_an_address_where_nobody_listens_is_an_error_at_once() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"no Ray cluster answers at {address}"):
            async with open_cluster(ClusterSettings(address=address)):
                pass


@pytest.mark.parametrize(("address", "problem"), [("ray://head:10001", "Ray Client"), ("head:port", "no address")])
async def test_wrong_addresses_are_named(address: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        async with open_cluster(ClusterSettings(address=address)):
            pass


def test_a_port_of_something_else_ends_at_the_time_limit() -> None:
    """In a process of its own: what Ray leaves behind in it would end the tests."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        code = (
            "import asyncio\nfrom outrider.cluster.session import open_cluster\nfrom outrider.settings.model import ClusterSettings\n"
            f"cluster = open_cluster(ClusterSettings(address='{address}', connect_s=3))\nasyncio.run(cluster.__aenter__())"
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False)
    assert "did not answer within 3 s (cluster.connect_s)" in ended.stderr


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)

    async def connect() -> None:
        async with open_cluster(ClusterSettings()):
            pass

    with pytest.raises(MissingExtra, match=r"outrider\[cluster\]|\[cluster\]"):
        asyncio.run(connect())
