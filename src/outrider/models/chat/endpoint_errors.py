"""Errors of chat endpoints, classified by what to do next."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from outrider.models.chat.provider import Capabilities, Endpoint, OutputMode
from outrider.models.retry_after import retry_after_s
from outrider.state.errors import ChatUnavailable

BUSY_PAUSE_S = 1.0
"""Pause before a retry if a busy server does not send Retry-After."""
SHORT_PAUSE_S = 0.25
"""Pause before a retry if a server failed or broke the connection."""
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
"""Reasons for which a 403 may concern one call, or one model, whatever the key."""
KEY_MESSAGE_CHARS = 80
"""First characters of a message that may concern the key; further on a server may quote the request."""
SPELLINGS = {"length": ("max_completion_tokens", "max_tokens")}


class RequestRefused(Exception):
    """A response with a status other than 200. The message is raw: redact it before showing it."""

    def __init__(self, status: int, headers: Mapping[str, str], param: str, code: str, message: str) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.headers = headers
        self.param = param
        self.code = code
        self.message = message


class UnreadableResponse(Exception):
    """A response that is not a readable chat completion."""


class ModeRefused(Exception):
    """The endpoint does not support this output mode; `failed` if it may be down instead."""

    def __init__(self, why: str, *, failed: bool = False) -> None:
        super().__init__(why)
        self.failed = failed


class OptionRefused(Exception):
    """The endpoint does not support one of our options; the next call omits it."""


class RetryLater(Exception):
    """The endpoint may accept the same call after a pause; `closes_endpoint` if it accepts no other call before either.

    `mode_suspected` if the output mode may be the cause should it happen again: a server may fail on one schema and take another.
    """

    def __init__(self, seconds: float, why: str, *, closes_endpoint: bool = False, mode_suspected: bool = False) -> None:
        super().__init__(why)
        self.seconds = seconds
        self.closes_endpoint = closes_endpoint
        self.mode_suspected = mode_suspected


def is_key_rejected(refused: RequestRefused, *, accepted: bool) -> bool:
    """Whether the server rejects the key; `accepted` if a call with it has succeeded before.

    A 403 may also come from moderation, a firewall, or a restricted model; Gemini and xAI answer a wrong key with 400.
    """
    beginning = refused.message[:KEY_MESSAGE_CHARS]
    if refused.status == 401 or (refused.status in {400, 403} and INVALID_KEY.search(f"{refused.code} {beginning}")):
        return True
    if refused.status != 403 or CALL_WORDS.search(refused.message):
        return False
    return not accepted or bool(ACCESS_WORDS.search(beginning))


def classify_refusal(
    refused: RequestRefused, message: str, endpoint: Endpoint, capabilities: Capabilities, mode: OutputMode, steps: Mapping[str, int]
) -> Exception:
    """Return the exception to raise if the key is not the cause. `message` is redacted, `steps` are those of the call's options.

    Changes `capabilities` if an option is refused.
    """
    status, works = refused.status, mode is capabilities.working_mode
    answer = f"{status}: {message}" if message else f"{status}"
    why = f"{endpoint.name} answers {answer}"
    if status == 402 or refused.code == "insufficient_quota":
        return ChatUnavailable(f"{endpoint.name} has no credit left for this key ({answer}); top it up or name another model")
    if status in {408, 409, 429} or status > 501:
        pause_s = retry_after_s(refused.headers, time.time())
        if pause_s is None:
            pause_s = BUSY_PAUSE_S if status == 429 else SHORT_PAUSE_S
        return RetryLater(pause_s, f"is busy or failed ({status})", closes_endpoint=status in {429, 503})
    if status == 403 or (status in {400, 413, 422} and SIZE_WORDS.search(refused.message)):
        return ChatUnavailable(why)
    if status in {400, 422} and _take_next_option(refused, endpoint, capabilities, steps):
        return OptionRefused()
    mode_refused = bool(MODE_WORDS.search(f"{refused.param} {refused.message}"))
    if status in {500, 501} and works:
        return RetryLater(SHORT_PAUSE_S, f"failed ({answer})", mode_suspected=True)
    if status in {500, 501} or mode_refused:
        return ModeRefused(why, failed=status == 500 and not mode_refused)
    if status in {400, 422} and not works and not MODEL_WORDS.search(refused.message):
        return ModeRefused(why)
    hint = "; the model is not served there, or llm.base_url is not its OpenAI address (.../v1)" if status == 404 else ""
    return ChatUnavailable(why + hint)


def _take_next_option(refused: RequestRefused, endpoint: Endpoint, capabilities: Capabilities, steps: Mapping[str, int]) -> bool:
    """Advance the option that the server rejects to its next value, once for concurrent calls; False if there is none."""
    for option, values in endpoint.options.items():
        names = SPELLINGS.get(option, (option,))
        step = steps.get(option, 0)
        if step + 1 < len(values) and (refused.param in names or any(name in refused.message for name in names)):
            capabilities.steps[option] = max(step + 1, capabilities.steps.get(option, 0))
            return True
    return False
