"""Guard against server-side request forgery: links reach public addresses only

It refuses private, loopback, link-local, multicast and reserved addresses, and the metadata services of clouds. The guard is for links
from untrusted sources (pages, redirects, requests of a browser). It checks the form of a link first. Then it resolves the host once and
checks all its addresses. The connection goes to a checked address only, so a name that resolves to another address the second time (DNS
rebinding) has no effect. TLS and the Host header keep the name. A proxy of the environment is not used: it would resolve names itself.

Public addresses: IANA's special-purpose registries for IPv4 and IPv6 (RFC 6890), as of 2026.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, NamedTuple

from outrider.state.errors import Forbidden, SourceUnavailable
from outrider.text.sanitize import redact, without_password

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a name, best first. Raises `OSError` for a name without any."""

PORTS = frozenset({80, 443, 8080, 8443})
"""Ports of web pages. Others belong to services that were never meant for a browser."""
MOST_CHARS = 4_000
MOST_ADDRESSES = 4
"""Addresses of a host that are tried, one after another."""
NOT_PUBLIC = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
            "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24",
            "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
            "168.63.129.16/32",  # Azure's metadata and platform service, in a range that is public otherwise
        ),
    )
)  # fmt: skip
UNICAST = IPv6Network("2000::/3")
"""The part of IPv6 that is assigned (RFC 4291 §2.4)."""
NOT_UNICAST = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocols, Teredo among them
            "2001:db8::/32", "3fff::/20",  # documentation
            "2002::/16",  # 6to4, which hides an IPv4 address (ended by RFC 7526)
            "2620:4f:8000::/48",  # AS112
        ),
    )
)  # fmt: skip
NAT64 = IPv6Network("64:ff9b::/96")
"""Networks without IPv4 reach it under this prefix (RFC 6052): the IPv4 address in the last 32 bits decides."""
NAME = re.compile(r"(?=.{1,253}$)(?:(?!-)[a-z0-9_-]{1,63}(?<!-)\.)*(?!-)[a-z0-9_-]{1,63}(?<!-)")
NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""A last label that makes the host a number (WHATWG URL, "ends in a number")."""
DOTTED = re.compile(r"(?:0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,2})){3}")
LOCAL = ("localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan", "home.arpa")
"""Names that belong to no public host, whatever they resolve to (RFC 6761, RFC 6762, RFC 8375, ICANN's reserved `internal`)."""


class Target(NamedTuple):
    """A link whose form is allowed."""

    url: str
    scheme: str
    host: str
    """In lower case, without a final dot; IDNA-encoded; an IPv6 address without brackets."""
    port: int


async def resolve_host(host: str, port: int) -> tuple[str, ...]:
    """With the system's resolver."""
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in entries))


