"""Every interface and every export marks every kind of notice, and marks nothing else."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider.ingest.entry import Entry, ReadOptions
from outrider.ingest.export import FORMATS
from outrider.ingest.readers import bibtex, json_lines, tables
from outrider.ingest.readers.tagged import read_ris
from outrider.interfaces.cli import run
from outrider.services import Services
from outrider.state.hits import Hit, Related
from outrider.state.notices import KINDS, describe_notices, list_notices
from outrider.state.records import Identifiers, Paper, Record
from outrider.usecases.export import make_record, make_run_writer, write_records
from support.http_app import open_client
from support.small_library import fill_library

ANIMALS = ("badger", "camel", "dingo", "eland", "ferret", "gecko", "heron", "ibis", "jackal", "kudu", "lemur")
SOUND = ANIMALS[-1]


def crossref(kind: str, name: str = "updated_by") -> dict[str, Any]:
    return {name: [{"type": kind, "doi": f"10.1000/{kind}", "date": "2020-01-31", "source": "retraction-watch"}]}


METADATA: dict[str, dict[str, Any]] = {
    "retracted": crossref("retraction"),
    "withdrawn": crossref("withdrawal"),
    "partly retracted": crossref("partial_retraction"),
    "expression of concern": {"notices": [{"kind": "expression_of_concern_in", "pmid": "9", "source": "J <b>Foo</b>. 2020;1(2):3"}]},
    "corrected": crossref("erratum"),
    "reinstated": crossref("reinstatement"),
    "retraction notice": {"retracted": True, **crossref("retraction", "update_to")},
    "withdrawal notice": crossref("withdrawal", "update_to"),
    "expression of concern notice": {"publication_types": ["Expression of Concern"]},
    "correction notice": {"notices": [{"kind": "erratum_for", "pmid": "8", "source": "J Foo. 2019;1:2"}]},
}
KIND_OF = dict(zip(ANIMALS, KINDS, strict=False))
RECORDS = [
    Paper(
        doc_id=animal,
        title=f"Aspirin and the liver of the {animal}",
        abstract=f"Aspirin harms the liver of each {animal}.",
        year=2010 + number,
        identifiers=Identifiers(doi=f"10.2000/{animal}"),
        metadata=METADATA[KIND_OF[animal]] if animal in KIND_OF else {"retracted": False, "publication_types": ["Journal Article"]},
    )
    for number, animal in enumerate(ANIMALS)
]
QUERY = "aspirin liver"
LABELS = sorted((kind[0].upper() + kind[1:] for kind in KINDS), key=len, reverse=True)
LABEL = re.compile(rf"(?:{'|'.join(LABELS)})(?= \(|\.|,|\]|\)|;|\*|$)", re.MULTILINE)


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_library(tmp_path_factory.mktemp("marked"), RECORDS)


def read_texts(text: str) -> dict[str, list[str]]:
    """The labels in the part of a text that begins with each title."""
    starts = sorted((match.start(), match[1]) for match in re.finditer(r"Aspirin and the liver of the (\w+)", text))
    ends = [*(start for start, _ in starts[1:]), len(text)]
    labels: dict[str, list[str]] = {}
    for (start, animal), end in zip(starts, ends, strict=True):
        labels.setdefault(animal, []).extend(match.lower() for match in LABEL.findall(text[start:end].replace("\\", "")))
    return labels


def read_kinds(rows: Any) -> dict[str, list[str]]:
    return {row["doc_id"]: [one["kind"] for one in row.get("notices", ())] for row in rows}


def read_words(rows: Any) -> dict[str, list[str]]:
    """Of rows with their notices in words."""
    return {row["doc_id"]: [match.lower() for text in row.get("notices", ()) for match in LABEL.findall(text)] for row in rows}


Output = Callable[..., str]
Reads = Callable[[Path, Output], Mapping[str, list[str]]]


@pytest.fixture
def output(capsys: pytest.CaptureFixture[str]) -> Output:
    def call(*command: str) -> str:
        assert run([*command]) == 0
        return capsys.readouterr().out

    return call


def search_hits(folder: Path) -> list[Hit]:
    return list(outrider.search(QUERY, top_k=20, library=folder).hits)


@asynccontextmanager
async def http_client(folder: Path) -> AsyncIterator[Any]:
    services = await asyncio.to_thread(Services.from_file, {"library.uri": str(folder)})
    async with open_client(services) as client:
        yield client
    services.close()


def post(folder: Path, address: str, body: dict[str, Any]) -> Any:
    async def call() -> Any:
        async with http_client(folder) as client:
            response = await client.post(address, json=body, timeout=60)
            return response.text if "json" not in response.headers["content-type"].split("/")[-1] else response.json()

    return asyncio.run(call())


def get(folder: Path, address: str) -> Any:
    async def call() -> Any:
        async with http_client(folder) as client:
            return (await client.get(address, timeout=60)).json()

    return asyncio.run(call())


def by_terminal(*more: str) -> Reads:
    return lambda folder, output: read_texts(output("search", QUERY, "-k", "20", "--library", str(folder), *more))


def by_json(folder: Path, output: Output) -> Mapping[str, list[str]]:
    return read_kinds(json.loads(output("search", QUERY, "-k", "20", "--library", str(folder), "--json"))["hits"])


def by_list(folder: Path, output: Output) -> Mapping[str, list[str]]:
    return read_texts(output("library", "list", "--library", str(folder)))


def by_list_json(folder: Path, output: Output) -> Mapping[str, list[str]]:
    return read_kinds(json.loads(output("library", "list", "--library", str(folder), "--json"))["records"])


def by_show(folder: Path, output: Output) -> Mapping[str, list[str]]:
    shown = {animal: output("library", "show", animal, "--library", str(folder)) for animal in ANIMALS}
    return {animal: [one.lower() for one in LABEL.findall(text)] for animal, text in shown.items()}


def by_systematic(folder: Path, output: Output) -> Mapping[str, list[str]]:
    """Two runs, since the command shows the first ten hits."""
    queries = (" OR ".join(f"{animal}[ti]" for animal in part) for part in (ANIMALS[:6], ANIMALS[6:]))
    return read_texts("\n".join(output("systematic", query, "--library", str(folder)) for query in queries))


def by_systematic_hits(folder: Path, _: Output) -> Mapping[str, list[str]]:
    services = Services.from_file({"library.uri": str(folder)})
    hits = list(outrider.systematic("aspirin[ti]", services=services))
    services.close()
    return {hit.doc_id: [notice.kind for notice in hit.notices] for hit in hits}


def by_rest(folder: Path, _: Output) -> Mapping[str, list[str]]:
    return read_kinds(post(folder, "/api/search", {"query": QUERY, "top_k": 20})["hits"])


def by_langserve(folder: Path, _: Output) -> Mapping[str, list[str]]:
    return read_kinds(post(folder, "/search/invoke", {"input": {"query": QUERY, "top_k": 20}})["output"]["hits"])


def by_rest_systematic(folder: Path, _: Output) -> Mapping[str, list[str]]:
    async def call() -> Any:
        async with http_client(folder) as client:
            lines = (await client.post("/api/systematic", json={"query": "aspirin[ti]"}, timeout=60)).text.splitlines()
            run_id = json.loads(lines[0])["run"]
            streamed = [json.loads(line)["hit"] for line in lines if line.startswith('{"hit"')]
            rows = (await client.get(f"/api/systematic/{run_id}/hits?after=0&limit=50", timeout=60)).json()["hits"]
            assert read_kinds(streamed) == read_kinds(rows)
            return rows

    return read_kinds(asyncio.run(call()))


def by_rest_library(folder: Path, _: Output) -> Mapping[str, list[str]]:
    return read_kinds(get(folder, "/api/library/records?limit=50")["records"])


def by_rest_record(folder: Path, _: Output) -> Mapping[str, list[str]]:
    async def call() -> list[Any]:
        async with http_client(folder) as client:
            return [(await client.get(f"/api/library/record?id={animal}")).json() for animal in ANIMALS]

    return read_kinds(asyncio.run(call()))


def by_mcp(folder: Path, _: Output) -> Mapping[str, list[str]]:
    mcp = pytest.importorskip("mcp")
    from outrider.interfaces.mcp.server import build_server  # its imports read files, which a loop may not wait for

    async def call() -> list[Any]:
        services = await asyncio.to_thread(Services.from_file, {"library.uri": str(folder)})
        async with mcp.Client(build_server(services)) as client:
            rows = []
            for tool, fields in (("search", {"query": QUERY, "top_k": 20}), ("library_search", {"query": QUERY, "top_k": 20})):
                result = await client.call_tool(tool, fields)
                rows.append(result.structured_content["hits"])
                assert read_texts("\n".join(one.text for one in result.content if one.type == "text")).keys() == set(ANIMALS)
        services.close()
        assert read_words(rows[0]) == read_words(rows[1])
        return rows[0]

    return read_words(asyncio.run(call()))


def by_retriever(folder: Path, _: Output) -> Mapping[str, list[str]]:
    from outrider.langchain import OutriderRetriever

    documents = OutriderRetriever(library=folder, k=20).invoke(QUERY)
    kinds = {one.id: [notice["kind"] for notice in one.metadata.get("notices", ())] for one in documents}
    words = {one.id: [match.lower() for match in LABEL.findall(one.metadata.get("status", ""))] for one in documents}
    assert kinds == words
    return kinds


def by_tool(folder: Path, _: Output) -> Mapping[str, list[str]]:
    from outrider.langchain import SearchTool

    return read_texts(SearchTool(library=folder, max_tokens=4_000).invoke({"query": QUERY, "top_k": 20}).partition("Works:")[2])


def by_saved_answer(folder: Path, _: Output) -> Mapping[str, list[str]]:
    """An answer of before, without the field."""
    hits = [hit.model_dump(mode="json", exclude={"notices"}) for hit in search_hits(folder)]
    return {hit["doc_id"]: [one.kind for one in Hit.model_validate(hit).notices] for hit in hits}


INTERFACES: dict[str, Reads] = {
    "terminal": by_terminal(), "terminal --explain": by_terminal("--explain"), "search --json": by_json, "library list": by_list,
    "library list --json": by_list_json, "library show": by_show, "systematic": by_systematic, "systematic in Python": by_systematic_hits,
    "REST": by_rest, "LangServe": by_langserve, "REST systematic": by_rest_systematic, "REST library": by_rest_library,
    "REST record": by_rest_record, "MCP": by_mcp, "LangChain retriever": by_retriever, "LangChain tool": by_tool,
    "saved answer": by_saved_answer,
}  # fmt: skip


@pytest.mark.parametrize("name", INTERFACES)
def test_every_interface_marks_every_kind(name: str, marked: Path, output: Output) -> None:
    """Each work has the mark of its own kind and no other; the sound work has none."""
    marks = INTERFACES[name](marked, output)
    assert {animal: sorted(set(marks[animal])) for animal in ANIMALS} == {
        animal: [KIND_OF[animal]] if animal in KIND_OF else [] for animal in ANIMALS
    }


def read_export(form: str, text: str) -> dict[str, list[str]]:
    """The kinds in a file as another program reads it."""
    if form == "csl":
        rows = {one["DOI"].partition("/")[2]: (one.get("note", ""), one.get("status")) for one in json.loads(text)}
        assert {animal: status for animal, (_, status) in rows.items() if status} == {
            animal: kind for animal, kind in KIND_OF.items() if KINDS.index(kind) < KINDS.index("corrected")
        }
        return {animal: [one.lower() for one in LABEL.findall(note)] for animal, (note, _) in rows.items()}
    if form in ("json", "jsonl"):
        return read_kinds(json.loads(text) if form == "json" else map(json.loads, text.splitlines()))
    if form in ("csv", "screening"):
        cells = csv.DictReader(io.StringIO(text))
        return {row["doc_id"]: [one.lower() for one in LABEL.findall(row["notices"])] for row in cells}
    return read_texts(text)


EXPORTS: dict[str, Callable[[list[Record], io.StringIO], object]] = {
    **{form: lambda records, stream, form=form: write_records(records, form, stream) for form in FORMATS},  # type: ignore[misc]
    "screening": lambda records, stream: [
        writer := make_run_writer("csv", stream), writer.begin(), *map(writer.record, records), writer.end()
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", EXPORTS)
def test_every_export_marks_every_kind(form: str, marked: Path) -> None:
    """Of records, and of the hits of a search."""
    for records in (RECORDS, [make_record(hit) for hit in search_hits(marked)]):
        stream = io.StringIO()
        EXPORTS[form](list(records), stream)
        marks = read_export(form, stream.getvalue())
        assert {animal: sorted(set(marks[animal])) for animal in ANIMALS} == {
            animal: [KIND_OF[animal]] if animal in KIND_OF else [] for animal in ANIMALS
        }
        assert "<script" not in stream.getvalue()


@pytest.mark.parametrize("form", EXPORTS)
def test_a_notice_among_the_results_is_exported_with_its_article(form: str) -> None:
    """The record of the article does not name it."""
    related = (Related(relation="retracted by", doc_id="crossref:10.1000/r", title="Retraction: Aspirin"),)
    hit = Hit(rank=1, doc_id="x", kind="paper", title="Aspirin and the liver of the lynx", score=1.0, related=related)
    stream = io.StringIO()
    EXPORTS[form]([make_record(hit)], stream)
    assert "etracted" in stream.getvalue()
    assert "10.1000/r" in stream.getvalue().replace("\\", "")
    assert not list_notices(make_record(hit.model_copy(update={"notices": ()})))


READERS: dict[str, Any] = {"ris": read_ris, "bibtex": bibtex.read, "csv": tables.read}
READERS |= dict.fromkeys(("csl", "json", "jsonl"), json_lines.read)
ENDINGS = {"ris": "ris", "bibtex": "bib", "csl": "csljson", "csv": "csv", "json": "json", "jsonl": "jsonl"}


@pytest.mark.parametrize("form", READERS)
def test_an_export_that_is_read_again_keeps_its_marks(form: str, tmp_path: Path) -> None:
    """And is the same file when it is written again."""
    stream = io.StringIO()
    write_records(RECORDS, form, stream)
    file = tmp_path / f"x.{ENDINGS[form]}"
    file.write_text(stream.getvalue(), encoding="utf-8", newline="")
    again = [entry.record for entry in READERS[form](file, ReadOptions()) if isinstance(entry, Entry)]
    for before, after in zip(RECORDS, again, strict=True):
        kept, own = list_notices(after), list_notices(before)
        assert [(one.kind, one.doi, one.pmid, one.date) for one in kept] == [(one.kind, one.doi, one.pmid, one.date) for one in own]
    second, third = io.StringIO(), io.StringIO()
    write_records(again, form, second)
    write_records(again, form, third)
    assert second.getvalue() == third.getvalue()
    assert len(second.getvalue()) < 1.5 * len(stream.getvalue())


def test_no_retracted_names_what_it_leaves_out(marked: Path, output: Output, capsys: pytest.CaptureFixture[str]) -> None:
    """Retracted and withdrawn works alone; doubted and corrected ones and notices stay."""
    answer = json.loads(output("search", QUERY, "-k", "20", "--library", str(marked), "--no-retracted", "--json"))
    assert {hit["doc_id"] for hit in answer["hits"]} == set(ANIMALS) - {"badger", "camel"}
    (remark,) = [one["why"] for one in answer["bypassed"] if one["step"] == "filters"]
    assert remark.startswith("2 retracted or withdrawn works were left out: ")
    assert "the badger': Retracted (2020-01-31, doi:10.1000/retraction, reported by Retraction Watch)" in remark
    assert "Withdrawn" in remark
    assert run(["search", QUERY, "--library", str(marked), "--no-retracted"]) == 0
    assert "2 retracted or withdrawn works were left out" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(("flag", "expected"), [(True, {"badger", "camel"}), (False, set(ANIMALS) - {"badger", "camel"})])
def test_the_library_is_filtered(flag: bool, expected: set[str], marked: Path, output: Output) -> None:
    """By every way that takes filters: the list, an export, a search, `execute`."""
    filters = json.dumps({"retracted": flag})
    listed = json.loads(output("library", "list", "--library", str(marked), "--filters", filters, "--json"))["records"]
    assert {one["doc_id"] for one in listed} == expected
    rows = output("export", "--format", "jsonl", "--library", str(marked), "--filters", filters).splitlines()
    assert {json.loads(row)["doc_id"] for row in rows} == expected
    hits = json.loads(output("search", QUERY, "-k", "20", "--library", str(marked), "--filters", filters, "--json"))["hits"]
    assert {hit["doc_id"] for hit in hits} == expected
    found = outrider.execute("SPARSE", QUERY, filters={"retracted": flag}, top_k=20, library=marked)
    assert {hit.doc_id for hit in found} == expected
    named = "2 retracted or withdrawn records of the library are left out by the filter: 'Aspirin and the liver of the badger', "
    assert [remark for remark in found.remarks if remark.startswith(named)] == [remark for remark in found.remarks if "left out" in remark]
    assert any("left out" in remark for remark in found.remarks) is not flag


def test_facets_count_the_kinds(marked: Path) -> None:
    """The gravest kind first."""
    facets = outrider.search(QUERY, top_k=20, library=marked).facets
    assert list(facets.by_notice.items()) == [(kind, 1) for kind in KINDS]


def test_notes_in_words_are_one_line_each() -> None:
    """As exports and tools carry them."""
    for record in RECORDS:
        assert "\n" not in describe_notices(list_notices(record))
