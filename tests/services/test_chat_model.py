"""The chat model of the services, and its description."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pydantic import SecretStr

from outrider.services import Services
from outrider.settings.model import LibrarySettings, LlmSettings, Settings
from outrider.state.errors import SettingsError
from outrider.usecases.health import health
from support.chat_client import KEY, chat_over, llm_settings
from support.chat_server import ChatServer, Reply


def services(folder: Path, llm: LlmSettings) -> Services:
    return Services(Settings(library=LibrarySettings(uri=str(folder / "none")), llm=llm))


def test_without_a_key_there_is_no_model_and_one_line_names_the_variable(tmp_path: Path) -> None:
    without_key = services(tmp_path, LlmSettings())
    assert without_key.chat is None
    assert "OPENAI_API_KEY" in without_key.chat_says


def test_a_chat_is_replaced_by_keyword() -> None:
    with ChatServer(lambda _: Reply()) as server:
        chat = chat_over(server)
        replaced = Services(Settings(), chat=chat)
    assert replaced.chat is chat
    assert replaced.chat_says == chat.name


def test_a_wrong_price_or_address_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"llm\.prices\.m "):
        services(tmp_path, LlmSettings(prices={"m": "cheap"}))
    with pytest.raises(SettingsError, match=r"llm\.base_url"):
        services(tmp_path, LlmSettings(base_url="localhost"))


@pytest.mark.parametrize("configured", [True, False])
def test_health_names_the_model_without_a_request(tmp_path: Path, configured: bool) -> None:
    with ChatServer(lambda _: Reply()) as server:
        services_with_llm = services(tmp_path, llm_settings(server) if configured else LlmSettings(model="none", api_key=SecretStr(KEY)))
        part = next(part for part in asyncio.run(health(services_with_llm)) if part.what == "model")
        assert server.requests == []
    assert part.on is configured
    assert ("scripted at 127.0.0.1" in part.says) is configured
    assert KEY not in part.says
