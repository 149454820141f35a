"""Open full texts: where they are, where a text came from, what was tried

A record holds a fetched text in `text` and its origin in `metadata["full_text"]`. A text without that entry is the user's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, Protocol, TypeVar

from pydantic import Field, ValidationError

from outrider.state.model import Model
from outrider.state.records import BaseRecord, Identifiers, Metadata, Record

KEY: Final = "full_text"
"""In a record's metadata: the fields of a `FullText`."""
LOCATIONS: Final = "open_locations"
"""In a record's metadata: open locations that a service named when the record was found."""
TextForm = Literal["jats", "pdf", "html"]
FORMS: Final[tuple[TextForm, ...]] = ("jats", "pdf", "html")
"""Best first: JATS has sections and no page breaks; a page has menus."""
TextVersion = Literal["published", "accepted", "submitted", ""]
VERSIONS: Final[tuple[TextVersion, ...]] = ("published", "accepted", "", "submitted")
"""Best first."""
NAMES: Final = {"jats": "JATS", "pdf": "PDF", "html": "HTML"}
WorkStatus = Literal["fetched", "kept", "own text", "planned", "not open", "refused", "failed", "not a paper", "unknown"]
AnyRecord = TypeVar("AnyRecord", bound=BaseRecord)


class OpenLocation(Model):
    """An address under which a service says that a work is open."""

    url: str
    form: TextForm
    licence: str = Field("", description="As the service wrote it; empty if it names none.")
    version: TextVersion = ""
    host: str = Field("", description="`publisher`, `repository`, or empty.")
    found_by: str = Field("", description="The service that named it.")


class FullText(Model):
    """Where the full text of a record came from."""

    url: str
    form: TextForm
    licence: str = Field("", description="Normalised, such as `cc-by-4.0`; empty if none is stated.")
    version: TextVersion = ""
    host: str = ""
    found_by: str = ""
    characters: int = 0
    fetched_at: str = Field("", description="ISO 8601 date.")

    def describe(self) -> str:
        """One line, such as `PDF, published version, cc-by-4.0, from https://...`."""
        version = f"{self.version} version" if self.version else ""
        parts = (NAMES[self.form], version, self.licence or "no licence stated", f"from {self.url}")
        return ", ".join(filter(None, parts))


class Attempt(Model):
    """One location that was tried, and its outcome."""

    url: str
    form: TextForm
    found_by: str = ""
    status: Literal["read", "refused", "failed"]
    reason: str = Field("", description="Why the text was not taken.")


class WorkText(Model):
    """What became of the full text of one work."""

    doc_id: str
    title: str = ""
    status: WorkStatus
    full_text: FullText | None = None
    attempts: tuple[Attempt, ...] = Field((), description="The locations in the order in which they were tried.")
    reason: str = Field("", description="Why the work has no full text.")
    notes: tuple[str, ...] = Field((), description="Services that could not be asked, and why.")


class FullTextReport(Model):
    """What became of the full texts of several works."""

    works: tuple[WorkText, ...] = ()
    remarks: tuple[str, ...] = ()

    def count(self, *statuses: WorkStatus) -> int:
        return sum(work.status in statuses for work in self.works)


class Located(Model):
    """The answer of one service: open locations, and identifiers of the work that it knows besides."""

    locations: tuple[OpenLocation, ...] = ()
    identifiers: Identifiers = Identifiers()


class LocationSource(Protocol):
    """A service that names open locations of a work."""

    @property
    def name(self) -> str: ...

    async def locate(self, record: Record, within_s: float) -> Located:
        """Empty for a work that it does not know, or that is not open. Raises `SourceError`."""
        ...


class TextSource(LocationSource, Protocol):
    """A `LocationSource` that also returns the texts of its own locations."""

    async def fetch_text(self, location: OpenLocation, within_s: float) -> bytes:
        """Raises `SourceError`."""
        ...


class TextFetcher(Protocol):
    """Finds and reads the open full texts of works. It fetches nothing that no service calls open."""

    async def fetch(self, records: Sequence[Record], within_s: float) -> list[tuple[Record, WorkText]]:
        """For each record, in order: the record with its text, or as it is, and what was tried. Raises no error of a service."""
        ...


def read_origin(record: BaseRecord) -> FullText | None:
    """Where the record's text came from; None for a record without a fetched text."""
    return parse_origin(record.metadata) if record.text else None


def parse_origin(metadata: Metadata) -> FullText | None:
    fields = metadata.get(KEY)
    if not isinstance(fields, dict):
        return None
    try:
        return FullText.model_validate(fields)
    except ValidationError:  # written by another version
        return None


def add_text(record: AnyRecord, text: str, origin: FullText) -> AnyRecord:
    """The record with a fetched text."""
    fields = origin.model_dump(mode="json", exclude_defaults=True)
    return record.model_copy(update={"text": text, "metadata": {**record.metadata, KEY: fields}})


def carry_text(record: AnyRecord, stored: BaseRecord) -> AnyRecord:
    """The record with the fetched text of its stored form, unless it has a text of its own or a better fetched one."""
    origin, own = read_origin(stored), read_origin(record)
    is_own = bool(record.text) and own is None and record.text != stored.text
    if origin is None or is_own or (own is not None and rank_text(own) <= rank_text(origin)):
        return record
    return add_text(record, stored.text, origin)


def rank_text(text: FullText | OpenLocation) -> tuple[int, int]:
    """Smaller is better: JATS before PDF before HTML, then the published version."""
    return FORMS.index(text.form), VERSIONS.index(text.version)


def sort_locations(locations: Iterable[OpenLocation]) -> list[OpenLocation]:
    """Best first; equal ones keep their order."""
    return sorted(locations, key=rank_text)
