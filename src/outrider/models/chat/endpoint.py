"""Chat model behind an OpenAI-compatible endpoint, with structured answers and hard limits.

It finds a structured output mode that the endpoint supports, asks once more after an unusable answer, and bounds time and calls.
All calls of the process run on one background loop: the HTTP client is bound to its loop, and the limit on concurrent calls
holds for all callers together.

An answer is parsed into the requested shape. Nothing that is missing in it is made up. A model may quote its input, which may
look like an answer: if two different objects fit the shape, it is unknown which one is the model's own, and the answer is unusable.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate
from typing import Any, Generic

from pydantic import ValidationError

from outrider.models.chat.client import (
    ClientTimeout,
    ConnectionBroken,
    Messages,
    Reply,
    find_only_model,
    get_concurrency_limiter,
)
from outrider.models.chat.endpoint_errors import (
    SHORT_PAUSE_S,
    ModeRefused,
    OptionRefused,
    RequestRefused,
    RetryLater,
    classify_refusal,
    is_key_rejected,
)
from outrider.models.chat.journal import ask_or_replay
from outrider.models.chat.provider import (
    NO_USAGE,
    Capabilities,
    Endpoint,
    OutputMode,
    TokenUsage,
    count_max_tokens,
    describe_schema,
    get_capabilities,
    make_schema,
    parse_prices,
    resolve_endpoint,
)
from outrider.models.chat.servers import ChatServer, ChatServers
from outrider.models.servers.health import ServerReport
from outrider.runtime.spans import span
from outrider.runtime.threads_and_loops import in_background
from outrider.settings.model import LlmSettings
from outrider.state.chat import Budget, Call, Chat, ChatRequest, Shape
from outrider.state.errors import BadAnswer, ChatError, ChatUnavailable, KeyRejected, MissingExtra
from outrider.text.sanitize import OFFLINE, is_loopback

log = logging.getLogger(__name__)

CLIENT = ("langchain_openai", "json_repair")
MAX_SHOWN_CHARS = 4_000
"""Characters of an unusable answer that the model sees again, with the problem."""
TRIES = 3
"""Attempts per call if the server is busy or fails."""
RETRY_AFTER_S = 30.0
"""Pause before a server that named no model is asked again."""
LEAST_REST_S = 0.05
"""Kept of a call's time, so that a server that hangs until its end is known before the call ends."""
MAX_NAMED_PAUSE_S = 1e9
"""Longest pause that is shown as a date; a server may send any number."""


def make_chat(settings: LlmSettings, *, offline: bool = False) -> tuple[Chat | None, str]:
    """Build the chat of the settings and a description of it; or None and the reason. Raises `SettingsError`; sends no request.

    If `offline`, only a model at a loopback address is used.
    """
    endpoint, description = resolve_endpoint(settings)
    if endpoint is None:
        return None, description
    if offline and not all(map(is_loopback, (endpoint.base_url, *endpoint.replicas))):
        return None, f"{endpoint.name} is not on this machine, {OFFLINE}"
    if not all(importlib.util.find_spec(module) for module in CLIENT):
        return None, str(MissingExtra(endpoint.name, "openai"))
    return EndpointChat(endpoint, settings, description), description


