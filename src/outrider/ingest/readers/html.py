"""A saved web page. What a page says is read by `sources.pages.html`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from outrider.ingest.entry import Entry, Parsed, ReadOptions
from outrider.ingest.readers.text_files import decoded
from outrider.sources.web.html_page import declared_charset, page_of
from outrider.state.errors import Malformed, UnreadableFile


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    content = decoded(path, declared_charset)
    try:
        page = page_of(content.text, content.said())
    except Malformed as broken:
        raise UnreadableFile(f"{path}: {broken}") from broken
    if not page.text and not page.title:
        raise UnreadableFile(f"{path}: a page without readable text")
    yield Entry(page if page.title else page.model_copy(update={"title": path.stem}))
