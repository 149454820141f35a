"""No request reaches an address that is not public: private, loopback, link-local, multicast, reserved, metadata of a cloud.

For links that others chose (pages, redirects, what a browser loads). A link is refused by its form first. Then its name is resolved
once, every address that it has is checked, and the connection goes to a checked address and nowhere else, so that a name which answers
differently the second time (DNS rebinding) gains nothing. The name stays what TLS and the Host header say. A proxy of the environment
is not used: it would resolve names by itself.

Which addresses are public: IANA's special-purpose registries for IPv4 and IPv6 (RFC 6890), as they stood in 2026.
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
"""The addresses of a name, best first. Raises `OSError` for a name without any."""

PORTS = frozenset({80, 443, 8080, 8443})
"""Where pages are served. Others belong to services that were never meant for a browser."""
MOST_CHARS = 4_000
MOST_ADDRESSES = 4
"""That are tried in turn."""
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
"""All of IPv6 that is assigned to anyone (RFC 4291 §2.4)."""
NOT_UNICAST = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocols, Teredo among them
            "2001:db8::/32", "3fff::/20",  # documentation
            "2002::/16",  # 6to4, which hides an IPv4 address (RFC 7526 ended it)
            "2620:4f:8000::/48",  # AS112
        ),
    )
)  # fmt: skip
NAT64 = IPv6Network("64:ff9b::/96")
"""Networks without IPv4 reach it under this prefix (RFC 6052): the IPv4 address in the last 32 bits decides."""
NAME = re.compile(r"(?=.{1,253}$)(?:(?!-)[a-z0-9_-]{1,63}(?<!-)\.)*(?!-)[a-z0-9_-]{1,63}(?<!-)")
NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""What makes a host a number by the form of its last label (WHATWG URL, "ends in a number")."""
DOTTED = re.compile(r"(?:0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,2})){3}")
LOCAL = ("localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan", "home.arpa")
"""Names of no public host, whatever they resolve to (RFC 6761, RFC 6762, RFC 8375, ICANN's reserved `internal`)."""


class Target(NamedTuple):
    """A link that may be asked as far as its form shows."""

    url: str
    scheme: str
    host: str
    """In lower case, without a dot at its end; IDNA-encoded; an IPv6 address without brackets."""
    port: int


async def resolved(host: str, port: int) -> tuple[str, ...]:
    """By the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


@dataclass(frozen=True, slots=True)
class Guard:
    """Decides what may be asked. `allowed_hosts` (`host` or `host:port`) are the settings' exceptions: any address, any port."""

    allowed_hosts: frozenset[str] = frozenset()
    resolve: Resolve = resolved
    ports: frozenset[int] = PORTS

    def target(self, url: str) -> Target:
        """The link, read by the same parser that the client asks with. Raises `Forbidden` for one that may not be asked."""
        import httpx

        try:
            if len(url) > MOST_CHARS or not url.isprintable() or "\\" in url:
                raise _refused(url, "is not the form of a link")
            parts = httpx.URL(url)
            host = parts.raw_host.decode("ascii").lower().removesuffix(".")
        except (httpx.InvalidURL, ValueError) as error:
            raise _refused(url, "is not the form of a link") from error
        if parts.scheme not in {"http", "https"}:
            raise _refused(url, f"has the scheme {parts.scheme or 'none'}: only http and https are fetched")
        if parts.userinfo:
            raise _refused(url, "holds a user name or password")
        plain = str(parts.copy_with(host=host, fragment=None))
        target = Target(plain, parts.scheme, host, parts.port or (443 if parts.scheme == "https" else 80))
        self._named(target)
        return target

    def _named(self, target: Target) -> None:
        """Refuses by host and port alone, before anything is resolved."""
        if self._allowed(target.host, target.port):
            return
        if target.port not in self.ports:
            raise _refused(target.url, f"asks port {target.port}: only {', '.join(map(str, sorted(self.ports)))} are fetched")
        if (address := literal(target.host)) is not None:
            _check(address, target.url)
        elif ":" in target.host or not NAME.fullmatch(target.host) or NUMERIC.fullmatch(target.host.rpartition(".")[2]):
            raise _refused(target.url, "names no host that can be asked")
        elif "." not in target.host or target.host.endswith(tuple(f".{name}" for name in LOCAL)):
            raise _refused(target.url, "names a host of a local network")

    async def addresses(self, host: str, port: int) -> tuple[Address, ...]:
        """The addresses of a host, each of them checked: one that is not public refuses the host.

        Raises `Forbidden`, or `SourceUnavailable` for a name without an address.
        """
        where = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        plain = self.target(where).host
        if (address := literal(plain)) is not None:
            return (address,)
        try:
            said = await self.resolve(plain, port)
            found = tuple(ip_address(text) for text in said)
        except (OSError, ValueError) as error:  # ValueError: a name that cannot be encoded, or a resolver's nonsense
            raise SourceUnavailable(f"{plain} could not be resolved: {redact(error, '')}") from error
        if not found:
            raise SourceUnavailable(f"{plain} could not be resolved: it has no address")
        if not self._allowed(plain, port):
            for address in found:
                _check(address, where)
        return found[:MOST_ADDRESSES]

    async def connection(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To a checked address of the host. Raises `Forbidden`, `SourceUnavailable`."""
        failed: OSError | None = None
        for address in await self.addresses(host, port):
            try:
                reader, writer = await asyncio.open_connection(str(address), port)
            except OSError as error:
                failed = error
                continue
            try:
                same_peer(address, writer.get_extra_info("peername"), host)
            except Forbidden:
                writer.close()
                raise
            return reader, writer
        raise SourceUnavailable(f"{host} could not be reached: {failed}")

    def _allowed(self, host: str, port: int) -> bool:
        shown = f"[{host}]" if ":" in host else host
        return not self.allowed_hosts.isdisjoint({host, shown, f"{shown}:{port}"})


def literal(host: str) -> Address | None:
    """The address that a host spells out in its one plain form; `127.1` and `2130706433` are none."""
    if not (DOTTED.fullmatch(host) or ":" in host):
        return None
    try:
        return ip_address(host)
    except ValueError:
        return None


def why_not(address: Address) -> str:
    """Why an address may not be asked, in a word or two; empty for a public one."""
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return "bound to a network interface"
        if address in NAT64:
            return why_not(IPv4Address(int(address) & 0xFFFF_FFFF))
        public = address in UNICAST and not any(address in network for network in NOT_UNICAST)
    else:
        public = not any(address in network for network in NOT_PUBLIC)
    if public and address.is_global:
        return ""
    kinds = ("loopback", "link_local", "multicast", "unspecified", "private", "reserved")
    return next((kind.replace("_", "-") for kind in kinds if getattr(address, f"is_{kind}")), "not public")


def _check(address: Address, url: str) -> None:
    if why := why_not(address):
        raise _refused(url, f"leads to {address}, which is {why}")


def same_peer(address: Address, peer: Any, host: str) -> None:
    """Whoever answers must be whom we asked."""
    said = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    try:
        right = ip_address(said.partition("%")[0]) == ip_address(str(address).partition("%")[0])
    except ValueError:
        right = False
    if not right:
        raise Forbidden(f"{host} was asked at {address}, but the connection leads to {said or 'nobody'}; nothing was sent")


def _refused(url: str, why: str) -> Forbidden:
    shown = without_password(url[:200])
    return Forbidden(f"{shown!r} {why}; it is not fetched (sources.allowed_hosts can allow a host)")
