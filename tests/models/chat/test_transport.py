"""Connections of the client that all chats share."""

from __future__ import annotations

import asyncio
import gc
import warnings

from outrider.models.chat.endpoint import EndpointChat
from outrider.runtime.threads_and_loops import in_background
from outrider.state.chat import Budget, ChatRequest
from outrider.state.model import Model
from support.chat_client import chat_over
from support.chat_server import ChatServer, Reply

REQUEST = ChatRequest(node="fine_scorer", system="Judge.", user="[]", max_output_tokens=50)


class Judged(Model):
    id: str


async def questions(chat: EndpointChat, many: int) -> None:
    await asyncio.gather(*(chat.answer(REQUEST, Judged, Budget()) for _ in range(many)))


async def given_up(chat: EndpointChat, steps: int) -> None:
    """A question that is cancelled after so many steps of the loop."""
    task = asyncio.create_task(chat.answer(REQUEST, Judged, Budget()))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})


async def test_a_cancelled_call_leaves_no_connection_open() -> None:
    """The pool closes what a server has hung up within the next call, wherever that one is given up."""
    with ChatServer(lambda _: Reply({"id": "a"}, delay_s=0.02)) as server, warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always", ResourceWarning)
        chat = chat_over(server)
        await questions(chat, 1)
        for steps in range(25):
            await questions(chat, 4)
            server.hang_up()
            await in_background(given_up(chat, steps))
            gc.collect()
            assert [str(one.message) for one in caught_warnings if issubclass(one.category, ResourceWarning)] == [], steps
