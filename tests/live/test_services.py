"""The real services, asked through their adapters: `make test-live`. They are asked for little, once each, under the usual limits."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from live.asking import ASKED, asked, source_of

from outrider.settings.load import load
from outrider.state.records import Identifiers

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not os.environ.get("OUTRIDER_LIVE"), reason="asks real services; set OUTRIDER_LIVE=1, or run make test-live"),
]


@pytest.mark.parametrize("name", ASKED)
async def test_a_service_answers_as_its_adapter_reads_it(name: str, noted: Callable[[str, frozenset[str]], None]) -> None:
    """Records with titles, links or identifiers come of a search, and one of an identifier; the shape of what was said is noted."""
    with source_of(name, load({"sources.offline": False}).settings) as (source, heard):
        if source is None:
            pytest.skip(f"{name} is switched off, or there is no key for it")
        said = await asked(source, heard, *ASKED[name])
    noted(name, said.shape)
    assert said.answer.results, said.answer.message
    assert said.answer.status == "", said.answer.message
    for one in said.answer.results:
        assert one.record.title
        assert one.record.url or one.record.identifiers != Identifiers()
    identifier = ASKED[name][1]
    if identifier:
        scheme, value = identifier
        assert said.record is not None
        assert getattr(said.record.identifiers, scheme) == value
