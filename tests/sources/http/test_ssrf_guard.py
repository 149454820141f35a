"""The SSRF guard: attacks against a counting loopback server, which must see no request."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from ipaddress import ip_address

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.sources.http.pinned_transport import PinnedNetwork, PinnedTransport
from outrider.sources.http.ssrf_guard import Guard, non_public_reason
from outrider.sources.web.fetch import PageFetcher
from outrider.state.errors import Forbidden, SourceError, SourceUnavailable
from support.http_server import Answer, serving, take_no_more

PUBLIC = "93.184.216.34"


class Names:
    """A resolver with scripted answers, one after another; it records the hosts."""

    def __init__(self, answers: dict[str, list[Sequence[str]]]) -> None:
        self.answers = answers
        self.hosts: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.hosts.append(host)
        if host not in self.answers:
            raise OSError(f"no such host: {host}")
        addresses = self.answers[host]
        return addresses.pop(0) if len(addresses) > 1 else addresses[0]


class Counter:
    """Connections to every address of this machine that a trick may lead to."""

    def __init__(self) -> None:
        self.met = 0
        self.port = 0

    async def _met(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.met += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\nsecret")
        await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def counting() -> AsyncIterator[Counter]:
    counter = Counter()
    server = await asyncio.start_server(counter._met, "0.0.0.0", 0)
    counter.port = server.sockets[0].getsockname()[1]
    servers = [server]
    with contextlib.suppress(OSError):  # a machine without IPv6
        servers.append(await asyncio.start_server(counter._met, "::", counter.port, family=socket.AF_INET6))
    try:
        yield counter
    finally:
        for each in servers:
            await take_no_more(each)
            each.close()


def guarded(counter: Counter, names: Names | None = None) -> Guard:
    """The counter's port is allowed here: what refuses a trick must be its address, not its port."""
    return Guard(resolve=names or Names({}), ports=frozenset({80, 443, counter.port}))


