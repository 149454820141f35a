"""Plain text: one document a file, titled by the file's name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from outrider.ingest.entry import Entry, Parsed, ReadOptions
from outrider.ingest.readers.text_files import decoded
from outrider.state.records import Document


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    content = decoded(path)
    yield Entry(Document(doc_id="", title=path.stem, text=content.text.strip(), metadata={**content.said()}))
