"""The body of an answer, read up to a bound: of a service, a page, a robots.txt.

It is unpacked here, bit by bit: httpx would unpack a whole part, and one layer after another, a million times its size, before it can be
measured. One layer of gzip is taken, which is all that is asked for (`ACCEPTED`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from outrider.state.errors import Malformed

if TYPE_CHECKING:
    import httpx

ACCEPTED = "gzip"
"""For Accept-Encoding."""


async def whole(response: httpx.Response, most: int, what: str, shown: Callable[[object], str] = repr) -> bytes:
    """All of it, at most so many bytes, packed and unpacked.

    Raises `Malformed`, which begins with `what`, for more, for another packing and for what cannot be unpacked, and
    `httpx.RemoteProtocolError` for what was cut short. `shown` is how a header of theirs may be shown.
    """
    size = response.headers.get("content-length", "")
    if size.isdecimal() and int(size) > most:
        raise _more(what, most)
    body = await beginning(response, most + 1, what, shown)
    if len(body) > most:
        raise _more(what, most)
    return body


async def beginning(response: httpx.Response, most: int, what: str, shown: Callable[[object], str] = repr) -> bytes:
    """At most so many bytes; the rest is neither unpacked nor waited for. Raises as `whole` does, but for its size."""
    body, came = bytearray(), 0
    packing = response.headers.get("content-encoding", "").lower() or "identity"
    if packing not in {"identity", ACCEPTED}:
        raise Malformed(f"{what} what is packed with {shown(packing)}, which was not asked for")
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16) if packing == ACCEPTED else None
    async for part in response.aiter_raw():
        came += len(part)
        try:
            body += unpacking.decompress(part, most - len(body)) if unpacking else part[: most - len(body)]
        except zlib.error as error:
            raise Malformed(f"{what} what cannot be unpacked: {error}") from None
        if len(body) >= most:
            return bytes(body)
        if came > 2 * most:  # gzip makes nothing twice as long: this is no end of it, but what comes after
            raise _more(what, most)
    if unpacking and came and not unpacking.eof:
        import httpx

        raise httpx.RemoteProtocolError("its answer was cut short")
    return bytes(body)


def _more(what: str, most: int) -> Malformed:
    return Malformed(f"{what} more than {most:,} bytes, which is all that is read")
