"""What a service's headers say of when it may be asked again.

Who may ask a service when: its limit, as the service itself counts, and a pause for one that says so or fails again and again.

Used on the background loop only (`Caller` sees to it), so that one limit holds for all searches of the process, whatever their loops.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import cache
from math import isfinite

from outrider.sources.http.service import Service
from outrider.state.errors import RateLimited, SourceError, SourceUnavailable

LONGEST_S = 86_400.0
"""However much longer a service says: no budget of theirs is for more than a day, and a slip of theirs must not be kept for ever."""
EPOCH_FROM = 1e9
"""What is larger is a time, in seconds since the epoch; what is smaller is how many seconds are left."""


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Retry-After, in seconds or as a date (RFC 9110 §10.2.3); None where it says nothing that can be read."""
    said = headers.get("retry-after", "").strip()
    if (seconds := _number(said)) is not None:
        return _bounded(seconds) if seconds >= 0 else None
    try:
        at = parsedate_to_datetime(said)
        return _bounded((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now)
    except (ValueError, OverflowError, IndexError):
        return None


def renewed_in_s(headers: Mapping[str, str], now: float) -> float | None:
    """When a budget that is used up is renewed; None where it is not used up, or where that is not told.

    `x-ratelimit-reset` is the time at GitHub ("Rate limits for the REST API"), the seconds left at OpenAlex ("Rate limits").
    """
    remaining, reset = (_number(headers.get(f"x-ratelimit-{name}", "")) for name in ("remaining", "reset"))
    if remaining is None or remaining > 0 or reset is None:
        return None
    return _bounded(reset - now if reset > EPOCH_FROM else reset)


def _bounded(seconds: float) -> float:
    return min(LONGEST_S, max(0.0, seconds))


def _number(said: str) -> float | None:
    try:
        number = float(said)
    except ValueError:
        return None
    return number if isfinite(number) else None


TRANSIT_S = 0.25
"""What a request may need to arrive: its host's name looked up, a connection made, the way there."""
FAILURES = 5
"""In a row, after which a service is left alone ..."""
PAUSE_S = 30.0
"""... for so long; then one request finds out."""


class Window:
    """At most `most` requests arrive in any `per_s` seconds: a turn comes back `per_s` after its request was answered, or after it
    was written and `TRANSIT_S`, where the answer takes longer. What was never written counts until its turn was left.

    A leaky bucket such as aiolimiter's lets a burst go and refills at once: of 10 a minute, 19 in the first, which GitHub refuses.
    """

    def __init__(self, most: int, per_s: float) -> None:
        self.most, self.per_s = most, per_s
        self._turns = asyncio.Semaphore(most)  # first come, first served
        self._went: deque[float] = deque(maxlen=most)
        self._ahead = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Going]:
        """Waits for a turn; one that is left before the request goes is free at once."""
        self._ahead += 1
        try:
            await self._turns.acquire()
        except BaseException:
            self._ahead -= 1
            raise
        going, answered = Going(self, asyncio.get_running_loop()), False
        try:
            yield going
            answered = True
        finally:
            going.left(answered=answered)

    def went(self, at_s: float) -> None:
        self._ahead -= 1
        self._went.append(at_s)

    def free(self, *, unused: bool = False) -> None:
        """A turn is to be had again; `unused` where nothing went."""
        self._ahead -= unused
        self._turns.release()

    def left(self) -> int:
        """Turns that nobody has had or waits for."""
        gone_by = asyncio.get_running_loop().time() - self.per_s
        return max(0, self.most - self._ahead - sum(at > gone_by for at in self._went))

    def wait_s(self) -> float:
        """How long one who comes now waits at least, unless somebody before them gives up."""
        periods, behind = 1, len(self._went) + self._ahead - self.most  # behind whom they come: that one's turn they get
        while behind >= len(self._went):
            periods, behind = periods + 1, behind - self.most
        now = asyncio.get_running_loop().time()
        first_s = max(0.0, self._went[behind] + self.per_s - now) if behind >= 0 else 0.0
        return first_s + (periods - 1) * self.per_s


