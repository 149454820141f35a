"""HTTP requests to model servers, and their answers classified by what to do next.

All run on the background loop. One client per origin keeps its connections, so that a query pays for no handshake. No error shows a key
or a password.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from outrider.models.retry_after import retry_after_s
from outrider.runtime.threads_and_loops import run_in_background
from outrider.state.errors import BadVectors, ModelError, ModelUnavailable
from outrider.text.sanitize import find_proxy_fault, is_http_url, is_loopback, origin, redact, split_addresses, without_password

if TYPE_CHECKING:
    import httpx

CONNECT_S = 5.0
"""A machine that is switched off refuses nothing: only this limit shows it."""
KEEP_OPEN, KEEP_OPEN_S = 256, 60.0
"""Idle connections of one client, and how long they stay open: searches of one person come minutes apart, those of many seconds."""
CLOSE_S = 1.0
ERROR_BYTES = 2**20
"""Read of an error, which is searched for its reason."""
MAX_BYTES = 256 * 2**20
"""Of one answer: 4,096 vectors of 8,192 numbers in base64 take 180 MB."""
BUSY = frozenset({429, 503})
MOST_PAUSE_S = 600.0
"""A server with a wrong clock or unit in its Retry-After must not be left alone for good."""
FAILED = frozenset({408, 424, 500, 502, 504, 507, 520, 521, 522, 523, 524, 529})
"""Statuses that may pass; Text Embeddings Inference answers 424 if its backend fails."""
REFUSES_SIZE = frozenset({400, 413, 422})
SIZE_WORDS = re.compile(r"token|length|too (?:long|large|many)|batch|maximum|exceed|context|size", re.IGNORECASE)
COUNT_LIMIT = re.compile(
    r"(?:maximum allowed batch size|batch size must be (?:at most|<=)|maximum batch size(?: is| of)?):? (\d{1,9})\b", re.IGNORECASE
)
"""`batch size 33 > maximum allowed batch size 32` (text-embeddings-inference)."""
LENGTH_WORDS = re.compile(r"token|long|length|context", re.IGNORECASE)
INFO_S = 2.0
"""Time limit of `/info`, which only TEI has."""


class TooLarge(Exception):
    """A server refuses a request as too many or too long texts."""

    def __init__(self, reason: str, *, most_texts: int | None = None, is_length: bool = False) -> None:
        super().__init__(reason)
        self.most_texts = most_texts
        """The number that the server names."""
        self.is_length = is_length
        """Whether the length of a text is at fault, not their number."""

    @classmethod
    def parse(cls, who: str, message: str) -> TooLarge:
        """Of the server's `message` alone: `who` names the model, and `longformer` is no complaint about a length."""
        limit = COUNT_LIMIT.search(message)
        is_length = not limit and bool(LENGTH_WORDS.search(message))
        return cls(f"{who} refuses it: {message}", most_texts=int(limit[1]) if limit else None, is_length=is_length)


class ServerBusy(Exception):
    """The server refuses the request for now; `pause_s` is its Retry-After."""

    def __init__(self, error: ModelUnavailable, pause_s: float | None) -> None:
        super().__init__(str(error))
        self.error = error
        self.pause_s = pause_s


