"""What a Boolean query means before it is run: its tree, what each source would be asked, and how many records each line matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from outrider.boolean.diagnostics import Finding
from outrider.boolean.explain import Row, history, outline
from outrider.boolean.lint import find_empty_terms
from outrider.boolean.parser import ParsedQuery, parse
from outrider.boolean.printer import format_tree
from outrider.services.systematic import Syntax, sources_asked, world_of
from outrider.state.boolean import Node
from outrider.state.errors import LibraryError
from outrider.state.records import LIBRARY
from outrider.state.systematic import PinnedLibrary, SentQuery

if TYPE_CHECKING:
    from outrider.services import Services


@dataclass(frozen=True, slots=True)
class Explained:
    parsed: ParsedQuery
    rows: tuple[Row, ...]
    """A search history; `hits` is None where nobody counted."""
    findings: tuple[Finding, ...]
    sent: tuple[SentQuery, ...]
    """What each service would be asked."""
    asks_library: bool
    why_not_counted: str = ""

    def translations(self) -> list[tuple[str, str]]:
        """For the eye: source, and what it is asked."""
        own = [(LIBRARY, format_tree(self.parsed.tree))] if self.asks_library else []
        return [*own, *((one.source, _shown(one)) for one in self.sent)]

    def as_json(self) -> dict[str, Any]:
        return {
            "syntax": self.parsed.syntax,
            "tree": format_tree(self.parsed.tree),
            "outline": outline(self.parsed.tree),
            "history": [{"line": row.number, "query": row.expression, "hits": row.hits} for row in self.rows],
            "findings": [{"code": one.code, "message": one.message, "line": one.line, "column": one.column} for one in self.findings],
            "sources": [{name: getattr(one, name) for name in one.__slots__} for one in self.sent],
            "why_not_counted": self.why_not_counted,
        }


async def explained(
    services: Services, query: str | Mapping[str, str], sources: Sequence[str] | None, syntax: Syntax, counted: Callable[[int, int], None]
) -> Explained:
    """Runs nothing and writes nothing; `counted` is told how many lines are counted, of how many.

    Raises `BooleanSyntaxError`, `BadRequest`.
    """
    parsed = parse(query, syntax)
    world = world_of(services)
    names = sources_asked(sources, world)
    sent = tuple(world[name].translate(parsed.tree, parsed.text) for name in names if name != LIBRARY)
    rows, why = history(parsed.tree), ""
    if LIBRARY in names:
        try:
            library = await (services.pin(None) if services.pin else _as_it_is(services))
        except LibraryError as error:
            why = str(error)
        else:
            rows = await _counted(rows, library, counted)
    hits = {id(row.node): row.hits for row in rows}
    empty = find_empty_terms(parsed.tree, lambda node: hits.get(id(node)), parsed.text)
    return Explained(parsed, rows, (*parsed.warnings, *empty), sent, LIBRARY in names, why)


async def _as_it_is(services: Services) -> PinnedLibrary:
    """Without a tag: nothing is kept of an explanation."""
    return await (await services.library()).pinned()


async def _counted(rows: Sequence[Row], library: PinnedLibrary, counted: Callable[[int, int], None]) -> tuple[Row, ...]:
    found: list[Row] = []
    known: dict[Node, int] = {}
    try:
        for row in rows:
            if row.node not in known:
                known[row.node] = await library.count(row.node)
            found.append(replace(row, hits=known[row.node]))
            counted(len(found), len(rows))
    finally:
        library.close()
    return tuple(found)


def _shown(sent: SentQuery) -> str:
    if sent.refused:
        return f"not asked: {sent.refused}"
    lines = [sent.query, *(f"{name}={value}" for name, value in sent.parameters)]
    lines.append("as it was written" if sent.native else "translated")
    lines += [f"widened, and filtered here: {part}" for part in sent.widened]
    lines += [f"left out, since none of its records can fulfil it: {part}" for part in sent.lacking]
    if not sent.reproducible:
        lines.append("not reproducible: its totals differ between two calls")
    return "\n".join(lines)
