"""Rules for polite crawling: robots.txt (RFC 9309) and pauses between requests to one host

In robots.txt the longest matching rule decides, `*` and `$` have their meaning, and Crawl-delay is honoured. `urllib.robotparser`
applies the first matching rule and does not support wildcards, so it would fetch what `Disallow: /*?` forbids.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from outrider.state.errors import RateLimited, SourceError

NAME = "outrider"
"""Outrider's product token."""
MOST_BYTES = 500 * 1024
"""Bytes of robots.txt that are read (RFC 9309 §2.5)."""
ESCAPE = re.compile(r"%([0-9a-fA-F]{2})")
UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
MOST_HOSTS = 10_000
"""Hosts in memory; the least recently requested ones are dropped."""
FIRST_PAUSE_S, MAX_PAUSE_S = 30.0, 900.0
"""Pause after the first of several failures in a row; it doubles with each, up to the second value."""


def pause_after(failures: int) -> float:
    """Seconds to leave alone what has failed so often in a row: a browser, or a host that it cannot reach."""
    return min(MAX_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures - 1, 10))


@dataclass(slots=True)
class _Host:
    next_s: float = 0.0
    """By `time.monotonic`."""
    closed_until: float = 0.0
    why: str = ""
    kind: type[SourceError] = RateLimited


@dataclass(slots=True)
class HostSchedule:
    """When each host may be requested next: after a gap, and after a pause that it requested. On the background loop only."""

    clock: Callable[[], float] = time.time
    _hosts: OrderedDict[str, _Host] = field(default_factory=OrderedDict)

    async def wait_turn(self, host: str, gap_s: float, until_s: float) -> None:
        """Wait until the host may be requested.

        Raises `RateLimited` if that is later than `until_s` (`time.monotonic`), and the error of `close` while the host is closed.
        """
        known = self._host(host)
        if self.clock() < known.closed_until:
            raise known.kind(f"{host} is skipped: {known.why}", known.closed_until)
        now_s = time.monotonic()
        at_s = max(now_s, known.next_s)
        if at_s >= until_s:
            raise RateLimited(f"{host} is requested once in {gap_s:g} s, and other requests came first", self.clock() + at_s - now_s)
        known.next_s = at_s + gap_s
        await asyncio.sleep(at_s - now_s)

    def close(self, host: str, until: float, why: str, kind: type[SourceError] = RateLimited) -> None:
        """Send nothing before that time, in seconds since the epoch."""
        known = self._host(host)
        known.closed_until, known.why, known.kind = max(known.closed_until, until), why, kind

    def is_closed(self, host: str) -> bool:
        return self.clock() < self._host(host).closed_until

    def open(self, host: str) -> None:
        """Requests may be sent again."""
        self._host(host).closed_until = 0.0

    def _host(self, host: str) -> _Host:
        if host not in self._hosts and len(self._hosts) >= MOST_HOSTS:
            self._hosts.popitem(last=False)
        self._hosts.setdefault(host, _Host())
        self._hosts.move_to_end(host)
        return self._hosts[host]


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """The rules of one host. `refusing` is the reason if everything is forbidden: its file exists but cannot be read."""

    patterns: tuple[tuple[str, bool], ...] = ()
    """Path patterns, each with True for allow and False for disallow."""
    delay_s: float = 0.0
    refusing: str = ""

    def allow(self, url: str) -> bool:
        """Whether a link to this host may be fetched. Of two rules of equal length the one that allows wins."""
        if self.refusing:
            return False
        parts = urlsplit(url)
        path = _normalize_path((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
        matches = [(len(pattern), allows) for pattern, allows in self.patterns if _matches(pattern, path)]
        return max(matches, default=(0, True))[1]


def parse_robots(text: str, name: str = NAME) -> RobotsRules:
    """The rules of the groups with this name, else of those for every crawler."""
    groups = list(_groups(text))
    ours = [lines for agents, lines in groups if name in agents] or [lines for agents, lines in groups if "*" in agents]
    lines = [line for group in ours for line in group]
    patterns = ((_normalize_path(value), key == "allow") for key, value in lines if key in {"allow", "disallow"} and value)
    delays = (float(value) for key, value in lines if key == "crawl-delay" and re.fullmatch(r"\d{1,4}(\.\d{1,3})?", value))
    return RobotsRules(tuple(dict.fromkeys(patterns)), max(delays, default=0.0))


def _groups(text: str) -> Iterator[tuple[set[str], list[tuple[str, str]]]]:
    """Product tokens in lower case, and the lines of their group."""
    agents: set[str] = set()
    lines: list[tuple[str, str]] = []
    for line in text.lstrip("\ufeff").splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        key, value = key.strip().lower(), value.strip()
        if not colon:
            continue
        if key == "user-agent":
            if lines:
                yield agents, lines
                agents, lines = set(), []
            agents.add(re.split(r"[/\s]", value.lower(), maxsplit=1)[0])
        elif agents and key in {"allow", "disallow", "crawl-delay"}:
            lines.append((key, value))
    yield agents, lines


def _normalize_path(path: str) -> str:
    """Canonical form of a path: unreserved characters plain, all others escaped in upper case (RFC 9309 §2.2.2)."""
    escaped = quote(path, safe="%/?:@!$&'()*+,;=-._~[]#")
    return ESCAPE.sub(lambda escape: char if (char := chr(int(escape[1], 16))) in UNRESERVED else escape.group().upper(), escaped)


def _matches(pattern: str, path: str) -> bool:
    """Linear time for every pattern: each part after a star matches at its first occurrence."""
    ends = pattern.endswith("$")
    first, *parts = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    last = parts.pop() if parts else None
    for part in parts:
        start = path.find(part, at)
        if start < 0:
            return False
        at = start + len(part)
    if last is None:
        return not ends or at == len(path)
    return path.endswith(last) and len(path) - len(last) >= at if ends else path.find(last, at) >= 0
