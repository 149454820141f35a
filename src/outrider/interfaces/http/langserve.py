"""The graphs by LangServe, at `/search` and `/analyze`: invoke, batch, stream, stream_log, stream_events, playground and schemas.

Documented at https://python.langchain.com/docs/langserve. LangServe drops a client's `thread_id`; a modifier puts it back. `invoke` is
answered here, in LangServe's form: LangServe checks each answer against its type again, walks through it in Python and writes it twice,
which takes longer than many a search.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from fastapi import Depends, FastAPI, Request, Response
from langchain_core.runnables import Runnable, RunnableConfig
from langserve import add_routes
from pydantic import BaseModel, Field, ValidationError
from starlette.middleware import Middleware

from outrider.interfaces.http.admission import Gate
from outrider.interfaces.http.metrics import Metrics
from outrider.interfaces.http.problems import Refusal, WrongField, of_validation
from outrider.interfaces.http.run_search import Modes, thread_of
from outrider.runtime.background_loop import run_in_background
from outrider.services.nodes import parse_analysis_target
from outrider.services.systematic import refuse_unreadable
from outrider.state.analysis import Analysis, AnalyzeRequest, check_analysis_request
from outrider.state.errors import SearchError
from outrider.state.model import Model
from outrider.state.request import SearchRequest, check_request
from outrider.state.response import SearchResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from outrider.interfaces.http.run_search import Searching
    from outrider.usecases.threads import Part

PATHS = ("/search", "/analyze")
RUNNING = tuple(f"{path}/{name}" for path in PATHS for name in ("invoke", "batch", "stream", "stream_log", "stream_events"))
AT_ONCE_IN_A_BATCH = 4
Stream = Callable[[Any, RunnableConfig | None, Modes], AsyncIterator["Part"]]


class Invocation(BaseModel):
    """The body of `invoke`, as `RemoteRunnable` sends it; what else stands in it is passed over, as LangServe does."""

    input: dict[str, Any]
    config: dict[str, Any] = Field(default_factory=dict)


class Gated(Runnable[Any, Any]):
    """A graph behind the gate, and counted. What LangServe builds upon it (logs, events, batches) runs through these two."""

    def __init__(self, name: str, stream: Stream, answers: type[Model], gate: Gate, metrics: Metrics) -> None:
        self.name = name
        self._stream, self._answers, self._gate, self._metrics = stream, answers, gate, metrics

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        return run_in_background(self.ainvoke(input, config, **kwargs))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        async with self._counted() as said:
            async for kind, part in self._stream(input, config, ["values"]):
                if kind == "values":
                    said.update(part)
        return {name: value for name, value in said.items() if name in self._answers.model_fields}

    def answer(self, fields: dict[str, Any]) -> Model:
        return self._answers.model_validate(fields)

    async def astream(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        async with self._counted() as said:
            async for kind, part in self._stream(input, config, ["updates"]):
                if kind == "updates":
                    for update in part.values():
                        said.update(update or {})
                    yield part

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[dict[str, Any]]:
        """Around one search; what its nodes wrote is put into what it gives."""
        said: dict[str, Any] = {}
        outcome, began = "failed", time.perf_counter()
        try:
            async with self._gate.place():
                began = time.perf_counter()
                yield said
            outcome = "done"
        except (SearchError, Refusal):
            outcome = "refused"
            raise
        except (asyncio.CancelledError, GeneratorExit):
            outcome = "cancelled"
            raise
        finally:
            self._metrics.searched("langserve", outcome, time.perf_counter() - began, said)


def add_remote(app: FastAPI, searching: Searching, gate: Gate, metrics: Metrics, most: int) -> None:
    """Add the routes; `most` bounds the inputs of one batch."""

    async def configured(config: dict[str, Any], request: Request) -> dict[str, Any]:
        body = await request.json()
        _check(body, most, named_of_target if request.url.path.startswith("/analyze") else searchable)
        thread = thread_of(request, _thread_in(body.get("config")))
        own = {"configurable": {**config.get("configurable", {}), "thread_id": thread}} if thread else {}
        return {**config, **own, "max_concurrency": AT_ONCE_IN_A_BATCH}

    def searchable(asked: dict[str, Any]) -> SearchRequest:
        request = check_request(asked)
        if request.mode == "systematic":
            refuse_unreadable(searching.services, request)
        return request

    def search(asked: SearchRequest, config: RunnableConfig | None, modes: Modes) -> AsyncIterator[Part]:
        thread = str((config or {}).get("configurable", {}).get("thread_id", ""))
        return searching.stream(asked, None, thread, config, modes)

    def analyze(asked: AnalyzeRequest, config: RunnableConfig | None, modes: Modes) -> AsyncIterator[Part]:
        return searching.analyse(asked, None, config, modes)

    doors: tuple[tuple[str, Stream, type[Model], type[Model], Callable[[dict[str, Any]], Model]], ...] = (
        ("/search", search, SearchRequest, SearchResponse, searchable),
        ("/analyze", analyze, AnalyzeRequest, Analysis, named_of_target),
    )
    for path, stream, asks, answers, check in doors:
        graph = Gated(path.strip("/"), stream, answers, gate, metrics)
        typed = graph.with_types(input_type=asks, output_type=answers)
        own = _invoke(graph, check)  # found before LangServe's, which stays in the description
        app.add_api_route(f"{path}/invoke", own, methods=["POST"], include_in_schema=False)
        add_routes(
            app, typed, path=path, config_keys=("configurable", "max_concurrency"), per_req_config_modifier=configured,
            disabled_endpoints=["config_hashes"], dependencies=[Depends(_playground_file)],
        )  # fmt: skip


def _invoke(graph: Gated, check: Callable[[dict[str, Any]], Model]) -> Callable[[Request], Awaitable[Response]]:
    async def invoke(request: Request) -> Response:
        try:
            asked = Invocation.model_validate(json.loads(await request.body() or b"null"))
        except ValidationError as error:
            raise of_validation(error.errors()) from None
        thread, run_id = thread_of(request, _thread_in(asked.config)), uuid4()
        config: RunnableConfig = {"run_id": run_id, **({"configurable": {"thread_id": thread}} if thread else {})}
        output = graph.answer(await graph.ainvoke(check(asked.input), config)).model_dump_json()
        about = json.dumps({"callback_events": [], "metadata": {"run_id": str(run_id), "feedback_tokens": []}})
        return Response(f'{{"output":{output},{about[1:]}', media_type="application/json")

    return invoke


def _thread_in(config: Any) -> Any:
    own = config.get("configurable") if isinstance(config, dict) else None
    return own.get("thread_id") if isinstance(own, dict) else None


def _check(body: Any, most: int, check: Callable[[dict[str, Any]], object]) -> None:
    """Before anything is streamed: what LangServe would find out only then."""
    inputs = body.get("inputs", [body.get("input")]) if isinstance(body, dict) else []
    if not isinstance(inputs, list):
        raise Refusal(422, "bad-request", "inputs: takes a list", errors=(WrongField(field="inputs", message="takes a list"),))
    if len(inputs) > most:
        wrong = WrongField(field="inputs", message=f"a batch has at most {most:,} inputs here")
        raise Refusal(422, "bad-request", f"inputs: {wrong.message}", errors=(wrong,))
    for one in inputs:
        if isinstance(one, dict):
            check(one)


def named_of_target(asked: dict[str, Any]) -> AnalyzeRequest:
    """Raises `BadRequest` for what names no work."""
    request = check_analysis_request(asked)
    parse_analysis_target(request.target)
    return request


async def _playground_file(request: Request) -> None:
    """LangServe opens whatever name it is given, also a folder."""
    _, playground, name = request.url.path.partition("/playground/")
    if playground and name:
        spec = find_spec("langserve")
        assert spec is not None  # noqa: S101 - it is imported above
        assert spec.origin is not None  # noqa: S101
        dist = (Path(spec.origin).parent / "playground" / "dist").resolve()
        file = (dist / name).resolve()
        if not (file.is_relative_to(dist) and file.is_file()):
            raise Refusal(404, "not-found", "the playground has no such file")


class Admitted:
    """ASGI: a request that starts searches counts from its beginning, whatever number it starts."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self.app = app
        self.gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"].rstrip("/") in RUNNING:
            with self.gate.admission():
                await self.app(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def admitted(gate: Gate) -> Middleware:
    return Middleware(Admitted, gate=gate)