class ServerFailed(Exception):
    """No usable answer, for a reason that may pass; another server may give one."""

    def __init__(self, error: ModelError, *, timed_out: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.timed_out = timed_out


class NotFound(ModelUnavailable):
    """The server does not know the path, or not the model."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What all servers of one section of the settings share."""

    section: str
    """`embedding` or `reranker`, for messages."""
    model: str
    key: str
    timeout_s: float
    concurrency: int

    def name(self, address: str) -> str:
        return f"{self.model} at {without_password(address)}"

    def check_addresses(self, base_url: str, example: str) -> tuple[str, ...]:
        """The addresses of `base_url`. Raises `ModelUnavailable` for one that cannot be used."""
        addresses = split_addresses(base_url) or (base_url,)
        for address in addresses:
            if not is_http_url(address):
                raise ModelUnavailable(f"{self.name(address)}: {self.section}.base_url must be an address such as {example}")
            if fault := find_proxy_fault(address):
                raise ModelUnavailable(f"{self.name(address)} cannot be reached: {fault}")
        return tuple(dict.fromkeys(address.rstrip("/") for address in addresses))

    def other_model(self, address: str, difference: str) -> BadVectors:
        """The error of a server whose model is not that of the others."""
        return BadVectors(f"{self.name(address)} {difference}; serve one model at all addresses of {self.section}.base_url")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of any status."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> str:
        """The message of an error: OpenAI's and vLLM's `error.message`, TEI's `error`, FastAPI's `detail`, else the text."""
        text = self.body.decode(errors="replace")
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            return text
        error = content.get("error", content) if isinstance(content, dict) else content
        if isinstance(error, dict):
            error = error.get("message") or error.get("detail") or text
        return error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)

    def json(self, who: str, hint: str) -> Any:
        """The parsed body; `ModelUnavailable` if it is no JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            kind = self.headers.get("content-type", "something else")
            raise ModelUnavailable(f"{who} answers with {kind}, not JSON; {hint}") from None


async def request(settings: ServerSettings, address: str, url: str, body: Mapping[str, Any] | None = None) -> Reply:
    """POST `body` as JSON, or GET without one. The caller sets the time limit. Raises `ServerFailed` without an answer."""
    import httpx

    who = settings.name(address)
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {settings.key}"} if settings.key else {})
    # lone surrogates, which broken texts contain, have no UTF-8
    sent = None if body is None else json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    if not _ssl_context.cache_info().currsize:
        await asyncio.to_thread(load_client)
    client = _get_client(origin(url), not is_loopback(url))
    target = httpx.URL(url)
    # httpx logs whole addresses, with passwords
    auth = httpx.BasicAuth(target.username, target.password) if target.userinfo else None
    target = target.copy_with(userinfo=b"")
    try:
        async with client.stream("GET" if body is None else "POST", target, content=sent, headers=headers, auth=auth) as response:
            content = bytearray()
            async for part in response.aiter_raw():
                content += part
                if response.status_code != 200 and len(content) > ERROR_BYTES:
                    break
                if len(content) > MAX_BYTES:
                    raise ServerFailed(ModelUnavailable(f"{who} answers with more than {MAX_BYTES:,} bytes"))
            return Reply(response.status_code, dict(response.headers), bytes(content))
    except httpx.HTTPError as error:
        why = redact(str(error).rstrip(".") or type(error).__name__, settings.key)
        raise ServerFailed(
            ModelUnavailable(f"{who} cannot be reached: {why}; is it running, and is {settings.section}.base_url right?")
        ) from None


def check_status(settings: ServerSettings, address: str, reply: Reply) -> None:
    """Nothing for status 200. Raises `TooLarge`, `ServerBusy`, `ServerFailed`, or `ModelUnavailable` for what time does not mend."""
    who, status, section = settings.name(address), reply.status, settings.section
    if status == 200:
        return
    if 300 <= status < 400:  # followed, it would take the key to another server
        target = redact(reply.headers.get("location", "another address"), settings.key)
        raise ModelUnavailable(f"{who} redirects to {target} ({status}); set {section}.base_url to the address that answers")
    message = redact(reply.message, settings.key)
    if status in REFUSES_SIZE and (status == 413 or SIZE_WORDS.search(reply.message)):
        raise TooLarge.parse(who, message)
    if status in BUSY:
        pause_s = retry_after_s(reply.headers, time.time())
        pause = f", and asks for a pause of {pause_s:,.0f} s" if pause_s and pause_s >= 1 else ""
        busy = f"{who} takes no more requests now ({status}){pause}; try later or lower {section}.concurrency"
        raise ServerBusy(ModelUnavailable(busy), None if pause_s is None else min(pause_s, MOST_PAUSE_S))
    answer = f"{who} answers {status}: {message}"
    if status in FAILED:
        raise ServerFailed(ModelUnavailable(answer))
    if status in {401, 403}:
        raise ModelUnavailable(f"{who} refuses the key ({status}); set {section}.api_key")
    if status in {404, 405}:
        raise NotFound(f"{who} is not found ({status}): the model is not served there, or {section}.base_url is not its address")
    raise ModelUnavailable(answer)


async def read_tei_info(settings: ServerSettings, address: str) -> Mapping[str, Any]:
    """TEI's `/info`: model, commit, limits. Empty for other servers, and for one that answers it too late."""
    parts = urlsplit(address)
    if parts.hostname == "api.openai.com":
        return {}
    root = next((address.removesuffix(end) for end in ("/v1", "/embed", "/rerank") if address.endswith(end)), address)
    try:
        async with asyncio.timeout(INFO_S):
            reply = await request(settings, address, f"{root}/info")
        info = reply.json(address, "") if reply.status == 200 else {}
    except (TimeoutError, ServerFailed, ModelUnavailable):
        return {}
    return info if isinstance(info, dict) and isinstance(info.get("model_id"), str) else {}


def name_weights(info: Mapping[str, Any]) -> str:
    """Model and commit, where TEI names both."""
    return f"{info['model_id']} at {info['model_sha']}" if info.get("model_id") and info.get("model_sha") else ""


def load_client() -> None:
    """Import the HTTP client and read the certificates, which takes a fifth of a second."""
    _ssl_context()


@cache
def _ssl_context() -> Any:
    import httpx

    return httpx.create_ssl_context()  # reads SSL_CERT_FILE, also without `trust_env`


@cache
def _get_client(_: tuple[str, str, int | None], uses_proxy: bool) -> httpx.AsyncClient:
    """The client of one origin. On this machine it uses no proxy of the environment, which would send the request elsewhere."""
    import httpx

    client = httpx.AsyncClient(
        verify=_ssl_context(),
        trust_env=uses_proxy,
        follow_redirects=False,
        headers={"Accept-Encoding": "identity"},  # a compressed body cannot be bounded before it is decompressed
        timeout=httpx.Timeout(None, connect=CONNECT_S),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=KEEP_OPEN, keepalive_expiry=KEEP_OPEN_S),
    )

    def close() -> None:
        """Close idle connections, which the interpreter would warn about at exit."""
        with suppress(TimeoutError):
            run_in_background(asyncio.wait_for(client.aclose(), CLOSE_S))

    atexit.register(close)
    return client
