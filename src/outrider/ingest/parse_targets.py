"""Parsing of targets: identifiers such as `doi:10.1000/x` or `github:owner/name`, and links.

A path that exists is a path, even if it looks like a target. A link whose form names a work is that work, not a page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os.path import lexists
from pathlib import Path

from outrider.linkage.identifiers import normal_arxiv, normal_doi, normal_pmcid, normal_pmid
from outrider.sources.github.parse import normal_name
from outrider.sources.web.link_identifiers import find_identifiers
from outrider.state.errors import BadRequest
from outrider.state.records import Identifiers
from outrider.text.sanitize import without_password

LINK = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
PAGE = "page"
"""The scheme of a link whose form names no work."""
ARXIV_DOI = "10.48550/arxiv."
"""arXiv's own DOIs. They become arXiv numbers, which arXiv itself answers best."""


@dataclass(frozen=True, slots=True)
class Target:
    """A work, repository or page to fetch."""

    scheme: str
    """A field of `Identifiers`, or `PAGE`."""
    value: str
    """The normalised identifier, or the link of a page."""

    def __str__(self) -> str:
        """The origin of its record, the same for every way to write the target."""
        return without_password(self.value) if self.scheme == PAGE else f"{self.scheme}:{self.value}"


@dataclass(frozen=True, slots=True)
class TargetForm:
    """How a scheme's values are normalised, and an example for messages."""

    normal: Callable[[str], str | None]
    example: str


FORMS: Mapping[str, TargetForm] = {
    "doi": TargetForm(
        lambda text: normal_doi(text) if text.startswith("10.") and not re.search(r"\s", text) else None, "doi:10.1000/xyz123"
    ),
    "arxiv": TargetForm(normal_arxiv, "arxiv:2101.00001"),
    "pmid": TargetForm(normal_pmid, "pmid:31452104"),
    "pmcid": TargetForm(lambda text: normal_pmcid(text if text[:3].upper() == "PMC" else f"PMC{text}"), "pmcid:PMC6710000"),
    "github": TargetForm(normal_name, "github:owner/name"),
}


def split_targets(arguments: Sequence[str | Path]) -> tuple[list[Path], list[Target]]:
    """Paths, and targets each once, both in their order. Raises `BadRequest` for a malformed target."""
    paths: list[Path] = []
    targets: dict[Target, None] = {}
    for argument in arguments:
        try:
            is_path = isinstance(argument, Path) or lexists(argument)
        except ValueError:  # a null character
            is_path = False
        if is_path or (target := parse_target(str(argument))) is None:
            paths.append(Path(argument))
        else:
            targets[target] = None
    return paths, list(targets)


def parse_target(text: str) -> Target | None:
    """None for text without a known scheme that is not a link. Raises `BadRequest` for a known scheme with an invalid value."""
    text = text.strip()
    if LINK.match(text):
        return choose_target(find_identifiers(text)) or Target(PAGE, text.partition("#")[0])
    name, colon, value = text.partition(":")
    scheme = name.strip().lower()
    if not colon or scheme not in FORMS:
        return None
    value = value.strip()
    linked = getattr(find_identifiers(value), scheme) if LINK.match(value) else None
    normal = linked or FORMS[scheme].normal(value)
    if normal is None:
        raise BadRequest(f"{text!r} is not a {scheme}; write for example {FORMS[scheme].example}")
    return _make_target(scheme, normal)


def choose_target(identifiers: Identifiers) -> Target | None:
    """The target of the strongest identifier that can be fetched."""
    return next((_make_target(scheme, value) for scheme, value in identifiers.pairs() if scheme in FORMS), None)


def _make_target(scheme: str, value: str) -> Target:
    if scheme == "doi" and value.startswith(ARXIV_DOI) and (arxiv := normal_arxiv(value.removeprefix(ARXIV_DOI))):
        return Target("arxiv", arxiv)
    return Target(scheme, value)
