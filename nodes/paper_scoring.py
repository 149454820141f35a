"""Papers, pages and documents before the model: ten a call, each with the beginning of what it says of itself.

A call knows its works as p1, p2, ... So an id is cheap, and no text can name a work of another call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, WithJsonSchema

from outrider.nodes.judgement import READ, Judged, Judgement, Number, Question, Reason, clamped, one_line
from outrider.prompts import fenced
from outrider.state.chat import Asked, Budget, Chat
from outrider.state.errors import ChatError, KeyRejected
from outrider.state.model import Model
from outrider.state.records import Record
from outrider.text.injection import suspicious

BATCH = 10
TITLE_CHARS, SNIPPET_CHARS, VENUE_CHARS = 200, 500, 60
TOKENS_AROUND, TOKENS_A_WORK = 60, 90
"""Room in the answer: a judgement takes about 50 tokens, more where a server writes it with line breaks."""

TAGS = ("survey", "method", "theory", "dataset", "benchmark", "baseline", "library", "application", "evaluation", "tutorial", "opinion")
"""What a work may be called; any other word is dropped. The prompt names the same."""
MAX_TAGS = 3


def _tags(value: object) -> tuple[str, ...]:
    said = [tag.strip().lower() for tag in value if isinstance(tag, str)] if isinstance(value, list | tuple) else []
    return tuple(dict.fromkeys(tag for tag in said if tag in TAGS))[:MAX_TAGS]


def _usable(value: object) -> object:
    """The entries that name a work; one that does not is no reason to lose the others."""
    if not isinstance(value, list | tuple):
        return value
    return [one for one in value if isinstance(one, dict) and isinstance(one.get("paper_id"), str)]


Tags = Annotated[
    tuple[str, ...],
    BeforeValidator(_tags),
    WithJsonSchema({"type": "array", "maxItems": MAX_TAGS, "items": {"type": "string", "enum": list(TAGS)}}),
]


class PaperScore(Model):
    model_config = ConfigDict(frozen=True, extra="ignore")

    paper_id: str
    relevance_score: Number = None
    relevance_reason: Reason = ""
    tags: Tags = ()


class PaperScores(Model):
    """What the model answers."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    results: Annotated[tuple[PaperScore, ...], BeforeValidator(_usable), Field(max_length=10_000)]


@dataclass(frozen=True, slots=True)
class PaperScorer:
    """Judges works in batches."""

    chat: Chat
    system: str
    node: str

    async def judge(self, records: Sequence[Record], question: Question, budget: Budget) -> Judged:
        """What the model left out is asked once more. Raises nothing but `KeyRejected`: an error stands beside what is known."""
        works: dict[int, Judgement] = {}
        try:
            for _ in range(2):
                left = [at for at in range(len(records)) if at not in works]
                if left:
                    said = await self._asked([records[at] for at in left], question, budget)
                    works |= {left[at]: judgement for at, judgement in said.items()}
        except KeyRejected:
            raise
        except ChatError as error:
            return Judged(tuple(map(works.get, range(len(records)))), error)
        return Judged(tuple(map(works.get, range(len(records)))))

    async def _asked(self, records: Sequence[Record], question: Question, budget: Budget) -> dict[int, Judgement]:
        papers: list[JsonValue] = [{"id": f"p{at}", **shown(record)} for at, record in enumerate(records, start=1)]
        asked = Asked(
            node=self.node,
            system=self.system,
            user=fenced({"request": question.data(), "papers": papers}),
            max_output_tokens=TOKENS_AROUND + TOKENS_A_WORK * len(records),
        )
        return read(await self.chat.answer(asked, PaperScores, budget), len(records))


def read(answer: PaperScores, count: int) -> dict[int, Judgement]:
    """Judgements by place, from 0. Ids that were not asked for are dropped, and of an id said twice the first counts."""
    places = {f"p{at}": at - 1 for at in range(1, count + 1)}
    found: dict[int, Judgement] = {}
    for one in answer.results:
        place = places.get(one.paper_id.strip().lower())
        if place is not None and place not in found and one.relevance_score is not None:
            found[place] = Judgement(clamped(one.relevance_score, 1.0), one.relevance_reason, one.tags)
    return found


def shown(record: Record) -> dict[str, Any]:
    """What the model sees of a work."""
    said = {
        "title": one_line(record.title, TITLE_CHARS),
        "snippet": one_line(_snippet(record), SNIPPET_CHARS),
        "year": record.year,
        "venue": one_line(record.venue or "", VENUE_CHARS),
    }
    return {name: value for name, value in said.items() if value}


def batches(records: Sequence[Record], size: int = BATCH) -> list[list[int]]:
    """Places of records in batches, in order; a work whose text speaks to a model stands alone, with no other that it could touch."""
    apart = [at for at, record in enumerate(records) if _speaks_to_a_model(record)]
    together = [at for at in range(len(records)) if at not in set(apart)]
    return [*(together[at : at + size] for at in range(0, len(together), size)), *([at] for at in apart)]


def _snippet(record: Record) -> str:
    return record.abstract or record.description or record.text


def _speaks_to_a_model(record: Record) -> bool:
    """Before its text is made one line, which would hide how it was hidden."""
    said = (record.title[: READ * TITLE_CHARS], _snippet(record)[: READ * SNIPPET_CHARS], (record.venue or "")[: READ * VENUE_CHARS])
    return bool(suspicious("\n\n".join(said)))
