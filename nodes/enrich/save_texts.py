"""Abstracts and texts that services gave are kept in the library, so that the next search finds them, also without a network.

A kept record keeps the id and the `source` of the service that gave it: it is never taken for the user's own, and it holds nothing that
a page said. What a later answer says goes before what was kept; what it leaves out stays.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from outrider.linkage.merge import fill_missing, strip_page_values
from outrider.state.errors import LibraryBusy, LibraryReadOnly, SearchError
from outrider.state.hits import Candidate
from outrider.state.ports import Keeper
from outrider.state.records import LIBRARY, Record
from outrider.state.response import SourceReport, SourceStatus

STRATEGY = "keep"
KINDS = ("paper", "page")
ORIGIN = "search"
"""The `origin` of what is kept, where a filter finds it."""
WAIT_S = 1.0
"""How long the answer waits to say what became of it; on a slow machine the keeping goes on beside it."""
BESIDE = "being kept: it takes more than {:.3g} s, and the answer does not wait for it"
STATUS: dict[type[SearchError], SourceStatus] = {LibraryBusy: "timeout", LibraryReadOnly: "forbidden"}


def keepable(candidates: Sequence[Candidate]) -> list[Record]:
    """Papers and pages with an abstract or a text that a service gave in this search; figures of repositories age too fast.

    Those of the user's own are never written, and of none what it has from a page of another.
    """
    found = [
        strip_page_values(one.record)
        for one in candidates
        if one.record.kind in KINDS and one.record.source != LIBRARY and any(place.source != LIBRARY for place in one.found_by)
    ]
    return [record for record in found if record.abstract or record.text]


async def kept(keeper: Keeper, records: Sequence[Record], within_s: float) -> SourceReport:
    """What became of it, as a row of the answer. Raises nothing that the library may cause."""
    started = time.perf_counter()
    wait_s, returned = min(within_s, WAIT_S), 0
    status: SourceStatus = "ok"
    try:
        async with asyncio.timeout(wait_s):
            new, changed = await keeper.keep(records, renewed)
        returned, known = len(records), len(records) - new - changed
        message = "; ".join(f"{count} {what}" for count, what in ((new, "new"), (changed, "changed"), (known, "as they were")) if count)
    except TimeoutError:
        status, message = "partial", BESIDE.format(wait_s)
    except SearchError as error:
        status, message = STATUS.get(type(error), "unavailable"), f"not kept: {error}"
    took_ms = round((time.perf_counter() - started) * 1000, 1)
    asked = len(records)
    return SourceReport(source=LIBRARY, strategy=STRATEGY, asked=asked, returned=returned, status=status, message=message, took_ms=took_ms)


def renewed(record: Record, held: Record | None) -> Record:
    """What to keep of a record: the held one itself where that is all it says. A search gives bodies cut and edges left out."""
    if held is None:
        return record.model_copy(update={"origin": ORIGIN})
    if held.source == LIBRARY:
        return held
    before = strip_page_values(held)
    whole = fill_missing(record, [before])
    text = before.text if before.text.startswith(whole.text) else whole.text
    whole = whole.model_copy(update={"text": text, "edges": whole.edges or before.edges, "origin": before.origin})
    return held if whole == held else whole
