"""Webhooks of saved searches: JSON by POST, signed by HMAC, to public addresses only

`X-Outrider-Signature: sha256=...` is HMAC-SHA-256 (RFC 2104) with the secret of the settings, over `X-Outrider-Timestamp`, a full stop and
the body. `X-Outrider-Delivery` is the same at each attempt, so that a receiver can drop what it has. No redirect is followed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from outrider.sources.http.ssrf_guard import Guard
from outrider.state.errors import BadRequest, Forbidden, SourceError, SourceUnavailable
from outrider.text.sanitize import origin

TIMEOUT_S = 10.0
PAUSES_S = (0.0, 10.0, 60.0, 300.0)
"""Before each attempt of a background job."""
QUICK_PAUSES_S = (0.0, 2.0)
"""Before each attempt of a command, which a person waits for."""
TEMPORARY = frozenset({408, 425, 429})
"""Beside 5xx."""


class Attempt(NamedTuple):
    """`problem` is empty for a delivered body."""

    problem: str
    is_final: bool
    """No other attempt would help."""


def mask(address: str) -> str:
    """The host alone: path and query may be secret."""
    scheme, host, port = origin(address)
    shown_port = "" if port == {"http": 80, "https": 443}.get(scheme) else f":{port}"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}{shown_port}/..." if host else ""


async def check_address(address: str, guard: Guard, *, resolves: bool = True) -> None:
    """Raise `BadRequest` for an address that is not allowed. A name that cannot be resolved now is checked again at delivery."""
    try:
        target = guard.target(address)
        if resolves:
            await guard.addresses(target.host, target.port)
    except Forbidden as error:  # whose message repeats the address
        raise BadRequest(f"the webhook {mask(address) or 'address'} is refused: {_explain(error, address)}") from None
    except SourceUnavailable:
        pass


async def post(address: str, body: bytes, delivery: str, secret: str, guard: Guard, now: float, agent: str) -> Attempt:
    """One attempt."""
    import httpx

    from outrider.sources.http.pinned_transport import PinnedTransport
    from outrider.sources.http.transport import quiet_loggers

    timestamp = str(int(now))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": agent,
        "X-Outrider-Delivery": delivery,
        "X-Outrider-Timestamp": timestamp,
        "X-Outrider-Signature": f"sha256={sign(secret, timestamp, body)}",
    }
    try:
        target = guard.target(address)
        client = httpx.AsyncClient(transport=PinnedTransport(guard), trust_env=False, follow_redirects=False, timeout=TIMEOUT_S)
        with quiet_loggers():  # the address may be secret
            async with client, client.stream("POST", target.url, content=body, headers=headers) as response:
                status = response.status_code
    except Forbidden as error:
        return Attempt(f"{mask(address)} is refused: {_explain(error, address)}", is_final=True)
    except (SourceError, httpx.HTTPError, httpx.InvalidURL) as error:
        return Attempt(f"{mask(address)} could not be reached ({type(error).__name__})", is_final=False)
    if 200 <= status < 300:
        return Attempt("", is_final=True)
    return Attempt(f"{mask(address)} answered {status}", is_final=status < 500 and status not in TEMPORARY)


def encode(payload: Mapping[str, Any]) -> bytes:
    """The same bytes at each attempt."""
    return json.dumps(payload, separators=(",", ":")).encode()


def sign(secret: str, timestamp: str, body: bytes) -> str:
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _explain(error: Forbidden, address: str) -> str:
    """The reason in the guard's message, without the address that it names first."""
    text = str(error)
    reason = next((text[text.index(word) :] for word in (" leads to ", " has ", " holds ", " names ", " is not ") if word in text), "")
    return reason.strip().replace(address, mask(address)).replace("it is not fetched", "it is not called") or "it is not allowed"
