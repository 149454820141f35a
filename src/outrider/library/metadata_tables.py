"""What a library remembers beside its records: files, verdicts, decisions, calibrations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from outrider.library import calibration_table as kept
from outrider.library import decision_table as decisions
from outrider.library import file_ledger as ledger
from outrider.library import rerank_evaluation_table as verdicts
from outrider.library.file_ledger import IngestedFile
from outrider.library.handles import Handles
from outrider.state.decisions import Decision
from outrider.state.reranking import Verdict

if TYPE_CHECKING:
    from outrider.state.distilling import Calibration


class Beside(Handles):
    """The remembering part of `store.Library`."""

    async def ingested(self, fingerprint: str) -> IngestedFile | None:
        """The file with this fingerprint, if it was ever read to its end."""
        with self._place.translated():
            return await ledger.find(self._connection, fingerprint)

    async def origins(self) -> dict[str, int]:
        """How many records came from each origin; only that column is read, in pieces."""
        counts: Counter[str] = Counter()
        with self._place.translated():
            batches = await self._table.query().select(["origin"]).to_batches()
            async for batch in batches:
                counts.update(origin for origin in batch.column("origin").to_pylist() if origin)
        return dict(counts)

    async def remember(self, *files: IngestedFile) -> None:
        """Call it only when all records of the files are in. What the same origins held before is forgotten."""
        if not files:
            return
        async with self._place.changing():
            await self._place.committed(lambda: ledger.remember(self._connection, files))

    async def verdicts(self) -> tuple[Verdict, ...]:
        """What probes found out about rerankers here: newest first, of one probe the chosen one first."""
        with self._place.translated():
            return await verdicts.every(self._connection)

    async def remember_verdicts(self, judged: Sequence[Verdict]) -> None:
        """All verdicts of one probe, in one commit."""
        if not judged:
            return
        async with self._place.changing():
            await self._place.committed(lambda: verdicts.remember(self._connection, judged))

    async def decisions(self) -> tuple[Decision, ...]:
        """What was decided about works, from the first to the last; `Decisions.of` says what stands of it."""
        with self._place.translated():
            return await decisions.every(self._connection)

    async def decide(self, *decided: Decision) -> None:
        """Remember decisions, in one commit; no record changes."""
        if not decided:
            return
        async with self._place.changing():
            await self._place.committed(lambda: decisions.remember(self._connection, decided))

    async def calibrations(self) -> tuple[Calibration, ...]:
        """What a user fitted for the distiller here, one for each engine and its weights."""
        with self._place.translated():
            return await kept.newest(self._connection)

    async def remember_calibrations(self, calibrations: Sequence[Calibration]) -> None:
        """From now on they count instead of former ones of the same engines."""
        if not calibrations:
            return
        async with self._place.changing():
            await self._place.committed(lambda: kept.remember(self._connection, calibrations))
