"""What a run was asked to do, fixed before its first page: the first line of its ledger."""

from __future__ import annotations

import unicodedata
from typing import Literal

from pydantic import Field

from outrider.boolean.parser import Parsed, parse
from outrider.boolean.printer import printed
from outrider.state.boolean import Node
from outrider.state.model import Model
from outrider.state.systematic import PAGE, SentQuery, Snapshot
from outrider.systematic_search.errors import OtherRun

Syntax = Literal["auto", "pubmed", "ovid"]


class Asked(Model):
    """Holds no time and no name of a file: two runs that ask the same of the same things begin with the same line."""

    query: str | dict[str, str] = Field(description="As it was given.")
    syntax: Literal["pubmed", "ovid"]
    tree: str = Field(description="The parsed query, printed; it reads back to the same tree.")
    findings: tuple[str, ...] = Field((), description="What its author was told of it.")
    order: str = Field(description="The total order of the hits.")
    page: int = Field(PAGE, description="Hits of a page at most.")
    tool: dict[str, str] = Field(description="Versions of Outrider and of the Unicode tables that words are cut by.")
    snapshot: Snapshot | None = Field(None, description="What was read of the library; None where it was not asked.")
    sources: tuple[SentQuery, ...] = Field((), description="What each service was asked for, in the order in which they are asked.")

    @property
    def names(self) -> tuple[str, ...]:
        """Who is asked, in order; the library comes first."""
        return (*(("library",) if self.snapshot else ()), *(sent.source for sent in self.sources))

    def parsed(self) -> Node:
        """Its tree; `OtherRun` where this version reads the query otherwise."""
        tree = parse(self.query, self.syntax).tree
        if printed(tree) != self.tree:
            raise OtherRun("this version of Outrider reads the query otherwise than the one that began the run; run the query anew")
        return tree


def tool_versions(outrider: str) -> dict[str, str]:
    return {"outrider": outrider, "unicode": unicodedata.unidata_version}


def order_of(library: bool, sources: tuple[str, ...], library_order: str) -> str:
    """In words, for whoever reads the manifest."""
    parts = [f"library {library_order}"] if library else []
    return "; then ".join([*parts, *(f"{name} slice by slice, as it answers" for name in sources)])


def found_of(parsed: Parsed) -> tuple[str, ...]:
    return tuple(f"{finding.code}: {finding}" for finding in parsed.warnings)
