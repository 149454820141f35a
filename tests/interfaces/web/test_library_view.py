"""The library view in a real browser, over a server with a library of its own."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from outrider.library.library import Library
from outrider.services import Services
from outrider.settings.load import load
from outrider.state.records import Document, Identifiers, Paper, Repository
from support.http_app import running
from support.identifier_services import ABSTRACT, BY_SCHEME, make_network
from support.page_site import HOSTILE, README, Opens, check, hold_requests, release

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]
LONG_TITLE = "A title of four hundred characters that goes on and on " * 8
RECORDS = (
    Paper(doc_id="a", title="Aspirin and liver injury in adults", authors=("Doe, J",), year=2020, venue="Hepatology",
          abstract="Aspirin harms the liver.", identifiers=Identifiers(doi="10.1000/x"), tags=("aspirin",), origin="/home/ann/refs.ris"),
    Paper(doc_id="b", title="Aspirin and liver injury in adults and children", authors=("Doe, J",), year=2020),
    Paper(doc_id="c", title="דלקת כבד ואספירין", authors=("כהן, דנה",), year=2011),
    Paper(doc_id="d", title=LONG_TITLE, authors=tuple(f"Author{at}, A" for at in range(60)), year=1987),
    Paper(doc_id="e", title="", abstract="A record without a title.", year=2015),
    Paper(doc_id="f", title=HOSTILE, abstract=HOSTILE, url="javascript:document.title=1", year=2019),
    Repository(doc_id="g", title="liver/tool", description="A tool.", text=f"# Tool\n\n{README}\n\n```\nrun()\n```\n\n- one\n- two"),
    Document(doc_id="h", title="A long text", text="\n\n".join(f"Paragraph {at}. " + "word " * 300 for at in range(40))),
    *(Paper(doc_id=f"n{at:02}", title=f"Numbered paper {at}", year=1990 + at) for at in range(30)),
)  # fmt: skip
RIS = "TY  - JOUR\nTI  - A paper that was dropped here\nPY  - 2024\nER  - \n"


def services_at(folder: Path, **values: Any) -> Services:
    own = {"library.uri": str(folder / "library"), "sources.offline": True, "embedding.model_name": "none", **values}
    return Services(load(own, environ={}, cwd=folder, user_dir=folder).settings)


@pytest.fixture(scope="module")
def shelf_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shelf")

    async def fill() -> None:
        library = await Library.open(folder / "library", create=True)
        await library.upsert(RECORDS)
        await library.label(["a", "c"], ["to read"])
        await library.optimize(force=True)
        library.close()

    asyncio.run(fill())
    return folder


@pytest.fixture(scope="module")
def shelf(shelf_folder: Path) -> Iterator[str]:
    with running(services_at(shelf_folder)) as address:
        yield address


@pytest_asyncio.fixture(loop_scope="session")
async def library_page(opens: Opens, shelf: str) -> AsyncIterator[Page]:
    async with opens(shelf) as tab:
        tab.set_default_timeout(30_000)
        await tab.get_by_role("link", name="Library").click()
        await tab.locator("#library-list li").first.wait_for()
        yield tab


async def go(tab: Page, address: str) -> None:
    await tab.evaluate("address => { location.hash = address }", address)


async def test_the_view_says_what_the_library_holds_and_each_state_fits(library_page: Page) -> None:
    tab = library_page
    assert "38 records: 36 papers, 1 repository, 1 document." in await tab.locator("#library-holds").inner_text()
    assert "In good order." in await tab.locator("#library-health").inner_text()
    assert await tab.locator("#library-list h2 a").first.inner_text() == "Aspirin and liver injury in adults"
    assert "from refs.ris" in await tab.locator("#library-list li").first.inner_text()
    assert await tab.title() == "Your library - Outrider"
    await check(tab)
    await tab.locator("#add summary").click()
    await tab.get_by_text("Details", exact=True).click()
    await tab.get_by_role("button", name="Check everything").click()
    await tab.get_by_text("Every record and index was read: nothing is wrong.").wait_for()
    await check(tab)
    await go(tab, "#/library?q=nothing+fits")
    await tab.get_by_text('No record fits the words "nothing fits".').wait_for()
    await check(tab)
    await tab.get_by_role("button", name="Show all records").click()
    await tab.get_by_text("Page 1 of 2").wait_for()


async def test_search_label_year_and_page_stand_in_the_address(library_page: Page) -> None:
    tab = library_page
    await tab.get_by_role("searchbox", name="Find records").fill("numbered 1995")
    await tab.get_by_text("1 record of 38").wait_for()
    assert "q=numbered+1995" in tab.url
    await tab.reload()
    await tab.get_by_text("1 record of 38").wait_for()
    assert await tab.get_by_role("searchbox", name="Find records").input_value() == "numbered 1995"
    await tab.get_by_role("searchbox", name="Find records").fill("")
    await tab.get_by_role("button", name="to read 2").click()  # sooner than the pause after typing
    await tab.get_by_text("2 records of 38").wait_for()
    assert "label=to+read" in tab.url
    await tab.go_back()
    await tab.get_by_text("1 record of 38").wait_for()
    await tab.get_by_role("searchbox", name="Find records").fill("")
    await tab.get_by_text("Page 1 of 2").wait_for()
    bar = tab.get_by_role("checkbox", name="2020: 2 records")
    await bar.press("Enter")
    await tab.get_by_text("2 records of 38").wait_for()
    await bar.press("Enter")
    await tab.get_by_role("link", name="Later").click()
    await tab.get_by_text("Page 2 of 2").wait_for()
    assert await tab.locator("#library-list li").count() == 18


async def test_a_link_counts_more_than_what_was_typed_just_before(library_page: Page) -> None:
    tab = library_page
    await tab.get_by_role("searchbox", name="Find records").fill("liver")
    await tab.get_by_role("link", name="How we score").click()
    await tab.evaluate("new Promise((done) => setTimeout(done, 400))")  # longer than the pause after typing
    assert tab.url.endswith("#/scoring")


async def test_a_search_is_limited_to_a_label(library_page: Page) -> None:
    tab = library_page
    await go(tab, "#/search")
    await tab.locator("#narrow summary").click()
    await tab.get_by_role("checkbox", name="to read").check()
    assert await tab.locator("#narrowed").inner_text() == "(labelled to read)"
    await tab.get_by_label("What are you looking for?").fill("aspirin liver")
    await tab.keyboard.press("Enter")
    await tab.locator("#hits .hit.done").first.wait_for()
    assert await tab.locator("#hits h3").all_inner_texts() == ["Aspirin and liver injury in adults"], "the other one has no label"
    assert "label=to+read" in tab.url
    await tab.reload()
    await tab.locator("#hits .hit.done").first.wait_for()
    await tab.locator("#narrow summary").click()
    assert await tab.get_by_role("checkbox", name="to read").is_checked()


async def test_a_record_opens_with_its_text_and_hostile_texts_stay_text(library_page: Page) -> None:
    tab = library_page
    await tab.locator("#library-list a", has_text="liver injury in adults").first.press("Enter")
    await tab.get_by_text("Aspirin harms the liver.").wait_for()
    assert await tab.get_by_role("link", name="DOI 10.1000/x").get_attribute("href") == "https://doi.org/10.1000/x"
    assert await tab.evaluate("document.activeElement.tagName") == "H1"
    await tab.get_by_role("link", name="Back to the list").click()
    for doc_id, text in (
        ("g", "run()"),
        ("f", "Liver injury & drugs"),
        ("d", "and 55 more"),
        ("c", "דלקת"),
        ("e", "A record without a title."),
    ):
        await go(tab, f"#/library?id={doc_id}")
        await tab.locator("#library-record", has_text=text).wait_for()
        assert await tab.title() != "1"
        if doc_id in "gdc":  # with code; with a long title and many authors; from right to left
            await check(tab)
    assert await tab.locator("#library-record img, #library-record script").count() == 0
    await go(tab, "#/library?id=h")
    await tab.get_by_text("Part 1 of 4").first.wait_for()
    await tab.get_by_role("button", name="Next part").first.click()
    await tab.get_by_text("Part 2 of 4").first.wait_for()
    assert "part=2" in tab.url
    await go(tab, "#/library?id=nobody")
    await tab.get_by_text("The library holds no such record.").wait_for()
    await check(tab)


async def test_a_late_record_does_not_replace_the_one_that_was_opened_after_it(library_page: Page) -> None:
    """Nor does it name the tab once the list is back."""
    tab = library_page
    held = await hold_requests(tab, r"links\?id=a", times=1)
    async with tab.expect_request("**/links?id=a"):
        await go(tab, "#/library?id=a")
    await go(tab, "#/library?id=g")
    await tab.get_by_role("heading", name="liver/tool").wait_for()
    await release(tab, held, r"links\?id=a")
    assert await tab.get_by_role("heading", name="liver/tool").is_visible()
    held = await hold_requests(tab, r"record\?id=a", times=1)
    async with tab.expect_request("**/record?id=a*"):
        await go(tab, "#/library?id=a")
    await go(tab, "#/library")
    await tab.get_by_text("Page 1 of 2").wait_for()
    await release(tab, held, r"record\?id=a")
    assert await tab.title() == "Your library - Outrider"


async def test_doubtful_duplicates_are_decided_by_keyboard_and_undone(library_page: Page) -> None:
    tab = library_page
    await tab.get_by_role("link", name="Possible duplicates").press("Enter")
    await tab.locator(".pair").first.wait_for()
    assert "in adults and children" in await tab.locator(".pair").first.inner_text()
    assert await tab.locator("[aria-current=page]").all_inner_texts() == ["Library", "Possible duplicates"]
    await check(tab)
    before = await tab.locator(".pair").count()
    await tab.locator(".pair").first.get_by_role("button", name="Different works").press("Enter")
    await tab.get_by_text("Kept apart from now on.").wait_for()
    assert await tab.locator(".pair").count() == before - 1
    await tab.get_by_text("Decisions so far (1)").press("Enter")
    await tab.get_by_role("button", name="Undo").press("Enter")
    await tab.get_by_text("The decision is undone.").wait_for()
    assert await tab.locator(".pair").count() == before


async def test_files_are_added_labelled_and_removed_by_keyboard(library_page: Page, tmp_path: Path) -> None:
    tab = library_page
    (tmp_path / "new.ris").write_text(RIS)
    (tmp_path / "broken.pdf").write_bytes(b"no pdf")
    (tmp_path / "program.exe").write_bytes(b"MZ")
    await tab.locator("#add summary").press("Enter")
    async with tab.expect_file_chooser() as chooser:
        await tab.get_by_role("button", name="Choose files").press("Enter")
    await (await chooser.value).set_files([tmp_path / name for name in ("new.ris", "broken.pdf", "program.exe")])
    await tab.get_by_text("Done: 1 added, 1 failed, 1 file not read.").wait_for()
    rows = await tab.locator(".adding-list > li").all_inner_texts()
    assert [row.split("\n")[0] for row in rows] == ["new.ris", "broken.pdf", "program.exe"]
    assert "no reader for .exe" in rows[2]
    await tab.locator("#library-list li:first-child a", has_text="A paper that was dropped here").wait_for()
    await check(tab)
    await tab.get_by_role("checkbox", name="Select A paper that was dropped here").press(" ")
    await tab.get_by_text("1 record selected").wait_for()
    await tab.get_by_role("button", name="Add label").press("Enter")
    await tab.get_by_label("Label", exact=True).fill("chapter 2")
    await check(tab)
    await tab.get_by_label("Label", exact=True).press("Enter")
    await tab.get_by_role("button", name="chapter 2 1").wait_for()
    await tab.get_by_role("button", name="Remove", exact=True).press("Enter")
    dialog = tab.get_by_role("dialog", name="Remove this record?")
    assert await dialog.get_by_role("listitem").all_inner_texts() == ["A paper that was dropped here"]
    await check(tab)
    await tab.keyboard.press("Escape")
    assert await tab.locator("#library-list a").first.inner_text() == "A paper that was dropped here"
    await tab.locator("#chosen").get_by_role("button", name="Remove", exact=True).press("Enter")
    await dialog.get_by_role("button", name="Remove", exact=True).press("Enter")
    await tab.get_by_text("1 record removed").wait_for()
    assert await tab.locator("#library-list a", has_text="A paper that was dropped here").count() == 0


async def test_a_dropped_file_is_added_and_stop_ends_a_long_one(library_page: Page, tmp_path: Path) -> None:
    tab = library_page
    drop = """([name, text]) => { const files = new DataTransfer(); files.items.add(new File([text], name));
      for (const kind of ["dragover", "drop"]) document.querySelector("#drop")
        .dispatchEvent(new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer: files})); }"""
    await tab.evaluate(drop, ["dropped.ris", RIS])
    await tab.get_by_text("Done: 1 added.").wait_for()
    await tab.evaluate(drop, ["dropped.ris", RIS])
    await tab.get_by_text("Done: 1 unchanged.").wait_for()
    rows = "".join(json.dumps({"id": at, "title": f"Long {at}", "abstract": "word " * 300}) + "\n" for at in range(12_000))
    (tmp_path / "long.jsonl").write_text(rows)
    await tab.set_input_files("#files", [tmp_path / "long.jsonl"])
    await tab.locator(".adding-list .state", has_text="00 records read").wait_for()
    await tab.get_by_role("button", name="Stop", exact=True).press("Enter")
    await tab.get_by_text("Done: 1 stopped.").wait_for()
    await tab.locator("#library-list a", has_text=re.compile(r"^Long \d")).first.wait_for()
    contents = await tab.evaluate("fetch('api/library/contents').then(answer => answer.json())")
    assert 500 < contents["records"] < 12_000


async def test_identifiers_are_added_over_their_services_and_an_unknown_one_is_named(opens: Opens, tmp_path: Path) -> None:
    """A DOI, the PMID of the same work, an arXiv number, a repository, and a DOI that no service knows."""
    answers = {path: answer for scheme in BY_SCHEME for path, answer in scheme[1].items()}
    targets = [scheme[0] for scheme in BY_SCHEME if not scheme[0].startswith("pmcid:")]
    async with make_network(tmp_path, answers) as network:
        with running(network.services) as address:
            async with opens(address) as tab:
                await tab.get_by_role("link", name="Library").click()
                await tab.get_by_text("There is no library yet.").wait_for()
                await tab.get_by_label("Identifiers or links").fill("\n".join([*targets, "doi:10.1000/nobody"]))
                await tab.get_by_role("button", name="Add these").click()
                await tab.get_by_text("Done: 3 added, 1 updated, 1 failed.").wait_for()
                report = await tab.locator(".adding-list").inner_text()
                await tab.locator("#library-list a", has_text="ann/liver").wait_for()
                await check(tab)
                await tab.get_by_label("Identifiers or links").fill("liver\n")
                await tab.get_by_role("button", name="Add these").click()
                await tab.get_by_text("is no identifier").wait_for()
                assert await tab.get_by_label("Identifiers or links").input_value() == "liver", "to be corrected"
        records = {record.origin: record for record in await network.stored_records()}
    assert set(records) == {*targets} - {"pmid:123"}
    assert "the same work as doi:10.1000/x" in report
    assert records["doi:10.1000/x"].abstract == records["arxiv:2101.00001"].abstract == ABSTRACT
    assert "doi:10.1000/nobody: not known to OpenAlex, Semantic Scholar, Crossref and PubMed" in report
    assert "Errno" not in report


async def test_without_a_library_the_view_explains_and_adding_creates_it(opens: Opens, tmp_path: Path) -> None:
    with running(await asyncio.to_thread(services_at, tmp_path)) as address:
        async with opens(address) as tab:
            await tab.get_by_role("link", name="Library").click()
            await tab.get_by_text("There is no library yet.").wait_for()
            await tab.get_by_text("This server is offline: identifiers cannot be looked up.").wait_for()
            await check(tab)
            (tmp_path / "first.ris").write_text(RIS)
            await tab.set_input_files("#files", [tmp_path / "first.ris"])
            await tab.get_by_text("Done: 1 added.").wait_for()
            await tab.get_by_text("1 record: 1 paper.").wait_for()


async def test_a_read_only_server_shows_the_library_without_a_way_to_change_it(opens: Opens, shelf_folder: Path) -> None:
    services = await asyncio.to_thread(services_at, shelf_folder, **{"serve.read_only": True})
    with running(services) as address:
        async with opens(address) as tab:
            await tab.get_by_role("link", name="Library").click()
            await tab.locator("#library-list li").first.wait_for()
            assert await tab.get_by_text("This server shows its library and does not change it.").is_visible()
            assert await tab.locator("#add, #library-list input, #choose-page").locator("visible=true").count() == 0
            await tab.locator("#library-list a").first.click()
            await tab.locator("#library-record h1").wait_for()
            assert await tab.get_by_role("button", name="Remove from the library").count() == 0
