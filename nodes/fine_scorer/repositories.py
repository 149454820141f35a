"""A repository before the model: one call each, for what metadata cannot tell. The rest of its dimensions come from `dimensions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, JsonValue

from outrider.nodes.fine_scorer.dimensions import dimensions, overall
from outrider.nodes.fine_scorer.judgement import CallResult, Judgement, Number, Question, Reason, ask_twice, clamp, to_one_line
from outrider.prompts import fence
from outrider.state.chat import Budget, Chat, ChatRequest
from outrider.state.model import Model
from outrider.state.ports import Clock
from outrider.state.records import Repository

README_CHARS, DESCRIPTION_CHARS, TREE_CHARS = 500, 300, 400
MAX_TOPICS = 10
MAX_OUTPUT_TOKENS = 350
"""Three numbers and three reasons take about 120."""
SHOWN_METADATA = ("created_at", "open_issues", "contributors", "releases", "last_release_at", "has_wiki")


class RepositoryScore(Model):
    """What the model answers: relevance 0 to 1, the other two 0 to 10."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    relevance: Number
    relevance_reason: Reason = ""
    documentation: Number = None
    documentation_reason: Reason = ""
    ease_of_use: Number = None
    ease_of_use_reason: Reason = ""


@dataclass(frozen=True, slots=True)
class RepositoryScorer:
    """Judges repositories, one a call."""

    chat: Chat
    system: str
    node: str
    weights: Mapping[str, float]
    """By dimension, with `relevance` among them."""
    clock: Clock

    async def judge(self, record: Repository, question: Question, budget: Budget) -> CallResult:
        """An answer without relevance is none. Raises nothing but `KeyRejected`."""

        async def ask(_: Sequence[int]) -> dict[int, Judgement]:
            answer = await self._asked(record, question, budget)
            return {} if answer.relevance is None else {0: make_judgement(record, answer, answer.relevance, self.weights, self.clock())}

        return await ask_twice(1, ask)

    async def _asked(self, record: Repository, question: Question, budget: Budget) -> RepositoryScore:
        user = fence({"request": question.to_json(), "repository": describe_repository(record)})
        return await self.chat.answer(ChatRequest(self.node, self.system, user, MAX_OUTPUT_TOKENS), RepositoryScore, budget)


def make_judgement(record: Repository, answer: RepositoryScore, relevance: float, weights: Mapping[str, float], now: float) -> Judgement:
    """The model's part and the metadata's as one score, with a radar of six dimensions (`dimension`, `score`, `reason` or `missing`)."""
    relevance = clamp(relevance, 1.0)
    told = dimensions(record, now)
    said = {
        "documentation": (answer.documentation, answer.documentation_reason),
        "ease_of_use": (answer.ease_of_use, answer.ease_of_use_reason),
    }
    scores: dict[str, float | None] = {name: one.score for name, one in told.items()}
    scores |= {name: None if value is None else clamp(value, 10.0) for name, (value, _) in said.items()}
    radar: dict[str, dict[str, JsonValue]] = {
        name: {"dimension": name, "score": None if score is None else round(score, 2)} for name, score in sorted(scores.items())
    }
    for name, (_, reason) in said.items():
        radar[name] |= {"reason": reason}
    for name, one in told.items():
        radar[name] |= {"missing": list(one.missing)}
    total = overall(relevance, scores, weights)
    return Judgement(total, answer.relevance_reason, (), {"relevance": relevance, "overall": 10 * total}, tuple(radar.values()))


def describe_repository(record: Repository) -> dict[str, Any]:
    """What the model sees of a repository; what is not known is left out."""
    said: dict[str, Any] = {
        "name": to_one_line(record.title, 200),
        "description": to_one_line(record.description or record.abstract, DESCRIPTION_CHARS),
        "readme": to_one_line(record.text, README_CHARS),
        "tree": to_one_line(", ".join(list_top_folder(record)[:TREE_CHARS]), TREE_CHARS),
        "topics": [to_one_line(topic, 50) for topic in record.tags[:MAX_TOPICS]],
        "language": to_one_line(record.language or "", 50),
        "licence": to_one_line(record.licence or "", 50),
        "stars": record.stars,
        "forks": record.forks,
        "updated_at": to_one_line(record.updated_at or "", 30),
        "archived": record.archived,
    }
    figures = {name: record.metadata.get(name) for name in SHOWN_METADATA}
    said |= {name: to_one_line(str(value), 30) for name, value in figures.items() if isinstance(value, str | int)}
    return {name: value for name, value in said.items() if value not in (None, "", [])}


def list_top_folder(record: Repository) -> tuple[str, ...]:
    """The names in its top folder, where its source put them into `metadata["tree"]`: a list, or one text with a name a line."""
    tree = record.metadata.get("tree")
    names = tree.splitlines() if isinstance(tree, str) else tree if isinstance(tree, list) else ()
    return tuple(map(str, names))
