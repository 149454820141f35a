from __future__ import annotations

from typing import Any

import pytest

from outrider.sources.library import LibrarySource
from outrider.state.errors import LibraryCorrupt, LibraryMissing
from outrider.state.hits import Scored
from outrider.state.ports import SourceAnswer, SourceQuery
from outrider.state.request import RetrieverType
from support.fakes import paper

QUERY = SourceQuery("liver", RetrieverType.LANCE_FTS, None, 7, ("hepatic",))


class Engine:
    def __init__(self) -> None:
        self.asked: list[SourceQuery] = []

    async def search(self, query: SourceQuery) -> SourceAnswer:
        self.asked.append(query)
        return SourceAnswer((Scored(record=paper("a"), score=1.0),))

    async def whole(self, records: Any) -> Any:
        return [record.model_copy(update={"text": "whole"}) for record in records]

    async def snapshot(self) -> str:
        return "id@1"

    async def related_terms(self, text: str, limit: int) -> tuple[str, ...]:
        return (text,) * limit


def source(error: Exception | None = None) -> tuple[LibrarySource, Engine]:
    engine = Engine()

    async def opened() -> Engine:
        if error:
            raise error
        return engine

    return LibrarySource(opened), engine


async def test_a_query_reaches_the_engine_whole() -> None:
    library, engine = source()
    answer = await library.search(QUERY)
    assert engine.asked == [QUERY]
    assert [scored.record.doc_id for scored in answer.results] == ["a"]
    assert (await library.whole([paper("a")]))[0].text == "whole"
    assert (await library.snapshot(), await library.related_terms("x", 2)) == ("id@1", ("x", "x"))


async def test_a_missing_library_returns_nothing_and_its_search_reports_it() -> None:
    library, _ = source(LibraryMissing("none"))
    assert await library.snapshot() is None
    assert await library.related_terms("x", 2) == ()
    assert await library.whole([paper("a")]) == [paper("a")]
    with pytest.raises(LibraryMissing):
        await library.search(QUERY)


async def test_a_broken_library_is_never_silent() -> None:
    library, _ = source(LibraryCorrupt("torn"))
    for call in (library.search(QUERY), library.snapshot(), library.related_terms("x", 2), library.whole([paper("a")])):
        with pytest.raises(LibraryCorrupt):
            await call
