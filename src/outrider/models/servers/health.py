"""Health of the servers of one model: time limits for silent ones, and reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SLOW_FACTOR = 10.0
"""A server that takes this many times longer than the others counts as one that hangs."""
SMOOTHING = 0.2
"""Weight of the last response time in the usual one."""


@dataclass(frozen=True, slots=True)
class ServerReport:
    """One server for people: its name, and why it is left out; empty if it is used."""

    name: str
    problem: str


def choose_patience_s(others_s: Sequence[float], least_s: float, most_s: float) -> float:
    """How long to wait for a server: a multiple of the usual times of the others; `most_s` without others, or if one is unknown (0)."""
    return min(most_s, max(least_s, SLOW_FACTOR * max(others_s))) if others_s and all(others_s) else most_s


def smooth(usual_s: float, took_s: float) -> float:
    """The usual time after one more response; 0 before the first."""
    return usual_s + SMOOTHING * (took_s - usual_s) if usual_s else took_s
