"""The copies of one library's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outrider.library.copies.copy_folder import CopyFolder
from outrider.library.copies.table_copy import TableCopy

if TYPE_CHECKING:
    from outrider.library.object_storage import ObjectStorage


class TableCopies:
    """One for each table that is read."""

    def __init__(self, storage: ObjectStorage, library_id: str) -> None:
        self._storage = storage
        self._folder = CopyFolder(library_id, storage.uri)
        self._copies: dict[str, TableCopy] = {}

    def find(self, name: str) -> TableCopy:
        return self._copies.setdefault(name, TableCopy(self._storage, self._folder, name))

    def close(self) -> None:
        for copy in self._copies.values():
            copy.close()