class EndpointChat:
    """A `Chat` over the servers of one model. `timeout_s` bounds one call, including every wait for a busy server.

    A server that cannot be reached, hangs, rejects the key or does not know the model is left out for a while if there are others.
    """

    def __init__(self, endpoint: Endpoint, settings: LlmSettings, description: str = "") -> None:
        self._settings = settings
        self._timeout_s = settings.timeout_s
        self._concurrency = settings.concurrency
        self.description = description or endpoint.name
        """One line for people: the model, and why this one."""
        self._use(endpoint)
        self._naming = asyncio.Lock()
        self._naming_failure: tuple[float, ChatError] | None = None
        self._key_error = ""
        self._key_accepted = False
        """Whether a call with this key has succeeded."""

    def __repr__(self) -> str:
        return f"EndpointChat({self.name})"

    @property
    def name(self) -> str:
        return self._endpoint.name

    @property
    def is_priced(self) -> bool:
        """Whether the price of the model is known."""
        return self._endpoint.price is not None

    @property
    def is_unnamed(self) -> bool:
        """Whether the server has not yet been asked which model it serves."""
        return self._endpoint.is_unnamed

    def _use(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._servers = ChatServers(endpoint, self._timeout_s)
        self._capabilities: Capabilities = get_capabilities(endpoint.base_url, endpoint.model)
        if self._capabilities.working_mode is None:
            self._capabilities.working_mode = endpoint.first_mode

    async def warm_up(self) -> None:
        """Load the client, which can take seconds, before a search's time counts, and find the model's name if the settings give none.

        Raises `KeyRejected`, `ChatUnavailable`.
        """
        await in_background(self._warm_up())

    async def _warm_up(self) -> None:
        await self._name_model()
        await self._servers.warm_up()

    async def _name_model(self) -> None:
        """Take the only model that the server lists, if the settings name none. A failure holds for `RETRY_AFTER_S`."""
        if not self._endpoint.is_unnamed:
            return
        async with self._naming:
            if not self._endpoint.is_unnamed:  # named by another caller meanwhile
                return
            if self._naming_failure and time.monotonic() - self._naming_failure[0] < RETRY_AFTER_S:
                raise self._naming_failure[1].with_traceback(None)
            try:
                model = await self._find_only_model()
            except ChatError as error:
                self._naming_failure = time.monotonic(), error
                log.error("no chat model is used: %s", error)  # noqa: TRY400 - an expected error
                raise
            self._use(replace(self._endpoint, model=model, price=parse_prices(self._settings.prices).get(model)))
            self.description = self._endpoint.describe("llm.model is auto: the only model that the server lists")

    async def report_servers(self, within_s: float) -> tuple[ServerReport, ...]:
        """Whether each server lists the model, which costs nothing."""
        return await in_background(self._servers.report(within_s))

    async def _find_only_model(self) -> str:
        """The name that the first server lists which can be asked."""
        for server in self._servers.servers[:-1]:
            try:
                return await find_only_model(server.endpoint, self._timeout_s)
            except ChatError as error:
                log.warning("%s; the next server is asked", error)
        return await find_only_model(self._servers.servers[-1].endpoint, self._timeout_s)

    async def answer(self, request: ChatRequest, shape: type[Shape], budget: Budget) -> Shape:
        """Answer in the shape. Raises `KeyRejected`, `ChatUnavailable`, `BadAnswer`, `BudgetSpent`."""
        return await in_background(self._answer(request, shape, budget))

    async def _answer(self, request: ChatRequest, shape: type[Shape], budget: Budget) -> Shape:
        await self._name_model()
        question = _Question(request, make_schema(shape, bounds_lengths=self._endpoint.bounds_lengths), budget)
        async with self._capabilities.search_turn(self._timeout_s):
            mode, reply, answer = await self._ask_in_modes(question, shape)
        if isinstance(answer, ParsedAnswer):
            return answer.value
        # one retry that shows the model its error
        try:
            reply = await self._ask(question.messages_with_error(mode, reply, answer), mode, question)
        except ModeRefused as error:
            raise BadAnswer(f"{self.name} gave an unusable answer ({answer.why}), and refused the next question: {error}") from None
        second = parse_answer(reply.content, shape)
        if isinstance(second, ParsedAnswer):
            return second.value
        raise BadAnswer(f"{self.name} gave an unusable answer twice; the second time: {second.why}")

    async def _ask_in_modes(
        self, question: _Question, shape: type[Shape]
    ) -> tuple[OutputMode, Reply, ParsedAnswer[Shape] | UnusableAnswer]:
        """Ask in the working mode, then in the others, until an answer shows that the model saw the schema.

        The last accepted mode counts as working from then on, whatever its answer is worth; otherwise each question would try all modes.
        """
        last: tuple[OutputMode, Reply, ParsedAnswer[Shape] | UnusableAnswer] | None = None
        refusal, server_failed, modes = "", False, self._capabilities.modes()
        while modes:
            mode = modes.pop(0)
            works = mode is self._capabilities.working_mode
            try:
                reply = await self._ask(question.messages(mode), mode, question)
            except ModeRefused as error:
                refusal, server_failed = str(error), server_failed or error.failed
                if error.failed and works:
                    del modes[1:]  # the schema may be the cause; if not, the server is down, and each further mode is a wasted call
                continue
            answer = parse_answer(reply.content, shape)
            last = mode, reply, answer
            if works or isinstance(answer, ParsedAnswer) or answer.follows_schema:
                break
        if last is None:
            raise ChatUnavailable(
                f"{refusal}; try later" if server_failed else f"{self.name} takes no question in any way that is known: {refusal}"
            )
        self._capabilities.record_accepted(last[0], sure=not server_failed)
        return last

    async def _ask(self, messages: Messages, mode: OutputMode, question: _Question) -> Reply:
        """Make one call within its time, under the process's limit. `BadAnswer` if the model declines or exceeds the length."""
        await self._servers.warm_up()
        async with get_concurrency_limiter().slot(self._concurrency, self._timeout_s):
            try:
                async with asyncio.timeout(self._timeout_s):
                    reply = await self._ask_with_retries(messages, mode, question)
            except (TimeoutError, ClientTimeout):
                raise ChatUnavailable(
                    f"{self.name} did not answer within {self._timeout_s:g} s; look at the server or raise llm.timeout_s"
                ) from None
        if reply.refusal or reply.finish_reason == "content_filter":
            raise BadAnswer(f"{self.name} declined to answer: {self._endpoint.redact(reply.refusal or 'its content filter')}")
        if reply.finish_reason == "length":
            raise BadAnswer(f"{self.name} did not end its answer within {question.request.max_output_tokens:,} tokens")
        return reply

    async def _ask_with_retries(self, messages: Messages, mode: OutputMode, question: _Question) -> Reply:
        """Retry while servers are overloaded or reject one of our options, within the time limit."""
        servers, until = self._servers, time.monotonic() + self._timeout_s
        attempts_left = tries = max(TRIES, len(servers.servers))
        servers.reopen()
        while True:
            if self._key_error:
                raise KeyRejected(self._key_error)
            server = servers.choose()
            capabilities = server.capabilities
            try:
                attempts_left -= 1
                await self._wait(server, RetryLater(capabilities.closed_until - time.monotonic(), "is busy"), until)
                return await self._ask_in_time(server, messages, mode, question, until)
            except OptionRefused:
                attempts_left += 1  # the next call is without the option; each has few values, so this ends
            except ServerUnusable as unusable:
                server.rejects_key = isinstance(unusable.error, KeyRejected)
                if not servers.leave_out(server, str(unusable.error)):
                    raise self._give_up(unusable.error) from None
                attempts_left += 1  # it is left out, so this ends
            except RetryLater as pause:
                capabilities.problem = ""  # an old one
                if pause.closes_endpoint or len(servers.servers) > 1:
                    capabilities.closed_until = max(capabilities.closed_until, time.monotonic() + pause.seconds)
                if pause.mode_suspected and attempts_left < tries - 1:
                    raise ModeRefused(f"{self.name} {pause}", failed=True) from None
                if not attempts_left:
                    raise self._unavailable(server, pause) from None
                if not servers.has_open():
                    await self._wait(server, pause, until)

    async def _ask_in_time(self, server: ChatServer, messages: Messages, mode: OutputMode, question: _Question, until: float) -> Reply:
        """Ask one of several servers not much longer than the others usually take, so that one that hangs can be left."""
        started = time.monotonic()
        patience_s = self._servers.patience_s(server, self._timeout_s)
        limit_s = min(patience_s, until - started - LEAST_REST_S)
        limit = asyncio.timeout(limit_s if len(self._servers.servers) > 1 else None)
        server.running += 1
        try:
            async with limit:
                reply = await self._ask_once(server, messages, mode, question)
        except TimeoutError:
            if not limit.expired() or limit_s < patience_s / 2:
                raise  # that the call's time is over is not this server's fault
            server.usual_s = max(server.usual_s, limit_s)
            why = f"{server.endpoint.name} did not answer within {limit_s:.3g} s; look at the server or raise llm.timeout_s"
            raise ServerUnusable(ChatUnavailable(why)) from None
        finally:
            server.running -= 1
        self._servers.record_time(server, time.monotonic() - started)
        return reply

    def _give_up(self, error: ChatError) -> ChatError:
        servers = self._servers.servers
        if all(one.rejects_key for one in servers):
            self._key_error = str(error) if len(servers) == 1 else self._servers.explain()
            return KeyRejected(self._key_error)
        return ChatUnavailable(self._servers.explain()) if len(servers) > 1 else error

    async def _wait(self, server: ChatServer, pause: RetryLater, until: float) -> None:
        if pause.seconds > 0:
            if time.monotonic() + pause.seconds >= until:
                raise self._unavailable(server, pause)
            await asyncio.sleep(pause.seconds)

    def _unavailable(self, server: ChatServer, pause: RetryLater) -> ChatUnavailable:
        if server.capabilities.problem:
            return ChatUnavailable(self._servers.explain())
        then = datetime.now(UTC) + timedelta(seconds=min(pause.seconds, MAX_NAMED_PAUSE_S))
        until = f", and takes no calls until {then:%Y-%m-%d %H:%M:%S} UTC" if pause.closes_endpoint or pause.seconds >= 1 else ""
        return ChatUnavailable(f"{server.endpoint.name} {pause}{until}; try later")

    async def _ask_once(self, server: ChatServer, messages: Messages, mode: OutputMode, question: _Question) -> Reply:
        """Send one request within the budget and record its usage there."""
        node, max_output = question.request.node, question.request.max_output_tokens
        price, steps = self._endpoint.price, dict(self._capabilities.steps)
        options = {option: values[steps.get(option, 0)] for option, values in self._endpoint.options.items()}
        body = mode.request(question.schema) | {str(options.pop("length")): max_output}
        body |= {option: value for option, value in options.items() if value is not None}
        max_usd = price.max_usd(count_max_tokens({**body, "messages": messages}), max_output) if price else None
        with question.budget.call(node, max_usd) as call:
            try:
                with span("model call", node=node, model=self.name):
                    ask = partial(server.client.ask, messages, body)
                    reply = await ask_or_replay(node, self.name, {**body, "messages": messages}, ask)
            except RequestRefused as refused:
                if refused.status < 500:
                    self._record_usage(call, NO_USAGE)
                message = self._endpoint.redact(refused.message)
                if is_key_rejected(refused, accepted=self._key_accepted):
                    detail = f"{refused.status}: {message}" if message else f"{refused.status}"
                    why = f"{server.endpoint.name} rejects the key ({detail}); set llm.api_key, or the variable that holds the key"
                    raise ServerUnusable(KeyRejected(why)) from None
                reason = classify_refusal(refused, message, server.endpoint, self._capabilities, mode, steps)
                if refused.status == 404 and isinstance(reason, ChatUnavailable):
                    raise ServerUnusable(reason) from None
                raise reason from None
            except ConnectionBroken as broken:
                if broken.reached:
                    raise RetryLater(SHORT_PAUSE_S, f"broke the connection ({broken})") from None
                self._record_usage(call, NO_USAGE)
                why = f"{server.endpoint.name} cannot be reached ({broken}); is it running, and is llm.base_url right?"
                raise ServerUnusable(ChatUnavailable(why)) from None
            self._key_accepted = True
            self._record_usage(call, reply.usage)
        return reply

    def _record_usage(self, call: Call, usage: TokenUsage | None) -> None:
        if usage is None:
            return
        call.input_tokens, call.output_tokens = usage.input_tokens, usage.output_tokens
        price = self._endpoint.price
        call.cost_usd = price.usd(usage) if price else 0.0 if usage is NO_USAGE else None


class ServerUnusable(Exception):
    """One server gives no answer, for a reason that does not concern the others of its model."""

    def __init__(self, error: ChatError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class _Question:
    """A request with its schema, and the messages for each output mode."""

    request: ChatRequest
    schema: dict[str, Any]
    budget: Budget

    def messages(self, mode: OutputMode) -> Messages:
        system = f"{self.request.system}\n\n{describe_schema(self.schema)}" if mode.in_prompt else self.request.system
        return [{"role": "system", "content": system}, {"role": "user", "content": self.request.user}]

    def messages_with_error(self, mode: OutputMode, reply: Reply, answer: UnusableAnswer) -> Messages:
        content = reply.content if isinstance(reply.content, str) else json.dumps(reply.content, ensure_ascii=False)
        problem = f"That answer cannot be used: {answer.why}. Answer the question again. {describe_schema(self.schema)}"
        return [
            *self.messages(mode),
            {"role": "assistant", "content": content[:MAX_SHOWN_CHARS]},
            {"role": "user", "content": problem},
        ]


THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
BRACE = re.compile(r"[{}]")
MAX_REPAIR_CHARS = 30_000
"""A longer text that is not JSON is not repaired: repair blocks all other calls."""
MAX_OPEN_BRACKETS = 20
"""Nesting depth up to which a text is repaired: 20,000 open brackets take json-repair seconds."""
MAX_STARTS = 50
"""Number of braces at which an object is looked for."""
MAX_PROBLEM_CHARS = 300


@dataclass(frozen=True, slots=True)
class UnusableAnswer:
    """Why an answer is unusable, in words for the model and for people; `follows_schema` if it shows that the model saw the schema."""

    why: str
    follows_schema: bool = False


@dataclass(frozen=True, slots=True)
class ParsedAnswer(Generic[Shape]):
    """An answer in the requested shape."""

    value: Shape


AMBIGUOUS = UnusableAnswer("it holds two different objects of that form; give exactly one, and quote none", follows_schema=True)


def parse_answer(content: str | dict[str, Any], shape: type[Shape]) -> ParsedAnswer[Shape] | UnusableAnswer:
    """Find the object in the text that fits the shape, repairing JSON if possible. Two different objects that fit are unusable."""
    if isinstance(content, dict):
        return _validate(content, shape)
    text = THINKING.sub("", content)
    located = [(_validate(candidate, shape), start, end) for candidate, start, end in _iter_objects(text)]
    fitting = [(start, end) for result, start, end in located if isinstance(result, ParsedAnswer)]
    rests = (text[: fitting[0][0]], text[max(end for _, end in fitting) :]) if fitting else (text,)
    results = [result for result, *_ in located]
    results += [_validate(candidate, shape) for rest in rests if (candidate := _repair(rest))]
    parsed = [result for result in results if isinstance(result, ParsedAnswer)]
    if parsed:
        return parsed[0] if all(result == parsed[0] for result in parsed) else AMBIGUOUS
    problems = [result for result in results if isinstance(result, UnusableAnswer)]
    if not problems:
        return UnusableAnswer("the answer holds no JSON object" if content else "the answer is empty")
    return next((problem for problem in problems if problem.follows_schema), problems[-1])


def _validate(candidate: dict[str, Any], shape: type[Shape]) -> ParsedAnswer[Shape] | UnusableAnswer:
    try:
        return ParsedAnswer(shape.model_validate(candidate))
    except ValidationError as error:
        details = error.errors(include_input=False)
        why = "; ".join(f"{'.'.join(map(str, detail['loc'])) or 'the object'}: {detail['msg']}" for detail in details)
        required = {name for name, field in shape.model_fields.items() if field.is_required()} or set(shape.model_fields)
        why = why if len(why) <= MAX_PROBLEM_CHARS else f"{why[:MAX_PROBLEM_CHARS]}..."
        return UnusableAnswer(why, follows_schema=required <= candidate.keys())


def _iter_objects(text: str) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Yield the objects in the text with their offsets; one that is not JSON but has a closing brace is repaired."""

    def refuse_constant(name: str) -> float:
        raise ValueError(f"{name} is no number of JSON")

    # each opening brace with the end of its closing one, quoted braces included; none for a text too long to repair
    opened: list[int] = []
    closing: dict[int, int] = {}
    for brace in BRACE.finditer(text if len(text) <= MAX_REPAIR_CHARS else ""):
        if brace.group() == "{":
            opened.append(brace.start())
        elif opened:
            closing[opened.pop()] = brace.end()
    decoder = json.JSONDecoder(parse_constant=refuse_constant)
    start, repaired_until = text.find("{"), 0
    for _ in range(MAX_STARTS):
        if start < 0:
            return
        try:
            candidate, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
            if start >= repaired_until and start in closing:
                repaired_until = closing[start]
                if repaired := _repair(text[start:repaired_until]):
                    yield repaired, start, repaired_until
        else:
            yield candidate, start, end
        start = text.find("{", end)


def _repair(text: str) -> dict[str, Any] | None:
    """Repair the text from the first brace to the last. What was cut off behind it stays lost; nothing is made up for it."""
    from json_repair import repair_json

    start, end = text.find("{"), text.rfind("}") + 1
    if not 0 <= start < end or end - start > MAX_REPAIR_CHARS:
        return None
    depths = accumulate(1 if char in "{[" else -1 for char in text[start:end] if char in "{[]}")  # quoted brackets included
    if max(depths, default=0) > MAX_OPEN_BRACKETS:
        return None
    try:
        repaired = repair_json(text[start:end], return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None
    return repaired if isinstance(repaired, dict) and repaired else None
