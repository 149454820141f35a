"""Targets: parsing, refusal of malformed ones, and fetching in batches."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.ingest.pipeline import TARGETS_A_BATCH, IngestProgress, ingest
from outrider.ingest.targets import AT_ONCE, FORMS, PAGE, RemoteSources, Target, fetch_ahead, parse_target, split_targets
from outrider.sources.http.transport import Unreachable
from outrider.state.errors import BadRequest, UnreadableFile
from outrider.state.ports import Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Record
from support.fakes import doi, paper
from support.memory_library import MemoryShelves


@pytest.mark.parametrize(
    ("argument", "scheme", "value"),
    [
        ("doi:10.1000/XYZ", "doi", "10.1000/xyz"),
        ("DOI: 10.1000/xyz", "doi", "10.1000/xyz"),
        ("doi:https://doi.org/10.1000/xyz", "doi", "10.1000/xyz"),
        ("arXiv:2101.00001v3", "arxiv", "2101.00001"),
        ("arxiv:hep-th/9901001", "arxiv", "hep-th/9901001"),
        ("doi:10.48550/arXiv.2101.00001", "arxiv", "2101.00001"),
        ("pmid:0123", "pmid", "123"),
        ("pmcid:PMC12", "pmcid", "PMC12"),
        ("pmcid:12", "pmcid", "PMC12"),
        ("github:PSF/Requests", "github", "psf/requests"),
        ("github:https://github.com/psf/requests", "github", "psf/requests"),
        ("https://www.example.org/doi/full/10.1000/xyz?download=1", "doi", "10.1000/xyz"),
        ("https://doi.org/10.48550/arXiv.2101.00001", "arxiv", "2101.00001"),
        ("https://arxiv.org/pdf/2101.00001v2", "arxiv", "2101.00001"),
        ("https://pubmed.ncbi.nlm.nih.gov/123/", "pmid", "123"),
        ("https://pmc.ncbi.nlm.nih.gov/articles/PMC12/", "pmcid", "PMC12"),
        ("https://github.com/psf/requests", "github", "psf/requests"),
        ("https://example.org/a?b=1#part", PAGE, "https://example.org/a?b=1"),
        ("http://example.org/", PAGE, "http://example.org/"),
        ("ftp://example.org/x", PAGE, "ftp://example.org/x"),
    ],
)
def test_targets(argument: str, scheme: str, value: str) -> None:
    assert parse_target(argument) == Target(scheme, value)


@pytest.mark.parametrize(
    "argument",
    ["doi:foo", "doi:", "doi:10.1000", "doi:10.1000/x y", "arxiv:x", "pmid:PMC1", "pmid:0", "pmcid:x", "github:owner", "github:a/b/c"],
)
def test_what_no_scheme_can_hold_is_refused(argument: str) -> None:
    with pytest.raises(BadRequest, match="write for example"):
        parse_target(argument)


@pytest.mark.parametrize("argument", ["notes.md", r"C:\papers\doi", "isbn:1", "10.1000/x", "doi", "a/doi:10.1000/x", "./doi:foo", ""])
def test_anything_else_is_a_path(argument: str) -> None:
    assert parse_target(argument) is None


@pytest.mark.parametrize(("argument", "target"), [("10.1038/nature14539", "doi:10.1038/nature14539"), ("1706.03762", "arxiv:1706.03762")])
def test_an_identifier_without_its_scheme_is_no_missing_file(argument: str, target: str) -> None:
    with pytest.raises(BadRequest, match=f"no such file or folder; to look it up, write {target}"):
        split_targets([argument])


def test_a_path_that_exists_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it looks like, also a link that leads nowhere; a path object is always a path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "doi:10.1000").mkdir()
    (tmp_path / "doi:10.1000" / "x").write_text("# Note")
    (tmp_path / "pmid:1").symlink_to("nowhere")
    (tmp_path / "doi:foo").write_text("# Another")
    arguments = ["doi:10.1000/x", "pmid:1", "doi:foo", "doi:10.1000/y", Path("arxiv:2101.00001")]
    assert split_targets(arguments) == ([Path(arguments[at]) for at in (0, 1, 2, 4)], [Target("doi", "10.1000/y")])


def test_each_is_requested_once_however_it_is_written() -> None:
    arguments = ["https://doi.org/10.1000/X", "doi:10.1000/x", "https://example.org/a#b", "https://example.org/a", "\0"]
    assert split_targets(arguments) == ([Path("\0")], [Target("doi", "10.1000/x"), Target(PAGE, "https://example.org/a")])


@given(st.sampled_from([*FORMS, "http", "C", "x"]), st.sampled_from([":", "://", " : "]), st.text(max_size=30))
def test_a_target_is_normal_or_refused(scheme: str, between: str, rest: str) -> None:
    """Nothing else is raised, and what a target writes as its origin names that target again."""
    try:
        target = parse_target(scheme + between + rest)
    except BadRequest:
        return
    if target and target.scheme != PAGE:
        assert parse_target(str(target)) == target


PATIENCE_S = 30


@dataclass
class Everything:
    """Has every work but those whose DOI ends in `gone`; the first takes longest."""

    name: str = "crossref"
    strategies: tuple[str, ...] = ()
    capabilities: Capabilities = field(default_factory=lambda: Capabilities(frozenset({"paper"}), frozenset({"doi"})))
    timeout_s: float = PATIENCE_S
    now: int = 0
    most: int = 0
    lookups: int = 0
    hold: asyncio.Event | None = None

    async def search(self, query: SourceQuery) -> SourceAnswer:
        raise AssertionError("nobody searches")

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        self.now, self.most, self.lookups = self.now + 1, max(self.most, self.now + 1), self.lookups + 1
        try:
            await (self.hold.wait() if self.hold else asyncio.sleep(0.1 if value.endswith("/0") else 0))
        finally:
            self.now -= 1
        return None if value.endswith("gone") else paper(f"crossref:{value}", f"Title {value}", source=self.name, identifiers=doi(value))


def targets(count: int) -> list[Target]:
    return [Target("doi", f"10.1000/{number}") for number in range(count)]


async def test_what_came_is_kept_in_small_batches() -> None:
    shelves, reports = MemoryShelves(), list[IngestProgress]()
    count = TARGETS_A_BATCH + 5
    report = await ingest(shelves, [], targets=targets(count), remote=RemoteSources((Everything(),)), progress=reports.append)
    assert (shelves.batches, report.added) == ([TARGETS_A_BATCH, 5], count)
    assert shelves.files == {}
    assert (reports[-1].files_done, reports[-1].files_total, reports[-1].records, reports[-1].current) == (count, count, count, None)
    assert "doi:10.1000/3" in {now.current for now in reports}


async def test_order_is_that_of_the_requests_and_few_run_at_once() -> None:
    source = Everything()
    report = await ingest(MemoryShelves(), [], targets=targets(3 * AT_ONCE), remote=RemoteSources((source,)))
    assert [file.path for file in report.files] == [str(target) for target in targets(3 * AT_ONCE)]
    assert source.most == AT_ONCE


async def test_one_that_is_not_there_stops_nothing() -> None:
    requested = [Target("doi", "10.1000/gone"), *targets(2), Target("pmid", "1")]
    report = await ingest(MemoryShelves(), [], targets=requested, remote=RemoteSources((Everything(),)))
    assert [file.status for file in report.files] == ["failed", "added", "added", "failed"]
    assert report.files[0].reasons == ("not known to crossref",)
    assert report.files[3].reasons == ("no active source can look up a pmid",)


class NoNetwork(Everything):
    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        raise Unreachable("crossref is unreachable (no network?): https://api.crossref.org/works/10.1: [Errno -2] Name; retry later")


async def test_without_a_network_the_services_are_named_and_no_address() -> None:
    report = await ingest(MemoryShelves(), [], targets=targets(1), remote=RemoteSources((NoNetwork(), NoNetwork("openalex"))))
    assert report.files[0].reasons == ("openalex, crossref could not be reached (no network?); --verbose shows the details",)


async def test_running_lookups_are_cancelled_when_the_reader_stops() -> None:
    source = Everything(hold=asyncio.Event())
    async with aclosing(fetch_ahead(RemoteSources((source,)), targets(2 * AT_ONCE))) as coming:
        async for _ in coming:
            async with asyncio.timeout(PATIENCE_S):
                while source.now < AT_ONCE:  # noqa: ASYNC110 - several must have begun
                    await asyncio.sleep(0)
            break
    assert (source.now, source.lookups) == (0, AT_ONCE)


async def test_without_anybody_to_ask_nothing_begins() -> None:
    with pytest.raises(BadRequest, match="offline"):
        await ingest(MemoryShelves(), [], targets=targets(1))
    with pytest.raises(UnreadableFile, match="no page reader is configured"):
        await RemoteSources(()).fetch(Target("page", "https://example.org/"))
