"""Scoring of papers, pages and documents by a model, ten a call.

A call knows its works as p1, p2, ... So an id costs few tokens, and no text can refer to a work of another call.
"""

from __future__ import annotations

import re
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

TITLE_CHARS, SNIPPET_CHARS, VENUE_CHARS = 200, 500, 100
"""Shown characters of each text."""
LEAST_SNIPPET_CHARS = 300
"""A longer text ends with the last whole sentence between this and `SNIPPET_CHARS`: half a sentence says little, and its tokens cost a
twentieth of the whole reading.
"""
SENTENCE_END = re.compile(r"[.!?](?=\s)|[\u3002\uff01\uff1f]")
EXTRA_CHARS = 100
"""Characters after the shown ones that are checked for instructions, too: a pattern may be cut at the end."""
TOKENS_OVERHEAD, TOKENS_PER_WORK = 60, 90
"""Room in the answer: a judgement takes about 30 tokens, more if a server writes it with line breaks."""

TAGS = ("survey", "method", "theory", "dataset", "benchmark", "baseline", "library", "application", "evaluation", "tutorial", "opinion")
"""Allowed tags, also named in the prompt; any other word is dropped."""
MAX_TAGS = 2


def keep_known_tags(value: object) -> tuple[str, ...]:
    tags = [tag.strip().lower() for tag in value if isinstance(tag, str)] if isinstance(value, list | tuple) else []
    return tuple(dict.fromkeys(tag for tag in tags if tag in TAGS))[:MAX_TAGS]


def keep_named_entries(value: object) -> object:
    """The entries that name a work; an invalid one must not cost the others."""
    if not isinstance(value, list | tuple):
        return value
    return [entry for entry in value if isinstance(entry, dict) and isinstance(entry.get("paper_id"), str)]


Tags = Annotated[
    tuple[str, ...],
    BeforeValidator(keep_known_tags),
    WithJsonSchema({"type": "array", "maxItems": MAX_TAGS, "items": {"type": "string", "enum": list(TAGS)}}),
]


class PaperScore(Model):
    model_config = ConfigDict(frozen=True, extra="ignore")

    paper_id: str
    relevance_score: Number = None
    relevance_reason: Reason = ""
    tags: Tags = ()


class PaperScores(Model):
    """The model's answer."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    results: Annotated[tuple[PaperScore, ...], BeforeValidator(keep_named_entries)]


@dataclass(frozen=True, slots=True)
class PaperScorer:
    """Scores works in batches."""

    chat: Chat
    system: str
    node: str

    async def judge(self, records: Sequence[Record], question: Question, budget: Budget) -> CallResult:
        """Raises only `KeyRejected`."""

        async def ask(positions: Sequence[int]) -> dict[int, Judgement]:
            papers: list[JsonValue] = [{"id": f"p{number}", **describe_work(records[at])} for number, at in enumerate(positions, start=1)]
            request = ChatRequest(
                node=self.node,
                system=self.system,
                user=fence({"request": question.to_json(), "papers": papers}),
                max_output_tokens=TOKENS_OVERHEAD + TOKENS_PER_WORK * len(positions),
            )
            scores = parse_scores(await self.chat.answer(request, PaperScores, budget), len(positions))
            return {positions[at]: judgement for at, judgement in scores.items()}

        return await ask_twice(len(records), ask)


def parse_scores(answer: PaperScores, count: int) -> dict[int, Judgement]:
    """Judgements by position, from 0. Unknown ids are dropped; of a repeated id the first entry counts."""
    places = {f"p{at}": at - 1 for at in range(1, count + 1)}
    judgements: dict[int, Judgement] = {}
    for entry in answer.results:
        place = places.get(entry.paper_id.strip().lower())
        if place is not None and place not in judgements and entry.relevance_score is not None:
            judgements[place] = Judgement(clamp(entry.relevance_score, 1.0), entry.relevance_reason, entry.tags)
    return judgements


def describe_work(record: Record) -> dict[str, Any]:
    """What the model sees of a work."""
    fields = {
        "title": to_one_line(record.title, TITLE_CHARS),
        "snippet": cut_after_sentence(to_one_line(_snippet(record), SNIPPET_CHARS + 1)),
        "year": record.year,
        "venue": to_one_line(record.venue or "", VENUE_CHARS),
    }
    return {name: value for name, value in fields.items() if value}


def cut_after_sentence(text: str) -> str:
    """The first `SNIPPET_CHARS` characters, or fewer where a sentence ends after `LEAST_SNIPPET_CHARS`."""
    if len(text) <= SNIPPET_CHARS:
        return text
    ends = [match.end() for match in SENTENCE_END.finditer(text, LEAST_SNIPPET_CHARS) if match.end() <= SNIPPET_CHARS]
    return text[: max(ends, default=SNIPPET_CHARS)]


def make_batches(works: Sequence[Record], places: Sequence[int]) -> Iterator[list[int]]:
    """Places for one call each, in the order of their first works, each as soon as it is complete.

    A repository is alone in its call, and so is a work whose text has instructions to a model, so that it cannot affect other works; the
    rest goes in batches.
    """
    batch: list[int] = []
    alone: list[list[int]] = []
    for place in places:
        if isinstance(works[place], Repository) or has_instructions(works[place]):
            alone.append([place])
        else:
            batch.append(place)
        if len(batch) in {0, BATCH}:  # no earlier work waits in an incomplete batch
            yield from filter(None, (batch, *alone))
            batch, alone = [], []
    yield from filter(None, (batch, *alone))


def has_instructions(record: Record) -> bool:
    """Whether the shown text has instructions to a model; checked before line breaks are removed, which would hide how they are hidden."""
    raw: list[str] = []
    for text, chars in ((record.title, TITLE_CHARS), (_snippet(record), SNIPPET_CHARS), (record.venue or "", VENUE_CHARS)):
        near = text[: chars + EXTRA_CHARS]
        # Four times as much of a text that is mostly blanks, since `to_one_line` shows more of it.
        enough = len(near) == len(text) or len(to_one_line(near, len(near))) >= chars + EXTRA_CHARS // 2
        raw.append(near if enough else text[: READ_FACTOR * chars])
    return bool(suspicious("\n\n".join(raw)))


def _snippet(record: Record) -> str:
    return record.abstract or record.description or record.text
