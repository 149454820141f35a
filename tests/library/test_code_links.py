"""Evidence of code links in a library: written with records, replaced, removed, found by every name, and filtered by."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.library.edges import EdgeTable
from outrider.library.find_code import CodeFinder
from outrider.library.library import Library
from outrider.state.errors import BadRequest
from outrider.state.filters import parse_filter
from outrider.state.records import Identifiers, Paper, Repository

PAPER = Paper(
    doc_id="p",
    title="Snowfall: weather at scale",
    abstract="We model snow. Our code is available at https://github.com/lab/snowfall.",
    identifiers=Identifiers(doi="10.1000/snow"),
)
CODE = Repository(
    doc_id="github:lab/snowfall",
    title="lab/snowfall",
    identifiers=Identifiers(github="lab/snowfall"),
    text="# Snowfall\n\n## Citation\n\nIf you use Snowfall, please cite our paper https://doi.org/10.1000/snow.\n",
    updated_at="2026-11-01T00:00:00Z",
)
OTHER = Paper(doc_id="q", title="Rain", abstract="We used Snowfall (https://github.com/lab/snowfall).")


@pytest.fixture
async def library(tmp_path: Path) -> Library:
    return await Library.open(tmp_path / "library", create=True)


async def find(library: Library, *records: Paper | Repository) -> dict[str, list[tuple[str, str, str, bool]]]:
    async def get_library() -> Library:
        return library

    known = await CodeFinder(get_library).find(records)
    return {doc_id: [(link.work, link.target, link.kind, link.agree) for link in links] for doc_id, links in known.links.items()}


async def test_a_record_is_written_with_its_evidence_and_both_directions_agree(library: Library) -> None:
    await library.upsert([PAPER])
    assert (await find(library, PAPER))["p"] == [("doi:10.1000/snow", "github:lab/snowfall", "paper's own code", False)]
    await library.upsert([CODE])
    pair = ("doi:10.1000/snow", "github:lab/snowfall", "paper's own code", True)
    assert (await find(library, PAPER))["p"] == [pair]
    assert (await find(library, CODE))["github:lab/snowfall"] == [pair]


async def test_evidence_by_title_is_about_each_work_of_the_title(library: Library) -> None:
    """A preprint and its publication that are two records."""
    cites = "# Snowfall\n\n## Citation\n\nPlease cite\n\n@article{a, title={Snowfall: weather at scale}, author={Doe, J}}\n"
    await library.upsert([CODE.model_copy(update={"text": cites})])
    preprint = Paper(doc_id="r", title=PAPER.title, identifiers=Identifiers(arxiv="2101.00001"))
    links = await find(library, PAPER.model_copy(update={"abstract": ""}), preprint)
    assert [(link[0], link[1]) for link in links["p"]] == [("doi:10.1000/snow", "github:lab/snowfall")]
    assert [(link[0], link[1]) for link in links["r"]] == [("arxiv:2101.00001", "github:lab/snowfall")]


async def test_the_other_end_is_the_record_of_the_library(library: Library) -> None:
    await library.upsert([PAPER, CODE])

    async def get_library() -> Library:
        return library

    known = await CodeFinder(get_library).find([PAPER])
    assert known.records["github:lab/snowfall"].doc_id == "github:lab/snowfall"


async def test_evidence_of_a_changed_record_is_replaced_and_of_a_removed_one_gone(library: Library) -> None:
    await library.upsert([PAPER, CODE])
    count = await library.code_links.count()
    await library.upsert([PAPER, CODE])
    assert await library.code_links.count() == count
    await library.upsert([PAPER.model_copy(update={"abstract": "No code."})])
    assert (await find(library, CODE))["github:lab/snowfall"] == [("doi:10.1000/snow", "github:lab/snowfall", "repository's paper", False)]
    await library.remove(["p", "github:lab/snowfall"])
    assert await library.code_links.count() == 0


async def test_a_process_that_dies_when_the_records_are_in_leaves_their_evidence(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run finds the records unchanged and writes nothing."""

    async def die(_table: EdgeTable, _former: object) -> None:
        raise SystemError("killed")

    monkeypatch.setattr(EdgeTable, "drop", die)
    with pytest.raises(SystemError):
        await library.upsert([PAPER])
    assert (await library.upsert([PAPER])).unchanged == 1
    assert (await find(library, PAPER))["p"] == [("doi:10.1000/snow", "github:lab/snowfall", "paper's own code", False)]


async def test_a_library_without_links_has_no_table(library: Library) -> None:
    await library.upsert([Paper(doc_id="x", title="Rain", abstract="It rains.")])
    assert await library.code_links.count() == 0
    assert await find(library, PAPER.model_copy(update={"abstract": ""})) == {}


async def test_records_are_filtered_by_whether_they_have_code(library: Library) -> None:
    await library.upsert([PAPER, OTHER])

    async def ids(**conditions: object) -> list[str]:
        return [record.doc_id for record in await library.page(parse_filter(conditions))]

    assert await ids(has_code=True) == ["p"]
    assert await ids(has_code=False) == ["q"]
    await library.upsert([CODE])
    assert await ids(has_code=True) == [CODE.doc_id, "p"]  # a repository is its own code, as in a search
    assert await ids(has_code=False) == ["q"]
    assert await ids(retracted=False) == [CODE.doc_id, "p", "q"]
    assert await ids(retracted=True) == []
    with pytest.raises(BadRequest, match="code_alive is judged by a search"):
        await ids(code_alive=True)


async def test_without_a_library_records_speak_for_themselves_and_for_each_other() -> None:
    known = await CodeFinder(None).find([PAPER, CODE, OTHER])
    assert [link.agree for link in known.links["p"]] == [True]
    assert [link.kind for link in known.links["q"]] == ["uses"]
