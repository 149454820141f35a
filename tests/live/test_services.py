"""Requests to the real services through their adapters: `make test-live`. One small request each, under the usual limits."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from live.client import QUERIES, open_source, query_source

from outrider.settings.load import load
from outrider.state.records import Identifiers

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not os.environ.get("OUTRIDER_LIVE"), reason="queries real services; set OUTRIDER_LIVE=1, or run make test-live"),
]


@pytest.mark.parametrize("name", QUERIES)
async def test_a_service_answers_as_its_adapter_reads_it(name: str, note_shape: Callable[[str, frozenset[str]], None]) -> None:
    """A search returns records with titles and links or identifiers, an identifier returns its record, and the shape is stored."""
    with open_source(name, load({"sources.offline": False}).settings) as (source, recorder):
        if source is None:
            pytest.skip(f"{name} is switched off, or there is no key for it")
        response = await query_source(source, recorder, *QUERIES[name])
    note_shape(name, response.shape)
    assert response.answer.results, response.answer.message
    assert response.answer.status == "", response.answer.message
    for one in response.answer.results:
        assert one.record.title
        assert one.record.url or one.record.identifiers != Identifiers()
    identifier = QUERIES[name][1]
    if identifier:
        scheme, value = identifier
        assert response.record is not None
        assert getattr(response.record.identifiers, scheme) == value
