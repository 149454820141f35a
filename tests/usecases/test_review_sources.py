"""Records of a library, a run and a thread for a review, and what a source says of its duplicates."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from outrider.interfaces.cli import run
from outrider.reviews.asreview import LabelledRecord
from outrider.services import open_services
from outrider.services.citation_queue import OWNER
from outrider.state.duplicate_decisions import Decision as DuplicateDecision
from outrider.state.errors import BadRequest
from outrider.state.systematic import Matched
from outrider.systematic_search.ledger import Ledger
from outrider.usecases import review_sources
from outrider.usecases.review import create_review, decide, get_record, get_status, import_records, import_text
from support.fakes import doi, paper
from support.small_library import RECORDS, fill_library


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUTRIDER_LIBRARY__URI", str(tmp_path / "library"))
    monkeypatch.setenv("OUTRIDER_REVIEW__FOLDER", str(tmp_path / "reviews"))
    monkeypatch.setenv("OUTRIDER_SYSTEMATIC__FOLDER", str(tmp_path / "runs"))
    monkeypatch.setenv("OUTRIDER_THREADS__URI", str(tmp_path / "threads.sqlite"))
    return fill_library(tmp_path / "library", RECORDS)


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_records_of_a_run_a_thread_and_a_label_are_added_and_linked(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shelf = ("--library", str(library))
    assert run(["systematic", "aspirin[tiab]", *shelf, "-o", str(library.parent / "hits.jsonl")]) == 0
    assert run(["search", "aspirin liver", *shelf, "--thread", "livers"]) == 0
    assert run(["library", "label", "b", "--add", "hearts", *shelf]) == 0
    (folder,) = (path.parent for path in (library.parent / "runs").glob("*/ledger.jsonl"))
    capsys.readouterr()
    call(capsys, "review", "new", "livers")
    of_run = call(capsys, "review", "import", "livers", folder.name, *shelf)
    assert (of_run["source"], of_run["records"], of_run["duplicates"]) == (folder.name, 1, 0)
    of_thread = call(capsys, "review", "import", "livers", "livers", *shelf)
    assert (of_thread["records"] >= 1, of_thread["duplicates"], of_thread["first"]) == (True, 1, 2)
    of_label = call(capsys, "review", "import", "livers", "label:hearts", *shelf)
    assert (of_label["source"], of_label["records"]) == ("label:hearts", 1)
    status = call(capsys, "review", "status", "livers")
    assert [one["source"] for one in status["imports"]] == [folder.name, "livers", "label:hearts"]
    for wrong in ("label:harts", "nothing"):
        assert run(["review", "import", "livers", wrong, *shelf]) == 2
    assert call(capsys, "review", "status", "livers") == status


def test_labels_of_a_run_and_of_its_duplicates_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As those of the run's own CSV. The first hit has the label and the abstract of its duplicate."""
    monkeypatch.setenv("OUTRIDER_REVIEW__FOLDER", str(tmp_path / "reviews"))
    (tmp_path / "run").mkdir()
    ledger = Ledger(tmp_path / "run")
    ledger.begin({})
    hits = [
        paper("a", "Otters of Loch Ness", identifiers=doi("10.1000/o")),
        paper("b", "Otters at sea and their rest", metadata={"label_included": "0"}),
        paper("c", "Otters of Loch Ness", abstract="They eat eels.", metadata={"included": "1"}),
    ]
    ledger.append_page("library", [Matched(hit) for hit in hits], "c", None)
    ledger.append_done([{"hit": 3, "of": 1, "why": "title"}], 3, "all fields")
    ledger.close()
    call(capsys, "review", "new", "otters")
    report = call(capsys, "review", "import", "otters", str(tmp_path / "run"))
    assert (report["records"], report["duplicates"], report["labels"], report["remarks"]) == (3, 1, 2, [])
    status = call(capsys, "review", "status", "otters")
    assert (status["records"], status["duplicates"], status["included"], status["excluded"]) == (3, 1, 1, 1)
    assert run(["review", "export", "otters", "--only", "include", "-o", str(tmp_path / "x.csv")]) == 0
    assert "They eat eels." in (tmp_path / "x.csv").read_text(encoding="utf-8")
    call(capsys, "review", "new", "unlabelled")
    assert call(capsys, "review", "import", "unlabelled", str(tmp_path / "run"), "--no-labels")["labels"] == 0


