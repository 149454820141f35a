"""Works and pages by name into a real library, over services and pages on loopback."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider.ingest.report import FileReport, IngestReport
from outrider.ingest.targets import AT_ONCE
from outrider.interfaces.cli import run
from outrider.state.errors import BadRequest
from outrider.state.notices import list_notices
from outrider.state.records import Edge, Paper, Repository
from support.http_server import NEVER, Answer, as_bytes, as_json, as_text, refusal, serving
from support.identifier_services import (
    ABSTRACT,
    BY_SCHEME,
    MEDLINE,
    REPOSITORY,
    TITLE,
    WORK,
    X,
    make_handler,
    make_network,
    page,
)


def wait_for_request(server: serving) -> None:
    while not server.requests:
        time.sleep(0.01)


def only(report: IngestReport) -> FileReport:
    assert len(report.files) == 1
    return report.files[0]


@pytest.mark.parametrize(("target", "answers", "expected"), BY_SCHEME, ids=[target for target, *_ in BY_SCHEME])
async def test_each_scheme_becomes_a_record(tmp_path: Path, target: str, answers: dict[str, Answer], expected: dict[str, Any]) -> None:
    """The record belongs to the library and has the target as origin; the service's own id stays in its metadata."""
    async with make_network(tmp_path, answers) as network:
        report = await network.ingest(target)
        (record,) = await network.stored_records()
    file = only(report)
    assert (report.added, report.failed, file.path, file.target, file.status) == (1, 0, target, True, "added"), file.reasons
    assert (record.origin, record.source) == (target, "library")
    assert str(record.metadata["record"]).split(":")[0] == file.reader
    assert {name: getattr(record, name) for name in expected} == expected
    assert dict(record.identifiers.pairs())[target.partition(":")[0]] == target.partition(":")[2]


async def test_one_service_fills_what_another_lacks(tmp_path: Path) -> None:
    async with make_network(tmp_path, dict(WORK)) as network:
        await network.ingest(f"doi:{X}")
        (record,) = await network.stored_records()
    assert isinstance(record, Paper)
    assert (record.citations, record.abstract) == (7, ABSTRACT)
    assert record.metadata["filled_from"]


async def test_a_readme_comes_with_its_repository(tmp_path: Path) -> None:
    async with make_network(tmp_path, BY_SCHEME[4][1]) as network:
        report = await network.ingest("github:ann/liver")
        (record,) = await network.stored_records()
    assert isinstance(record, Repository)
    assert "Use it." in record.text
    assert only(report).reasons == ()


@pytest.mark.parametrize("path", [f"/doi/full/{X}", f"/a?doi={X}", "/x/10.1000%2Fx.pdf"])
async def test_a_link_that_holds_a_doi_is_never_fetched(tmp_path: Path, path: str) -> None:
    async with make_network(tmp_path, {**WORK, f"/doi/full/{X}": page(), "/a": page(), "/x/10.1000/x.pdf": page()}) as network:
        report = await network.ingest(network.link(path))
        assert network.requested_paths() == []
        (record,) = await network.stored_records()
    assert (only(report).path, record.origin, record.title) == (f"doi:{X}", f"doi:{X}", TITLE)


async def test_a_link_that_holds_an_unknown_doi_is_not_fetched_either(tmp_path: Path) -> None:
    async with make_network(tmp_path, {f"/doi/{X}": page()}) as network:
        report = await network.ingest(network.link(f"/doi/{X}"))
        assert network.requested_paths() == []
    assert only(report).status == "failed"


async def test_a_page_is_fetched_with_its_metadata(tmp_path: Path) -> None:
    head = f'<title>{TITLE}</title><meta name="citation_abstract" content="{ABSTRACT}"><meta name="citation_pmid" content="9">'
    async with make_network(tmp_path, {"/a": page(head)}) as network:
        report = await network.ingest(network.link("/a#top"))
        (record,) = await network.stored_records()
        assert network.requested_paths() == ["/robots.txt", "/a"]
        assert (record.origin, record.url) == (network.link("/a"), network.link("/a"))
    assert (record.kind, record.title, record.abstract, record.identifiers.pmid) == ("page", TITLE, ABSTRACT, "9")
    assert record.text.count("about the livers") == 5
    assert (only(report).status, only(report).reader) == ("added", "web")
    assert only(report).reasons[0].startswith("not known to ")


