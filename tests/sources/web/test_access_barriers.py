"""Signs of a page that is not open."""

from __future__ import annotations

import time

import pytest

from outrider.sources.web.access_barriers import find_page_barrier, find_page_licence


@pytest.mark.parametrize("piece", ['<meta name="access" ', "<a rel ", "<input type ", '<meta name="dc.rights" '])
def test_a_hostile_page_is_searched_in_linear_time(piece: str) -> None:
    """Tags without an end, each of which could begin a match: they took three seconds a megabyte."""
    markup = piece * (500_000 // len(piece))
    find_page_barrier("", 0), find_page_licence("")
    started = time.process_time()
    assert (find_page_barrier(markup, 0), find_page_licence(markup)) == ("", "")
    assert time.process_time() - started < 0.6
