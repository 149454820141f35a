"""Wishes of code in a request are constraints, and no words of the topic."""

from __future__ import annotations

import pytest

from outrider.nodes.translator.model_plan import Draft, check_code_wish, sanitize_constraints
from outrider.nodes.translator.rule_plan import parse_intent, read_code_wish
from outrider.settings.model import StarsSettings
from outrider.state.intent import Constraints


@pytest.mark.parametrize(
    ("query", "rest"),
    [
        ("methods for graph matching with maintained code", "methods for graph matching"),
        ("methods with actively maintained code for graph matching", "methods for graph matching"),
        ("image segmentation with a still maintained implementation since 2020", "image segmentation since 2020"),
        ("protein folding whose code is maintained", "protein folding"),
        ("protein folding with code that is maintained", "protein folding"),
        ("time series forecasting with an active repository", "time series forecasting"),
    ],
)
def test_maintained_code_is_required(query: str, rest: str) -> None:
    assert read_code_wish(query) == (True, True, rest)


@pytest.mark.parametrize(
    ("query", "rest"),
    [
        ("papers with code for image segmentation", "papers for image segmentation"),
        ("image segmentation with code", "image segmentation"),
        ("image segmentation that has an implementation", "image segmentation"),
        ("image segmentation with open-source code available", "image segmentation"),
        ("graph matching with a public implementation on GitHub", "graph matching"),
        ("graph matching, code available", "graph matching"),
        ("graph matching whose authors released their code", "graph matching"),
        ("methods with code since 2020", "methods since 2020"),
        ("graph matching with open source implementation in Rust", "graph matching in Rust"),
        ("surveys which come with code, since 2020", "surveys , since 2020"),
    ],
)
def test_code_is_required(query: str, rest: str) -> None:
    assert read_code_wish(query) == (True, False, rest)


@pytest.mark.parametrize(
    "query",
    [
        "language models with code generation",
        "helping beginners with code review",
        "speech with code-switching",
        "large language models of code",
        "medical code assignment",
        "library with code of conduct",
        "with code",
        '"papers with code" leaderboard',
        "code AND (with code)",
        "error correction with repository mining",
        "implementation of quality programmes",
        "dead code elimination",
        "code review tools",
        "QR code detection",
        "compliance with the building code",
        "interventions with implementation in schools",
        "health policies with implementation by local governments",
        "children with code for dyslexia",
        "language models with code and text pretraining",
        "prompting with code",
        "agents that interact with code",
        "pattern languages with code on paper",
        "training on text with repositories",
    ],
)
def test_other_words_of_code_stay_in_the_topic(query: str) -> None:
    has_code, alive, rest = read_code_wish(query)
    assert rest == query
    if query != "with code":
        assert (has_code, alive) == (False, False)


def test_the_wish_reaches_the_intent_and_leaves_the_topic() -> None:
    intent, text = parse_intent("methods for graph matching with maintained code since 2020", StarsSettings(), 2026)
    assert (intent.constraints.has_code, intent.constraints.code_alive, intent.constraints.years.min) == (True, True, 2020)
    assert text == "methods for graph matching"
    assert "code" not in " ".join(intent.concepts)


def test_a_model_may_add_the_wish_only_where_the_request_speaks_of_code() -> None:
    draft = Draft.model_validate({"queries": ["x"], "code_alive": True})
    invented = sanitize_constraints(check_code_wish(draft, "graph matching"), Constraints(), StarsSettings(), 2026)
    named = sanitize_constraints(check_code_wish(draft, "graph matching, implemented"), Constraints(), StarsSettings(), 2026)
    assert (invented.has_code, invented.code_alive) == (False, False)
    assert (named.has_code, named.code_alive) == (True, True)
