"""What is named rather than lies in a file: `doi:10.1000/x`, `arxiv:2101.00001`, `pmid:123`, `pmcid:PMC123`, `github:owner/name`, a link.

A path that exists is a path, whatever it looks like. A link that names a work by its form is that work, not a page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os.path import lexists
from pathlib import Path

from outrider.linkage.identifiers import normal_arxiv, normal_doi, normal_pmcid, normal_pmid
from outrider.sources.github.parse import normal_name
from outrider.sources.web.link_identifiers import identifiers_of
from outrider.state.errors import BadRequest
from outrider.state.records import Identifiers
from outrider.text.sanitize import without_password

LINK = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
PAGE = "page"
"""The scheme of a link that names no work by its form."""
ARXIV_DOI = "10.48550/arxiv."
"""arXiv's own DOIs: two names of one thing, and arXiv knows its own numbers best."""


@dataclass(frozen=True, slots=True)
class Target:
    """Something to ask for. Equal where scheme and value are."""

    scheme: str
    """A field of `Identifiers`, or `PAGE`."""
    value: str
    """Normalised; of a page its link."""

    def __str__(self) -> str:
        """The origin of its record, however it was written."""
        return without_password(self.value) if self.scheme == PAGE else f"{self.scheme}:{self.value}"


@dataclass(frozen=True, slots=True)
class Form:
    normal: Callable[[str], str | None]
    example: str


FORMS: Mapping[str, Form] = {
    "doi": Form(lambda text: normal_doi(text) if text.startswith("10.") and not re.search(r"\s", text) else None, "doi:10.1000/xyz123"),
    "arxiv": Form(normal_arxiv, "arxiv:2101.00001"),
    "pmid": Form(normal_pmid, "pmid:31452104"),
    "pmcid": Form(lambda text: normal_pmcid(text if text[:3].upper() == "PMC" else f"PMC{text}"), "pmcid:PMC6710000"),
    "github": Form(normal_name, "github:owner/name"),
}


def parted(said: Sequence[str | Path]) -> tuple[list[Path], list[Target]]:
    """Paths, and targets each once, both in their order. Raises `BadRequest` for a target that cannot be one."""
    paths: list[Path] = []
    targets: dict[Target, None] = {}
    for one in said:
        if isinstance(one, Path) or _there(one) or (target := target_of(one)) is None:
            paths.append(Path(one))
        else:
            targets[target] = None
    return paths, list(targets)


def _there(text: str) -> bool:
    try:
        return lexists(text)
    except ValueError:  # a null character
        return False


def target_of(text: str) -> Target | None:
    """None for what is neither a known scheme nor a link. Raises `BadRequest` for a known scheme with something else behind it."""
    text = text.strip()
    if LINK.match(text):
        return first_of(identifiers_of(text)) or Target(PAGE, text.partition("#")[0])
    name, colon, value = text.partition(":")
    scheme = name.strip().lower()
    if not colon or scheme not in FORMS:
        return None
    value = value.strip()
    linked = getattr(identifiers_of(value), scheme) if LINK.match(value) else None
    normal = linked or FORMS[scheme].normal(value)
    if normal is None:
        raise BadRequest(f"{text!r} names no {scheme}; write for example {FORMS[scheme].example}")
    return _target(scheme, normal)


def first_of(known: Identifiers) -> Target | None:
    """By the strongest identifier that can be asked for."""
    return next((_target(scheme, value) for scheme, value in known.pairs() if scheme in FORMS), None)


def _target(scheme: str, value: str) -> Target:
    if scheme == "doi" and value.startswith(ARXIV_DOI) and (arxiv := normal_arxiv(value.removeprefix(ARXIV_DOI))):
        return Target("arxiv", arxiv)
    return Target(scheme, value)
