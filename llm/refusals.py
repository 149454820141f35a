"""What to make of a server that refuses: ask in another way, in other words, later, or not at all."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from outrider.llm.provider import Endpoint
from outrider.llm.ways import Learnt, Way
from outrider.state.errors import ChatUnavailable, KeyRejected

PAUSE_S = 1.0
"""Before another try where a busy server does not say how long."""
SHORT_PAUSE_S = 0.25
"""Before another try where a server failed."""
OF_WAY = re.compile(
    r"response_format|json_schema|json_object|schema|\btools?\b|tool_choice|function|structured|grammar|strict", re.IGNORECASE
)
OF_SIZE = re.compile(r"context.{0,20}(?:length|window|size)|too (?:long|many tokens)|maximum.{0,20}tokens", re.IGNORECASE)
OF_MODEL = re.compile(r"model\b.{0,80}(?:not (?:found|exist|available|supported|served)|does not exist)|no such model", re.IGNORECASE)
SPELLINGS = {"length": ("max_completion_tokens", "max_tokens")}


class Refused(Exception):
    """An answer with another status than 200; what it says is cut and holds no secret once it is `judged`."""

    def __init__(self, status: int, headers: Mapping[str, str], param: str, code: str, message: str) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.headers = headers
        self.param = param
        self.code = code
        self.message = message


class Unreadable(Exception):
    """An answer that is no chat completion, or none that is read."""


class NotThisWay(Exception):
    """The endpoint does not take this way of asking for structure."""


class Reworded(Exception):
    """It does not take one of our options; the next call is without it."""


class Pause(Exception):
    """It may take the same call after so many seconds; `closes` where it wants no other call before, either.

    `of_way` where the way of asking may be the cause, if it comes again: a server may fail over one schema and take another.
    """

    def __init__(self, seconds: float, why: str, *, closes: bool = False, of_way: bool = False) -> None:
        super().__init__(why)
        self.seconds = seconds
        self.closes = closes
        self.of_way = of_way


def judged(refused: Refused, said: str, endpoint: Endpoint, learnt: Learnt, way: Way, sent: Mapping[str, int]) -> Exception:
    """What to raise. `said` are the server's words as they may be shown, `sent` the steps of our options in this call.

    Changes `learnt` where an option is refused.
    """
    status, works = refused.status, way is learnt.works
    told = f"{endpoint.name} answers {status}: {said}" if said else f"{endpoint.name} answers {status}"
    if status in {401, 403}:
        return KeyRejected(f"{endpoint.name} rejects the key ({status}: {said}); set llm.api_key, or the variable that holds the key")
    if status == 402 or refused.code == "insufficient_quota":
        return ChatUnavailable(f"{endpoint.name} has no credit left for this key ({status}: {said}); top it up or name another model")
    if status in {408, 409, 429} or status > 501:
        return _later(refused)
    if status in {400, 413, 422} and OF_SIZE.search(refused.message):
        return ChatUnavailable(told)
    if status in {400, 422} and _stepped(refused, endpoint, learnt, sent):
        return Reworded()
    if status in {500, 501}:
        return Pause(SHORT_PAUSE_S, f"failed ({status}: {said})", of_way=True) if works else NotThisWay(told)
    if OF_WAY.search(f"{refused.param} {refused.message}"):
        return NotThisWay(told)
    if status in {400, 422} and not works and not OF_MODEL.search(refused.message):
        return NotThisWay(told)
    hint = "; the model is not served there, or llm.base_url is not its OpenAI address (.../v1)" if status == 404 else ""
    return ChatUnavailable(told + hint)


def _stepped(refused: Refused, endpoint: Endpoint, learnt: Learnt, sent: Mapping[str, int]) -> bool:
    """Whether it complains about one of our options, which then takes its next value; once for calls that were under way together."""
    for option, values in endpoint.options.items():
        names = SPELLINGS.get(option, (option,))
        step = sent.get(option, 0)
        if step + 1 < len(values) and (refused.param in names or any(name in refused.message for name in names)):
            learnt.steps[option] = max(step + 1, learnt.steps.get(option, 0))
            return True
    return False


def _later(refused: Refused) -> Pause:
    pause_s = retry_after_s(refused.headers, time.time())
    if pause_s is None:
        pause_s = PAUSE_S if refused.status == 429 else SHORT_PAUSE_S
    return Pause(pause_s, f"is busy or failed ({refused.status})", closes=refused.status in {429, 503})


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """`Retry-After` in seconds or as a date (RFC 9110, 10.2.3), or OpenAI's `retry-after-ms`; None where it says nothing that is read."""
    try:
        in_ms = headers.get("retry-after-ms")
        seconds = float(in_ms) / 1000 if in_ms else float(headers.get("retry-after", ""))
    except ValueError:
        try:
            seconds = parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
