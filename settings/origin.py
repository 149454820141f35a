"""Whether two addresses are of the same server."""

from __future__ import annotations

from urllib.parse import urlsplit


def origin(address: str) -> tuple[str, str, int | None]:
    """Scheme, host and port (RFC 6454): the same host without encryption is another. All empty where it is no address."""
    try:
        parts = urlsplit(address.strip())
        return parts.scheme.lower(), parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme.lower())
    except ValueError:
        return "", "", None
