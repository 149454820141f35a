"""CITATION.cff, codemeta.json and files of links as evidence.

Forms: Citation File Format 1.2 (citation-file-format.github.io), CodeMeta 3.0 (codemeta.github.io), and the list of links that Papers with
Code published until it closed in 2025 (`paper_url`, `repo_url`, ...), of which copies and others' lists in the same form remain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from outrider.code_links.names import find_papers, is_archive, normal_paper, parse_repository_address, title_name
from outrider.state.code_links import LinkEvidence, LinkKind

MAX_WORDS = 200


def read_citation_file(content: Mapping[Any, Any], repository: str, read_in: str, *, text: str = "") -> Iterator[LinkEvidence]:
    """The preferred citation is the repository's paper; a DOI of the file itself is its archive, or its paper if it is an article."""
    if not _is_of(content, repository):
        return
    preferred = content.get("preferred-citation")
    own_type = str(content.get("type") or "software")
    if isinstance(preferred, Mapping) and str(preferred.get("type") or "article") not in (
        "software",
        "software-code",
        "data",
        "dataset",
        "database",
    ):
        names = list(_list_names(preferred))
        title = title_name(str(preferred.get("title") or ""))
        names = names or ([title] if title else [])
        for name in names:
            kind: LinkKind = "archive" if is_archive(name) else "repository's paper"
            yield _make(
                name, repository, kind, read_in, "CITATION.cff", "preferred-citation", str(preferred.get("title") or name), 0.98, text
            )
    elif isinstance(preferred, Mapping):
        for name in _list_names(preferred):
            yield _make(
                name, repository, "archive", read_in, "CITATION.cff", "preferred-citation", str(preferred.get("title") or name), 0.95, text
            )
    for name in _list_names(content):
        is_article = own_type not in ("software", "dataset") or re.search(r"10\.21105/joss", name) is not None
        kind = "repository's paper" if is_article and not is_archive(name) else "archive"
        yield _make(name, repository, kind, read_in, "CITATION.cff", "doi", str(content.get("title") or name), 0.95, text)
    for reference in _list(content.get("references")):
        if isinstance(reference, Mapping):
            for name in _list_names(reference):
                yield _make(
                    name, repository, "mentions", read_in, "CITATION.cff", "references", str(reference.get("title") or name), 0.3, text
                )


def _is_of(content: Mapping[Any, Any], repository: str) -> bool:
    """A file that names another repository as its own was copied with a fork: it says nothing about this one."""
    named = parse_repository_address(str(content.get("repository-code") or content.get("repository") or ""))
    return named is None or named == repository


def _list_names(content: Mapping[Any, Any]) -> Iterator[str]:
    values = [content.get("doi"), content.get("url")]
    values += [item.get("value") for item in _list(content.get("identifiers")) if isinstance(item, Mapping)]
    yield from dict.fromkeys(one.name for value in values if value for one in find_papers(str(value)))


def read_codemeta(content: Mapping[str, Any], repository: str, read_in: str, *, text: str = "") -> Iterator[LinkEvidence]:
    """`referencePublication` is the repository's paper, `identifier` its archive."""
    named = parse_repository_address(str(content.get("codeRepository") or ""))
    if named is not None and named != repository:
        return
    for publication in _list(content.get("referencePublication")):
        title = ""
        if isinstance(publication, Mapping):
            title = str(publication.get("name") or publication.get("headline") or "")
            value = " ".join(str(publication.get(key) or "") for key in ("@id", "id", "identifier", "url", "sameAs", "doi"))
        else:
            value = str(publication)
        names = list(dict.fromkeys(one.name for one in find_papers(value)))
        named_title = title_name(title)
        for name in names or ([named_title] if named_title else []):
            yield _make(name, repository, "repository's paper", read_in, "codemeta.json", "referencePublication", title or name, 0.97, text)
    for value in _list(content.get("identifier")):
        for one in find_papers(str(value)):
            if is_archive(one.name):
                yield _make(one.name, repository, "archive", read_in, "codemeta.json", "identifier", one.name, 0.93, text)


def read_link_rows(rows: list[Any], read_in: str) -> Iterator[LinkEvidence | str]:
    """Evidence of each row of a file of links, or what is wrong with the row.

    A row is an object with `repo_url` and one of `paper_url`, `paper_url_abs`, `paper_doi`, `paper_arxiv_id`, `paper_title`. With
    `is_official` (true or false) it says whether the code is the authors' own; without it, `mentioned_in_paper` and `mentioned_in_github`
    say where the link stands.
    """
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            yield f"row {number} is no object"
            continue
        repository = parse_repository_address(str(row.get("repo_url") or ""))
        values = [str(row.get(key) or "") for key in ("paper_url", "paper_url_abs", "paper_url_pdf", "paper_doi")]
        names = list(dict.fromkeys(one.name for value in values for one in find_papers(value)))
        if arxiv := normal_paper("arxiv", str(row.get("paper_arxiv_id") or "")):
            names = list(dict.fromkeys((arxiv, *names)))
        title = title_name(str(row.get("paper_title") or ""))
        names = names or ([title] if title else [])
        if repository is None or not names:
            yield f"row {number} names no {'repository (repo_url)' if repository is None else 'paper'}"
            continue
        kind: LinkKind = "mentions"
        sure = 0.4
        if row.get("is_official") is True:
            kind, sure = "paper's own code" if row.get("mentioned_in_paper") else "repository's paper", 0.93
        elif row.get("is_official") is False:
            kind, sure = "based on", 0.6
        words = f"{row.get('paper_title') or names[0]} – {row.get('repo_url')}"
        for name in names:
            yield LinkEvidence(
                work=name, target=repository, kind=kind, read_in=read_in, place="link file", field="is_official", line=number,
                words=words[:MAX_WORDS], confidence=sure,
            )  # fmt: skip


def _make(  # noqa: PLR0913, PLR0917 - one argument a field
    name: str, repository: str, kind: LinkKind, read_in: str, place: str, field: str, words: str, sure: float, text: str
) -> LinkEvidence:
    value = name.partition(":")[2]
    at = text.lower().find(value) if text else -1
    return LinkEvidence(
        work=name, target=repository, kind=kind, read_in=read_in, place=place, field=field,
        line=text.count("\n", 0, at) + 1 if at >= 0 else None, words=" ".join(words.split())[:MAX_WORDS], confidence=sure,
    )  # fmt: skip


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