async def test_decisions_on_records_of_the_library_hold_in_a_review(library: Path) -> None:
    copies = [paper(name, "Otters of Loch Ness", identifiers=doi("10.1000/o"), metadata={"label": "x"}) for name in ("o1", "o2")]
    folder = await asyncio.to_thread(fill_library, library.parent / "otters", [*copies, paper("o3", "Notes on beasts")])
    async with open_services(None, folder) as services:
        opened = await services.library()
        await opened.label(["o1", "o2", "o3"], add=["otters"])
        split, merge = DuplicateDecision(what="split", ids=("o1",)), DuplicateDecision(what="merge", ids=("o1", "o3"))
        for name, decision, duplicates in (("a", None, 1), ("b", split, 0), ("c", merge, 1)):
            if decision is not None:
                await opened.decide(decision)
            await create_review(services, name)
            assert (await import_records(services, name, "label:otters")).duplicates == duplicates, name


async def test_what_a_source_and_the_review_link_is_one_work(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source's second record is one of the review, and its first one is a duplicate of that, as only the source knows."""
    project = [
        LabelledRecord(paper("p0", "Notes on beasts")),
        LabelledRecord(paper("p1", "Otters", identifiers=doi("10.5555/w.1")), None, "", 0),
    ]
    (library.parent / "project.asreview").write_bytes(b"")
    (library.parent / "first.csv").write_text("title,doi\nOtters,10.5555/w.1\n", encoding="utf-8")
    monkeypatch.setattr(review_sources, "read_project", lambda path, max_bytes: project)
    async with open_services(None, None) as services:
        await create_review(services, "otters")
        await import_records(services, "otters", "first.csv")
        assert (await import_records(services, "otters", "project.asreview")).duplicates == 2
        assert (await get_status(services, "otters")).works == 1


async def test_a_client_names_no_place_of_the_server(library: Path) -> None:
    (library.parent / "papers.csv").write_text("title\nOtters\n", encoding="utf-8")
    async with open_services(None, None) as services:
        await create_review(services, "otters")
        token = OWNER.set("ann")
        try:
            for place in (str(library.parent / "papers.csv"), "papers.csv", "../papers.csv", "~/papers.csv"):
                with pytest.raises(BadRequest, match="there is no source"):
                    await import_records(services, "otters", place)
        finally:
            OWNER.reset(token)


async def test_a_client_imports_no_decisions_under_the_names_of_others(library: Path) -> None:
    """What a file says that Bob decided is marked as such; it is not Bob's decision."""
    ris = 'TY  - JOUR\nTI  - Otters\nN1  - RAYYAN-INCLUSION: {"ann"=>"Included", "bob"=>"Excluded"}\nER  - \n'
    async with open_services(None, None) as services:
        await create_review(services, "otters", reviewers=2)
        token = OWNER.set("ann")
        try:
            await import_text(services, "otters", "team.ris", ris.encode())
        finally:
            OWNER.reset(token)
        view = (await get_record(services, "otters", "1", by="ann")).record
        assert view is not None
        assert [(one.by, one.verdict) for one in view.decisions] == [("ann", "include"), ("bob (team.ris)", "exclude")]


async def test_a_chain_of_duplicates_is_one_work(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project may call a record a duplicate of one that the review has."""
    titles = ("Otters in rivers of the north", "Notes on beasts", "Fish eaters")
    project = [LabelledRecord(paper(f"p{at}", title), None, "ask Bob", at - 1 if at else None) for at, title in enumerate(titles)]
    project[0] = LabelledRecord(paper("p0", titles[0], identifiers=doi("10.5555/w.1")))
    (library.parent / "project.asreview").write_bytes(b"")
    (library.parent / "first.csv").write_text(f"title,doi\n{titles[0]},10.5555/w.1\n", encoding="utf-8")
    monkeypatch.setattr(review_sources, "read_project", lambda path, max_bytes: project)
    async with open_services(None, None) as services:
        await create_review(services, "otters")
        await import_records(services, "otters", "first.csv")
        report = await import_records(services, "otters", "project.asreview")
        assert (report.duplicates, report.notes) == (3, 1)  # a project repeats a work's note on each of its records
        view = (await get_record(services, "otters", "1", by="ann")).record
        assert view is not None
        assert [note.text for note in view.notes] == ["ask Bob"]
        await decide(services, "otters", [("4", "include", "")], by="ann")
        status = await get_status(services, "otters")
        assert (status.included, status.unscreened) == (1, 0)
        project[0] = LabelledRecord(project[0].record, duplicate_of=3)
        with pytest.raises(BadRequest, match="duplicate of one that it lacks"):
            await import_records(services, "otters", "project.asreview")
        project[0] = LabelledRecord(paper("p0", "Beavers"), duplicate_of=2)
        assert (await import_records(services, "otters", "project.asreview")).duplicates == 2
        assert (await get_status(services, "otters")).unscreened == 1
