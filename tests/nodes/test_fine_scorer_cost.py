"""What scoring costs at the price of the default model."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from chat_server import Asked, Reply
from fakes import candidate, paper
from judging import result, scored

DATA = Path(os.environ.get("OUTRIDER_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
SCIFACT = DATA / "ir" / "scifact" / "corpus.jsonl.gz"
PRICE = (0.05, 0.40)
"""USD for a million tokens of the default model."""
CHARS_A_TOKEN = 4


@pytest.mark.skipif(not SCIFACT.exists(), reason=f"{SCIFACT} is not here; set OUTRIDER_DATA")
async def test_a_hundred_works_cost_less_than_three_tenths_of_a_cent() -> None:
    """Where all of them are relevant, so that each gets a reason of ten words and two tags; the schema counts as well."""
    with gzip.open(SCIFACT, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line, _ in zip(lines, range(100), strict=False)]
    found = [candidate(paper(row["id"], row["title"], abstract=row["text"], year=2010, venue="The Journal of Biology")) for row in rows]
    said: list[int] = []

    def answer(asked: Asked) -> Reply:
        reason = "a randomised trial of the same drug in other patients"
        content = {"results": [result(one["id"], 0.7, reason, ("method", "evaluation")) for one in asked.data["papers"]]}
        said.append(len(json.dumps(content)))
        return Reply(content)

    _, server = await scored(answer, found)
    sent = sum(
        len(json.dumps(one.body["messages"], ensure_ascii=False)) + len(json.dumps(one.body["response_format"])) for one in server.requests
    )
    cost = (sent * PRICE[0] + sum(said) * PRICE[1]) / CHARS_A_TOKEN / 1e6
    assert 0.002 < cost <= 0.003