BY_FORM = {
    "loopback": "http://127.0.0.1:{port}/",
    "another loopback": "http://127.8.9.10:{port}/",
    "this host": "http://0.0.0.0:{port}/",
    "short": "http://127.1:{port}/",
    "three parts": "http://127.0.1:{port}/",
    "decimal": "http://2130706433:{port}/",
    "hexadecimal": "http://0x7f000001:{port}/",
    "hexadecimal parts": "http://0x7f.0.0.0x1:{port}/",
    "octal": "http://017700000001:{port}/",
    "octal parts": "http://0177.0.0.01:{port}/",
    "leading zeros": "http://127.000.000.001:{port}/",
    "mixed": "http://0177.0.0x1:{port}/",
    "zero": "http://0:{port}/",
    "beyond 32 bits": "http://4294967297:{port}/",
    "trailing dot": "http://127.0.0.1.:{port}/",
    "percent-encoded": "http://%31%32%37.0.0.1:{port}/",
    "encoded dots": "http://127%2e0%2e0%2e1:{port}/",
    "full-width digits": "http://１２７.０.０.１:{port}/",
    "circled digits": "http://①②⑦.⓪.⓪.①:{port}/",
    "ideographic full stops": "http://127。0。0。1:{port}/",
    "private 10": "http://10.0.0.1:{port}/",
    "private 172": "http://172.16.0.1:{port}/",
    "private 192": "http://192.168.1.1:{port}/",
    "carrier's": "http://100.64.0.1:{port}/",
    "metadata": "http://169.254.169.254:{port}/latest/meta-data/",
    "metadata of Azure": "http://168.63.129.16:{port}/",
    "metadata of Alibaba": "http://100.100.100.200:{port}/",
    "metadata of Oracle": "http://192.0.0.192:{port}/",
    "metadata of AWS, IPv6": "http://[fd00:ec2::254]:{port}/",
    "metadata by name": "http://metadata.google.internal:{port}/",
    "multicast": "http://224.0.0.1:{port}/",
    "broadcast": "http://255.255.255.255:{port}/",
    "reserved": "http://240.0.0.1:{port}/",
    "documentation": "http://192.0.2.1:{port}/",
    "benchmarks": "http://198.18.0.1:{port}/",
    "IPv6 loopback": "http://[::1]:{port}/",
    "IPv6 loopback, long": "http://[0:0:0:0:0:0:0:1]:{port}/",
    "IPv6 unspecified": "http://[::]:{port}/",
    "IPv4-mapped": "http://[::ffff:127.0.0.1]:{port}/",
    "IPv4-mapped, hexadecimal": "http://[::ffff:7f00:1]:{port}/",
    "IPv4-compatible": "http://[::127.0.0.1]:{port}/",
    "IPv4-translated": "http://[::ffff:0:127.0.0.1]:{port}/",
    "NAT64": "http://[64:ff9b::127.0.0.1]:{port}/",
    "NAT64, local": "http://[64:ff9b:1::7f00:1]:{port}/",
    "6to4": "http://[2002:7f00:1::]:{port}/",
    "Teredo": "http://[2001:0:7f00:1::]:{port}/",
    "link-local": "http://[fe80::1]:{port}/",
    "zone": "http://[fe80::1%25lo]:{port}/",
    "zone, raw": "http://[::1%lo]:{port}/",
    "unique local": "http://[fc00::1]:{port}/",
    "site-local": "http://[fec0::1]:{port}/",
    "IPv6 multicast": "http://[ff02::1]:{port}/",
    "IPv6 documentation": "http://[2001:db8::1]:{port}/",
    "name": "http://localhost:{port}/",
    "name with a dot": "http://localhost.:{port}/",
    "name in capitals": "http://LOCALHOST:{port}/",
    "name below": "http://app.localhost:{port}/",
    "name of the local network": "http://printer.local:{port}/",
    "name without a dot": "http://intranet:{port}/",
    "user name before": "http://example.com@127.0.0.1:{port}/",
    "user name after": "http://127.0.0.1:{port}@example.com/",
    "password": "http://user:secret@example.com:{port}/",
    "two at signs": "http://a@b@127.0.0.1:{port}/",
    "backslash": "http://example.com\\@127.0.0.1:{port}/",
    "backslashes for slashes": "http:\\\\127.0.0.1:{port}\\",
    "line break": "http://127.0.0.1:{port}/\r\nHost: example.com",
    "tab": "http://127.0.0.1\t:{port}/",
    "null": "http://example.com\x00.127.0.0.1:{port}/",
    "space in the host": "http://127.0.0.1 .example.com:{port}/",
    "no scheme": "//127.0.0.1:{port}/",
    "no host": "http:///127.0.0.1:{port}/",
    "empty": "",
    "file": "file:///etc/passwd",
    "file with a host": "file://127.0.0.1:{port}/x",
    "ftp": "ftp://127.0.0.1:{port}/",
    "gopher": "gopher://127.0.0.1:{port}/_GET",
    "dict": "dict://127.0.0.1:{port}/info",
    "data": "data:text/html,x",
    "javascript": "javascript:alert(1)",
    "unix socket": "http+unix://%2Fvar%2Frun%2Fdocker.sock/info",
    "websocket": "ws://127.0.0.1:{port}/",
    "jar": "jar:http://127.0.0.1:{port}!/",
    "port beyond": "http://example.com:99999/",
    "port of a mail server": "http://example.com:25/",
    "port of Redis": "http://example.com:6379/",
}


@pytest.mark.parametrize("trick", BY_FORM.values(), ids=list(BY_FORM))
async def test_a_trick_of_form_is_refused_before_anything_is_resolved(trick: str) -> None:
    names = Names({"example.com": [["127.0.0.1"]]})
    async with counting() as counter:
        pages = PageFetcher(guarded(counter, names))
        with pytest.raises(Forbidden):
            await pages.fetch(trick.format(port=counter.port), 30.0)
        await pages.close()
    assert (counter.met, names.hosts) == (0, [])