@dataclass(frozen=True, slots=True)
class Guard:
    """Decides which links may be requested. `allowed_hosts` (`host` or `host:port`) are exempt: any address, any port."""

    allowed_hosts: frozenset[str] = frozenset()
    resolve: Resolve = resolve_host
    ports: frozenset[int] = PORTS

    def target(self, url: str) -> Target:
        """The link, read by the parser that the HTTP client uses. Raises `Forbidden` if its form, host or port is not allowed."""
        import httpx

        try:
            if len(url) > MOST_CHARS or not url.isprintable() or "\\" in url:
                raise _refusal(url, "is not a valid link")
            parts = httpx.URL(url)
            host = parts.raw_host.decode("ascii").lower().removesuffix(".")
        except (httpx.InvalidURL, ValueError) as error:
            raise _refusal(url, "is not a valid link") from error
        if parts.scheme not in {"http", "https"}:
            raise _refusal(url, f"has the scheme {parts.scheme or 'none'}: only http and https are fetched")
        if parts.userinfo:
            raise _refusal(url, "holds a user name or password")
        plain = str(parts.copy_with(host=host, fragment=None))
        target = Target(plain, parts.scheme, host, parts.port or (443 if parts.scheme == "https" else 80))
        if self._is_exempt(target.host, target.port):
            return target
        # By host and port alone, before anything is resolved.
        if target.port not in self.ports:
            raise _refusal(target.url, f"has port {target.port}: only {', '.join(map(str, sorted(self.ports)))} are fetched")
        if (address := parse_literal(target.host)) is not None:
            _check(address, target.url)
        elif ":" in target.host or not NAME.fullmatch(target.host) or NUMERIC.fullmatch(target.host.rpartition(".")[2]):
            raise _refusal(target.url, "has no valid host name")
        elif "." not in target.host or target.host.endswith(tuple(f".{name}" for name in LOCAL)):
            raise _refusal(target.url, "names a host of a local network")
        return target

    async def addresses(self, host: str, port: int) -> tuple[Address, ...]:
        """The addresses of a host, each of them checked: a single one that is not public makes the host forbidden.

        Raises `Forbidden`, or `SourceUnavailable` for a name without an address.
        """
        where = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        plain = self.target(where).host
        if (address := parse_literal(plain)) is not None:
            return (address,)
        try:
            addresses = tuple(ip_address(text) for text in await self.resolve(plain, port))
        except (OSError, ValueError) as error:  # ValueError: a name that cannot be encoded, or an invalid result
            raise SourceUnavailable(f"{plain} could not be resolved: {redact(error, '')}") from error
        if not addresses:
            raise SourceUnavailable(f"{plain} could not be resolved: it has no address")
        if not self._is_exempt(plain, port):
            for address in addresses:
                _check(address, where)
        return addresses[:MOST_ADDRESSES]

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a checked address of the host. Raises `Forbidden`, `SourceUnavailable`."""
        failure: OSError | None = None
        for address in await self.addresses(host, port):
            try:
                reader, writer = await asyncio.open_connection(str(address), port)
            except OSError as error:
                failure = error
                continue
            try:
                check_peer(address, writer.get_extra_info("peername"), host)
            except Forbidden:
                writer.close()
                raise
            return reader, writer
        raise SourceUnavailable(f"{host} could not be reached: {failure}")

    def _is_exempt(self, host: str, port: int) -> bool:
        literal = f"[{host}]" if ":" in host else host
        return not self.allowed_hosts.isdisjoint({host, literal, f"{literal}:{port}"})


def parse_literal(host: str) -> Address | None:
    """The address if the host is one in standard notation; None for a name and for forms such as `127.1` and `2130706433`."""
    if not (DOTTED.fullmatch(host) or ":" in host):
        return None
    try:
        return ip_address(host)
    except ValueError:
        return None


def non_public_reason(address: Address) -> str:
    """Why an address is not public, in a word or two; empty for a public one."""
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return "bound to a network interface"
        if address in NAT64:
            return non_public_reason(IPv4Address(int(address) & 0xFFFF_FFFF))
        public = address in UNICAST and not any(address in network for network in NOT_UNICAST)
    else:
        public = not any(address in network for network in NOT_PUBLIC)
    if public and address.is_global:
        return ""
    kinds = ("loopback", "link_local", "multicast", "unspecified", "private", "reserved")
    return next((kind.replace("_", "-") for kind in kinds if getattr(address, f"is_{kind}")), "not public")


def _check(address: Address, url: str) -> None:
    if why := non_public_reason(address):
        raise _refusal(url, f"leads to {address}, which is {why}")


def check_peer(address: Address, peer: Any, host: str) -> None:
    """Raises `Forbidden` unless the connection leads to the checked address."""
    other = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    try:
        is_same = ip_address(other.partition("%")[0]) == ip_address(str(address).partition("%")[0])
    except ValueError:
        is_same = False
    if not is_same:
        raise Forbidden(f"{host} has the address {address}, but the connection leads to {other or 'an unknown address'}; nothing was sent")


def _refusal(url: str, why: str) -> Forbidden:
    safe_url = without_password(url[:200])
    return Forbidden(f"{safe_url!r} {why}; it is not fetched (sources.allowed_hosts can allow a host)")
