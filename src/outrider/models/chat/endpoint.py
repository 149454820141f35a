"""The chat model that nodes ask: a way of asking for structure that the endpoint takes, one repair, hard limits on time and calls.

All calls of the process run on one background loop: the client under them is bound to its loop, and the limit on calls under way
holds for all callers together.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from pydantic import JsonValue

from outrider.models.chat.answer_parser import ParsedAnswer, UnusableAnswer, parse_answer
from outrider.models.chat.client import ChatClient, ClientTimeout, ConnectionBroken, Messages, Reply, get_concurrency_limiter
from outrider.models.chat.cost import NO_USAGE, TokenUsage, count_max_tokens
from outrider.models.chat.endpoint_errors import (
    ModeRefused,
    OptionRefused,
    RequestRefused,
    RetryLater,
    broke,
    classify_refusal,
    is_key_rejected,
)
from outrider.models.chat.journal import ask_or_replay
from outrider.models.chat.provider import Endpoint, resolve_endpoint
from outrider.models.chat.structured_output_modes import Capabilities, OutputMode, describe_schema, get_capabilities, make_schema
from outrider.runtime.background_loop import in_background
from outrider.runtime.tracing import span
from outrider.settings.model import LlmSettings
from outrider.state.chat import Budget, Call, Chat, ChatRequest, Shape
from outrider.state.errors import BadAnswer, ChatUnavailable, KeyRejected, MissingExtra

CLIENT = ("langchain_openai", "json_repair")
MAX_SHOWN_CHARS = 4_000
"""Characters of an answer that the model sees again with what is wrong with it."""
TRIES = 3
"""Of one call, where the server is busy or failed."""
MAX_NAMED_PAUSE_S = 1e9
"""A wait that is named as a date; a server may say any number."""


def make_chat(settings: LlmSettings) -> tuple[Chat | None, str]:
    """The chat of the settings, and which it is; or None, and why. Raises `SettingsError`; asks nobody."""
    endpoint, says = resolve_endpoint(settings)
    if endpoint is None:
        return None, says
    if not all(importlib.util.find_spec(module) for module in CLIENT):
        return None, str(MissingExtra(endpoint.name, "openai"))
    return EndpointChat(endpoint, settings), says


class EndpointChat:
    """A `Chat` over one endpoint. `timeout_s` bounds one call, with every wait for a server that is busy."""

    def __init__(self, endpoint: Endpoint, settings: LlmSettings) -> None:
        self._endpoint = endpoint
        self._timeout_s = settings.timeout_s
        self._concurrency = settings.concurrency
        self._wire = ChatClient(endpoint, settings.timeout_s)
        self._learnt: Capabilities = get_capabilities(endpoint.base_url, endpoint.model)
        if self._learnt.working_mode is None:
            self._learnt.working_mode = endpoint.first_mode
        self._rejected = ""
        self._accepted = False
        """Whether a call with this key has succeeded."""

    def __repr__(self) -> str:
        return f"EndpointChat({self.name})"

    @property
    def name(self) -> str:
        return self._endpoint.name

    async def warm_up(self) -> None:
        """Load the client, which can take seconds, before a search's time counts."""
        await in_background(self._wire.warm_up())

    async def answer(self, asked: ChatRequest, shape: type[Shape], budget: Budget) -> Shape:
        """Raises `KeyRejected`, `ChatUnavailable`, `BadAnswer`, `BudgetSpent`."""
        return await in_background(self._answer(asked, shape, budget))

    async def _answer(self, asked: ChatRequest, shape: type[Shape], budget: Budget) -> Shape:
        question = _Question(asked, make_schema(shape, bounds_lengths=self._endpoint.bounds_lengths), budget)
        async with self._learnt.search_turn(self._timeout_s):
            way, reply, found = await self._in_some_way(question, shape)
        if isinstance(found, ParsedAnswer):
            return found.value
        return await self._asked_again(question, shape, way, reply, found)

    async def _in_some_way(self, question: _Question, shape: type[Shape]) -> tuple[OutputMode, Reply, ParsedAnswer[Shape] | UnusableAnswer]:
        """In the way that works, else in one after another, until an answer shows that the schema has arrived.

        The last way that is taken works from then on, whatever its answer is worth, or each question would try all.
        """
        last: tuple[OutputMode, Reply, ParsedAnswer[Shape] | UnusableAnswer] | None = None
        refused, failed, ways = "", False, self._learnt.modes()
        while ways:
            way = ways.pop(0)
            works = way is self._learnt.working_mode
            try:
                reply = await self._said(question.messages(way), way, question)
            except ModeRefused as error:
                refused, failed = str(error), failed or error.failed
                if error.failed and works:
                    del ways[1:]  # its schema may be the cause; if not, the server is down, and each further way is a call in vain
                continue
            found = parse_answer(reply.content, shape)
            last = way, reply, found
            if works or isinstance(found, ParsedAnswer) or found.follows_schema:
                break
        if last is None:
            raise ChatUnavailable(
                f"{refused}; try later" if failed else f"{self.name} takes no question in any way that is known: {refused}"
            )
        self._learnt.record_accepted(last[0], sure=not failed)
        return last

    async def _asked_again(self, question: _Question, shape: type[Shape], way: OutputMode, reply: Reply, found: UnusableAnswer) -> Shape:
        """One retry that shows the error."""
        try:
            reply = await self._said(question.with_error(way, reply, found), way, question)
        except ModeRefused as error:
            raise BadAnswer(f"{self.name} gave an unusable answer ({found.why}), and refused the next question: {error}") from None
        again = parse_answer(reply.content, shape)
        if isinstance(again, ParsedAnswer):
            return again.value
        raise BadAnswer(f"{self.name} gave an unusable answer twice; the second time: {again.why}")

    async def _said(self, messages: Messages, way: OutputMode, question: _Question) -> Reply:
        """One call within its time, under the limit of the process. `BadAnswer` where the model would not, or could not end."""
        await self._wire.warm_up()
        async with get_concurrency_limiter().slot(self._concurrency):
            try:
                async with asyncio.timeout(self._timeout_s):
                    reply = await self._tried(messages, way, question)
            except (TimeoutError, ClientTimeout):
                raise ChatUnavailable(
                    f"{self.name} did not answer within {self._timeout_s:g} s; look at the server or raise llm.timeout_s"
                ) from None
        if reply.refusal or reply.finish_reason == "content_filter":
            raise BadAnswer(f"{self.name} declined to answer: {self._endpoint.redact(reply.refusal or 'its content filter')}")
        if reply.finish_reason == "length":
            raise BadAnswer(f"{self.name} did not end its answer within {question.asked.max_output_tokens:,} tokens")
        return reply

    async def _tried(self, messages: Messages, way: OutputMode, question: _Question) -> Reply:
        """As often as the server asks for patience and there is time."""
        until = time.monotonic() + self._timeout_s
        for tries_left in reversed(range(TRIES)):
            try:
                return await self._in_its_words(messages, way, question, until)
            except RetryLater as pause:
                if pause.closes_endpoint:
                    self._learnt.closed_until = max(self._learnt.closed_until, time.monotonic() + pause.seconds)
                if pause.mode_suspected and tries_left < TRIES - 1:
                    raise ModeRefused(f"{self.name} {pause}", failed=True) from None
                if not tries_left:
                    raise self._unavailable(pause) from None
                await self._waited(pause, until)
        raise AssertionError("unreachable")

    async def _in_its_words(self, messages: Messages, way: OutputMode, question: _Question, until: float) -> Reply:
        """With the options that the endpoint takes; each has few values, so this ends."""
        while True:
            if self._rejected:
                raise KeyRejected(self._rejected)
            await self._waited(RetryLater(self._learnt.closed_until - time.monotonic(), "is busy"), until)
            try:
                return await self._counted(messages, way, question)
            except OptionRefused:
                continue

    async def _waited(self, pause: RetryLater, until: float) -> None:
        if pause.seconds > 0:
            if time.monotonic() + pause.seconds >= until:
                raise self._unavailable(pause)
            await asyncio.sleep(pause.seconds)

    def _unavailable(self, pause: RetryLater) -> ChatUnavailable:
        then = datetime.now(UTC) + timedelta(seconds=min(pause.seconds, MAX_NAMED_PAUSE_S))
        until = f", and takes no calls until {then:%Y-%m-%d %H:%M:%S} UTC" if pause.closes_endpoint or pause.seconds >= 1 else ""
        return ChatUnavailable(f"{self.name} {pause}{until}; try later")

    async def _counted(self, messages: Messages, way: OutputMode, question: _Question) -> Reply:
        """One request, within the budget and written down there."""
        asked, price, steps = question.asked, self._endpoint.price, dict(self._learnt.steps)
        request = way.request(question.schema) | self._options(asked.max_output_tokens, steps)
        most_usd = price.max_usd(count_max_tokens({**request, "messages": messages}), asked.max_output_tokens) if price else None
        with question.budget.call(asked.node, most_usd) as call:
            try:
                asking = partial(self._wire.ask, messages, request)
                with span("model call", node=asked.node, model=self.name):
                    reply = await ask_or_replay(asked.node, self.name, {**request, "messages": messages}, asking)
            except RequestRefused as refused:
                if refused.status < 500:
                    self._write(call, NO_USAGE)
                raise self._judged(refused, way, steps) from None
            except ConnectionBroken as broken:
                if broken.reached:
                    raise broke(broken) from None
                self._write(call, NO_USAGE)
                raise ChatUnavailable(f"{self.name} cannot be reached ({broken}); is it running, and is llm.base_url right?") from None
            self._accepted = True
            self._write(call, reply.usage)
        return reply

    def _options(self, most_tokens: int, steps: Mapping[str, int]) -> dict[str, JsonValue]:
        chosen = {option: values[steps.get(option, 0)] for option, values in self._endpoint.options.items()}
        length = str(chosen.pop("length"))
        return {length: most_tokens, **{option: value for option, value in chosen.items() if value is not None}}

    def _judged(self, refused: RequestRefused, way: OutputMode, steps: Mapping[str, int]) -> Exception:
        said = self._endpoint.redact(refused.message)
        if is_key_rejected(refused, accepted=self._accepted):
            says = f"{refused.status}: {said}" if said else f"{refused.status}"
            self._rejected = f"{self.name} rejects the key ({says}); set llm.api_key, or the variable that holds the key"
            return KeyRejected(self._rejected)
        return classify_refusal(refused, said, self._endpoint, self._learnt, way, steps)

    def _write(self, call: Call, used: TokenUsage | None) -> None:
        if used is None:
            return
        call.input_tokens, call.output_tokens = used.input_tokens, used.output_tokens
        price = self._endpoint.price
        call.cost_usd = price.usd(used) if price else 0.0 if used is NO_USAGE else None


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked, in the words of each way."""

    asked: ChatRequest
    schema: dict[str, Any]
    budget: Budget

    def messages(self, way: OutputMode) -> Messages:
        system = f"{self.asked.system}\n\n{describe_schema(self.schema)}" if way.in_prompt else self.asked.system
        return [{"role": "system", "content": system}, {"role": "user", "content": self.asked.user}]

    def with_error(self, way: OutputMode, reply: Reply, found: UnusableAnswer) -> Messages:
        said = reply.content if isinstance(reply.content, str) else json.dumps(reply.content, ensure_ascii=False)
        wrong = f"That answer cannot be used: {found.why}. Answer the question again. {describe_schema(self.schema)}"
        return [*self.messages(way), {"role": "assistant", "content": said[:MAX_SHOWN_CHARS]}, {"role": "user", "content": wrong}]
