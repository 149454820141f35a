"""A billion records on paper: nodes, memory, requests and cost from measured growth, and simulated latency of the fan-out.

The sizes and CPU times of one partition come from `growth_measured.json` (`bench.growth`); everything else is an assumption with a name
and a value. A query that no cache answers goes to every partition that its layout asks, to one of the partition's replicas: the one with
fewer queries of two drawn at random. Each replica is a queue before its cores (first come, first served); the slowest partition decides.
With hedging, a partition that is late is asked again at another replica, and the first answer counts.
"""

from __future__ import annotations

import heapq
import json
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bench.growth import MEASURED, Measured, extrapolate
from bench.report import Cell, Report

HOURS = 730
"""Of a month."""
SECONDS = HOURS * 3_600
GIB = 2**30
COLUMNS = (
    "layout", "records a partition", "partitions", "CPU s a query", "cores", "nodes", "hot GiB a node", "TB stored",
    "thousand $ a month", "GET in place, million a month", "thousand $ for them", "p50 ms", "p99 ms", "p99 ms hedged",
)  # fmt: skip
HOT = (
    "bytes: records, index of rank_text", "bytes: vectors, index of vector", "bytes: edges, rows", "bytes: edges, index of name",
    "bytes: edges, index of doc_id",
)  # fmt: skip
"""What ranked searches read all over; of the records themselves they read a hundred."""


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Prices are list prices of us-east-1 in 2026, without discounts: docs/scale.md names the sources."""

    records: float = 1e9
    queries_s: float = 1_000.0
    cached: float = 0.3
    """The share of queries that a cache of answers serves."""
    load: float = 0.5
    """The share of a node's cores that queries keep busy."""
    cores: int = 16
    memory_gib: float = 64.0
    memory_for_cache: float = 0.75
    node_hour: float = 0.6528
    """Dollars; eight times an m7g.large, 16 cores and 64 GiB."""
    stored_gb_month: float = 0.023
    disk_gb_month: float = 0.08
    """Of the copies on the nodes."""
    get_1000: float = 0.0004
    least_replicas: int = 2
    missed: float = 0.01
    """The share of a warm query's reads that would go to object storage without copies on the nodes' disks."""
    spread: float = 0.5
    """Standard deviation of the logarithm of a partition's time: a 95th percentile of 2.3 medians."""
    stragglers: float = 0.001
    straggler_factor: float = 10.0
    """Such as a compaction beside it, or pages that come from object storage."""
    network_s: float = 0.002
    merge_s: float = 0.000_05
    """Of one partition's first hundred, at the router."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which of the partitions a query asks, by strategy."""

    name: str
    words: float = 1.0
    """The share of all partitions."""
    vectors: float = 1.0
    graph: float = 1.0
    graph_partitions: float = 0.0
    """Instead of a share: as many partitions, whatever their number."""


