"""Evidence in the texts of a record of any kind"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from outrider.state.records import Repository

if TYPE_CHECKING:
    from collections.abc import Iterable

    from outrider.state.code_links import LinkEvidence
    from outrider.state.records import Record

HOSTS = ("github", "gitlab", "codeberg.org", "bitbucket.org", "zenodo")
"""One of these is in every text that names a repository, in lower case."""
WORKS = ("10.", "rxiv", "aclanthology", "aclweb", "/papers/", "ncbi.nlm", "title", "paper")
"""One of these is in every text that names a paper."""


def may_name_code(record: Record) -> bool:
    """Whether reading a record can give evidence: a look at its texts, which loads no pattern."""
    texts: tuple[str, ...]
    words: tuple[str, ...]
    if isinstance(record, Repository):
        texts = (record.text, record.description, " ".join(record.tags), str(record.metadata.get("badges") or ""))
        words = WORKS
        if "homepage" in record.metadata or "project_urls" in record.metadata:
            return True
    else:
        comment = record.metadata.get("comment")
        texts = (
            record.abstract,
            record.description,
            record.text,
            comment if isinstance(comment, str) else "",
            record.identifiers.doi or "",
        )
        words = HOSTS
    return any(word in text for text in map(str.lower, filter(None, texts)) for word in words)


def read_evidence(record: Record) -> tuple[LinkEvidence, ...]:
    """What a record says about papers and code: no request, one pass over its texts."""
    if not may_name_code(record):
        return ()
    if isinstance(record, Repository):
        from outrider.code_links.read_repository import read_repository

        return tuple(read_repository(record))
    from outrider.code_links.read_paper import read_page, read_paper

    return tuple(read_page(record) if record.kind == "page" else read_paper(record))


async def read_all_evidence(records: Iterable[Record]) -> list[LinkEvidence]:
    """The evidence of these records, in order. In a thread, where their texts may name something: the patterns take a while to load."""
    telling = [record for record in records if may_name_code(record)]
    if not telling:
        return []
    return await asyncio.to_thread(lambda: [one for record in telling for one in read_evidence(record)])
