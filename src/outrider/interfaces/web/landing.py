"""The first view of the page: what is searched, how much, and requests to try."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from outrider.library.browse import count_labels
from outrider.state.errors import LibraryError, LibraryMissing
from outrider.state.model import Model
from outrider.state.records import Record
from outrider.text.readable import read_plainly
from outrider.text.sentences import first_sentence

if TYPE_CHECKING:
    from outrider.services import Services

EXAMPLES = 3
GENERAL = (
    "How well do language models answer medical questions?",
    "Parse command line arguments in Rust",
    "Does aspirin harm the liver?",
)
"""For a library that holds nothing to ask for."""
SAMPLE = 80
MIN_WORDS, MAX_WORDS, MAX_CHARS = 4, 11, 80
WORD = re.compile(r"[^\W\d_]{2,}")
NAMES_ITSELF = re.compile(r"^[\w.-]{1,40}(?:\s+is\s+(?:an?|the)\s+|\s*[:–—-]\s+)", re.IGNORECASE)
"""`tenacity is a library for ...`: the request asks for what it is, not for its name."""


class Landing(Model):
    records: int | None = Field(description="Records of the library; None where it cannot be read.")
    problem: str = Field("", description="`missing` where there is no library yet, `broken` where it cannot be read.")
    labels: dict[str, int] = Field({}, description="Labels that users gave to records, and of how many.")
    examples: tuple[str, ...] = Field(description="Requests that the library can answer; general ones where it holds nothing to ask for.")


@dataclass(slots=True)
class LandingReader:
    """Examples are chosen once for a version of the library."""

    services: Services
    _snapshot: str = ""
    _examples: tuple[str, ...] = ()

    async def read(self) -> Landing:
        """How much the library holds, and requests that it can answer."""
        try:
            library = await self.services.library()
            records = await library.count()
            labels = count_labels((await library.labels()).values())
            snapshot = await library.snapshot()
            if snapshot != self._snapshot:
                self._examples, self._snapshot = choose_examples(await library.sample(SAMPLE)), snapshot
        except LibraryError as error:
            problem = "missing" if isinstance(error, LibraryMissing) else "broken"
            return Landing(records=0 if problem == "missing" else None, problem=problem, examples=GENERAL)
        return Landing(records=records, labels=labels, examples=self._examples)


def choose_examples(records: Sequence[Record]) -> tuple[str, ...]:
    """Descriptions of repositories and titles of others, of as many kinds as there are; general ones where the library has none."""
    texts = {text: record.kind for record in records if (text := _ask_for(record))}
    chosen: list[str] = []
    for is_new in (True, False):
        kinds = {texts[text] for text in chosen}
        for text, kind in sorted(texts.items(), key=lambda item: (-_count_common(item[0], texts), item[0])):
            if len(chosen) < EXAMPLES and text not in chosen and (not is_new or kind not in kinds) and _is_other(text, chosen):
                chosen.append(text)
                kinds.add(kind)
    return tuple(chosen) or GENERAL


def _ask_for(record: Record) -> str:
    """A request that the record answers; empty where its words make none."""
    described = getattr(record, "description", "") or ""
    text = read_plainly(first_sentence(described) if record.kind == "repository" else record.title)
    text = NAMES_ITSELF.sub("", text).strip().rstrip(".!").strip()
    text = text[:1].upper() + text[1:]
    return (
        text
        if MIN_WORDS <= len(WORD.findall(text)) <= MAX_WORDS and len(text) <= MAX_CHARS and text.isprintable() and "<" not in text
        else ""
    )


def _count_common(text: str, others: Iterable[str]) -> int:
    """Of how many other texts it has a longer word: a request that several works answer shows more."""
    own = {word.casefold() for word in WORD.findall(text) if len(word) > 5}
    return sum(bool(own & {word.casefold() for word in WORD.findall(other)}) for other in others)


def _is_other(text: str, chosen: Iterable[str]) -> bool:
    own = {word.casefold() for word in WORD.findall(text) if len(word) > 3}
    return not any(len(own & {word.casefold() for word in WORD.findall(other)}) > 1 for other in chosen)
