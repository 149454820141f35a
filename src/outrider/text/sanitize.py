"""Foreign texts and addresses made safe to show: control characters, passwords, keys."""

from __future__ import annotations

import json
import re
from textwrap import dedent
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus, urlsplit

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

HIDDEN = "********"
URL_PARAMETER = re.compile(r"[?&;]([^=?&;#\s\"'<>]{1,200})=([^&;#\s\"'<>]+)")
SECRET_NAME = re.compile(r"key(?!word)|token|secret|passw|pwd|auth(?!ors?(?:\b|_))|credential|signature|\bsig\b|session", re.IGNORECASE)
SERVER_KEY = re.compile(r"outrider_[A-Za-z0-9_-]{20,}")
USER_INFO = re.compile(r"(?<=://)(?:[^/@\s:\[\x22]*:(?!\d*[/?#])[^\s\x22]*|[^/\s]*)@")
"""Up to the last @: a password that was not encoded may hold one, and a slash where no port precedes it."""
DATABASE_USER_INFO = re.compile(r"(?<=://)[^?#\s]*@")
"""Also with digits before a slash, which elsewhere are a port: no path of a database holds an @."""
QUOTATION = re.compile(r"\"([^\"]*)\"")
MAX_MESSAGE_CHARS = 200
"""Maximum characters of a server's message that are shown."""
FENCES = ("```", "~~~")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")
"""C0 and C1 controls, zero-width and direction marks, isolates and overrides."""


def without_password(address: str) -> str:
    """`s3://user:secret@host/x` without the part before the @."""
    return USER_INFO.sub(f"{HIDDEN}@", address)


def without_credentials(address: str) -> str:
    """The address of a database without user and password, wherever they stand in it."""
    return without_password(without_keys(DATABASE_USER_INFO.sub(f"{HIDDEN}@", address)))


def explain_database_error(error: object, address: str) -> str:
    """The message of a database or its client on one line, without secrets: libpq quotes the parts of an address that it cannot read.

    It is cut last: half a password is a secret too.
    """
    shown = without_credentials(address)
    user = re.split("[:@]", address.partition("://")[2], maxsplit=1)[0]

    def hide(quotation: re.Match[str]) -> str:
        is_secret = quotation[1] in address and quotation[1] not in shown and quotation[1] != user
        return f'"{HIDDEN}"' if is_secret else quotation[0]

    return QUOTATION.sub(hide, " ".join(str(error).split()).replace(address, shown))[:MAX_MESSAGE_CHARS]


def without_keys(text: str) -> str:
    """The text with `********` for values of URL parameters whose names denote a secret, and for keys of `outrider serve`."""
    return SERVER_KEY.sub(HIDDEN, URL_PARAMETER.sub(_hide_secret_value, text))


def _hide_secret_value(parameter: re.Match[str]) -> str:
    value = unquote_plus(parameter[2])
    is_secret = SECRET_NAME.search(unquote_plus(parameter[1])) or (value != parameter[2] and without_keys(value) != value)  # a URL in a URL
    return f"{parameter[0][0]}{parameter[1]}={HIDDEN}" if is_secret else parameter[0]


def origin(address: str) -> tuple[str, str, int | None]:
    """Scheme, host and port (RFC 6454): the same host without encryption has another origin. All are empty for an invalid address."""
    try:
        parts = urlsplit(address.strip())
        return parts.scheme.lower(), parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme.lower())
    except ValueError:
        return "", "", None


NEXT_ADDRESS = re.compile(r",(?=\s|[a-z][a-z0-9+.-]*://)", re.IGNORECASE)
"""Not each comma: passwords and paths may contain one."""


def split_addresses(value: object) -> tuple[str, ...]:
    """The addresses of a setting, each once: a text separates them by commas, a file may list them.

    Whoever checks where a key or a query goes must check each of them.
    """
    items = value if isinstance(value, list | tuple) else [value]
    parts = (part.strip(" ,") for item in items if item is not None for part in NEXT_ADDRESS.split(str(item)))
    return tuple(dict.fromkeys(part for part in parts if part))


PROXY_SCHEMES = frozenset({"http", "https", "socks5", "socks5h"})
OFFLINE = "and nothing but this machine is contacted (--offline, sources.offline)"
"""For messages about an address that is refused."""


def is_loopback(address: str) -> bool:
    """Whether a URL leads to this machine: `localhost`, 127.0.0.0/8 or ::1. Other names would have to be looked up on the network."""
    from ipaddress import IPv6Address, ip_address

    host = origin(address)[1]
    if host == "localhost":
        return True
    try:
        literal = ip_address(host)
    except ValueError:
        return False
    mapped = literal.ipv4_mapped if isinstance(literal, IPv6Address) else None
    return (mapped or literal).is_loopback


def find_proxy_fault(address: str = "") -> str:
    """What is wrong with the proxies of the environment; empty if nothing is, or if the address is on this machine and needs none.

    An HTTP client would end with a traceback of its own.
    """
    if is_loopback(address):
        return ""
    from urllib.request import getproxies

    import httpx

    for kind, proxy in getproxies().items():
        if kind not in {"http", "https", "all"}:
            continue
        try:
            url = httpx.URL(proxy if "://" in proxy else f"http://{proxy}")
            usable = url.scheme in PROXY_SCHEMES and bool(url.host)
        except httpx.InvalidURL:
            usable = False
        if not usable:
            return f"{kind}_proxy in the environment, {without_password(proxy)!r}, is no proxy; write for example http://proxy.example:3128"
    return ""


def is_http_url(address: str) -> bool:
    """Whether a client can ask it; of some slips clients raise errors of their own."""
    import httpx

    try:
        httpx.URL(address)
        parts = urlsplit(address)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and " " not in address
    except (ValueError, httpx.InvalidURL):
        return False


def redact(message: object, key: str) -> str:
    """A message of a server or its client, on one line, without passwords and without the key, plain or as a quotation writes it.

    It is cut last: half a key is a secret too.
    """
    text = str(message) or ("" if isinstance(message, str) else type(message).__name__)
    for form in sorted({key, repr(key)[1:-1], json.dumps(key)[1:-1]}, key=len, reverse=True) if key else ():
        text = text.replace(form, HIDDEN)
    line = " ".join(without_password(text).split())
    return line if len(line) <= MAX_MESSAGE_CHARS else f"{line[:MAX_MESSAGE_CHARS]}..."


def without_control(text: str, replacement: str = " ") -> str:
    """The text on one line: each run of control characters becomes `replacement`."""
    return CONTROL.sub(replacement, text)


def code_lines(text: str, start: int, end: int) -> list[str]:
    """The lines of `text[start:end]`, a piece of code, without shared indentation, control characters, and fences of Markdown around it.

    The indentation of its first line may stand before `start`.
    """
    begin = text.rfind("\n", 0, start) + 1
    own = text[start if text[begin:start].strip() else begin : end]
    lines = [without_control(line.expandtabs(4), "").rstrip() for line in own.splitlines()]
    return dedent("\n".join(line for line in lines if not line.lstrip().startswith(FENCES))).strip("\n").splitlines()


def element_text(element: Element | None) -> str:
    """All text under an element on one line, white space collapsed; empty where there is none."""
    return collapse_spaces("".join(element.itertext())) if element is not None else ""


def collapse_spaces(text: str) -> str:
    return " ".join(text.split())
