"""Every adapter that a node takes from outside stands behind a port, and a replay makes none."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from outrider.graph.pipeline import build
from outrider.nodes import analyze as analyze_nodes
from outrider.recorder import ports
from outrider.recorder.ports import INSIDE, PROTOCOLS, Port, PortBook, implements, list_members
from outrider.runtime.tape import WallClock
from outrider.services import Services
from outrider.services.make_nodes import make_evidence, make_ratings, make_subject, make_surroundings
from outrider.settings.model import LlmSettings, RecorderSettings, Settings
from outrider.settings.sections import SourcesSettings
from outrider.state import analysis, chat, citations, code_links, duplicate_decisions, full_text, systematic
from outrider.state import ports as state_ports
from support.fakes import Shelf, no_reranker

MODULES = (state_ports, analysis, chat, citations, code_links, duplicate_decisions, full_text, systematic)


def list_protocols() -> dict[str, type]:
    return {
        name: kind
        for module in MODULES
        for name, kind in vars(module).items()
        if isinstance(kind, type) and getattr(kind, "_is_protocol", False) and kind.__module__ == module.__name__
    }


def test_every_port_of_the_state_is_known_to_the_recorder() -> None:
    """A new protocol must be put behind proxies, or said to lie inside of another one."""
    inside = {kind.__name__ for kind in INSIDE}
    assert list_protocols().keys() - PROTOCOLS.keys() - inside == set()
    assert inside.isdisjoint(PROTOCOLS)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_port_has_every_member_of_its_protocol(name: str) -> None:
    members = list_members(PROTOCOLS[name])
    assert members
    for member, how in members.items():
        assert how.kind in ("value", "awaited", "iterator", "now")
        assert (how.signature is None) == (how.kind == "value"), member
    port = Port(name, None, (PROTOCOLS[name],), {member: 1 for member, how in members.items() if how.kind == "value"})
    assert all(hasattr(port, member) for member in members)
    assert not hasattr(port, "no_member_of_any_protocol")


def walk(value: Any, path: str, seen: set[int], annotation: Any = None) -> Iterator[tuple[str, Any, Any]]:
    """Fields of nodes and of what they hold, with their annotated types."""
    if id(value) in seen or isinstance(value, str | int | float | bool | type(None) | Settings):
        return
    seen.add(id(value))
    yield path, value, annotation
    if isinstance(value, tuple | list):
        for number, item in enumerate(value):
            yield from walk(item, f"{path}[{number}]", seen, annotation)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from walk(item, f"{path}[{name!r}]", seen, annotation)
    elif is_dataclass(value) and type(value).__module__.startswith(("outrider.nodes", "outrider.graph", "outrider.systematic_search")):
        hints = get_type_hints(type(value), {**vars(inspect.getmodule(type(value))), **list_protocols(), "Runtime": Any})
        for one in fields(value):
            yield from walk(getattr(value, one.name), f"{path}.{one.name}", seen, hints[one.name])
    elif inspect.isfunction(value) and value.__closure__:
        for name, cell in zip(value.__code__.co_freevars, value.__closure__, strict=True):
            if name != "services":
                yield from walk(cell.cell_contents, f"{path}<{name}>", seen)


def names_protocol(annotation: Any) -> bool:
    known = {*list_protocols().values()} - {*INSIDE}
    return (isinstance(annotation, type) and annotation in known) or any(names_protocol(part) for part in get_args(annotation))


@pytest.fixture
def services(tmp_path: Path) -> Services:
    llm = LlmSettings(base_url="http://127.0.0.1:9/v1", model="x")
    return Services(Settings(recorder=RecorderSettings(enabled=True), sources=SourcesSettings(), llm=llm))


def test_no_node_holds_an_adapter_of_its_own(services: Services) -> None:
    """Looks at the fields of all nodes: where the type names a protocol, or the value implements one, it is a port."""
    graph = build(services, checkpointer=False)
    nodes: dict[str, Any] = {name: node.bound for name, node in graph.nodes.items() if name != "__start__"}
    nodes |= {"subject": make_subject(services), "surroundings": make_surroundings(services), "ratings": make_ratings(services)}
    nodes["evidence"] = make_evidence(services)
    held: list[str] = []
    seen_ports: set[str] = set()
    for name, node in nodes.items():
        start = node._run if hasattr(node, "_run") else node
        for path, value, annotation in walk(start, name, set()):
            if isinstance(value, Port):
                seen_ports.add(repr(value))
                continue
            is_bare = type(value).__module__.startswith(("outrider.sources", "outrider.models", "outrider.library.library"))
            typed = annotation is not None and names_protocol(annotation) and not isinstance(value, tuple | list | dict)
            if path == "subject.find_fetcher":  # it gives the port `texts`
                continue
            if is_bare or (typed and type(value).__name__ not in ("PlanCache", "AnalysisCache", "WallClock")):
                held.append(f"{path}: {type(value).__module__}.{type(value).__name__}")
    assert held == []
    assert {"<port chat>", "<port library>", "<port store>", "<port reranker>", "<port decisions>", "<port pages>"} <= seen_ports
    assert {"<port distillers>", "<port source github>", "<port dependencies>", "<port citing>", "<port plan cache>"} <= seen_ports
    assert isinstance(services.clock, WallClock)


def test_no_node_reads_a_clock_past_the_tape() -> None:
    """Nodes and graphs read time through the tape: `time` is imported for logs alone, and `datetime.now` not at all."""
    root = Path(analyze_nodes.__file__).parents[1]
    folders = [root / "nodes", root / "graph", root / "systematic_search"]
    files = [file for folder in folders for file in folder.resolve().rglob("*.py") if "services" not in file.parts]
    assert len(files) > 40
    readers = {
        f"{file.parent.name}/{file.name}"
        for file in files
        for word in ("time.monotonic()", "time.perf_counter()", "datetime.now(", "time.time()", "uuid4(", "random.")
        if word in file.read_text(encoding="utf-8")
    }
    assert readers == {"graph/guard.py", "graph/parent.py"}  # a log line and the id of a run; the id of a message to a parent


def test_a_new_adapter_is_covered_by_what_it_implements() -> None:
    class New(Shelf):
        async def details(self, records: Any, within_s: float) -> Any: ...

    book = PortBook()
    (port,) = book.wrap_all("source", lambda: [New(name="new")], *ports.SERVICE)
    assert hasattr(port, "details")
    assert not hasattr(port, "references")
    assert port.capabilities.filters
    (plain,) = book.wrap_all("source", lambda: [Shelf()], *ports.SERVICE)
    assert not hasattr(plain, "details")
    with pytest.raises(TypeError, match="implements none of"):
        book.wrap("library", object, state_ports.LibraryReader)


def test_properties_are_not_read_to_see_what_an_adapter_is() -> None:
    class Lazy:
        @property
        def name(self) -> str:
            raise AssertionError("loads a model")

        def scores(self, query: str, texts: Any) -> list[float]:
            return []

    assert implements(Lazy(), state_ports.Reranker)


async def test_without_a_run_ports_pass_everything_on(services: Services) -> None:
    shelf = Shelf()
    own = Services(Settings(recorder=RecorderSettings(enabled=True)), shelf=shelf, sources=(shelf,), reranker=no_reranker)
    assert await own.shelf.snapshot() == "shelf@1"
    assert (await own.reranker(asked=True))[0] is None
    assert own.has_own_library is False
    assert services.has_own_library is True
    assert services.chat_says.startswith("x")
