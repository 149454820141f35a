"""What all servers of models share: which addresses can be asked, and what of their words may be shown."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from outrider.retrieval.embed.weights import one_line
from outrider.state.addresses import HIDDEN, without_password


def is_http(address: str) -> bool:
    """Whether a client can ask it; of some slips clients raise errors of their own."""
    import httpx

    try:
        httpx.URL(address)
        parts = urlsplit(address)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and " " not in address
    except (ValueError, httpx.InvalidURL):
        return False


def told(said: object, key: str) -> str:
    """What a server or its client says, on one line, without passwords and without the key, plain or as a quotation writes it.

    It is cut last: half a key is a secret too.
    """
    text = str(said) or type(said).__name__
    for form in sorted({key, repr(key)[1:-1], json.dumps(key)[1:-1]}, key=len, reverse=True) if key else ():
        text = text.replace(form, HIDDEN)
    return one_line(without_password(text))
