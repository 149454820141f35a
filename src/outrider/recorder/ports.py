"""Proxies of the ports of a run, which show a tape each question and answer

A proxy has the members of the protocols that its adapter implements, so a new adapter is covered by what it is, not by a list. A new
protocol belongs into `PROTOCOLS`; a test compares these with what the nodes take.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, Protocol

from outrider.recorder.codec import PORT, Decoder, Encoder, Json
from outrider.runtime.tape import TAPE, Proxy
from outrider.state.analysis import Citing, Depending
from outrider.state.chat import Chat
from outrider.state.citations import ChaseReader, LinkSource
from outrider.state.code_links import LinkFinder
from outrider.state.duplicate_decisions import DecisionsProvider
from outrider.state.full_text import LocationSource, TextFetcher, TextSource
from outrider.state.hits import Ranked
from outrider.state.jobs import JobSteps
from outrider.state.ports import (
    BatchSource,
    Detailer,
    DistillerProvider,
    LibraryReader,
    Neighbours,
    PageReader,
    PreferencesProvider,
    ReadPage,
    Reranker,
    RerankerProvider,
    ResultStore,
    Source,
    SourceAnswer,
    TextCache,
    TextDistiller,
    TextEmbedder,
)
from outrider.state.records import Record
from outrider.state.systematic import OpenLibrary, PinnedLibrary, RemoteSource


class Comparison(Protocol):
    """`CompareAgain` as a protocol."""

    def __call__(self, doc_ids: Sequence[str], /) -> tuple[Ranked, ...]: ...


class Reading(Protocol):
    """`ReadRecords` as a protocol."""

    async def __call__(self, doc_ids: Sequence[str], /) -> Mapping[str, Record]: ...


SERVICE = (Source, BatchSource, Detailer, LinkSource, Citing)
"""What a source of searches may be besides."""
INSIDE = (TextEmbedder, Neighbours, LocationSource, TextSource)
"""Ports below the ones that nodes call: the library's search asks the first two, the reader of full texts the others."""
PROTOCOLS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        *SERVICE, ChaseReader, Chat, Comparison, DecisionsProvider, Depending, DistillerProvider, JobSteps, LibraryReader, LinkFinder,
        OpenLibrary, PageReader, PinnedLibrary, PreferencesProvider, ReadPage, Reading, RemoteSource, Reranker, RerankerProvider,
        ResultStore, TextCache, TextDistiller, TextFetcher,
    )
}  # fmt: skip
RETURNED = (Reranker, TextDistiller, PinnedLibrary, ReadPage)
"""Ports that calls of other ports return."""


class Question(NamedTuple):
    """A call of a port; `arguments` by the names of the protocol."""

    port: str
    method: str
    arguments: Mapping[str, Any]


class CallTape(Protocol):
    """A tape as ports see it."""

    async def call(self, question: Question, live: Callable[[], Any], wrap: Callable[[Any], Any]) -> Any: ...

    def call_now(self, question: Question, live: Callable[[], Any], wrap: Callable[[Any], Any]) -> Any: ...

    def iterate(self, question: Question, live: Callable[[], AsyncIterator[Any]], wrap: Callable[[Any], Any]) -> AsyncIterator[Any]: ...


class Member(NamedTuple):
    """A member of a protocol: a value, or a function that is `awaited`, an `iterator`, or called at once (`now`)."""

    kind: str
    signature: inspect.Signature | None = None


@cache
def list_members(protocol: type) -> Mapping[str, Member]:
    members: dict[str, Member] = {}
    for kind in reversed(protocol.__mro__):
        if kind in (object, Protocol) or not getattr(kind, "_is_protocol", False):
            continue
        for name, member in vars(kind).items():
            if isinstance(member, property):
                members[name] = Member("value")
            elif inspect.isfunction(member) and (not name.startswith("_") or name == "__call__") and name != "__init__":
                is_iterator = str(member.__annotations__.get("return", "")).startswith("AsyncIterator")
                how = "awaited" if inspect.iscoroutinefunction(member) else "iterator" if is_iterator else "now"
                members[name] = Member(how, inspect.signature(member))
    return members


def implements(adapter: object, protocol: type) -> bool:
    """Whether it has every member, without reading one: a property may load a model."""
    if inspect.isfunction(adapter) or inspect.ismethod(adapter) or type(adapter).__name__ == "partial":
        return list_members(protocol).keys() == {"__call__"}
    return all(inspect.getattr_static(adapter, name, None) is not None for name in list_members(protocol))


