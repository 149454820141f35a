"""What scoring costs at the price of the default model.

Characters a token are those of o200k_base, the tokens of OpenAI's models before this one, measured on these very questions and answers.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from typing import Any

import pytest

from outrider.models.chat.provider import PRICES, PROVIDERS
from outrider.nodes.fine_scorer.waves import StopWhenSettled
from outrider.settings.model import LlmSettings
from outrider.state.records import Record, Repository
from support.chat_server import ChatServer, Reply, Request
from support.fakes import candidate, paper
from support.scorer_over_server import result, scored
from support.shared_data import DATA

SCIFACT = DATA / "ir" / "scifact" / "corpus.jsonl.gz"
PRICE = PRICES[PROVIDERS["api.openai.com"].default_model]
PAPERS, REPOSITORIES = (4.39, 3.69), (4.10, 3.66)
"""Characters a token, of questions and of answers."""
REASON = "the same drug in healthy adults"
REPOSITORY = {"language": "TypeScript", "licence": "MIT", "updated_at": "2026-09-01T00:00:00Z", "stars": 5_000, "forks": 200}
TREE = ["src", "docs", "README.md", "LICENSE", "tests", "package.json"]

pytestmark = pytest.mark.skipif(not SCIFACT.exists(), reason=f"{SCIFACT} is not here; set OUTRIDER_DATA")


def rows() -> list[dict[str, str]]:
    with gzip.open(SCIFACT, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line, _ in zip(lines, range(100), strict=False)]


async def cost_usd(records: Sequence[Record], answer: Any, chars_a_token: tuple[float, float], **fields: Any) -> float:
    """Of all of them read, unless `fields` say otherwise. The schema is in each question, and answers have no blanks."""
    answer_sizes: list[int] = []

    def counted(request: Request) -> Reply:
        content = answer(request.data)
        answer_sizes.append(len(json.dumps(content, separators=(",", ":"))))
        return Reply(content)

    _, server = await scored(counted, [candidate(record) for record in records], timeout_s=120.0, **{"score_all": True, **fields})
    input_tokens, output_tokens = asked_chars(server) / chars_a_token[0], sum(answer_sizes) / chars_a_token[1]
    return (input_tokens * PRICE.input + output_tokens * PRICE.output) / 1e6


def asked_chars(server: ChatServer) -> int:
    texts = (message["content"] for one in server.requests for message in one.body["messages"])
    schemas = (json.dumps(one.body["response_format"]["json_schema"]["schema"], separators=(",", ":")) for one in server.requests)
    return sum(map(len, (*texts, *schemas)))


def answer_with(worth_a_reason: int) -> Any:
    """So many of ten score so high that they get a reason, of six words, and a tag."""

    def answer(data: Any) -> Any:
        worth, rest = data["papers"][:worth_a_reason], data["papers"][worth_a_reason:]
        return {"results": [*(result(one["id"], 0.7, REASON) for one in worth), *(result(one["id"], 0.1, "", ()) for one in rest)]}

    return answer


def papers() -> list[Record]:
    return [paper(row["id"], row["title"], abstract=row["text"], year=2010, venue="The Journal of Biology") for row in rows()]


@pytest.mark.parametrize(("worth_a_reason", "usd"), [(0, 0.0028), (2, 0.0029), (3, 0.0030), (10, 0.0033)])
async def test_a_hundred_papers_that_are_all_read_cost_three_tenths_of_a_cent(worth_a_reason: int, usd: float) -> None:
    """With venue and up to 500 characters each; more than that only where more than three of ten answer the request."""
    cost = await cost_usd(papers(), answer_with(worth_a_reason), PAPERS)
    assert round(cost, 4) == usd
    assert cost <= 0.003 or worth_a_reason > 3


@pytest.mark.parametrize("worth_a_reason", range(0, 11, 2))
async def test_a_hundred_papers_cost_less_than_that_as_a_search_reads_them(worth_a_reason: int) -> None:
    """With the default `llm.max_risk`, the model stops early wherever many answer, which is where they would cost most."""
    default = {"score_all": False, "stopping": StopWhenSettled(LlmSettings().max_risk)}
    assert await cost_usd(papers(), answer_with(worth_a_reason), PAPERS, **default) <= 0.003


async def test_a_hundred_repositories_cost_a_cent() -> None:
    """A call each, with 500 characters of its README: more than three times what papers cost."""
    answer: dict[str, Any] = {"relevance": 0.7, "documentation": 6, "ease_of_use": 5}
    answer |= {f"{name}_reason": REASON for name in answer}
    records = [
        Repository(doc_id=f"r{at}", title=f"o/p{at}", description=row["title"], text=row["text"], metadata={"tree": [*TREE]}, **REPOSITORY)
        for at, row in enumerate(rows())
    ]
    assert round(await cost_usd(records, lambda _: answer, REPOSITORIES), 4) == 0.0098
