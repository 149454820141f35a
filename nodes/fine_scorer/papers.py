"""Papers, pages and documents before the model: ten a call, each with the beginning of what it says of itself.

A call knows its works as p1, p2, ... So an id is cheap, and no text can name a work of another call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, JsonValue, WithJsonSchema

from outrider.nodes.fine_scorer.adaptive_stopping import BATCH
from outrider.nodes.fine_scorer.judgement import READ_FACTOR, CallResult, Judgement, Number, Question, Reason, ask_twice, clamp, to_one_line
from outrider.prompts import fence
from outrider.state.chat import Budget, Chat, ChatRequest
from outrider.state.model import Model
from outrider.state.records import Record, Repository
from outrider.text.injection import suspicious

TITLE_CHARS, SNIPPET_CHARS = 200, 300
"""What is shown of each. With more of it, or with the venue, a hundred works could cost more than $0.003 at the default model's price."""
EXTRA_CHARS = 100
"""Characters after what is shown that are looked through, too: a pattern may be cut where the showing ends."""
TOKENS_OVERHEAD, TOKENS_PER_WORK = 60, 90
"""Room in the answer: a judgement takes about 30 tokens, more where a server writes it with line breaks."""

TAGS = ("survey", "method", "theory", "dataset", "benchmark", "baseline", "library", "application", "evaluation", "tutorial", "opinion")
"""What a work may be called; any other word is dropped. The prompt names the same."""
MAX_TAGS = 2


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

    results: Annotated[tuple[PaperScore, ...], BeforeValidator(_usable)]


@dataclass(frozen=True, slots=True)
class PaperScorer:
    """Judges works in batches."""

    chat: Chat
    system: str
    node: str

    async def judge(self, records: Sequence[Record], question: Question, budget: Budget) -> CallResult:
        """Raises nothing but `KeyRejected`."""

        async def ask(left: Sequence[int]) -> dict[int, Judgement]:
            said = await self._asked([records[at] for at in left], question, budget)
            return {left[at]: judgement for at, judgement in said.items()}

        return await ask_twice(len(records), ask)

    async def _asked(self, records: Sequence[Record], question: Question, budget: Budget) -> dict[int, Judgement]:
        papers: list[JsonValue] = [{"id": f"p{at}", **describe_work(record)} for at, record in enumerate(records, start=1)]
        asked = ChatRequest(
            node=self.node,
            system=self.system,
            user=fence({"request": question.to_json(), "papers": papers}),
            max_output_tokens=TOKENS_OVERHEAD + TOKENS_PER_WORK * len(records),
        )
        return parse_scores(await self.chat.answer(asked, PaperScores, budget), len(records))


def parse_scores(answer: PaperScores, count: int) -> dict[int, Judgement]:
    """Judgements by place, from 0. Ids that were not asked for are dropped, and of an id said twice the first counts."""
    places = {f"p{at}": at - 1 for at in range(1, count + 1)}
    found: dict[int, Judgement] = {}
    for one in answer.results:
        place = places.get(one.paper_id.strip().lower())
        if place is not None and place not in found and one.relevance_score is not None:
            found[place] = Judgement(clamp(one.relevance_score, 1.0), one.relevance_reason, one.tags)
    return found


def describe_work(record: Record) -> dict[str, Any]:
    """What the model sees of a work."""
    said = {
        "title": to_one_line(record.title, TITLE_CHARS),
        "snippet": to_one_line(_snippet(record), SNIPPET_CHARS),
        "year": record.year,
    }
    return {name: value for name, value in said.items() if value}


def make_batches(works: Sequence[Record], places: Sequence[int]) -> Iterator[list[int]]:
    """What goes into one call each, in the order of their first works, and each as soon as it is known.

    A repository and a work whose text speaks to a model stand alone, the latter with no other that it could touch; the rest goes in
    batches.
    """
    batch: list[int] = []
    alone: list[list[int]] = []
    for place in places:
        if isinstance(works[place], Repository) or has_instructions(works[place]):
            alone.append([place])
        else:
            batch.append(place)
        if len(batch) in {0, BATCH}:  # nothing waits that comes before those alone
            yield from filter(None, (batch, *alone))
            batch, alone = [], []
    yield from filter(None, (batch, *alone))


def has_instructions(record: Record) -> bool:
    """In what is shown of it, before that is made one line, which would hide how it was hidden."""
    parts = ((record.title, TITLE_CHARS), (_snippet(record), SNIPPET_CHARS))
    return bool(suspicious("\n\n".join(_looked_at(text, chars) for text, chars in parts)))


def _looked_at(text: str, chars: int) -> str:
    """Of a raw text at least what `one_line` shows of it, and some more; four times as much where much of it is blanks."""
    near = text[: chars + EXTRA_CHARS]
    enough = len(near) == len(text) or len(to_one_line(near, len(near))) >= chars + EXTRA_CHARS // 2
    return near if enough else text[: READ_FACTOR * chars]


def _snippet(record: Record) -> str:
    return record.abstract or record.description or record.text
