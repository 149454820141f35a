"""Keys of services as others name them, too: where they fill in, and where they are not sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.settings.environment import SERVICE_KEYS
from outrider.settings.load import load
from outrider.state.errors import SettingsError


def key(name: str, environ: dict[str, str], **flags: object) -> tuple[str, str]:
    loaded = load({f"sources.{name}.{field}": value for field, value in flags.items()}, environ=environ, cwd=Path("/"), user_dir=Path("/"))
    return getattr(loaded.settings.sources, name).api_key.get_secret_value(), loaded.origins[f"sources.{name}.api_key"]


@pytest.mark.parametrize(("name", "variable"), [(name, variable) for name, variables in SERVICE_KEYS.items() for variable in variables])
def test_a_known_variable_fills_in(name: str, variable: str) -> None:
    assert key(name, {variable: " secret "}) == ("secret", f"environment variable {variable}")


def test_what_is_said_elsewhere_is_stronger() -> None:
    ours = {"OUTRIDER_SOURCES__GITHUB__API_KEY": "ours", "GITHUB_TOKEN": "theirs"}
    assert key("github", ours)[0] == "ours"
    assert key("github", {"GITHUB_TOKEN": "theirs"}, api_key="flag") == ("flag", "flag")
    assert key("github", {"GITHUB_TOKEN": "first", "GH_TOKEN": "second"})[0] == "first"
    assert key("github", {"GITHUB_TOKEN": ""}) == ("", "default")


def test_a_key_goes_to_its_own_host_only() -> None:
    assert key("github", {"GITHUB_TOKEN": "secret"}, base_url="http://127.0.0.1:8000") == ("", "default")
    assert key("github", {"GITHUB_TOKEN": "secret"}, base_url="https://api.github.com/")[0] == "secret"
    for elsewhere in ("https://api.github.com.evil.example", "http://api.github.com", "https://api.github.com:8443", "https://[", ""):
        assert key("github", {"GITHUB_TOKEN": "secret"}, base_url=elsewhere or "x") == ("", "default")


def test_the_working_folder_names_no_address_for_a_key_of_elsewhere(tmp_path: Path) -> None:
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
