"""The same library at an `s3://` address, against a server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from outrider.library.library import Library, UpsertCounts
from outrider.state.errors import LibraryMissing
from outrider.state.records import Paper
from support.word_embedder import WordEmbedder

pytestmark = pytest.mark.slow


KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "aws_region": "us-east-1"}


@pytest.fixture
def options() -> Iterator[dict[str, str]]:
    server = pytest.importorskip("moto.server", reason="needs moto[server]").ThreadedMotoServer(port=0, verbose=False)
    boto3 = pytest.importorskip("boto3")
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"
    client = boto3.client("s3", endpoint_url=address, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")
    client.create_bucket(Bucket="shelf")
    yield {**KEYS, "aws_endpoint": address, "allow_http": "true", "aws_virtual_hosted_style_request": "false"}
    client.close()
    server.stop()


@pytest.mark.filterwarnings("ignore::DeprecationWarning:botocore.*", "ignore::ResourceWarning")
async def test_a_library_on_object_storage(options: dict[str, str]) -> None:
    with pytest.raises(LibraryMissing, match=r"no library at s3://shelf/lib; create one"):
        await Library.open("s3://shelf/lib", storage_options=options)
    library = await Library.open("s3://shelf/lib", create=True, storage_options=options)
    assert await library.upsert([Paper(doc_id="a", title="fox"), Paper(doc_id="b", title="hen")]) == UpsertCounts(added=2)
    assert await library.upsert([Paper(doc_id="a", title="foxes")]) == UpsertCounts(updated=1)
    await library.optimize(force=True)
    again = await Library.open("s3://shelf/lib/", storage_options=options)
    assert [hit.record.doc_id for hit in await again.search("fox")] == ["a"]
    assert again.library_id == library.library_id
    assert (await again.info()).size_bytes is None
    await again.embed([Paper(doc_id="a", title="foxes"), Paper(doc_id="b", title="hen")], WordEmbedder())
    assert (await library.reindex(WordEmbedder(name="other"))).embedded == 2
    near = await again.dense(WordEmbedder(name="other").vector("hen"), WordEmbedder(name="other").space)
    assert [one.doc_id for one in near] == ["b", "a"]
    assert await again.remove(["a"]) == 1
    assert await library.count() == 1
    assert await library.check() == ()


@pytest.mark.filterwarnings("ignore::DeprecationWarning:botocore.*", "ignore::ResourceWarning")
async def test_four_creators_at_once_make_one_library(options: dict[str, str]) -> None:
    """Each connection is another one, as of four processes; what each writes is there."""
    address = "s3://shelf/four"
    libraries = await asyncio.gather(*(Library.open(address, create=True, storage_options=options) for _ in range(4)))
    assert len({library.library_id for library in libraries}) == 1
    records = [[Paper(doc_id=f"{writer}-{number}", title="fox") for number in range(3)] for writer in range(4)]
    counts = await asyncio.gather(*(library.upsert(own) for library, own in zip(libraries, records, strict=True)))
    assert counts == [UpsertCounts(added=3)] * 4
    assert await libraries[0].count() == 12
    assert len(await libraries[0].search("fox")) == 12
    assert await libraries[0].check() == ()
    for library in libraries:
        library.close()
