"""What people are told of an answer beside its hits."""

from __future__ import annotations

import pytest

from outrider.interfaces.cli.terminal import show_answer
from outrider.state.hits import Hit
from outrider.state.records import Identifiers
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


@pytest.mark.parametrize(
    ("url", "identifiers", "shown"),
    [
        ("https://example.org/1", {"pmid": "1"}, "https://example.org/1"),
        (None, {"pmid": "1", "doi": "10.1000/1"}, "doi:10.1000/1 · pmid:1"),
        (None, {}, ""),
    ],
)
def test_a_hit_without_a_link_shows_its_identifiers(
    url: str | None, identifiers: dict[str, str], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """PubMed says no link of its articles, and none is made up."""
    hit = Hit(rank=1, doc_id="pubmed:1", kind="paper", title="Livers", url=url, identifiers=Identifiers(**identifiers), score=0.5)
    show_answer(SearchResponse(query="liver", mode="discovery", hits=(hit,)))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[2].startswith(shown or "why:")