async def test_a_page_that_declares_a_doi_fills_the_service_s_record(tmp_path: Path) -> None:
    """The service's record leads; the origin is still the link."""
    head = f'<title>{TITLE} | Journal of Livers</title><meta name="citation_doi" content="{X}"><meta name="keywords" content="enzymes">'
    async with make_network(tmp_path, {**WORK, "/a": page(head)}) as network:
        await network.ingest(network.link("/a"))
        (record,) = await network.stored_records()
        assert record.origin == network.link("/a")
    assert (record.kind, record.title, record.citations, record.tags) == ("paper", TITLE, 7, ("enzymes",))
    assert record.text.count("about the livers") == 5
    assert isinstance(record.metadata["filled_from"], dict)
    assert record.metadata["filled_from"]["text"] == "web"


async def test_a_page_that_declares_the_doi_of_another_work_stays_a_page(tmp_path: Path) -> None:
    head = f'<title>Reading list for my students</title><meta name="citation_doi" content="{X}">'
    async with make_network(tmp_path, {**WORK, "/a": page(head)}) as network:
        report = await network.ingest(network.link("/a"))
        (record,) = await network.stored_records()
    assert (record.kind, record.title, record.citations) == ("page", "Reading list for my students", None)
    assert TITLE in only(report).reasons[0]


async def test_a_redirect_to_a_doi_is_that_work(tmp_path: Path) -> None:
    async with make_network(tmp_path, {**WORK, "/short": Answer(status=302, headers={"Location": f"https://doi.org/{X}"})}) as network:
        await network.ingest(network.link("/short"))
        (record,) = await network.stored_records()
    assert (record.kind, record.origin) == ("paper", f"doi:{X}")


async def test_a_pdf_is_reported_and_not_fetched(tmp_path: Path) -> None:
    async with make_network(tmp_path, {"/typed": as_bytes(b"%PDF-1.7", "application/pdf")}) as network:
        report = await network.ingest(network.link("/paper.pdf"), network.link("/typed"))
        assert network.requested_paths() == ["/robots.txt", "/typed"]
    assert [file.status for file in report.files] == ["skipped", "skipped"]
    assert all("save it and ingest the file" in file.reasons[0] for file in report.files)


async def test_an_unknown_target_fails_alone_and_names_the_queried_services(tmp_path: Path) -> None:
    answers = {**WORK, "/openalex/works/doi:10.1000/gone": refusal(500, "down")}
    async with make_network(tmp_path, answers) as network:
        report = await network.ingest("doi:10.1000/gone", "github:ann/nothing", f"doi:{X}")
    gone, nothing, there = report.files
    assert (gone.status, nothing.status, there.status) == ("failed", "failed", "added")
    assert gone.reasons[0].startswith("not known to semantic_scholar, crossref, pubmed; openalex: ")
    assert nothing.reasons == ("not known to github",)


async def test_a_service_that_hangs_does_not_delay_the_others(tmp_path: Path) -> None:
    async with make_network(tmp_path, {**WORK, f"/openalex/works/doi:{X}": NEVER}, timeout_s=0.5) as network:
        report = await network.ingest(f"doi:{X}")
        (record,) = await network.stored_records()
    assert record.abstract == ABSTRACT
    assert any("openalex" in reason for reason in only(report).reasons)


async def test_a_private_address_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with make_network(tmp_path, {"/a": page()}) as network:
        report = await network.ingest("http://127.0.0.1/a", "http://169.254.169.254/latest/meta-data", "ftp://example.org/x")
        assert network.server.requests == []
    loopback, metadata, scheme = report.files
    assert [file.status for file in report.files] == ["failed"] * 3
    assert "loopback" in loopback.reasons[0]
    assert "link-local" in metadata.reasons[0]
    assert "only http and https are fetched" in scheme.reasons[0]


async def test_robots_txt_is_obeyed(tmp_path: Path) -> None:
    async with make_network(tmp_path, {"/robots.txt": as_text("User-agent: *\nDisallow: /"), "/a": page()}) as network:
        report = await network.ingest(network.link("/a"))
        assert network.requested_paths() == ["/robots.txt"]
    assert "robots.txt" in only(report).reasons[0]


async def test_a_second_ingest_updates_the_same_record(tmp_path: Path) -> None:
    async with make_network(tmp_path, {**WORK, "/a": page()}) as network:
        first = await network.ingest(f"doi:{X}", network.link("/a"))
        again = await network.ingest(f"https://doi.org/{X}", network.link("/a"))
        network.answers["/a"] = page("<title>Another title</title>")
        changed = await network.ingest(network.link("/a"))
        records = await network.stored_records()
    assert (first.added, again.unchanged, again.added, changed.updated) == (2, 2, 0, 1)
    assert sorted(record.title for record in records) == ["Another title", TITLE]