class Port(Proxy):
    """An adapter whose calls a tape sees. Without an adapter, its tape answers, and its values are recorded ones."""

    def __init__(self, name: str, adapter: Any, protocols: Sequence[type], values: Mapping[str, Any] | None = None) -> None:
        self._port, self.adapter, self._values = name, adapter, values
        self._protocols = tuple(kind for kind in protocols if adapter is None or implements(adapter, kind))
        self._members = {name: member for kind in self._protocols for name, member in list_members(kind).items()}
        if not self._members:
            raise TypeError(f"{adapter!r} implements none of: {', '.join(kind.__name__ for kind in protocols)}")

    def to_json(self, encoder: Encoder) -> Json:
        """As a part of an answer."""
        return {PORT: self._port, "port": self.describe(encoder)}

    def describe(self, encoder: Encoder) -> Json:
        """Its protocols and values, for a recording."""
        names = [name for name, member in self._members.items() if member.kind == "value"]
        values = {name: encoder.encode(getattr(self, name)) for name in names}
        return {"protocols": [kind.__name__ for kind in self._protocols], "values": values}

    @classmethod
    def restore(cls, name: str, description: Json, decoder: Decoder) -> Port:
        protocols = [PROTOCOLS[str(kind)] for kind in description["protocols"]]
        return cls(name, None, protocols, {str(key): decoder.decode(value) for key, value in description["values"].items()})

    def __repr__(self) -> str:
        return f"<port {self._port}>"

    def __getattr__(self, name: str) -> Any:
        member = self.__dict__.get("_members", {}).get(name)
        if member is None:
            raise AttributeError(f"port {self.__dict__.get('_port')!r} has no {name!r}")
        if member.kind == "value":
            return self._values[name] if self._values is not None else getattr(self.adapter, name)
        return self._make_method(name, member)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._make_method("__call__", self._members["__call__"])(*args, **options)

    def _make_method(self, name: str, member: Member) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            tape: Any = TAPE.get()
            if tape is None:
                return self._call_live(name, args, options)
            assert member.signature is not None  # noqa: S101 - every function has one
            bound = member.signature.bind(None, *args, **options)

            def live(**changes: Any) -> Any:
                bound.arguments.update(changes)
                return self._call_live(name, bound.args[1:], bound.kwargs)

            arguments = dict(list(bound.arguments.items())[1:])  # without self
            invoke = {"awaited": tape.call, "iterator": tape.iterate, "now": tape.call_now}[member.kind]
            return invoke(Question(self._port, name, arguments), live, self._wrap)

        return call

    def _call_live(self, name: str, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        if self.adapter is None:
            raise RuntimeError(f"{self._port}.{name} has no adapter here: a recording answers only a replayed run")
        return (self.adapter if name == "__call__" else getattr(self.adapter, name))(*args, **options)

    def _wrap(self, value: Any) -> Any:
        """An answer whose parts that are ports are proxies, too."""
        if isinstance(value, SourceAnswer):
            again = value.compare_again and Port(f"{self._port}/{Comparison.__name__}", value.compare_again, (Comparison,))
            read = value.read and Port(f"{self._port}/{Reading.__name__}", value.read, (Reading,))
            return replace(value, compare_again=again, read=read)
        if type(value) in (tuple, list):
            return type(value)(self._wrap(item) for item in value)
        if isinstance(value, str | int | float | bool | type(None) | dict) or type(value).__module__.startswith("outrider.state."):
            return value
        for protocol in RETURNED:
            if implements(value, protocol):
                return Port(f"{self._port}/{protocol.__name__}", value, (protocol,))
        return value


class PortBook:
    """The ports of some services. `recorded` are those of a recording: then no adapter is made."""

    def __init__(self, recorded: Mapping[str, Port | None] | None = None) -> None:
        self.is_replay = recorded is not None
        self._ports: dict[str, Port | None] = dict(recorded or {})

    def wrap(self, name: str, make: Callable[[], Any], *protocols: type) -> Any:
        """The port of this name over the adapter that `make` returns; None for none."""
        if not self.is_replay:
            adapter = make()
            self._ports[name] = None if adapter is None else Port(name, adapter, protocols)
        return self._ports.get(name)

    def wrap_all(self, group: str, make: Callable[[], Sequence[Any]], *protocols: type) -> tuple[Any, ...]:
        """The ports of several adapters with names of their own."""
        if not self.is_replay:
            made = {f"{group} {adapter.name}": adapter for adapter in make()}
            ports = {name: Port(name, adapter, protocols) for name, adapter in made.items()}
            self._ports |= ports
            return tuple(ports.values())
        return tuple(port for name, port in self._ports.items() if name.startswith(f"{group} ") and port is not None)

    def describe(self, encoder: Encoder) -> Json:
        return {name: None if port is None else port.describe(encoder) for name, port in self._ports.items()}
