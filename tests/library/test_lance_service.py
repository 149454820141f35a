"""A library at a `db://` address, against a counterpart of LanceDB's service on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.library.library import Library, UpsertCounts
from outrider.state.errors import BadRequest, LibraryError, LibraryMissing
from outrider.state.filters import Compare
from outrider.state.records import Edge, Paper
from support.lance_service import KEY, LanceService, lance_service
from support.word_embedder import WordEmbedder

__all__ = ["lance_service"]
pytestmark = pytest.mark.slow

FOXES = [
    Paper(doc_id="a", title="The fox", abstract="A quick fox.", year=2020, edges=(Edge(relation="cites", target="doi:10.1/x"),)),
    Paper(doc_id="b", title="The hen", abstract="A hen without a fox.", year=2010),
]


async def test_it_finds_what_a_folder_finds(lance_service: LanceService, tmp_path: Path) -> None:
    with pytest.raises(LibraryMissing, match="no library at db://shelf"):
        await Library.open("db://shelf", storage_options=lance_service.options)
    library = await Library.open("db://shelf", create=True, storage_options=lance_service.options)
    local = await Library.open(tmp_path / "folder", create=True)
    for one in (library, local):
        assert await one.upsert(FOXES) == UpsertCounts(added=2)
        assert await one.upsert([FOXES[0].model_copy(update={"title": "The foxes"})]) == UpsertCounts(updated=1)
        await one.optimize(force=True)
    again = await Library.open("db://shelf", storage_options=lance_service.options, read_consistency_s=5)
    assert again.library_id == library.library_id
    for text, where in (("fox", None), ("hen", None), ("the fox", Compare("year", "$gte", 2015)), ("absent", None)):
        ours = [hit.record for hit in await again.search(text, where)]
        assert ours == [hit.record for hit in await local.search(text, where)], text
    assert await again.match("quick fox") == await local.match("quick fox") == ["a"]
    assert sorted(await again.edges("relation = 'cites'")) == sorted(await local.edges("relation = 'cites'"))
    assert await again.fetch(["b", "a"]) == await local.fetch(["b", "a"])
    assert [record.doc_id async for record in again.scan()] == ["a", "b"]
    model = WordEmbedder()
    for one in (again, local):
        await one.embed(FOXES, model)
    near = [await one.dense(model.vector("hen"), model.space) for one in (library, local)]
    assert near[0] == near[1]
    assert len(near[0]) == 2
    assert await again.check() == await local.check()
    await again.label(["a"], ["read"])
    assert await library.labels() == {"a": ("read",)}
    assert await again.remove(["b"]) == 1
    assert await library.count() == 1


async def test_no_rows_are_kept_by_their_ids(lance_service: LanceService) -> None:
    """Their content may change: each search reads them, in the one request that finds them."""
    library = await Library.open("db://shelf", create=True, storage_options=lance_service.options)
    await library.upsert(FOXES)
    server = await Library.open("db://shelf", storage_options=lance_service.options, read_consistency_s=5)
    for _ in range(2):
        lance_service.requests.clear()
        assert len(await server.search("quick")) == 1
        assert [path for _, path in lance_service.requests if path.endswith("/query/")] == ["/v1/table/records/query/"]


async def test_what_the_service_lacks_is_refused_by_name(lance_service: LanceService) -> None:
    library = await Library.open("db://shelf", create=True, storage_options=lance_service.options)
    for refused in (library.pinned(), library.pin("x")):
        with pytest.raises(BadRequest, match=r"exact search needs a library in a folder or on object storage: db://shelf"):
            await refused
    assert not await library.due()


async def test_keys(lance_service: LanceService) -> None:
    options = lance_service.options
    with pytest.raises(LibraryError, match="rejects the credentials") as caught:
        await Library.open("db://shelf", storage_options={**options, "api_key": f"{KEY}-wrong"})
    assert KEY not in str(caught.value)
    with pytest.raises(BadRequest, match="api_key is missing"):
        await Library.open("db://shelf", storage_options={})
    with pytest.raises(BadRequest, match="takes api_key, region, host_override, not aws_region"):
        await Library.open("db://shelf", storage_options={**options, "aws_region": "x"})