@pytest.mark.parametrize(
    "answers",
    [
        ["127.0.0.1"],
        ["10.1.2.3"],
        ["169.254.169.254"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::a9fe:a9fe"],
        ["fe80::1%lo"],
        [PUBLIC, "127.0.0.1"],
        ["2606:2800:220:1::1", "::1"],
    ],
    ids=str,
)
async def test_a_name_is_refused_for_any_of_its_addresses(answers: list[str]) -> None:
    async with counting() as counter:
        pages = PageFetcher(guarded(counter, Names({"example.com": [answers]})))
        with pytest.raises(Forbidden, match=r"example\.com"):
            await pages.fetch(f"http://example.com:{counter.port}/", 30.0)
        await pages.close()
    assert counter.met == 0


async def test_rebinding_gains_nothing() -> None:
    """Resolved once a connection: the checked public address is the one that is connected; the private one that follows is refused."""
    hosts: list[str] = []

    class Recorder(PinnedNetwork):
        def __init__(self, guard: Guard) -> None:
            super().__init__(guard)
            self._network.connect_tcp = self._noted  # type: ignore[method-assign, assignment]

        async def _noted(self, host: str, *_: object) -> None:
            hosts.append(host)
            raise SourceUnavailable("nothing is reached from a test")

    async with counting() as counter:
        names = Names({"rebind.example.com": [[PUBLIC], ["127.0.0.1"]]})
        network = Recorder(guarded(counter, names))
        with pytest.raises(SourceUnavailable):
            await network.connect_tcp("rebind.example.com", counter.port)
        assert (hosts, names.hosts) == ([PUBLIC], ["rebind.example.com"])
        with pytest.raises(Forbidden, match="loopback"):
            await network.connect_tcp("rebind.example.com", counter.port)
    assert (counter.met, hosts) == (0, [PUBLIC])


async def test_a_connection_that_leads_elsewhere_is_closed_unused() -> None:
    """Whatever the network does with a checked address, the peer that answers must be it."""

    class Elsewhere(PinnedNetwork):
        def __init__(self, guard: Guard, port: int) -> None:
            super().__init__(guard)
            plain = self._network.connect_tcp
            self._network.connect_tcp = lambda *_: plain("127.0.0.1", port)  # type: ignore[method-assign, assignment, misc]

    async with counting() as counter:
        guard = guarded(counter, Names({"example.com": [[PUBLIC]]}))
        with pytest.raises(Forbidden, match="nothing was sent"):
            await Elsewhere(guard, counter.port).connect_tcp("example.com", 80)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "to",
    ["http://127.0.0.1:{port}/", "//[::1]:{port}/", "http://inside.example.com:{port}/", "file:///etc/passwd", "http://u@example.com/"],
)
async def test_a_redirect_is_checked_like_any_link(status: int, to: str) -> None:
    async with counting() as counter:
        with serving(lambda _: Answer(status=status, headers={"Location": to.format(port=counter.port)})) as server:
            host = server.base_url.removeprefix("http://")
            names = Names({"inside.example.com": [["127.0.0.1"]]})
            pages = PageFetcher(Guard(frozenset({host}), names, frozenset({80, 443, counter.port})))
            with pytest.raises(Forbidden):
                await pages.fetch(f"{server.base_url}/start", 30.0)
            await pages.close()
    assert counter.met == 0


async def test_robots_txt_leads_nowhere_either() -> None:
    async with counting() as counter:
        to = f"http://127.0.0.1:{counter.port}/robots.txt"
        with serving(lambda _: Answer(status=302, headers={"Location": to})) as server:
            pages = PageFetcher(Guard(frozenset({server.base_url.removeprefix("http://")}), ports=frozenset({counter.port})))
            with pytest.raises(Forbidden, match="loopback"):
                await pages.fetch(server.base_url, 30.0)
            await pages.close()
    assert counter.met == 0


