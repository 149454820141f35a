"""Services whose lists are read on by a cursor, without a bound: one slice holds all."""

from __future__ import annotations

from dataclasses import dataclass, field

from outrider.sources.answering import WorkFormat, read_works
from outrider.sources.calls.caller import Params
from outrider.sources.records.said import mapping, text
from outrider.sources.systematic.asking import Asker
from outrider.sources.systematic.reading import Came, Part

START = "*"


class Unsliced:
    """A `Reader` that needs no slices."""

    def halves(self, part: Part) -> tuple[Part, Part] | None:
        return None

    def label(self, part: Part) -> str:
        return "all"


@dataclass(slots=True)
class CursorReader(Unsliced):
    """`/works`, page by page."""

    asker: Asker
    answers: WorkFormat
    params: Params
    next: tuple[str, str]
    """Where the answer holds the next cursor."""
    named: str
    """What a work must have to be taken."""
    most: int | None = None
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.answers.NAME

    async def read(self, part: Part, place: str, *, anyway: bool) -> Came:
        said = (await self.asker.get("/works", {**self.params, "cursor": place or START})).json()
        works, total = read_works(said, self.answers, self.asker.service)
        papers = [paper for work in works if (paper := self.answers.paper_of(work)) is not None]
        remarks = (f"{len(works) - len(papers)} works without {self.named}",) if len(papers) < len(works) else ()
        within, key = self.next
        on = text(mapping(mapping(said).get(within)).get(key)) if works else ""
        return Came(tuple(papers), total, on, remarks)