LAYOUTS = (
    Layout("every strategy everywhere"),
    Layout("graph where its names are", graph=0.0, graph_partitions=4.0),
    Layout("vectors by topic", graph=0.0, graph_partitions=4.0, vectors=0.1),
    Layout("words and vectors by topic", graph=0.0, graph_partitions=4.0, vectors=0.1, words=0.1),
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a layout needs."""

    partitions: int
    cpu_s: float
    """Of one query, over all partitions."""
    nodes: int
    hot_gib: float
    """Of one node."""
    stored_tb: float
    dollars: float
    """Of a month: nodes, their disks with a copy of what they hold, and the object storage behind them."""
    gets: float
    """Of a month, if the nodes read object storage in place of copies."""
    get_dollars: float
    asked: int
    """Partitions that the widest strategy asks."""
    part_s: float
    """CPU of one partition's part of a query."""


def plan(measured: Sequence[Measured], layout: Layout, partition: float, given: Assumptions) -> Cluster:
    """The cluster that serves the load. The two largest measured sizes say how a partition grows."""
    one = extrapolate(measured, partition)
    partitions = math.ceil(given.records / partition)
    graph = layout.graph_partitions or layout.graph * partitions
    shares = {"words": layout.words * partitions, "vectors": layout.vectors * partitions, "graph": graph}
    cpu = {name: one[f"cpu ms: {name}, warm"] / 1_000 for name in shares}
    cpu_s = sum(count * cpu[name] for name, count in shares.items())
    asked = max(1, round(max(shares.values())))
    reached = given.queries_s * (1 - given.cached)
    cores = reached * cpu_s / given.load
    hot = sum(one[name] for name in HOT) * partitions
    for_memory = hot * given.least_replicas / (given.memory_gib * given.memory_for_cache * GIB)
    nodes = max(math.ceil(cores / given.cores), math.ceil(for_memory))
    stored = one["bytes: all"] * partitions
    gets = reached * SECONDS * given.missed * sum(count * one[f"reads: {name}, warm"] for name, count in shares.items())
    held = max(1.0, partitions * given.least_replicas / nodes)  # partitions of one node
    disks = held * nodes * one["bytes: all"]
    dollars = nodes * given.node_hour * HOURS + disks / 1e9 * given.disk_gb_month + stored / 1e9 * given.stored_gb_month
    return Cluster(
        partitions=partitions,
        cpu_s=cpu_s,
        nodes=nodes,
        hot_gib=held * hot / partitions / GIB,
        stored_tb=stored / 1e12,
        dollars=dollars,
        gets=gets,
        get_dollars=gets / 1_000 * given.get_1000,
        asked=asked,
        part_s=cpu_s / asked,
    )


@dataclass(slots=True)
class Simulated:
    """Answers of one partition: seconds from the arrival of each query, in the order of arrival."""

    latencies: list[float]
    in_system: float
    """Queries in the system, averaged over time."""
    busy: float
    """The share of the cores that was busy."""


@dataclass(slots=True)
class Replica:
    free: int
    """Cores."""
    load: int = 0
    """Queries that wait or are answered."""
    waiting: deque[tuple[int, float]] = field(default_factory=deque)


class Fleet:
    """The replicas of one partition, and the events before them."""

    def __init__(self, arrivals: Sequence[float], draw: Callable[[random.Random], float], replicas: int, cores: int, seed: int) -> None:
        self.replicas = [Replica(cores) for _ in range(replicas)]
        self.done = [-1.0] * len(arrivals)
        self.busy_s = self.now = 0.0
        self._draw, self._chance = draw, random.Random(seed)
        self._events: list[tuple[float, int, str, int, int]] = []
        self._count = 0
        for query, at in enumerate(arrivals):
            self._push(at, "arrive", query, -1)

    def run(self, hedge_s: float | None) -> None:
        while self._events:
            self.now, _, kind, query, place = heapq.heappop(self._events)
            if kind == "finish":
                self._finish(query, self.replicas[place], place)
            elif kind == "arrive":
                chosen = self._send(query)
                if hedge_s is not None and len(self.replicas) > 1:
                    self._push(self.now + hedge_s, "hedge", query, chosen)
            elif self.done[query] < 0:
                self._send(query, other_than=place)

    def _push(self, at: float, kind: str, query: int, place: int) -> None:
        self._count += 1
        heapq.heappush(self._events, (at, self._count, kind, query, place))

    def _send(self, query: int, other_than: int = -1) -> int:
        choices = [place for place in range(len(self.replicas)) if place != other_than]
        pair = self._chance.sample(choices, 2) if len(choices) > 1 else choices
        place = min(pair, key=lambda one: self.replicas[one].load)
        self.replicas[place].load += 1
        takes = self._draw(self._chance)
        if self.replicas[place].free:
            self._begin(query, place, takes)
        else:
            self.replicas[place].waiting.append((query, takes))
        return place

    def _begin(self, query: int, place: int, takes: float) -> None:
        self.busy_s += takes
        self.replicas[place].free -= 1
        self._push(self.now + takes, "finish", query, place)

    def _finish(self, query: int, replica: Replica, place: int) -> None:
        replica.free += 1
        replica.load -= 1
        if self.done[query] < 0:
            self.done[query] = self.now
        while replica.waiting and replica.free:
            following, takes = replica.waiting.popleft()
            if self.done[following] >= 0:  # another replica has answered
                replica.load -= 1
            else:
                self._begin(following, place, takes)


def simulate(
    arrivals: Sequence[float],
    draw: Callable[[random.Random], float],
    replicas: int,
    cores: int,
    hedge_s: float | None = None,
    seed: int = 0,
) -> Simulated:
    """The queues of one partition's replicas. A hedged query's later answer still takes its time, unless it has not begun."""
    fleet = Fleet(arrivals, draw, replicas, cores, seed)
    fleet.run(hedge_s)
    span = fleet.now - arrivals[0]
    latencies = [end - at for end, at in zip(fleet.done, arrivals, strict=True)]
    return Simulated(latencies, sum(latencies) / span, fleet.busy_s / (span * replicas * cores))


def draw_arrivals(rate: float, count: int, seed: int = 0) -> list[float]:
    """Times of a Poisson process."""
    chance, now, times = random.Random(seed), 0.0, []
    for _ in range(count):
        now += chance.expovariate(rate)
        times.append(now)
    return times


def make_draw(mean_s: float, given: Assumptions) -> Callable[[random.Random], float]:
    """A partition's time: log-normal with this mean, and stragglers."""
    centre = math.log(mean_s) - given.spread**2 / 2

    def draw(chance: random.Random) -> float:
        takes = chance.lognormvariate(centre, given.spread)
        return takes * given.straggler_factor if chance.random() < given.stragglers else takes

    return draw


def find_quantile_of_slowest(latencies: Sequence[float], asked: int, share: float) -> float:
    """Of the slowest of so many independent partitions: all of them are below it with the chance `share`."""
    ordered = sorted(latencies)
    return ordered[min(int(len(ordered) * share ** (1 / asked)), len(ordered) - 1)]


ARRIVALS = 40_000
ARRIVALS_A_PARTITION = 120
"""More where more partitions are asked: the 99th percentile of the slowest of 1,000 is that of one in 100,000."""
REPLICAS = 4
"""Simulated for one partition: more share its load in the same way."""
HEDGE_AT = 0.95
"""The quantile of a partition's time after which it is asked again."""


def simulate_cluster(cluster: Cluster, given: Assumptions, *, hedged: bool, seed: int = 0) -> tuple[float, float]:
    """Median and 99th percentile of a whole query, in seconds, at the load of the assumptions."""
    draw = make_draw(cluster.part_s, given)
    rate = given.load * given.cores * REPLICAS / cluster.part_s
    arrivals = draw_arrivals(rate, max(ARRIVALS, ARRIVALS_A_PARTITION * cluster.asked), seed)
    alone = simulate(arrivals, draw, REPLICAS, given.cores, seed=seed)
    if hedged:
        after = sorted(alone.latencies)[int(len(alone.latencies) * HEDGE_AT)]
        alone = simulate(arrivals, draw, REPLICAS, given.cores, after, seed)
    besides = 2 * given.network_s + cluster.asked * given.merge_s
    median, late = (find_quantile_of_slowest(alone.latencies, cluster.asked, share) for share in (0.5, 0.99))
    return median + besides, late + besides


def erlang_c(servers: int, offered: float) -> float:
    """The chance that a query waits in M/M/c, where `offered` is the arrival rate times the mean time (Erlang, 1917)."""
    inverse = 1.0
    for count in range(1, servers + 1):
        inverse = 1 + inverse * count / offered  # of Erlang's B formula
    blocked = 1 / inverse
    return blocked / (1 - offered / servers * (1 - blocked))


def find_mean_wait(servers: int, rate: float, mean_s: float) -> float:
    """Of M/M/c, in seconds."""
    offered = rate * mean_s
    return erlang_c(servers, offered) * mean_s / (servers - offered)


def read_measured() -> list[Measured]:
    """By size, smallest first."""
    sizes: list[Measured] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return sorted(sizes, key=lambda size: size["records"])


def run() -> Report:
    measured, given = read_measured(), Assumptions()
    rows = [_row(layout, size, plan(measured, layout, size, given), given) for layout in LAYOUTS for size in (1e6, 1e7)]
    small = replace(given, records=1e8, queries_s=100.0)
    further = [_row(LAYOUTS[-1], 1e7, plan(measured, LAYOUTS[-1], 1e7, small), small)]
    waits = [(load, simulate_load(load, hedged=False), simulate_load(load, hedged=True)) for load in (0.3, 0.5, 0.7, 0.85)]
    return Report(
        "scale_simulation",
        COLUMNS,
        tuple(rows),
        (f"{given.records:,.0f} records, {given.queries_s:,.0f} queries a second.",),
        (
            Report("a tenth of both", COLUMNS, tuple(further)),
            Report(
                "slowest of 100 partitions, by load",
                ("load", "p50", "p99", "p50 hedged", "p99 hedged"),
                tuple((load, *plain, *hedged) for load, plain, hedged in waits),
                ("Times in means of a partition's own time.",),
            ),
        ),
    )


def simulate_load(load: float, *, hedged: bool) -> tuple[float, float]:
    """Median and 99th percentile of the slowest of 100 partitions, in means of a partition's time."""
    given = replace(Assumptions(), load=load, network_s=0.0, merge_s=0.0)
    return simulate_cluster(Cluster(100, 1.0, 0, 0, 0, 0, 0, 0, asked=100, part_s=1.0), given, hedged=hedged)


def _row(layout: Layout, size: float, cluster: Cluster, given: Assumptions) -> tuple[Cell, ...]:
    median, late = simulate_cluster(cluster, given, hedged=False)
    _, hedged = simulate_cluster(cluster, given, hedged=True)
    cores = given.queries_s * (1 - given.cached) * cluster.cpu_s / given.load
    return (
        layout.name, int(size), cluster.partitions, cluster.cpu_s, int(cores), cluster.nodes, cluster.hot_gib, cluster.stored_tb,
        cluster.dollars / 1_000, int(cluster.gets / 1e6), cluster.get_dollars / 1_000, median * 1_000, late * 1_000, hedged * 1_000,
    )  # fmt: skip
