"""The same library on object storage, against servers on loopback."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from outrider.library.copies.copy_folder import find_folder
from outrider.library.library import Library, UpsertCounts
from outrider.state.duplicate_decisions import Decision
from outrider.state.errors import LibraryMissing, LibraryReadOnly
from outrider.state.records import Edge, Paper
from support import object_store
from support.object_store import S3Server, azure_options, s3, write_papers
from support.word_embedder import WordEmbedder

__all__ = ["azure_options", "s3"]
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning:botocore.*", "ignore::ResourceWarning")]

FOXES = [Paper(doc_id="a", title="fox"), Paper(doc_id="b", title="hen")]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies lie here."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


async def use_library(address: str, options: dict[str, str]) -> None:
    """What a library does, by two handles."""
    with pytest.raises(LibraryMissing, match=f"no library at {address}; create one"):
        await Library.open(address, storage_options=options)
    library = await Library.open(address, create=True, storage_options=options)
    assert await library.upsert(FOXES) == UpsertCounts(added=2)
    assert await library.upsert([Paper(doc_id="a", title="foxes")]) == UpsertCounts(updated=1)
    await library.optimize(force=True)
    again = await Library.open(f"{address}/", storage_options=options)
    assert [hit.record.doc_id for hit in await again.search("fox")] == ["a"]
    copied = await Library.open(address, storage_options=options, copy_tables=True)
    assert [hit.record.title for hit in await copied.search("fox")] == ["foxes"]
    assert list(find_folder().rglob("data/*.lance"))
    assert again.library_id == library.library_id
    assert (await again.info()).size_bytes is None
    await again.embed([Paper(doc_id="a", title="foxes"), FOXES[1]], WordEmbedder())
    assert (await library.reindex(WordEmbedder(name="other"))).embedded == 2
    near = await again.dense(WordEmbedder(name="other").vector("hen"), WordEmbedder(name="other").space)
    assert [one.doc_id for one in near] == ["b", "a"]
    assert await again.remove(["a"]) == 1
    assert await library.count() == 1
    assert await library.check() == ()


async def test_a_library_on_object_storage(s3: S3Server) -> None:
    await use_library("s3://shelf/lib", s3.options)


async def test_a_library_on_azure(azure_options: dict[str, str]) -> None:
    await use_library("az://shelf/lib", azure_options)
    libraries = await asyncio.gather(*(Library.open("az://shelf/two", create=True, storage_options=azure_options) for _ in range(2)))
    await asyncio.gather(*(write_papers(library, str(number), 2) for number, library in enumerate(libraries)))
    assert await libraries[0].count() == 5
    assert await libraries[0].check() == ()


async def test_four_creators_at_once_make_one_library(s3: S3Server) -> None:
    """Each connection is another one, as of four processes; what each writes is there."""
    address = "s3://shelf/four"
    libraries = await asyncio.gather(*(Library.open(address, create=True, storage_options=s3.options) for _ in range(4)))
    assert len({library.library_id for library in libraries}) == 1
    records = [[Paper(doc_id=f"{writer}-{number}", title="fox") for number in range(3)] for writer in range(4)]
    counts = await asyncio.gather(*(library.upsert(own) for library, own in zip(libraries, records, strict=True)))
    assert counts == [UpsertCounts(added=3)] * 4
    assert await libraries[0].count() == 12
    assert len(await libraries[0].search("fox")) == 12
    assert await libraries[0].check() == ()
    for library in libraries:
        library.close()


def test_processes_that_create_and_write_at_once_lose_nothing_when_one_is_killed(s3: S3Server) -> None:
    folder = Path(object_store.__file__).parents[1]
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(folder)!r}); from support.object_store import main; main(*sys.argv[1:])",
    ]
    writers = [
        subprocess.Popen([*command, "s3://shelf/lib", s3.url, f"w{n}", "3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for n in range(3)
    ]
    assert writers[2].stdout is not None
    written = int(writers[2].stdout.readline())  # its first paper
    writers[2].kill()
    outputs = [writer.communicate(timeout=200) for writer in writers]
    assert [writer.returncode for writer in writers[:2]] == [0, 0], outputs

    async def read() -> None:
        library = await Library.open("s3://shelf/lib", storage_options=s3.options)
        wanted = [f"w{writer}-{number}" for writer in range(2) for number in range(3)]
        assert [record.doc_id for record in await library.fetch([*wanted, f"w2-{written}"])] == [*wanted, f"w2-{written}"]
        rows = [record.doc_id async for record in library.scan()]
        assert len(rows) == len(set(rows))
        await library.mend_edges()  # of the record that the killed process was writing
        assert await library.check() == ()

    asyncio.run(read())


async def test_what_is_read_changed_and_written_loses_no_change(s3: S3Server) -> None:
    libraries = [await Library.open("s3://shelf/lib", create=True, storage_options=s3.options, read_consistency_s=60) for _ in range(3)]
    first = libraries[0]
    await first.upsert(FOXES)
    await asyncio.gather(*(library.label(["a"], [f"label {number}"]) for number, library in enumerate(libraries)))
    assert await first.labels() == {"a": ("label 0", "label 1", "label 2")}
    decisions = [Decision(what="split", ids=("a", f"b{n}")) for n in range(3)]
    await asyncio.gather(*(library.decide(decision) for library, decision in zip(libraries, decisions, strict=True)))
    assert {decision.ids for decision in await first.decisions()} == {decision.ids for decision in decisions}
    await asyncio.gather(*(library.change_chase("doi:10.1/x", lambda before: (before or "") + "+") for library in libraries))
    assert await first.chase("doi:10.1/x") == "+++"
    assert len(set(await asyncio.gather(*(library.tag(f"t{number}") for number, library in enumerate(libraries))))) == 1
    await asyncio.gather(*(library.optimize(force=True) for library in libraries))
    assert await first.check() == ()


async def test_reads_may_be_old_but_not_those_of_writers_and_pinned_versions(s3: S3Server) -> None:
    library = await Library.open("s3://shelf/lib", create=True, storage_options=s3.options)
    await library.upsert(FOXES)
    server = await Library.open("s3://shelf/lib", storage_options=s3.options, read_consistency_s=3_600)
    assert await server.count() == 2
    await library.upsert([Paper(doc_id="c", title="fox", edges=(Edge(relation="cites", target="doi:10.1/x"),))])
    assert await server.count() == 2
    pinned = await server.pinned()
    assert pinned.snapshot.version == int((await library.snapshot()).rpartition("@")[2])
    assert await server.upsert([Paper(doc_id="c", title="fox", edges=(Edge(relation="cites", target="doi:10.1/x"),))]) == UpsertCounts(
        unchanged=1
    )
    assert await server.count() == 3, "a writer has seen the latest"
    assert await server.upsert([Paper(doc_id="d", title="fox", edges=(Edge(relation="cites", target="doi:10.1/x"),))]) == UpsertCounts(
        added=1
    )
    assert len(await server.search("fox")) == 3, "what it wrote itself is seen at once"
    assert len(await server.edges("relation = 'cites'")) == 2
    exact = await Library.open("s3://shelf/lib", storage_options=s3.options)
    await library.upsert([Paper(doc_id="e", title="fox")])
    assert len(await exact.search("fox")) == 4


async def test_searches_of_a_server_send_no_request_again(s3: S3Server) -> None:
    library = await Library.open("s3://shelf/lib", create=True, storage_options=s3.options)
    await library.upsert([*FOXES, *(Paper(doc_id=f"hare {number}", title=f"hare {number}") for number in range(50))])
    await library.optimize(force=True)
    server = await Library.open("s3://shelf/lib", storage_options=s3.options, read_consistency_s=3_600)
    s3.requests.clear()
    first = await server.search("hare")
    assert len(s3.requests) <= 10, s3.requests
    s3.requests.clear()
    assert await server.search("hare") == first
    assert await server.search("hare 7", limit=20) != first
    assert s3.requests == []
    assert await server.search("zebra") == []
    kept = server._table.rows._values
    assert set(kept) == {"record"}
    assert await server.match("hare", "title", limit=5) == [f"hare {number}" for number in (0, 1, 10, 11, 12)]
    assert set(kept) == {"record"}, "ids of all matches are kept, however many there are"
    assert await library.search("hare") == first
    s3.requests.clear()
    await library.search("hare")
    assert len(s3.requests) <= 2, s3.requests


async def test_a_user_with_a_profile_writes(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LanceDB and the client of leases find the same credentials."""
    profile = "[reader]\naws_access_key_id = test\naws_secret_access_key = test\nregion = us-east-1\n"
    (tmp_path / "credentials").write_text(profile, encoding="utf-8")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "reader")
    options = {name: value for name, value in s3.options.items() if "access_key" not in name}
    library = await Library.open("s3://shelf/lib", create=True, storage_options=options)
    assert await library.upsert(FOXES) == UpsertCounts(added=2)
    assert [hit.record.doc_id for hit in await library.search("fox")] == ["a"]


