"""Parsing and fetching of targets: identifiers such as `doi:10.1000/x`, and links.

A path that exists is a path, even if it looks like a target. A link whose form names a work is that work, not a page.

Identifiers are fetched from the sources as records, other links as pages. A page gives its own record, unless it declares an identifier
under which a source knows the same work: then the source's record leads and the page fills its gaps. A PDF behind a link is reported, not
fetched.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import lexists
from pathlib import Path
from urllib.parse import urlsplit

from outrider.linkage.identifiers import normal_arxiv, normal_doi, normal_pmcid, normal_pmid
from outrider.linkage.merge import fill_missing, merge_lookups
from outrider.nodes.enrich.lookup_by_identifier import is_unreachable, look_up
from outrider.nodes.enrich.missing_abstracts import is_same_work
from outrider.sources.github.parse import normal_name
from outrider.sources.web.link_identifiers import find_identifiers
from outrider.state.errors import BadRequest, NothingToRead, SourceError, UnreadableFile
from outrider.state.ports import Detailer, PageReader, Source
from outrider.state.records import LIBRARY, Identifiers, Record, Repository
from outrider.text.sanitize import without_password

log = logging.getLogger(__name__)

LINK = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
PAGE = "page"
"""The scheme of a link whose form names no work."""
ARXIV_DOI = "10.48550/arxiv."
"""arXiv's own DOIs. They become arXiv numbers, which arXiv itself answers best."""
AT_ONCE = 8
"""Targets fetched at a time. Each service also has its own limit."""
PUBLICATION_SCHEMES = ("doi", "pmid", "pmcid")
"""Schemes that name one publication: fetched under another of them, it is the same record. A preprint has its own record."""


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
            if not is_path and (scheme := _find_scheme(str(argument).strip())):
                raise BadRequest(f"{argument}: there is no such file or folder; to look it up, write {scheme}:{argument}")
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


def _find_scheme(text: str) -> str:
    """The scheme that is missing before a DOI or an arXiv number; empty for anything else."""
    return next((scheme for scheme in ("doi", "arxiv") if not text.endswith("/") and FORMS[scheme].normal(text)), "")


def choose_target(identifiers: Identifiers) -> Target | None:
    """The target of the strongest identifier that can be fetched."""
    return next((_make_target(scheme, value) for scheme, value in identifiers.pairs() if scheme in FORMS), None)


def _make_target(scheme: str, value: str) -> Target:
    if scheme == "doi" and value.startswith(ARXIV_DOI) and (arxiv := normal_arxiv(value.removeprefix(ARXIV_DOI))):
        return Target("arxiv", arxiv)
    return Target(scheme, value)


@dataclass(frozen=True, slots=True)
class FetchedTarget:
    """A record from a service or a page."""

    record: Record
    target: Target
    """The target whose record it is; different from the request if a link led to a work."""
    notes: tuple[str, ...] = ()

    def list_aliases(self) -> list[str]:
        """Other targets that are the same publication."""
        if self.target.scheme not in PUBLICATION_SCHEMES:
            return []
        targets = [Target(scheme, value) for scheme, value in self.record.identifiers.pairs() if scheme in PUBLICATION_SCHEMES]
        return [str(target) for target in targets if target != self.target]


@dataclass(frozen=True, slots=True)
class RemoteSources:
    """The services and the page reader that targets are fetched from."""

    sources: Sequence[Source]
    pages: PageReader | None = None
    details: Mapping[str, Detailer] = field(default_factory=dict)
    """Adapters that add details to a source's repositories, by the source's name."""
    within_s: float = 25.0
    """For each target."""

    async def fetch(self, target: Target) -> FetchedTarget:
        """Raises `UnreadableFile` for a target that no source has or that may not be fetched, `NothingToRead` for a PDF."""
        if target.scheme != PAGE:
            record, notes = await self._fetch_work(target)
            return FetchedTarget(record, target, notes)
        if self.pages is None:
            raise UnreadableFile("no page can be fetched here: no page reader is configured")
        try:
            response = await self.pages.fetch(target.value, self.within_s)
        except SourceError as error:
            log.info("%s", error)
            raise UnreadableFile(_explain_unreachable([urlsplit(target.value).netloc]) if is_unreachable(error) else str(error)) from error
        page, work = response.page, choose_target(response.page.identifiers)
        if response.kind in ("doi", "pdf") and work:
            record, notes = await self._fetch_work(work)
            return FetchedTarget(record, work, notes)
        if response.kind == "pdf":
            raise NothingToRead(f"{page.url} is a PDF, which is not fetched; save it and ingest the file")
        if not (page.text or page.abstract or page.title):
            raise NothingToRead(f"{page.url} holds no text")
        if work is None:
            return FetchedTarget(page, target)
        try:
            record, notes = await self._fetch_work(work)
        except UnreadableFile as error:
            return FetchedTarget(page, target, (str(error),))
        if not is_same_work(page, record):
            return FetchedTarget(page, target, (f"declares {work}, which at {record.source} is another work: {record.title[:200]!r}",))
        return FetchedTarget(fill_missing(record, [page]), target, notes)

    async def _fetch_work(self, target: Target) -> tuple[Record, tuple[str, ...]]:
        lookup = await look_up(self.sources, target.scheme, target.value, self.within_s)
        if lookup.record is None:
            if not lookup.sources:
                raise UnreadableFile(f"no active source can look up a {target.scheme}")
            failed = {problem.partition(":")[0] for problem in lookup.problems}
            without = ", ".join(name for name in lookup.sources if name not in failed and name not in lookup.unreachable)
            reasons = [f"not known to {without}"] if without else []
            reasons += [_explain_unreachable(lookup.unreachable)] if lookup.unreachable else []
            raise UnreadableFile("; ".join([*reasons, *lookup.problems]))
        missing = (_explain_unreachable(lookup.unreachable),) if lookup.unreachable else ()
        detailer = self.details.get(lookup.record.source)
        if detailer is None or not isinstance(lookup.record, Repository):
            return lookup.record, (*lookup.problems, *missing)
        detailed = await detailer.details([lookup.record], self.within_s)
        problem = () if detailed.status in ("ok", "cached") else (f"{detailer.name}: {detailed.message}",)
        return detailed.records[0], (*lookup.problems, *missing, *problem)


def _explain_unreachable(names: Sequence[str]) -> str:
    return f"{', '.join(names)} could not be reached (no network?); --verbose shows the details"


async def fetch_ahead(remote: RemoteSources, targets: Sequence[Target]) -> AsyncGenerator[tuple[Target, asyncio.Task[FetchedTarget]]]:
    """The targets in their order, each with its fetch; later ones are under way already. Closing it (`aclosing`) cancels these."""
    todo = deque(targets)
    running: deque[tuple[Target, asyncio.Task[FetchedTarget]]] = deque()
    try:
        while todo or running:
            while todo and len(running) < AT_ONCE:
                target = todo.popleft()
                running.append((target, asyncio.create_task(remote.fetch(target))))
            yield running[0]
            running.popleft()
    finally:
        for _, task in running:
            task.cancel()
        await asyncio.gather(*(task for _, task in running), return_exceptions=True)


def make_library_record(record: Record, stored: Record | None = None) -> Record:
    """The record as the library's own, merged with what the library has `stored` of the same work.

    The service's id for it moves to the metadata; its `doc_id` comes from its target.
    """
    merged = record if stored is None else merge_lookups(stored, record)
    service_id = merged.doc_id if merged.source == record.source else merged.metadata.get("record")
    return merged.model_copy(update={"doc_id": "", "source": LIBRARY, "metadata": {**merged.metadata, "record": service_id}})
