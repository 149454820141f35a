"""Variables of providers and services: where they are used, and where their keys are not sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.settings.environment import SERVICE_KEYS
from outrider.settings.load import LoadedSettings, load
from outrider.settings.redact import redact
from outrider.state.errors import SettingsError

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
        (OPENAI, "llm: {base_url: ['http://gpu1/v1', 'http://gpu2/v1']}", ("http://gpu1/v1, http://gpu2/v1", "")),
        (OPENAI, "llm: {base_url: 'https://api.openai.com/v1,https://evil/v1'}", ("https://api.openai.com/v1, https://evil/v1", "")),
        (OPENAI, "llm: {base_url: ['https://api.openai.com/v1', 'https://evil/v1']}", ("https://api.openai.com/v1, https://evil/v1", "")),
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
    """Our variables, flags and files are stronger; an empty value there counts as missing."""
    llm = loaded(tmp_path, environ, text).settings.llm
    assert (llm.base_url, llm.api_key.get_secret_value()) == expected


def test_the_origin_of_a_key_is_shown_and_the_key_is_not(tmp_path: Path) -> None:
    configuration = loaded(tmp_path, DEEPSEEK)
    assert configuration.origins["llm.api_key"] == configuration.origins["llm.base_url"] == "environment variable DEEPSEEK_API_KEY"
    assert redact(configuration.settings)["llm"]["api_key"] == "********"
    assert "sk-deep" not in repr(configuration)


def service_key(name: str, environ: dict[str, str], **flags: object) -> tuple[str, str]:
    loaded = load({f"sources.{name}.{field}": value for field, value in flags.items()}, environ=environ, cwd=Path("/"), user_dir=Path("/"))
    return getattr(loaded.settings.sources, name).api_key.get_secret_value(), loaded.origins[f"sources.{name}.api_key"]


@pytest.mark.parametrize(("name", "variable"), [(name, variable) for name, variables in SERVICE_KEYS.items() for variable in variables])
def test_the_variable_of_a_service_is_used(name: str, variable: str) -> None:
    assert service_key(name, {variable: " secret "}) == ("secret", f"environment variable {variable}")


def test_other_layers_are_stronger_than_the_variable_of_a_service() -> None:
    ours = {"OUTRIDER_SOURCES__GITHUB__API_KEY": "ours", "GITHUB_TOKEN": "theirs"}
    assert service_key("github", ours)[0] == "ours"
    assert service_key("github", {"GITHUB_TOKEN": "theirs"}, api_key="flag") == ("flag", "flag")
    assert service_key("github", {"GITHUB_TOKEN": "first", "GH_TOKEN": "second"})[0] == "first"
    assert service_key("github", {"GITHUB_TOKEN": ""}) == ("", "default")


def test_the_key_of_a_service_goes_to_its_own_host_only() -> None:
    assert service_key("github", {"GITHUB_TOKEN": "secret"}, base_url="http://127.0.0.1:8000") == ("", "default")
    assert service_key("github", {"GITHUB_TOKEN": "secret"}, base_url="https://api.github.com/")[0] == "secret"
    for elsewhere in ("https://api.github.com.evil.example", "http://api.github.com", "https://api.github.com:8443", "https://[", ""):
        assert service_key("github", {"GITHUB_TOKEN": "secret"}, base_url=elsewhere or "x") == ("", "default")


def test_the_working_folder_sets_no_address_for_a_key_from_elsewhere(tmp_path: Path) -> None:
    """A repository that was cloned may bring a settings file of its own."""
    file = tmp_path / "search_config.yaml"
    file.write_text("sources:\n  github:\n    base_url: https://evil.example\n")
    ours = {"OUTRIDER_SOURCES__GITHUB__API_KEY": "ours"}
    with pytest.raises(SettingsError, match=r"base_url is set in .*search_config.yaml:3, but its key in environment variable"):
        load(environ=ours, cwd=tmp_path, user_dir=Path("/"))
    file.write_text("sources:\n  github:\n    base_url: https://git.example/api/v3\n    api_key: both\n")
    assert load(environ={}, cwd=tmp_path, user_dir=Path("/")).settings.sources.github.api_key.get_secret_value() == "both"
    file.write_text("sources:\n  github:\n    base_url: https://api.github.com\n")
    assert load(environ=ours, cwd=tmp_path, user_dir=Path("/")).settings.sources.github.api_key.get_secret_value() == "ours"