async def test_a_host_that_the_settings_allow_is_reachable_at_its_port_only() -> None:
    """By name: another name for the same address is refused as ever."""
    with serving(lambda request: Answer(b"ok", headers={"Content-Type": "text/plain"})) as server:
        host, port = server.base_url.removeprefix("http://").split(":")
        guard = Guard(frozenset({f"{host}:{port}"}), Names({"other.example.com": [[host]]}))
        async with httpx.AsyncClient(transport=PinnedTransport(guard), trust_env=False) as client:
            assert (await client.get(server.base_url)).text == "ok"
        assert guard.target(server.base_url).port == int(port)
        for other in (f"http://{host}:1/", f"http://localhost:{port}/", f"http://[::ffff:{host}]:{port}/"):
            with pytest.raises(Forbidden):
                guard.target(other)
        with pytest.raises(Forbidden):
            await guard.addresses("other.example.com", 80)
    assert len(server.requests) == 1


async def test_the_name_stays_what_tls_and_the_host_header_say() -> None:
    """The address is pinned; certificates are checked against the name."""
    server_names: list[str | None] = []

    async def met(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _, name, __: server_names.append(name)
    server = await asyncio.start_server(met, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    guard = Guard(frozenset({f"papers.example.com:{port}"}), Names({"papers.example.com": [["127.0.0.1"]]}))
    async with httpx.AsyncClient(transport=PinnedTransport(guard), trust_env=False) as client:
        with pytest.raises(httpx.ConnectError):  # it has no certificate
            await client.get(f"https://papers.example.com:{port}/")
    await take_no_more(server)
    server.close()
    assert server_names == ["papers.example.com"]


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with counting() as counter:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{counter.port}")
        pages = PageFetcher(guarded(counter))
        with pytest.raises(SourceError):
            await pages.fetch("http://example.com/", 30.0)
        await pages.close()
    assert counter.met == 0


async def test_a_name_that_cannot_be_resolved_is_unavailable_not_forbidden() -> None:
    with pytest.raises(SourceUnavailable, match="could not be resolved"):
        await Guard(resolve=Names({})).addresses("example.com", 443)
    with pytest.raises(SourceUnavailable, match="no address"):
        await Guard(resolve=Names({"example.com": [[]]})).addresses("example.com", 443)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://example.com", "https://example.com"),
        ("https://example.com./a b#part", "https://example.com/a%20b"),
        ("http://münchen.example.de/ä?q=ü", "http://xn--mnchen-3ya.example.de/%C3%A4?q=%C3%BC"),
        ("https://en.wikipedia.org/wiki/Ada_(name)", "https://en.wikipedia.org/wiki/Ada_(name)"),
        ("http://8.8.8.8:8080/", "http://8.8.8.8:8080/"),
        ("https://[2606:4700:4700::1111]/", "https://[2606:4700:4700::1111]/"),
        ("https://[64:ff9b::8.8.8.8]/", "https://[64:ff9b::8.8.8.8]/"),
    ],
)
def test_what_is_public_passes(url: str, target: str) -> None:
    assert Guard().target(url).url == target


def test_a_refusal_shows_no_password() -> None:
    with pytest.raises(Forbidden) as refused:
        Guard().target("http://user:hunter2@example.com/")
    assert "hunter2" not in str(refused.value)


@given(st.ip_addresses(v=4))
def test_an_address_that_python_calls_local_is_never_public(address: object) -> None:
    v4 = ip_address(str(address))
    if not v4.is_global or v4.is_multicast or v4.is_reserved or v4.is_link_local or v4.is_loopback or v4.is_private:
        assert non_public_reason(v4)
        assert non_public_reason(ip_address(f"64:ff9b::{v4}"))
    assert non_public_reason(ip_address(f"::ffff:{v4}"))


@given(st.ip_addresses(v=6))
def test_only_global_unicast_is_public(address: object) -> None:
    v6 = ip_address(str(address))
    if not non_public_reason(v6):
        assert v6.is_global
        assert not v6.is_multicast
        assert str(v6)[0] in "23" or str(v6).startswith("64:ff9b::")
