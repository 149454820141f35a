"""What the page gets of a systematic run, asked of the handlers."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

import outrider
from outrider.interfaces.web.routes import SystematicPageRoutes
from outrider.state.records import Paper
from support.systematic_runs import LibraryVersions, make_exact_services


async def test_an_export_reports_cells_that_were_cut(tmp_path: Path) -> None:
    services = make_exact_services(tmp_path, LibraryVersions([Paper(doc_id="a", title="Aspirin", abstract="word " * 9_000)]))
    hits = outrider.asystematic("aspirin[ti]", services=services)
    assert [hit.doc_id async for hit in hits] == ["a"]
    assert hits.folder is not None
    routes = SystematicPageRoutes(services, None)  # type: ignore[arg-type] # an export is not limited
    tables = {form: await routes.export(hits.folder.name, form) for form in ("csv", "ris")}
    texts = {form: b"".join([piece async for piece in table.body_iterator]) for form, table in tables.items()}  # type: ignore[attr-defined]
    assert texts["csv"].count(b"\r\n") == 2
    assert tables["csv"].headers["Outrider-Cut-Cells"] == "1"
    assert "Outrider-Cut-Cells" not in tables["ris"].headers
