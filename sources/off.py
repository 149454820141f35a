"""A source that is configured and cannot be asked here: its line in the answer says why."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.state.errors import SourceOff
from outrider.state.ports import Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Record

CAPABILITIES = Capabilities(frozenset(), most=0, queries=1)


@dataclass(frozen=True, slots=True)
class Off:
    """A `Source`. `why` says what to do to switch it on."""

    name: str
    strategies: tuple[str, ...]
    why: str
    capabilities: Capabilities = CAPABILITIES
    timeout_s: float = 1.0

    async def search(self, query: SourceQuery) -> SourceAnswer:
        raise SourceOff(f"{self.name}: {self.why}")

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        return None