async def test_a_user_who_may_only_read_searches(s3: S3Server) -> None:
    library = await Library.open("s3://shelf/lib", create=True, storage_options=s3.options)
    await library.upsert(FOXES)
    s3.refuse = lambda method, path: method in ("PUT", "POST", "DELETE")
    reader = await Library.open("s3://shelf/lib", storage_options=s3.options)
    assert [hit.record.doc_id for hit in await reader.search("fox")] == ["a"]
    for write in (reader.upsert([Paper(doc_id="c", title="fox")]), reader.optimize(), reader.tag("x"), reader.probe(writes=True)):
        with pytest.raises(LibraryReadOnly, match="s3://shelf/lib cannot be written by this user; searching it works"):
            await write


async def test_maintenance_elsewhere_is_seen_whatever_a_read_may_miss(s3: S3Server) -> None:
    """`rebuild` commits by other handles, as a cluster does, in the middle of the maintenance of this one."""
    lance = pytest.importorskip("lance", reason="needs pylance: pip install 'outrider[cluster]'")
    library = await Library.open("s3://shelf/lib", create=True, storage_options=s3.options, read_consistency_s=3_600)
    for number in range(3):
        await library.upsert([Paper(doc_id=str(number), title=f"fox {number}")])
    unindexed: list[int] = []

    async def rebuild(uri: str, _rows: int, indexes: Sequence[tuple[str, object]]) -> None:
        def compact() -> None:
            dataset = lance.dataset(uri, storage_options=s3.options)
            dataset.optimize.compact_files()
            dataset.optimize.optimize_indices()

        await asyncio.to_thread(compact)
        unindexed.append(len(indexes))

    await library.optimize(force=True, rebuild=rebuild)
    assert unindexed
    fresh = await Library.open("s3://shelf/lib", storage_options=s3.options)
    assert (await library.snapshot(), await library.count()) == (await fresh.snapshot(), 3)
    assert len(await library.search("fox")) == 3
    assert await library.check() == ()


async def test_a_library_that_is_created_anew_keeps_no_retractions_of_the_old_one(s3: S3Server) -> None:
    """Its versions have the same numbers."""
    address, handles = "s3://shelf/anew", []
    for titles in (("RETRACTED: fox", "hen"), ("fox", "RETRACTED: hen")):
        client = s3.client()
        for key in s3.read_objects():
            client.delete_object(Bucket=object_store.BUCKET, Key=key)
        library = await Library.open(address, create=True, storage_options=s3.options)
        await library.upsert([Paper(doc_id=title[-3:], title=title) for title in titles])
        handles.append(library)
        retracted = await handles[0].retracted_ids()
        assert retracted == tuple(title[-3:] for title in titles if title.startswith("RETRACTED"))
