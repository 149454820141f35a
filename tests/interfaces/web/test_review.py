"""Screening on the page: by keyboard and by pointer, two reviewers with a conflict, narrow and dark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from outrider.services import Services
from outrider.settings.load import load
from outrider.usecases.review import decide
from support.http_app import running
from support.page_site import Opens, check, hold_requests, release

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]
SHOTS = os.environ.get("SHOTS_FOLDER", "")
RIS = "".join(
    f"TY  - JOUR\nTI  - {title}\nAU  - Doe, J\nPY  - {year}\nAB  - {text}\nER  - \n\n"
    for title, year, text in (
        ("Otters in rivers <b>bold</b>", 2001, "Otters eat fish. It rained a lot that year. The river was long and the fish were few."),
        ("Badgers in woods", 2002, "Badgers dig holes."),
        ("Otters at sea", 2003, "Otters float on their backs."),
        ("Voles in meadows", 2004, "Voles eat grass in summer."),
    )
)


@pytest.fixture(scope="module")
def review_services(tmp_path_factory: pytest.TempPathFactory) -> Services:
    folder = tmp_path_factory.mktemp("reviews")
    own = {"review.folder": str(folder / "reviews"), "library.uri": str(folder / "library"), "sources.offline": True}
    return Services(load(own, environ={}, cwd=folder, user_dir=folder).settings)


@pytest.fixture(scope="module")
def review_site(review_services: Services) -> Iterator[str]:
    with running(review_services) as address:
        yield address


async def expect(tab: Page, text: str) -> None:
    await tab.locator("#review-said", has_text=text).wait_for()


async def shoot(tab: Page, name: str) -> None:
    if SHOTS:
        await tab.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


async def test_a_review_is_begun_filled_and_screened_by_keys_and_buttons(opens: Opens, review_site: str, review_services: Services) -> None:
    async with opens(review_site) as tab:
        await tab.get_by_role("link", name="Screening").click()
        await tab.get_by_label("Name", exact=True).fill("otters")
        await tab.get_by_label("Question that the records should answer").fill("what do otters eat")
        await tab.get_by_label("Reviewers for each record").fill("2")
        await tab.get_by_label("Reasons for exclusion, one a line").fill("wrong animal\nno data")
        await shoot(tab, "review-new")
        await tab.get_by_role("button", name="Begin").click()
        await tab.get_by_label("Your name as a reviewer").fill("ann")
        await tab.get_by_role("button", name="Screen", exact=True).click()
        await tab.get_by_text("Add records").click()
        await tab.get_by_label("Or a file").set_input_files({"name": "otters.ris", "mimeType": "text/plain", "buffer": RIS.encode()})
        await tab.get_by_role("button", name="Add", exact=True).click()
        await tab.get_by_text("otters.ris: 4 records, 0 duplicates, 0 labels.").wait_for()
        await expect(tab, "4 records left for you.")
        assert await tab.locator("#review-heading").inner_text() == "Otters in rivers <b>bold</b>"
        assert "Otters eat fish." in await tab.locator(".abstract strong").all_inner_texts()
        assert {"Otters", "eat"} <= {*(await tab.locator(".abstract mark").all_inner_texts())}
        await check(tab)
        await tab.keyboard.press("i")
        await expect(tab, "Included: record 1.")
        await tab.keyboard.press("e")
        await tab.get_by_text("Why is it excluded?").wait_for()
        await shoot(tab, "review-reasons")
        await tab.keyboard.press("1")
        await expect(tab, "Excluded: record")
        await tab.keyboard.press("u")
        await expect(tab, "Taken back")
        await tab.get_by_role("button", name="Note").click()
        await tab.get_by_role("textbox", name="Note").fill("ime: ask Bob")
        await tab.get_by_role("button", name="Save the note").click()
        await tab.get_by_text("Note of ann: ime: ask Bob").wait_for()
        await tab.get_by_role("button", name="Maybe").click()
        await expect(tab, "Set aside as maybe")
        await tab.get_by_role("checkbox", name="Keys").uncheck()
        await tab.keyboard.press("i")
        await tab.get_by_role("checkbox", name="Keys").check()
        await tab.get_by_text("0 unscreened").wait_for(state="detached")
        await decide(review_services, "otters", [("1", "exclude", "no data")], by="bob")
        await tab.keyboard.press("s")
        await expect(tab, "Skipped record")
        await tab.get_by_role("heading", name="Conflicts").wait_for()
        await shoot(tab, "review-conflict")
        await check(tab)
        await tab.get_by_role("button", name="Include record 1").click()
        await expect(tab, "Resolved: record 1 is included.")
        counts = await tab.locator("#review-counts").inner_text()
        assert "1 included" in counts
        assert "Next: read on by rank." in counts
        async with tab.expect_download() as saved:
            await tab.get_by_role("button", name="Export").click()
        assert (await saved.value).suggested_filename == "otters.csv"
        await tab.get_by_role("link", name="All reviews").click()
        await tab.get_by_role("link", name="otters").wait_for()


BEGIN = """async ([name, reviewers, text]) => {
  const headers = { "Content-Type": "application/json" };
  const send = (path, body) => fetch(`api/reviews${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  await send("", { name, reviewers });
  await send(`/${name}/import`, { file_name: "otters.ris", text });
  localStorage.setItem("outrider.reviewer", "ann");
  location.hash = `#/review?name=${name}`;
}"""


async def test_a_late_record_does_not_replace_the_one_that_is_read_after_it(opens: Opens, review_site: str) -> None:
    async with opens(review_site) as tab:
        await tab.evaluate(BEGIN, ["late", 1, RIS])
        await expect(tab, "4 records left for you.")
        held = await hold_requests(tab, r"next\?skip=", times=1)
        async with tab.expect_request("**/next?skip=*"):
            await tab.keyboard.press("s")
        await tab.keyboard.press("i")
        await expect(tab, "Included: record")
        heading = await tab.locator("#review-heading").inner_text()
        await release(tab, held, r"next\?skip=")
        assert "Included: record" in await tab.locator("#review-said").inner_text()
        assert await tab.locator("#review-heading").inner_text() == heading


async def test_a_record_takes_keys_while_conflicts_are_read(opens: Opens, review_site: str, review_services: Services) -> None:
    async with opens(review_site) as tab:
        await tab.evaluate(BEGIN, ["two", 2, RIS])
        await expect(tab, "4 records left for you.")
        await tab.keyboard.press("i")
        await expect(tab, "Included: record")
        number = (await tab.locator("#review-said").inner_text()).removeprefix("Included: record ").removesuffix(".")
        await decide(review_services, "two", [(number, "exclude", "")], by="bob")
        held = await hold_requests(tab, "/conflicts")
        await tab.keyboard.press("m")
        await expect(tab, "Set aside as maybe")
        await tab.keyboard.press("i")
        await expect(tab, "Included: record")
        await release(tab, held, "/conflicts")
        await tab.get_by_role("button", name=f"Include record {number}").wait_for()


async def test_the_agreement_of_two_blind_reviewers_stands_with_the_counts(
    opens: Opens, review_site: str, review_services: Services
) -> None:
    async with opens(review_site) as tab:
        await tab.evaluate(BEGIN, ["alike", 2, RIS])
        await expect(tab, "4 records left for you.")
        assert "alike on" not in await tab.locator("#review-counts").inner_text()
        for by, decision in (("ann", "include"), ("bob", "include")):
            await decide(review_services, "alike", [("1", decision, "")], by=by)
        await tab.reload()
        undefined = "ann and bob: alike on 1 of 1 record, Cohen's kappa undefined, since both decided the same on each"
        await tab.locator("#review-counts p", has_text=undefined).wait_for()
        for by, decisions in (("ann", "ie"), ("bob", "ee")):
            words = [{"i": "include", "e": "exclude"}[one] for one in decisions]
            await decide(review_services, "alike", [(str(number), word, "") for number, word in enumerate(words, start=2)], by=by)
        await tab.reload()
        await tab.locator("#review-counts p", has_text="ann and bob: alike on 2 of 3 records, Cohen's kappa 0.40").wait_for()
        await check(tab)


async def test_an_unknown_review_is_explained(opens: Opens, review_site: str) -> None:
    async with opens(review_site, viewport={"width": 360, "height": 800}, color_scheme="dark") as tab:
        await tab.evaluate("localStorage.setItem('outrider.reviewer', 'eve')")
        await tab.evaluate("location.hash = '#/review?name=gone'")
        await tab.get_by_text("This server has no such review.").wait_for()
        await tab.evaluate("location.hash = '#/review?name=otters'")
        await tab.locator("#review-heading").wait_for()
        await shoot(tab, "review-360-dark")
        await tab.get_by_text("Add records").click()
        lines = b'{"title": "Shrews"}\n{"title": 3\n'
        await tab.get_by_label("Or a file").set_input_files({"name": "more.jsonl", "mimeType": "text/plain", "buffer": lines})
        await tab.get_by_role("button", name="Add", exact=True).click()
        await tab.get_by_text("more.jsonl: 1 record, 0 duplicates, 0 labels.").wait_for()
        await tab.get_by_text("not read: line 2: not JSON").wait_for()
        await shoot(tab, "review-remarks")
        await check(tab)