@pytest.mark.parametrize("at_once", [True, False])
async def test_one_publication_is_one_record_by_whichever_identifier(tmp_path: Path, at_once: bool) -> None:
    answers = {**WORK, **BY_SCHEME[2][1]}
    async with make_network(tmp_path, answers) as network:
        calls = [(f"doi:{X}", "pmid:123")] if at_once else [(f"doi:{X}",), ("pmid:123",)]
        reports = [await network.ingest(*targets) for targets in calls]
        (record,) = await network.stored_records()
        assert await (await network.services.library()).check() == ()
    assert record.origin == f"doi:{X}"
    assert f"the same work as doi:{X}, and stored as its record" in reports[-1].files[-1].reasons
    assert sum(report.added for report in reports) == 1


RICH_MEDLINE = MEDLINE.replace(
    "</MedlineCitation>",
    '<CommentsCorrectionsList><CommentsCorrections RefType="RetractionIn"><RefSource>Livers. 2021</RefSource><PMID>9</PMID>'
    "</CommentsCorrections></CommentsCorrectionsList><MeshHeadingList><MeshHeading><DescriptorName>Liver</DescriptorName></MeshHeading>"
    "</MeshHeadingList></MedlineCitation>",
)
BOTH = {**WORK, "/pubmed/entrez/eutils/efetch.fcgi": as_text(RICH_MEDLINE, "text/xml")}


@pytest.mark.parametrize("order", [(f"doi:{X}", "pmid:123"), ("pmid:123", f"doi:{X}")])
async def test_a_work_by_two_identifiers_keeps_what_each_service_gave(tmp_path: Path, order: tuple[str, str]) -> None:
    """Both ways round, and a repeated lookup changes nothing."""
    async with make_network(tmp_path, {**BOTH}) as network:
        for target in order:
            await network.ingest(target)
        (record,) = await network.stored_records()
        assert isinstance(record, Paper)
        assert (record.citations, record.year, record.venue, record.mesh) == (7, 2020, "Livers", ("Liver",))
        assert record.identifiers.pmid == "123"
        assert record.identifiers.doi == X
        assert Edge(relation="retraction_in", target="pmid:9") in record.edges
        assert [(notice.kind, notice.pmid) for notice in list_notices(record)] == [("retracted", "9")]
        again = await network.ingest(*order)
        assert (again.added, again.updated) == (0, 0)
        assert (await network.stored_records()) == [record]


async def test_a_wrong_identifier_overwrites_no_other_work(tmp_path: Path) -> None:
    """PubMed gives this DOI to another work: two titles are two records."""
    other = MEDLINE.replace(TITLE, "Proceedings of a meeting of hepatologists")
    async with make_network(tmp_path, {**WORK, "/pubmed/entrez/eutils/efetch.fcgi": as_text(other, "text/xml")}) as network:
        await network.ingest(f"doi:{X}")
        await network.ingest("pmid:123")
        assert {record.origin for record in await network.stored_records()} == {f"doi:{X}", "pmid:123"}