@dataclass(slots=True)
class Going:
    """One request on its way: when it goes, when it is written, when its turn is left."""

    window: Window
    loop: asyncio.AbstractEventLoop
    gone: bool = False
    _back: asyncio.TimerHandle | None = None

    def go(self) -> None:
        """It is about to be asked: from here on it counts."""
        self.gone = True
        self.window.went(self.loop.time())

    def written(self) -> None:
        """It leaves this process: on a busy machine later than it went, and a second time where the first connection was dead."""
        self._comes_back(TRANSIT_S)

    def left(self, *, answered: bool) -> None:
        """What was answered has arrived. What was given up without being written may have been on its way out."""
        if not self.gone:
            self.window.free(unused=True)
        elif self._back is None or (answered and self._back.when() > self.loop.time() + self.window.per_s):
            self._comes_back(0.0 if answered else TRANSIT_S)

    def _comes_back(self, arrives_in_s: float) -> None:
        if self._back:
            self._back.cancel()
        self._back = self.loop.call_later(arrives_in_s + self.window.per_s, self.window.free)


@dataclass(slots=True)
class Turn:
    """Who may ask one service when."""

    window: Window
    places: asyncio.Semaphore
    """One for each request under way at a time."""
    now: Callable[[], float] = time.time
    closed_until: float = 0.0
    """By what the service said, in seconds since the epoch."""
    _failures: int = 0
    _failed_at: float = 0.0
    _last: SourceError | None = field(default=None, repr=False)
    _finding_out: bool = False

    @asynccontextmanager
    async def taken(self, service: Service, within_s: float) -> AsyncIterator[Callable[[], None]]:
        """Waits its turn, and gives what is to be called when the request is written.

        Raises `RateLimited` as soon as it is clear that none comes within `within_s`, `SourceUnavailable` while the service is left
        alone.
        """
        until = self.now() + within_s
        self._closed_s(service, until)
        self._used_up(service, until)
        try:
            async with asyncio.timeout(max(within_s, 0.0)) as limit, self.window.turn() as going, self.places:
                while (wait_s := self._closed_s(service, until)) > 0:  # noqa: ASYNC110 - it may be closed again meanwhile
                    await asyncio.sleep(wait_s)
                limit.reschedule(None)
                with self._circuit():
                    going.go()
                    yield going.written
        except TimeoutError as error:
            if not limit.expired():
                raise
            held_up = f"{service.name}: its turn did not come within {max(within_s, 0.0):.3g} s; try again"
            raise RateLimited(held_up, self.now() + self.window.per_s) from error

    def close(self, until: float) -> None:
        """Nobody asks before that time, in seconds since the epoch."""
        self.closed_until = max(self.closed_until, until)

    def failed(self, error: SourceError) -> None:
        self._failures, self._failed_at, self._last = self._failures + 1, self.now(), error

    def answered(self) -> None:
        """Whatever it said: it is there."""
        self._failures = 0

    def _closed_s(self, service: Service, until: float) -> float:
        """How long nobody may ask it. Raises where that is longer than until then."""
        self._left_alone(service)
        left_s = self.closed_until - self.now()
        if left_s > 0 and self.closed_until > until:
            raise RateLimited(f"{service.name} has asked not to be asked for another {left_s:,.0f} s; try again then", self.closed_until)
        return left_s

    def _used_up(self, service: Service, until: float) -> None:
        wait_s = self.window.wait_s()
        turn_at = self.now() + wait_s
        if wait_s > 0 and turn_at > until:
            raise RateLimited(
                f"{service.name}: its limit of {service.requests:g} requests in {service.per_s:g} s is used up; "
                f"try again in {wait_s:,.1f} s",
                turn_at,
            )

    def _left_alone(self, service: Service) -> None:
        since_s = self.now() - self._failed_at
        if self._failures < FAILURES or (since_s >= PAUSE_S and not self._finding_out):
            return
        kind = RateLimited if isinstance(self._last, RateLimited) else SourceUnavailable
        left_s = max(1.0, PAUSE_S - since_s)
        raise kind(
            f"{service.name} failed {self._failures} times in a row and is left alone; try again in {left_s:.0f} s. Its last failure: "
            f"{self._last}",
            self.now() + left_s,
        )

    @contextmanager
    def _circuit(self) -> Iterator[None]:
        """After the pause one request finds out, and nobody else asks until it knows."""
        finding_out = self._failures >= FAILURES
        self._finding_out |= finding_out
        try:
            yield
        finally:
            self._finding_out &= not finding_out


def turn_of(service: Service) -> Turn:
    """The process's own for this service under these limits."""
    return _turn(service.name, service.base_url, service.requests, service.per_s, service.at_once)


@cache
def _turn(_name: str, _base_url: str, requests: float, per_s: float, at_once: int) -> Turn:
    window = Window(int(requests), per_s) if requests >= 1 else Window(1, per_s / requests)
    return Turn(window, asyncio.Semaphore(at_once))
