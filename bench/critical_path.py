"""Lower bound on the time of service calls, in parallel as far as the limits allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.fake_services import DETAILS, MODEL, PAGES, WEB
from bench.served import Call


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `requests` in `per_s` seconds, `at_once` at a time."""

    requests: float
    per_s: float
    at_once: int


LIMITS = {
    "github": Limit(30, 60, 25),
    DETAILS: Limit(5_000, 3_600, 25),
    "openalex": Limit(10, 1, 5),
    "semantic_scholar": Limit(1, 1, 5),
    "arxiv": Limit(1, 3, 1),
    "pubmed": Limit(10, 1, 5),
    "crossref": Limit(3, 1, 3),
    "serpapi": Limit(5, 10, 5),
    WEB: Limit(1, 2, 1),
    PAGES: Limit(10_000, 1, 10_000),
    MODEL: Limit(10_000, 1, 10),
}
"""For users with keys and a contact address; GitHub counts requests for single repositories separately."""
CHAINS = {"pubmed": 2, PAGES: 2}
"""Calls whose second one needs the first: PMIDs before articles, robots.txt before a page."""


def floor_s(calls: Sequence[Call]) -> float:
    """Lower bound for these calls in parallel: the time of the slowest service."""
    by_service: dict[str, list[float]] = {}
    for call in calls:
        by_service.setdefault(service_of(call), []).append(call.after_s)
    return max((_least_s(name, took_s) for name, took_s in by_service.items()), default=0.0)


def service_of(call: Call) -> str:
    if len(call.parts) < 2:
        return PAGES  # robots.txt
    return DETAILS if call.parts[1:3] == ("github", "repos") else call.parts[1]


def _least_s(service: str, took_s: Sequence[float]) -> float:
    """Lower bound under the service's limits: the maximum, over n, of the time that the n slowest calls need."""
    limit, chained = LIMITS[service], max(took_s) * min(CHAINS.get(service, 1), len(took_s))
    slowest = enumerate(sorted(took_s, reverse=True))
    each = (max(least * (at // limit.at_once + 1), least + at // limit.requests * limit.per_s) for at, least in slowest)
    return max(chained, *each)