async def test_targets_and_files_are_ingested_together_and_embedded(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("# Note\n\nText.")
    async with make_network(tmp_path, {**WORK, "/a": page()}) as network:
        report = await network.ingest(f"doi:{X}", str(tmp_path / "note.md"), network.link("/a"))
        info = await (await network.services.library()).info()
    assert [file.target for file in report.files] == [False, True, True]
    assert (report.added, report.vectors.embedded, report.vectors.without) == (3, 3, 0)
    assert info.vectors
    assert info.vectors.vectors == 3


async def test_an_offline_run_fails_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("# Note\n\nText.")
    async with make_network(tmp_path, dict(WORK), offline=True) as network:
        with pytest.raises(BadRequest, match=r"doi:10\.1000/x must be fetched, and this run is offline"):
            await network.ingest(str(tmp_path / "note.md"), f"doi:{X}")
        assert network.server.requests == []
        assert not (tmp_path / "library").exists()
        assert (await network.ingest(str(tmp_path / "note.md"))).added == 1


async def test_many_targets_are_prefetched_in_order_with_bounded_concurrency(tmp_path: Path) -> None:
    """A slow first target does not change the report."""
    count = 3 * AT_ONCE
    answers: dict[str, Any] = {
        f"/github/repos/ann/r{number}": as_json({**REPOSITORY, "full_name": f"ann/r{number}"}, after_s=0.3 if number == 0 else 0.02)
        for number in range(count)
    }
    async with make_network(tmp_path, answers) as network:
        report = await network.ingest(*(f"github:ann/r{number}" for number in range(count)))
        firsts = [request.path for request in network.server.requests if request.path in answers]
    assert [file.path for file in report.files] == [f"github:ann/r{number}" for number in range(count)]
    assert report.added == count
    assert len(firsts) == count


async def test_a_cancelled_run_leaves_no_task_running(tmp_path: Path) -> None:
    async with make_network(tmp_path, {f"/openalex/works/doi:{X}": NEVER, "/slow": NEVER}) as network:
        task = asyncio.create_task(network.ingest(f"doi:{X}", network.link("/slow")))
        await asyncio.to_thread(wait_for_request, network.server)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert {one.get_name() for one in asyncio.all_tasks()} == {asyncio.current_task().get_name()}  # type: ignore[union-attr]
        network.answers[f"/openalex/works/doi:{X}"] = WORK[f"/openalex/works/doi:{X}"]
        network.answers["/slow"] = page()
        assert (await network.ingest(f"doi:{X}", network.link("/slow"))).added == 2


async def test_the_python_interface_takes_the_same_targets(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("# Note\n\nText.")
    async with make_network(tmp_path, dict(WORK)) as network:
        report = await outrider.aadd_to_library(f"doi:{X}", tmp_path / "note.md", services=network.services)
        assert report.added == 2
        again = await asyncio.to_thread(outrider.add_to_library, f"doi:{X}", services=network.services)
        assert again.unchanged == 1
        with pytest.raises(BadRequest, match="is not a doi"):
            await outrider.aadd_to_library("doi:foo", services=network.services)
        with pytest.raises(BadRequest, match="give each by itself"):
            await outrider.aadd_to_library([tmp_path / "note.md"], services=network.services)  # type: ignore[arg-type]


# The command


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[serving]:
    with serving(make_handler(WORK)) as server:
        monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "false")
        for name in ("openalex", "crossref", "semantic_scholar", "pubmed", "arxiv", "github"):
            monkeypatch.setenv(f"OUTRIDER_SOURCES__{name.upper()}__BASE_URL", f"{server.base_url}/{name}")
        monkeypatch.setenv("OUTRIDER_SOURCES__WEB__ENABLED", "false")
        monkeypatch.setenv("OUTRIDER_CACHE__FOLDER", str(tmp_path / "answers"))
        monkeypatch.setenv("OUTRIDER_EMBEDDING__MODEL_NAME", str(tmp_path / "no-model"))
        yield server


def test_the_command_s_report_and_exit_code(server: serving, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = str(tmp_path / "library")
    assert run(["ingest", f"doi:{X}", "doi:10.1000/gone", "--json", "-l", library]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["added"], report["failed"]) == (1, 1)
    assert [(file["path"], file["target"], file["status"]) for file in report["files"]] == [
        (f"doi:{X}", True, "added"),
        ("doi:10.1000/gone", True, "failed"),
    ]
    assert run(["ingest", f"doi:{X}", "doi:10.1000/gone", "-l", library]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "not known to openalex, semantic_scholar, crossref, pubmed" in output
    assert "0 added, 0 updated, 1 unchanged, 0 skipped, 1 failed from 2 targets" in output


def test_the_command_fetches_pages_through_the_guard(server: serving, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "note.md").write_text("# Note\n\nText.")
    assert (
        run(["ingest", "note.md", f"{server.base_url.replace('127.0.0.1', '127.1')}/a", "http://[::1]/", "-l", str(tmp_path / "library")])
        == 0
    )
    output = " ".join(capsys.readouterr().out.split())
    assert "1 added, 0 updated, 0 unchanged, 0 skipped, 2 failed from 1 file and 2 targets" in output
    assert "is not fetched (sources.allowed_hosts can allow a host)" in output
    assert "loopback" in output
    assert server.requests == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["doi:foo"], "'doi:foo' is not a doi; write for example doi:10.1000/xyz123"),
        ([f"doi:{X}", "github:nobody"], "is not a github"),
        ([f"doi:{X}", "--offline"], "must be fetched, and this run is offline"),
        ([f"doi:{X}", "no/such/file"], "no such file or folder"),
    ],
)
def test_bad_input_sends_no_request(
    server: serving, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(["ingest", *arguments, "-l", str(tmp_path / "library")]) == 2
    assert message in capsys.readouterr().err
    assert server.requests == []


@pytest.mark.parametrize(("place", "problem"), [({"address": "head:6379"}, "belongs to --on ray"), ({"on": "spark"}, "not on 'spark'")])
def test_a_cluster_that_would_not_be_used_is_refused(tmp_path: Path, place: dict[str, str], problem: str) -> None:
    with pytest.raises(BadRequest, match=problem):
        outrider.add_to_library(tmp_path, library=tmp_path / "library", **place)
    assert not (tmp_path / "library").exists()
