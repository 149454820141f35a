"""The page's files and their policy, requests of the page, and its formulas, which equal the code's. No browser."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from outrider.interfaces.http.access import hash_key
from outrider.interfaces.web import static_files as files
from outrider.interfaces.web.explain_scoring import COUNTS, explain_scoring
from outrider.nodes.fine_scorer import dimensions
from outrider.services import Services
from outrider.settings.model import Settings, SystematicSettings
from support.fakes import paper
from support.http_app import ASPIRIN, STATINS, open_client, services
from support.systematic_runs import LibraryVersions, make_papers

LATER = {"Prefer": "respond-async"}


def test_every_id_of_the_page_is_used_once() -> None:
    """A script finds the first element with an id: a second one stays empty."""
    for page in ("index.html", "playground.html"):
        ids = re.findall(r'\bid="([^"]+)"', (Path(files.__file__).parent / "static" / page).read_text(encoding="utf-8"))
        assert ids
        assert [one for one in ids if ids.count(one) > 1] == [], page


async def test_files_are_served_to_everybody_under_a_strict_policy() -> None:
    addresses = await asyncio.to_thread(files.addresses)
    async with open_client(services(api_keys={"ann": hash_key("key of ann")}), needs_key=True) as client:
        answers = {address: await client.get(address, follow_redirects=True) for address in addresses}
        about = await client.get("/api/about")
        again = await client.get("/", headers={"If-None-Match": answers["/"].headers["etag"]})
        packed = await client.get("/page/app.js")
        plain = await client.get("/page/app.js", headers={"Accept-Encoding": "gzip;q=0, identity"})
        tag = answers["/"].headers["etag"]
        same = [await client.get("/", headers={"If-None-Match": one}) for one in (f"W/{tag}", f'"x", {tag}', "*", f'W/"y" , W/{tag}')]
        others = [await client.get("/", headers={"If-None-Match": one}) for one in ('"x"', tag.strip('"'), "")]
    assert {answer.status_code for answer in answers.values()} == {200}
    assert (about.status_code, again.status_code, again.content) == (401, 304, b"")
    assert [{one.status_code for one in same}, {one.status_code for one in others}] == [{304}, {200}]
    assert [answer.headers.get("content-encoding") for answer in (packed, plain)] == ["gzip", None]
    assert packed.content == plain.content
    assert packed.headers["etag"] != plain.headers["etag"]
    for address, answer in answers.items():
        policy = answer.headers["content-security-policy"]
        style = " 'unsafe-inline'" if address == "/docs" else ""  # Swagger UI sets styles
        assert policy.startswith(f"default-src 'none'; script-src 'self'; style-src 'self'{style};")
        assert "unsafe" not in policy.removeprefix(f"default-src 'none'; script-src 'self'; style-src 'self'{style};")
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_no_other_file_in_or_outside_the_folder_is_served() -> None:
    async with open_client(services()) as client:
        for path in ("/page/", "/page/index.html", "/page/../files.py", "/page/%2e%2e/files.py", "/page/files.py", "/page/app.js/"):
            assert (await client.get(path)).status_code in (307, 404), path


LINK_TARGETS = {
    f"https://{host}" for host in ("doi.org", "pubmed.ncbi.nlm.nih.gov", "pmc.ncbi.nlm.nih.gov", "arxiv.org", "github.com", "pypi.org")
}
"""Where identifiers lead a reader who follows a link; the page itself asks none of them."""


def test_no_file_has_an_inline_script_or_style_or_contacts_another_server() -> None:
    for name in files.PAGES:
        shell = (files.FOLDER / name).read_text(encoding="utf-8")
        assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", shell) == [], name
    for file in files.FOLDER.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        outside = set(re.findall(r"https?://[\w.-]+", text))
        assert outside <= LINK_TARGETS, file.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), file.name


def test_each_module_imports_existing_files() -> None:
    for file in files.FOLDER.glob("*.js"):
        for name in re.findall(r'from "\./([\w.]+)"', file.read_text(encoding="utf-8")):
            assert f"/page/{name}" in files.addresses()


@pytest.mark.parametrize("name", sorted(dimensions.PARTS))
def test_a_displayed_formula_computes_the_same_as_the_code(name: str) -> None:
    """The displayed text is evaluated with the same inputs."""
    import math

    names = {**vars(math), **vars(dimensions), "min": min, "open_issues": 50, "age_s": lambda days: days * dimensions.DAY_S}
    dimension = next(one for one in explain_scoring(Services(Settings())).dimensions if one.name == name)
    for part in dimension.parts:
        assert part.examples
        for one in part.examples:
            value = eval(part.formula, {**names, part.name: one.given})
            assert value == pytest.approx(one.value, abs=0.0006), (part.name, part.formula)


def test_all_six_dimensions_have_the_weights_of_the_settings() -> None:
    changed = Settings.model_validate({"repository": {"maturity": 0.3}, "organizer": {"relevance_threshold": 0.4}})
    scoring = explain_scoring(Services(changed))
    assert {one.name: one.weight for one in scoring.dimensions}["maturity"] == 0.3
    assert (len(scoring.dimensions), scoring.threshold, len(COUNTS)) == (6, 0.4, 6)
    assert {one.by for one in scoring.dimensions if one.name in ("documentation", "ease_of_use")} == {"model"}


async def export_hits(client: httpx.AsyncClient, query: str, parameters: str) -> httpx.Response:
    run = (await client.post("/api/search", json={"query": query}, headers=LATER)).json()["id"]
    await client.get(f"/api/search/{run}/events")
    return await client.get(f"/api/search/{run}/export{parameters}")


async def test_hits_are_exported_and_formulas_are_defused() -> None:
    odd = paper("x", "=HYPERLINK(1) aspirin", authors=("+cmd|' /C calc'!A0",))
    async with open_client(services(odd, ASPIRIN, STATINS)) as client:
        table = await export_hits(client, "aspirin", "?format=csv")
        ris = await export_hits(client, "aspirin", "?format=ris&rank=1")
        wrong = await export_hits(client, "aspirin", "?format=xls")
        other = await export_hits(client, "aspirin", "?format=ris&rank=1&rank=99")
        none = await client.get("/api/search/nothing/export")
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert sorted(row["doc_id"] for row in rows) == ["a", "x"]
    assert [cell for row in rows for cell in row.values() if cell[:1] in ("=", "+", "@")] == []
    assert table.headers["content-disposition"] == 'attachment; filename="outrider-hits.csv"'
    assert ris.text.count("TY  - ") == 1
    assert (wrong.status_code, none.status_code) == (422, 404)
    assert (other.status_code, other.json()["detail"]) == (422, "rank: this search has 2 hits and none of rank 99")


async def test_a_search_of_another_key_is_not_exported() -> None:
    keys = {name: hash_key(f"key of {name}") for name in ("ann", "bob")}
    async with open_client(services(api_keys=keys), needs_key=True) as client:
        ann, bob = ({"Authorization": f"Bearer key of {name}"} for name in keys)
        place = (await client.post("/api/search", json={"query": "aspirin"}, headers=ann | LATER)).headers["location"]
        await client.get(f"{place}/events", headers=ann)
        statuses = [(await client.get(f"{place}/export", headers=headers)).status_code for headers in (ann, bob, {})]
    assert statuses == [200, 404, 401]


def make_systematic_services(folder: Path) -> Services:
    base = services()
    settings = base.settings.model_copy(update={"systematic": SystematicSettings(folder=str(folder))})
    return Services(settings, clock=base.clock, shelf=base.shelf, sources=(), pin=LibraryVersions(make_papers(30)), world={})


async def test_a_run_has_a_report_a_diagram_and_files(tmp_path: Path) -> None:
    async with open_client(make_systematic_services(tmp_path)) as client:
        explained = await client.post("/api/systematic/explain", json={"query": "aspirin[Title] OR nothing[Title]"})
        run = (await client.post("/api/systematic", json={"query": "aspirin[Title]"})).text.splitlines()[0].split('"')[3]
        answers: dict[str, Any] = {
            name: await client.get(f"/api/systematic/{run}{name}") for name in ("", "/prisma.svg", "/export?format=ris")
        }
        wrong = [await client.get(f"/api/systematic/{path}") for path in ("nothing", "..%2f..%2fetc", f"{run}/export?format=markdown")]
        unread = await client.post("/api/systematic/explain", json={"query": "aspirin AND (liver"})
    assert [row["hits"] for row in explained.json()["history"]] == [20, 0, 20]
    assert any(one["code"] == "empty" for one in explained.json()["findings"])
    assert (answers[""].json()["total"], answers[""].json()["flow"]["for_screening"], answers[""].json()["complete"]) == (20, 20, True)
    assert answers["/prisma.svg"].headers["content-type"] == "image/svg+xml"
    assert answers["/export?format=ris"].text.count("TY  - ") == 20
    assert [answer.status_code for answer in wrong] == [404, 404, 422]
    assert (unread.status_code, "line 1, column " in unread.json()["detail"]) == (422, True)
