"""One hash that says: the same question, asked of the same things, gave the same answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from outrider.state.intent import SearchStrategy
from outrider.state.request import SearchRequest


def provenance_hash(
    request: SearchRequest,
    strategy: SearchStrategy | None,
    snapshot: str | None,
    versions: Mapping[str, str],
    results: Iterable[tuple[str, str]],
) -> str:
    """Sha-256 (hex) over request, strategy, snapshot, versions and the ordered (doc_id, content hash) of the results.

    Times, paths and costs are left out: they differ between equal runs.
    """
    asked = request.model_dump(mode="json", include=set(SearchRequest.model_fields) - {"sources"})  # the strategy names them
    said = {
        "request": asked,
        "strategy": strategy.model_dump(mode="json") if strategy else None,
        "snapshot": snapshot,
        "versions": dict(versions),
        "results": [list(pair) for pair in results],
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()
