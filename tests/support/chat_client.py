"""A chat over a scripted server, through the real client."""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr

from outrider.models.chat.endpoint import EndpointChat
from outrider.models.chat.provider import resolve_endpoint
from outrider.settings.model import LlmSettings
from support.chat_server import ChatServer

KEY = "sk-very-secret"


def llm_settings(server: ChatServer, **settings: Any) -> LlmSettings:
    """Settings for the server; the model's price is 1 and 10 USD for a million tokens unless they say otherwise."""
    defaults: dict[str, Any] = {"model": "scripted", "base_url": server.base_url, "api_key": SecretStr(KEY), "timeout_s": 60.0}
    defaults |= {"prices": {"scripted": "1/10"}}
    return LlmSettings(**(defaults | settings))


def chat_over(server: ChatServer, **settings: Any) -> EndpointChat:
    """Settings of section `llm` by keyword. Each server has an address of its own, so nothing is remembered from another test."""
    chosen = llm_settings(server, **settings)
    endpoint, why = resolve_endpoint(chosen)
    assert endpoint is not None, why
    return EndpointChat(endpoint, chosen)
