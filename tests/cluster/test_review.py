"""Features of a review that are counted on Ray order its records as on one machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.reviews import features
from outrider.reviews.ranker import Ranker
from outrider.services import Services
from outrider.usecases.review import create_review, get_next, import_records, prepare_review
from support.extras import needs
from support.ray_cluster import RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore"), needs("sklearn")]


async def test_the_order_of_records(ray_cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_REVIEW__FOLDER", str(tmp_path / "reviews"))
    monkeypatch.setattr(features, "TEXTS_AT_ONCE", 8)
    rows = [
        {"id": n, "title": f"Liver study {n}", "abstract": "aspirin " * (n % 3) + "mice " * (n % 5), "label": n % 4 == 0} for n in range(60)
    ]
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps(row | ({} if row["id"] < 20 else {"label": None})) + "\n" for row in rows))
    records = []
    for on in ("", "ray"):
        services = Services.from_file()
        if not on:
            await create_review(services, "livers", question="aspirin and the liver")
            await import_records(services, "livers", str(source), by="Ann")
        await prepare_review(services, "livers", on, ray_cluster.address if on else None)
        session = services.reviews.open(services.reviews.folder / "livers")
        assert session._ranker is not None
        ranker: Ranker = session._ranker[2]
        records.append((await get_next(services, "livers", by="Ann"), ranker._features.matrix.toarray().tolist()))
        services.close()
    assert records[0] == records[1]
