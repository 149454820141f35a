"""What to make of a server that refuses: ask in another way, in other words, later, or not at all."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from outrider.models.chat.provider import Endpoint
from outrider.models.chat.structured_output_modes import Capabilities, OutputMode
from outrider.state.errors import ChatUnavailable

BUSY_PAUSE_S = 1.0
"""Before another try where a busy server does not say how long."""
SHORT_PAUSE_S = 0.25
"""Before another try where a server failed or broke the connection."""
MODE_WORDS = re.compile(
    r"response_format|json_schema|json_object|schema|\btools?\b|tool_choice|function|structured|grammar|strict", re.IGNORECASE
)
SIZE_WORDS = re.compile(r"context.{0,20}(?:length|window|size)|too (?:long|many tokens)|maximum.{0,20}tokens", re.IGNORECASE)
MODEL_WORDS = re.compile(r"model\b.{0,80}(?:not (?:found|exist|available|supported|served)|does not exist)|no such model", re.IGNORECASE)
KEY = r"api[ _-]?key|authentication|authori[sz]ation|credentials?|bearer"
WRONG = r"not (?:valid|have|allowed|permitted|authori[sz]ed)|invalid|incorrect|wrong|expired|missing|required|revoked|disabled|failed|error"
INVALID_KEY = re.compile(rf"(?:{KEY}).{{0,40}}?(?:{WRONG})|(?:{WRONG}).{{0,40}}?(?:{KEY})", re.IGNORECASE | re.DOTALL)
ACCESS_WORDS = re.compile(rf"{KEY}|\bkey\b|\btoken\b|authenticated|authori[sz]ed|permission", re.IGNORECASE)
CALL_WORDS = re.compile(
    r"\bmodels?\b|moderat|flagged|content.?(?:filter|management)|polic|safety|region|countr|firewall|cloudflare|been blocked", re.IGNORECASE
)
"""Why a 403 may be meant for one call, or for all of this model, whatever the key."""
KEY_MESSAGE_CHARS = 80
"""Characters of a message that can be said of the key: further on a server may quote what it was asked."""
SPELLINGS = {"length": ("max_completion_tokens", "max_tokens")}


class RequestRefused(Exception):
    """An answer with another status than 200; what it says is cut and holds no secret once it is `judged`."""

    def __init__(self, status: int, headers: Mapping[str, str], param: str, code: str, message: str) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.headers = headers
        self.param = param
        self.code = code
        self.message = message


class UnreadableResponse(Exception):
    """An answer that is no chat completion, or none that is read."""


class ModeRefused(Exception):
    """The endpoint does not take this way of asking for structure; `failed` where it may be down instead."""

    def __init__(self, why: str, *, failed: bool = False) -> None:
        super().__init__(why)
        self.failed = failed


class OptionRefused(Exception):
    """It does not take one of our options; the next call is without it."""


class RetryLater(Exception):
    """It may take the same call after so many seconds; `closes` where it wants no other call before, either.

    `of_way` where the way of asking may be the cause, if it comes again: a server may fail over one schema and take another.
    """

    def __init__(self, seconds: float, why: str, *, closes_endpoint: bool = False, mode_suspected: bool = False) -> None:
        super().__init__(why)
        self.seconds = seconds
        self.closes_endpoint = closes_endpoint
        self.mode_suspected = mode_suspected


def is_key_rejected(refused: RequestRefused, *, accepted: bool) -> bool:
    """Whether it is the key that is rejected. `accepted` where a call with it has succeeded.

    A 403 may also come from moderation, a firewall, or a model that is not for everybody; and Gemini and xAI say 400 of a wrong key.
    """
    begins = refused.message[:KEY_MESSAGE_CHARS]
    if refused.status == 401 or (refused.status in {400, 403} and INVALID_KEY.search(f"{refused.code} {begins}")):
        return True
    if refused.status != 403 or CALL_WORDS.search(refused.message):
        return False
    return not accepted or bool(ACCESS_WORDS.search(begins))


def broke(why: object) -> RetryLater:
    """What to do where the connection broke before the answer was whole."""
    return RetryLater(SHORT_PAUSE_S, f"broke the connection ({why})")


def classify_refusal(
    refused: RequestRefused, message: str, endpoint: Endpoint, capabilities: Capabilities, mode: OutputMode, steps: Mapping[str, int]
) -> Exception:
    """What to raise where it is not the key (`of_key`). `said` are the server's words as they may be shown, `sent` the steps of our
    options in this call.

    Changes `learnt` where an option is refused.
    """
    status, works = refused.status, mode is capabilities.working_mode
    says = f"{status}: {message}" if message else f"{status}"
    told = f"{endpoint.name} answers {says}"
    if status == 402 or refused.code == "insufficient_quota":
        return ChatUnavailable(f"{endpoint.name} has no credit left for this key ({says}); top it up or name another model")
    if status in {408, 409, 429} or status > 501:
        return _later(refused)
    if status == 403 or (status in {400, 413, 422} and SIZE_WORDS.search(refused.message)):
        return ChatUnavailable(told)
    if status in {400, 422} and _stepped(refused, endpoint, capabilities, steps):
        return OptionRefused()
    of_way = bool(MODE_WORDS.search(f"{refused.param} {refused.message}"))
    if status in {500, 501}:
        failed = status == 500 and not of_way
        return RetryLater(SHORT_PAUSE_S, f"failed ({says})", mode_suspected=True) if works else ModeRefused(told, failed=failed)
    if of_way:
        return ModeRefused(told)
    if status in {400, 422} and not works and not MODEL_WORDS.search(refused.message):
        return ModeRefused(told)
    hint = "; the model is not served there, or llm.base_url is not its OpenAI address (.../v1)" if status == 404 else ""
    return ChatUnavailable(told + hint)


def _stepped(refused: RequestRefused, endpoint: Endpoint, capabilities: Capabilities, steps: Mapping[str, int]) -> bool:
    """Whether it complains about one of our options, which then takes its next value; once for calls that were under way together."""
    for option, values in endpoint.options.items():
        names = SPELLINGS.get(option, (option,))
        step = steps.get(option, 0)
        if step + 1 < len(values) and (refused.param in names or any(name in refused.message for name in names)):
            capabilities.steps[option] = max(step + 1, capabilities.steps.get(option, 0))
            return True
    return False


def _later(refused: RequestRefused) -> RetryLater:
    pause_s = retry_after_s(refused.headers, time.time())
    if pause_s is None:
        pause_s = BUSY_PAUSE_S if refused.status == 429 else SHORT_PAUSE_S
    return RetryLater(pause_s, f"is busy or failed ({refused.status})", closes_endpoint=refused.status in {429, 503})


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
