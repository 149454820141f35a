"""Explanation of a Boolean query before it runs: tree, queries for sources, counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from outrider.boolean.diagnostics import Finding, find_empty_terms
from outrider.boolean.parser import ParsedQuery, parse
from outrider.boolean.printer import Row, format_tree, history, outline
from outrider.services.systematic import Syntax, find_remote_sources, select_sources
from outrider.state.boolean import Node
from outrider.state.errors import LibraryError
from outrider.state.records import LIBRARY
from outrider.state.systematic import SentQuery
from outrider.systematic_search.library_remarks import find_missing_values
from outrider.systematic_search.manifest import describe_query

if TYPE_CHECKING:
    from outrider.services import Services


@dataclass(frozen=True, slots=True)
class QueryExplanation:
    parsed: ParsedQuery
    rows: tuple[Row, ...]
    """A search history; `hits` is None where nothing was counted."""
    findings: tuple[Finding, ...]
    sent: tuple[SentQuery, ...]
    """The query for each service."""
    asks_library: bool
    why_not_counted: str = ""

    def translations(self) -> list[tuple[str, str]]:
        """For people: source and query."""
        lines = [(LIBRARY, format_tree(self.parsed.tree))] if self.asks_library else []
        for query in self.sent:
            if query.refused:
                lines.append((query.source, f"not queried: {query.refused}"))
                continue
            text = [query.query, *(f"{name}={value}" for name, value in query.parameters)]
            text.append("unchanged" if query.native else "translated")
            text += describe_query(query)
            lines.append((query.source, "\n".join(text)))
        return lines

    def as_json(self) -> dict[str, Any]:
        return {
            "syntax": self.parsed.syntax,
            "tree": format_tree(self.parsed.tree),
            "outline": outline(self.parsed.tree),
            "history": [{"line": row.number, "query": row.expression, "hits": row.hits} for row in self.rows],
            "findings": [asdict(one) for one in self.findings],
            "sources": [{name: getattr(query, name) for name in query.__slots__} for query in self.sent],
            "why_not_counted": self.why_not_counted,
        }


async def explain_query(
    services: Services, query: str | Mapping[str, str], sources: Sequence[str] | None, syntax: Syntax, on_count: Callable[[int, int], None]
) -> QueryExplanation:
    """Explain a query without running it or writing anything; `on_count` receives how many lines are counted, of how many.

    Raises `BooleanSyntaxError`, `BadRequest`.
    """
    parsed = parse(query, syntax)
    remote = find_remote_sources(services)
    names = select_sources(sources, remote)
    sent_queries = tuple(remote[name].translate(parsed.tree, parsed.text) for name in names if name != LIBRARY)
    rows, why = history(parsed.tree), ""
    missing_values: tuple[Finding, ...] = ()
    counts: dict[Node, int] = {}
    if LIBRARY in names:
        try:
            # without a tag: an explanation leaves nothing behind
            library = await (services.pin(None) if services.pin else (await services.library()).pinned())
        except LibraryError as error:
            why = str(error)
        else:
            try:
                for number, row in enumerate(rows, start=1):
                    if row.node not in counts:
                        counts[row.node] = await library.count(row.node)
                    on_count(number, len(rows))
                missing_values = await find_missing_values(parsed.tree, parsed.text, library)
            finally:
                library.close()
            rows = tuple(replace(row, hits=counts[row.node]) for row in rows)
    hits = {id(row.node): row.hits for row in rows}
    empty = find_empty_terms(parsed.tree, lambda node: hits.get(id(node)), parsed.text)
    return QueryExplanation(parsed, rows, (*parsed.warnings, *missing_values, *empty), sent_queries, LIBRARY in names, why)
