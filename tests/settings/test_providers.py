"""Keys as the providers name them: where they fill in, and where they are not sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.settings.load import LoadedSettings, load
from outrider.settings.redact import redact

OPENAI, DEEPSEEK = {"OPENAI_API_KEY": "sk-open"}, {"DEEPSEEK_API_KEY": "sk-deep"}


def loaded(folder: Path, environ: dict[str, str], text: str = "") -> LoadedSettings:
    (folder / "search_config.yaml").write_text(text, encoding="utf-8")
    return load(environ=environ, cwd=folder, user_dir=folder / "absent")


@pytest.mark.parametrize(
    ("environ", "text", "expected"),
    [
        ({}, "", ("", "")),
        (OPENAI, "", ("", "sk-open")),
        ({"OPENAI_API_KEY": " sk-open\n"}, "", ("", "sk-open")),
        (OPENAI, "llm: {api_key: '', base_url: ''}", ("", "sk-open")),
        (OPENAI, "llm: {api_key: sk-file}", ("", "sk-file")),
        (OPENAI | {"OUTRIDER_LLM__API_KEY": "sk-own"}, "", ("", "sk-own")),
        (OPENAI | {"OPENAI_BASE_URL": "https://proxy/v1"}, "", ("https://proxy/v1", "sk-open")),
        ({"OPENAI_BASE_URL": "http://localhost:1/v1"}, "", ("http://localhost:1/v1", "")),
        (OPENAI, "llm: {base_url: 'https://api.openai.com/v1'}", ("https://api.openai.com/v1", "sk-open")),
        (OPENAI, "llm: {base_url: 'http://localhost:1/v1'}", ("http://localhost:1/v1", "")),
        (OPENAI | {"OPENAI_BASE_URL": "https://proxy/v1"}, "llm: {base_url: 'http://localhost:1/v1'}", ("http://localhost:1/v1", "")),
        (OPENAI, "llm: {base_url: 'http://api.openai.com/v1'}", ("http://api.openai.com/v1", "")),
        (DEEPSEEK, "", ("https://api.deepseek.com", "sk-deep")),
        (OPENAI | DEEPSEEK, "", ("", "sk-open")),
        (OPENAI | DEEPSEEK, "llm: {model: deepseek-flash}", ("https://api.deepseek.com", "sk-deep")),
        (OPENAI | DEEPSEEK, "llm: {base_url: 'https://api.deepseek.com'}", ("https://api.deepseek.com", "sk-deep")),
        (DEEPSEEK, "llm: {base_url: 'http://localhost:1/v1'}", ("http://localhost:1/v1", "")),
        (DEEPSEEK | {"OPENAI_BASE_URL": "https://proxy/v1"}, "", ("https://proxy/v1", "")),
        (OPENAI | {"DEEPSEEK_API_KEY": ""}, "llm: {base_url: 'http://['}", ("http://[", "")),
    ],
)
def test_a_key_goes_to_the_address_that_it_belongs_to(
    tmp_path: Path, environ: dict[str, str], text: str, expected: tuple[str, str]
) -> None:
    """Variables of ours, flags and files are stronger; what is empty there counts as not given."""
    llm = loaded(tmp_path, environ, text).settings.llm
    assert (llm.base_url, llm.api_key.get_secret_value()) == expected


def test_where_a_key_came_from_is_shown_and_the_key_is_not(tmp_path: Path) -> None:
    found = loaded(tmp_path, DEEPSEEK)
    assert found.origins["llm.api_key"] == found.origins["llm.base_url"] == "environment variable DEEPSEEK_API_KEY"
    assert redact(found.settings)["llm"]["api_key"] == "********"
    assert "sk-deep" not in repr(found)
