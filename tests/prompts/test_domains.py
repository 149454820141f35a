from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from outrider.nodes.fine_scorer.fine_scorer import ScoringPrompts
from outrider.nodes.translator.common_boolean_syntax import parses
from outrider.nodes.translator.model_plan import Draft, QueryPrompt, sanitize_queries
from outrider.prompts import DOMAINS, MAX_DOMAIN_CHARS, Prompt, load_domain, select_section
from outrider.settings.model import StarsSettings
from outrider.state.errors import SettingsError

STARS = StarsSettings(popular_min=1234)


@pytest.mark.parametrize("name", DOMAINS)
def test_each_field_is_part_of_the_prompt_and_of_its_versions(name: str) -> None:
    prompt = QueryPrompt.load(name)
    text = prompt.format(STARS)
    assert ("## Field" in text) == (name != "general") == (f"prompt:domain_{name}" in prompt.versions)
    assert "1234 or more" in text
    assert "{{" not in text
    assert "prompt:translate" in prompt.versions


@pytest.mark.parametrize("name", DOMAINS[1:])
def test_a_judge_is_not_instructed_how_to_plan_and_vice_versa(name: str) -> None:
    field = load_domain(name)
    assert field is not None
    _, planning, judging = re.split(r"### (?:Planning|Judging)\n", field.text)
    prompts = ScoringPrompts.load(name)
    for prompt in (prompts.papers, prompts.repositories):
        text = prompts.text(prompt)
        assert judging.strip() in text
        assert "## Field" in text
        assert planning.strip() not in text
    plan = QueryPrompt.load(name).format(STARS)
    assert planning.strip() in plan
    assert judging.strip() not in plan
    assert len(judging) < 300, "every call pays for it"
    assert prompts.versions[f"prompt:domain_{name}"] == QueryPrompt.load(name).versions[f"prompt:domain_{name}"]


@pytest.mark.parametrize(
    ("text", "planning", "judging"),
    [
        ("Law.", "Law.", "Law."),
        ("Law.\n\n## PLANNING \nCourts.\n# judging\nCases.\n", "Law.\n\nCourts.", "Law.\n\nCases."),
        ("## Judging\nCases.", "", "Cases."),
        ("The judging of cases\n## Planning of trials", *["The judging of cases\n## Planning of trials"] * 2),
    ],
)
def test_sections_of_a_file(text: str, planning: str, judging: str) -> None:
    """A file without them is used whole."""
    field = Prompt("domain", text, frozenset())
    assert (select_section(field, "planning"), select_section(field, "judging")) == (planning, judging)
    assert select_section(None, "planning") == select_section(None, "judging") == ""


def test_a_user_s_own_file_is_taken_as_it_is(tmp_path: Path) -> None:
    own = tmp_path / "law.md"
    own.write_text("Law: {{query}} cases.", encoding="utf-8")
    prompt = QueryPrompt.load(str(own))
    assert "Law: {{query}} cases." in prompt.format(STARS)
    before = prompt.versions["prompt:domain"]
    own.write_text("Law.", encoding="utf-8")
    assert QueryPrompt.load(str(own)).versions["prompt:domain"] != before


def test_what_cannot_be_used_is_a_setting_that_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"unknown field 'biomedicl'; did you mean 'biomedical'.*general, biomedical, computer_science"):
        QueryPrompt.load("biomedicl")
    with pytest.raises(SettingsError, match="cannot be read"):
        QueryPrompt.load(str(tmp_path / "none.md"))
    for text, message in (("", "is empty"), ("x" * (MAX_DOMAIN_CHARS + 1), "20,001 characters")):
        (tmp_path / "bad.md").write_text(text, encoding="utf-8")
        with pytest.raises(SettingsError, match=message):
            QueryPrompt.load(str(tmp_path / "bad.md"))


def test_the_five_examples_are_answers_that_would_be_taken_whole() -> None:
    examples = re.findall(r"^\{.*\}$", QueryPrompt.load().format(STARS), re.MULTILINE)
    drafts = [Draft.model_validate(json.loads(example)) for example in examples]
    assert len(drafts) == 5
    assert {draft.intent_type for draft in drafts} == {"survey", "library", "dataset", "general", "method"}
    for example, draft in zip(examples, drafts, strict=True):
        answer = json.loads(example)
        assert set(answer) == set(Draft.model_fields)
        assert 2 <= len(draft.queries) <= 4
        assert all(parses(query.boolean_query) for query in draft.queries)
        assert [query.model_dump(mode="json") for query in sanitize_queries(draft)] == answer["queries"]
