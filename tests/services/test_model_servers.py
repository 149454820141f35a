"""Health of several servers of one model."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pydantic import SecretStr

from outrider.library.library import Library
from outrider.services import Services
from outrider.settings.model import EmbeddingSettings, LibrarySettings, LlmSettings, RerankerSettings, Settings
from outrider.usecases.health import Part, health
from support.chat_server import ChatServer, Reply
from support.model_server import ModelServer

DEAD = "http://127.0.0.1:9/v1"


def check(settings: Settings) -> dict[str, Part]:
    return {part.what: part for part in asyncio.run(health(Services(settings)))}


def test_health_names_the_servers_of_each_model_that_are_in_use_and_left_out(tmp_path: Path) -> None:
    with ModelServer() as first, ModelServer() as second, ChatServer(lambda _: Reply(), models=Reply(["m"])) as chat:
        asyncio.run(Library.open(tmp_path / "library", create=True))
        settings = Settings(
            library=LibrarySettings(uri=str(tmp_path / "library")),
            embedding=EmbeddingSettings(
                model_name="letters", base_url=f"{first.url}, {second.url}, {DEAD}", api_key=SecretStr("sk-secret")
            ),
            reranker=RerankerSettings(model_name="r", base_url=f"{first.url}, {second.url}"),
            llm=LlmSettings(model="m", base_url=f"{chat.base_url}, {DEAD}", api_key=SecretStr("sk-secret")),
        )
        parts = check(settings)
        assert chat.requests == []
    embedding, rerank, model = (parts[f"{name} servers"] for name in ("embedding", "rerank", "model"))
    assert embedding.says.startswith(f"2 of 3 in use: letters at {first.url}, letters at {second.url}; letters at {DEAD} cannot be reached")
    assert not embedding.on
    assert rerank.on, rerank.says
    assert rerank.says.startswith("2 of 2 in use")
    assert model.says.startswith("1 of 2 in use: m at 127.0.0.1:")
    assert "sk-secret" not in str(parts)
    assert not any(part.broken for part in (embedding, rerank, model))


def test_servers_of_one_model_that_are_all_dead_do_not_hide_those_of_another(tmp_path: Path) -> None:
    with ChatServer(lambda _: Reply(), models=Reply(["m"])) as chat:
        settings = Settings(
            library=LibrarySettings(uri=str(tmp_path / "none")),
            embedding=EmbeddingSettings(model_name="letters", base_url=f"{DEAD}, {DEAD}/v2"),
            llm=LlmSettings(model="m", base_url=f"{chat.base_url}, {DEAD}", api_key=SecretStr("sk-secret")),
        )
        parts = check(settings)
    assert parts["embedding servers"].says.startswith("none of the 2 servers of letters can be used")
    assert parts["model servers"].says.startswith("1 of 2 in use")


def test_a_single_server_has_no_line_of_its_own(tmp_path: Path) -> None:
    with ModelServer() as server:
        parts = check(Settings(library=LibrarySettings(uri=str(tmp_path / "none")), embedding=EmbeddingSettings(base_url=server.url)))
    assert not [what for what in parts if "servers" in what]
