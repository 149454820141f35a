"""What people are told of an answer beside its hits."""

from __future__ import annotations

import pytest

from outrider.serve.cli.terminal import show_answer
from outrider.state.response import Scoring, SearchResponse

CHANCE = "the chance that the rest would change the first"


@pytest.mark.parametrize(
    ("scoring", "says"),
    [
        (Scoring(read=30, of=50, risk=0.123, max_risk=0.2), f"A model read 30 of 50 works; {CHANCE} is put at 0.12"),
        (Scoring(read=20, of=50, risk=None), f"A model read 20 of 50 works; {CHANCE} is not known"),
        (Scoring(read=50, of=50), ""),
    ],
)
def test_how_far_a_model_read(scoring: Scoring, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_answer(SearchResponse(query="liver", mode="discovery", scoring=scoring))
    told = " ".join(capsys.readouterr().err.split())
    assert says in told
    assert bool(says) == ("A model read" in told)
