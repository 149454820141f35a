"""What was learned from use of the settings' library, for the node that orders the hits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.learning.preferences import fit, prove
from outrider.learning.store import LearningStore
from outrider.services.citation_queue import OWNER, find_data_folder, find_library_address
from outrider.state.errors import SearchError

if TYPE_CHECKING:
    from outrider.settings.model import Settings
    from outrider.state.learning import Preferences

FILE = "learning.sqlite"


def find_learning_store(settings: Settings) -> LearningStore:
    """The file of `learning.file`; by default beside the threads."""
    if settings.learning.file:
        return LearningStore(Path(settings.learning.file).expanduser().absolute())
    return LearningStore((find_data_folder(settings) / FILE).absolute())


@dataclass(slots=True)
class LearnedPreferences:
    """The preferences of a library, fitted again when the file has changed."""

    settings: Settings
    _kept: dict[str, tuple[tuple[int, int], Preferences | None, str]] = field(default_factory=dict)

    async def __call__(self) -> tuple[Preferences | None, str]:
        """The weights, or None with the reason why none are used."""
        return await asyncio.to_thread(self._read, OWNER.get() or "")

    def _read(self, owner: str) -> tuple[Preferences | None, str]:
        store = find_learning_store(self.settings)
        stamp = store.stamp
        known = self._kept.get(owner)
        if known is None or known[0] != stamp:
            try:
                lists = store.read(find_library_address(self.settings), owner)
            except SearchError as error:  # a search has its answer without
                return None, str(error)
            proof = prove(lists)
            known = self._kept[owner] = (stamp, fit(lists) if proof.is_proven else None, proof.why)
        return known[1], known[2]
