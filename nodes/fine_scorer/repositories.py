"""Scoring of repositories by a model, one a call, combined with their dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ConfigDict, JsonValue

from outrider.nodes.fine_scorer.dimensions import TYPICAL, Dimension, Estimates, dimensions, overall
from outrider.nodes.fine_scorer.judgement import CallResult, Judgement, Number, Question, Reason, ask_twice, clamp, to_one_line
from outrider.prompts import fence
from outrider.state.chat import Budget, Chat, ChatRequest
from outrider.state.model import Model
from outrider.state.ports import Clock
from outrider.state.records import Repository

README_CHARS, DESCRIPTION_CHARS, TREE_CHARS = 500, 300, 400
MAX_TOPICS = 10
TYPICAL_BY_MODEL = 5.0
"""What counts of a dimension that the model left out: the middle anchor of the prompt."""
MAX_OUTPUT_TOKENS = 350
"""Three numbers and three reasons take about 120."""
SHOWN_METADATA = ("created_at", "open_issues", "contributors", "releases", "last_release_at", "has_wiki")


class RepositoryScore(Model):
    """The model's answer: relevance from 0 to 1, the other two from 0 to 10."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    relevance: Number
    relevance_reason: Reason = ""
    documentation: Number = None
    documentation_reason: Reason = ""
    ease_of_use: Number = None
    ease_of_use_reason: Reason = ""


@dataclass(frozen=True, slots=True)
class RepositoryScorer:
    """Scores one repository a call."""

    chat: Chat
    system: str
    node: str
    weights: Mapping[str, float]
    """By dimension, including `relevance`."""
    clock: Clock
    estimates: Estimates = field(default_factory=lambda: TYPICAL)
    """What unknown facts count."""

    async def judge(self, record: Repository, question: Question, budget: Budget) -> CallResult:
        """An answer without relevance counts as none. Raises only `KeyRejected`."""

        async def ask(_: Sequence[int]) -> dict[int, Judgement]:
            user = fence({"request": question.to_json(), "repository": describe_repository(record)})
            request = ChatRequest(self.node, self.system, user, MAX_OUTPUT_TOKENS)
            answer = await self.chat.answer(request, RepositoryScore, budget)
            if answer.relevance is None:
                return {}
            by_metadata = dimensions(record, self.clock(), self.estimates)
            return {0: make_judgement(by_metadata, answer, answer.relevance, self.weights)}

        return await ask_twice(1, ask)


def make_judgement(
    by_metadata: Mapping[str, Dimension], answer: RepositoryScore, relevance: float, weights: Mapping[str, float]
) -> Judgement:
    """The model's scores and those from metadata as one, with a radar of six dimensions.

    Each has `dimension`, `score` (of what is known; None where nothing is), and `reason` or `missing`; `counted` is what enters the
    overall score where something is unknown.
    """
    relevance = clamp(relevance, 1.0)
    radar: list[dict[str, JsonValue]] = []
    counted: dict[str, float] = {}
    for name, dimension in by_metadata.items():
        counted[name] = dimension.counted
        radar.append({"dimension": name, "score": dimension.score, "missing": list(dimension.missing)})
    for name, value, reason in (
        ("documentation", answer.documentation, answer.documentation_reason),
        ("ease_of_use", answer.ease_of_use, answer.ease_of_use_reason),
    ):
        counted[name] = TYPICAL_BY_MODEL if value is None else clamp(value, 10.0)
        radar.append({"dimension": name, "score": None if value is None else counted[name], "reason": reason})
    for entry in radar:
        score, counts = entry["score"], counted[str(entry["dimension"])]
        if score != counts:
            entry["counted"] = round(counts, 2)
        entry["score"] = round(score, 2) if isinstance(score, float) else None
    total = overall(relevance, counted, weights)
    radar.sort(key=lambda entry: str(entry["dimension"]))
    return Judgement(total, answer.relevance_reason, (), {"relevance": relevance, "overall": 10 * total}, tuple(radar))


def describe_repository(record: Repository) -> dict[str, Any]:
    """What the model sees of a repository, without unknown values."""
    fields: dict[str, Any] = {
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
    fields |= {name: to_one_line(str(value), 30) for name, value in figures.items() if isinstance(value, str | int)}
    return {name: value for name, value in fields.items() if value not in (None, "", [])}


def list_top_folder(record: Repository) -> tuple[str, ...]:
    """The names in its top folder, from `metadata["tree"]`: a list, or one text with a name per line."""
    tree = record.metadata.get("tree")
    names = tree.splitlines() if isinstance(tree, str) else tree if isinstance(tree, list) else ()
    return tuple(map(str, names))
