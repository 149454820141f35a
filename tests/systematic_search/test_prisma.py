"""Reports agree with the manifest; text from outside stays text in each of them."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import outrider
from outrider.state.errors import BadRequest
from outrider.systematic_search.ledger_reader import IncompleteRun
from outrider.systematic_search.manifest import Manifest
from outrider.systematic_search.prisma import write_reports
from support.systematic_runs import LibraryVersions, MemorySource, make_exact_services, make_papers

SVG = "{http://www.w3.org/2000/svg}text"


def _run(tmp_path: Path, query: str, lost: int = 0) -> Manifest:
    abroad = [one.model_copy(update={"doc_id": f"W{one.doc_id}"}) for one in make_papers(12)]
    services = make_exact_services(tmp_path, LibraryVersions(make_papers(6)), {"pubmed": MemorySource("pubmed", list(abroad), lost=lost)})
    hits = outrider.systematic(query, services=services, sources=["library", "pubmed"])
    try:
        list(hits)
    except IncompleteRun:
        assert lost
    return hits.manifest


def test_the_flow_adds_up_in_every_form(tmp_path: Path) -> None:
    run_manifest = _run(tmp_path, "aspirin[ti]")
    write_reports(run_manifest, tmp_path / "report")
    flow = json.loads((tmp_path / "report" / "prisma-2020.json").read_text(encoding="utf-8"))
    assert flow["identified"] == {"library": 4, "pubmed": 12}
    assert flow["total"] - flow["outside"] - flow["duplicates"] == flow["for_screening"] == 8
    assert (flow["outside"], flow["duplicates"], flow["included"]) == (4, 4, None)
    markdown = (tmp_path / "report" / "prisma-2020.md").read_text(encoding="utf-8")
    assert "| Records to be screened | 8 |" in markdown
    diagram = "".join(one.text or "" for one in ET.parse(tmp_path / "report" / "prisma-2020.svg").iter(SVG))
    for label in ("Records identified (n = 16)", "MEDLINE/PubMed (n = 12)", "duplicates (n = 4)", "Records to be screened (n = 8)"):
        assert label in diagram
    assert "not complete" not in diagram


def test_the_log_has_the_sixteen_items_and_the_strategy_as_write_reports(tmp_path: Path) -> None:
    query = 'aspirin[ti] OR "<b>`|bold"[ti]'
    run_manifest = _run(tmp_path, query)
    write_reports(run_manifest, tmp_path / "report")
    log = json.loads((tmp_path / "report" / "prisma-s.json").read_text(encoding="utf-8"))
    assert [name.split(".")[0] for name in log] == [*map(str, range(1, 17)), "proof"]
    assert log["8. Full search strategies"]["as written"] == query
    assert log["15. Total records"]["from each source"] == {"library": 4, "pubmed": 8}
    assert log["9. Limits and restrictions"]["not expressible"] == ["pubmed: a widened part"]
    markdown = (tmp_path / "report" / "prisma-s.md").read_text(encoding="utf-8")
    assert f"`` {query} ``" in markdown


def test_every_report_of_an_incomplete_search_states_it(tmp_path: Path) -> None:
    run_manifest = _run(tmp_path, "aspirin[ti]", lost=2)
    for path in write_reports(run_manifest, tmp_path / "report"):
        text = path.read_text(encoding="utf-8")
        assert "not complete" in text or '"complete": false' in text or "complete: no" in text, path.name


def test_a_folder_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadRequest, match="cannot be written"):
        write_reports(_run(tmp_path, "aspirin[ti]"), tmp_path / "file")
