"""LangServe interface of the three graphs: invoke, batch, streams and schemas.

Documented at https://python.langchain.com/docs/langserve. LangServe drops a client's `thread_id`; a modifier restores it. `invoke` is
answered here, in LangServe's form: LangServe validates each answer again, walks through it in Python and serializes it twice, which takes
longer than many searches.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI, Request, Response
from langchain_core.runnables import Runnable, RunnableConfig
from langserve import add_routes
from pydantic import BaseModel, Field, ValidationError

from outrider.interfaces.http.graph_runner import Modes
from outrider.interfaces.http.library import READ_ONLY
from outrider.interfaces.http.monitoring import Metrics
from outrider.interfaces.http.problems import Refusal, refuse_field, refuse_invalid, refuse_unsearched
from outrider.interfaces.http.request_limits import Admission
from outrider.interfaces.http.search_runs import find_run_id, read_thread
from outrider.runtime.threads_and_loops import run_in_background
from outrider.services.citations import check_citations_request
from outrider.services.make_nodes import parse_analysis_target
from outrider.services.systematic import refuse_unreadable
from outrider.state.analysis import Analysis, AnalysisState, AnalyzeRequest, check_analysis_request
from outrider.state.citations import CitationsRequest, CitationsResult
from outrider.state.errors import SearchError
from outrider.state.model import Model
from outrider.state.pipeline import PipelineState
from outrider.state.request import SearchRequest, check_request
from outrider.state.response import SearchResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from outrider.interfaces.http.graph_runner import GraphRunner
    from outrider.services import Services
    from outrider.usecases.threads import Part

PATHS = ("/search", "/analyze", "/citations")
RUNNING = tuple(f"{path}/{name}" for path in PATHS for name in ("invoke", "batch", "stream", "stream_log", "stream_events"))
BATCH_CONCURRENCY = 4
INTERNAL_FIELDS = frozenset({"lists", "candidates", "rejected", "record"})
"""Fields of the states that no response has, with the works of every source."""
WORK_FIELDS = frozenset({"hits", "context"})
LAST_NODES = frozenset({"distiller", "answer", "evidence"})
"""The nodes whose hits and sentences are those of the response."""
Stream = Callable[[Any, RunnableConfig | None, Modes], AsyncIterator["Part"]]


class Invocation(BaseModel):
    """The body of `invoke`, as `RemoteRunnable` sends it; further fields are ignored, as in LangServe."""

    input: dict[str, Any]
    config: dict[str, Any] = Field(default_factory=dict)


class AdmittedGraph(Runnable[Any, Any]):
    """A graph with admission and metrics. LangServe's logs, events and batches call `ainvoke` and `astream`."""

    def __init__(  # one argument a part
        self, name: str, stream: Stream, requests: type[Model], answers: type[Model], admission: Admission, metrics: Metrics
    ) -> None:
        self.name = name
        self._stream, self._requests, self._answers, self._admission, self._metrics = stream, requests, answers, admission, metrics

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name; `with_types` would wrap this class and bypass its `astream_log`
        return self._requests

    @property
    def OutputType(self) -> Any:  # noqa: N802 - as above
        return self._answers

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        return run_in_background(self.ainvoke(input, config, **kwargs))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        async with self._admit() as state:
            async for kind, part in self._stream(input, config, ["values"]):
                if kind == "values":
                    state.update(part)
                elif kind == "waiting":  # before the scout, sources are the names of the request
                    rows = [row for row in state.get("sources") or () if not isinstance(row, str)]
                    state.update(waiting=part, sources=rows)
            if "waiting" not in state and (refusal := refuse_unsearched(state)):
                raise refusal
        return {name: value for name, value in state.items() if name in self._answers.model_fields}

    def answer(self, fields: dict[str, Any]) -> Model:
        return self._answers.model_validate(fields)

    async def astream(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        async with self._admit() as state:
            async for kind, part in self._stream(input, config, ["updates"]):
                if kind == "updates":
                    for update in part.values():
                        state.update(update or {})
                    yield {node: without_works(update or {}, keep=node in LAST_NODES) for node, update in part.items()}
                elif kind == "waiting":
                    yield {"waiting": part.model_dump(mode="json")}

    async def astream_events(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:  # type: ignore[override]  # noqa: A002
        """LangChain's events. Only the last one, with the output of the whole graph, has works."""
        async for event in super().astream_events(input, config, **kwargs):
            is_result = event["event"] == "on_chain_end" and not event["parent_ids"]
            data = {name: without_works(value, keep=is_result and name == "output") for name, value in event["data"].items()}
            yield {**event, "data": data}

    async def astream_log(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: A002
        """LangChain's patches of a log. Only `/final_output` has works."""
        async for patch in super().astream_log(input, config, **kwargs):
            patch.ops = [
                {**op, "value": without_works(op["value"], keep=op["path"] == "/final_output")} if "value" in op else op for op in patch.ops
            ]
            yield patch

    @asynccontextmanager
    async def _admit(self) -> AsyncIterator[dict[str, Any]]:
        """Around one search, in a slot and counted; the caller adds the fields that its nodes write to the returned mapping."""
        state: dict[str, Any] = {}
        outcome, began = "failed", time.perf_counter()
        try:
            async with self._admission.slot():
                began = time.perf_counter()
                yield state
            outcome = "done"
        except (SearchError, Refusal) as refusal:
            outcome = "failed" if getattr(refusal, "failures", ()) else "refused"
            raise
        except (asyncio.CancelledError, GeneratorExit):
            outcome = "cancelled"
            raise
        finally:
            self._metrics.count_search("langserve", outcome, time.perf_counter() - began, state)


def without_works(value: Any, *, keep: bool = False) -> Any:
    """A value of a stream without the works that every node repeats: a stream of two hits had 4.7 MB. `keep` keeps those of the answer."""
    is_state = isinstance(value, PipelineState | AnalysisState)
    fields = {name: getattr(value, name) for name in type(value).model_fields} if is_state else value
    if isinstance(fields, dict):
        left_out = INTERNAL_FIELDS if keep else INTERNAL_FIELDS | WORK_FIELDS
        return {name: without_works(inner, keep=keep) for name, inner in fields.items() if name not in left_out}
    return [without_works(inner, keep=keep) for inner in fields] if isinstance(fields, list | tuple) else fields


def add_langserve_routes(app: FastAPI, runner: GraphRunner, admission: Admission, metrics: Metrics, max_batch: int) -> None:
    """Add the routes; `max_batch` limits the inputs of one batch."""

    async def modify_config(config: dict[str, Any], request: Request) -> dict[str, Any]:
        body = await request.json()
        # checked before anything is streamed: LangServe would fail only afterwards
        check = next(check for path, _, _, _, check in graphs if request.url.path.startswith(path))
        for one in body.get("inputs", [body.get("input")]) if isinstance(body, dict) else []:
            if isinstance(one, dict):
                check(one)
        thread = read_thread(request, _find_thread_id(body.get("config")))
        own: dict[str, Any] = {"configurable": {**config.get("configurable", {}), "thread_id": thread}} if thread else {}
        if "inputs" not in body:
            own["run_id"] = find_run_id()
            request.state.search_id = str(own["run_id"])
        return {**config, **own, "max_concurrency": BATCH_CONCURRENCY}

    def search(request: SearchRequest, config: RunnableConfig | None, modes: Modes) -> AsyncIterator[Part]:
        thread = str((config or {}).get("configurable", {}).get("thread_id", ""))
        return runner.search(request, None, thread, config, modes)

    def analyze(request: AnalyzeRequest, config: RunnableConfig | None, modes: Modes) -> AsyncIterator[Part]:
        return runner.analyze(request, None, config, modes)

    def build_citations(request: CitationsRequest, config: RunnableConfig | None, modes: Modes) -> AsyncIterator[Part]:
        return runner.build_citations(request, None, config, modes)

    graphs: tuple[tuple[str, Stream, type[Model], type[Model], Callable[[dict[str, Any]], Model]], ...] = (
        ("/search", search, SearchRequest, SearchResponse, partial(check_searchable, runner.services)),
        ("/analyze", analyze, AnalyzeRequest, Analysis, check_target),
        ("/citations", build_citations, CitationsRequest, CitationsResult, partial(check_citable, runner.services)),
    )
    for path, stream, input_type, output_type, check in graphs:
        graph = AdmittedGraph(path.strip("/"), stream, input_type, output_type, admission, metrics)
        invoke = _make_invoke(graph, check)  # matches before LangServe's route, which stays in the description
        app.add_api_route(f"{path}/invoke", invoke, methods=["POST"], include_in_schema=False)
        add_routes(
            app, graph, path=path, config_keys=("configurable", "max_concurrency"), per_req_config_modifier=modify_config,
            dependencies=[Depends(_make_check(max_batch))],
            disabled_endpoints=["config_hashes", "playground"],  # the page of ours stands there: LangServe's needs `eval`; docs/adr/0025
        )  # fmt: skip


def _make_check(max_batch: int) -> Callable[[Request], Awaitable[None]]:
    async def check_body(request: Request) -> None:
        """Refuse what LangServe would fail on before it validates anything. It refuses a body that is no object itself."""
        try:
            body = json.loads(await request.body())
        except ValueError:
            return
        if not isinstance(body, dict):
            return
        if "config" in body and body["config"] is None:
            raise refuse_field("config", "takes a JSON object")
        inputs = body.get("inputs", [])
        if not isinstance(inputs, list):
            raise refuse_field("inputs", "takes a list")
        if len(inputs) > max_batch:
            raise refuse_field("inputs", f"a batch has at most {max_batch:,} inputs here")
        for place, one in enumerate(inputs):
            if not isinstance(one, dict):
                raise refuse_field(f"inputs.{place}", "takes a JSON object")

    return check_body


def _make_invoke(graph: AdmittedGraph, check: Callable[[dict[str, Any]], Model]) -> Callable[[Request], Awaitable[Response]]:
    async def invoke(request: Request) -> Response:
        try:
            invocation = Invocation.model_validate(json.loads(await request.body() or b"null"))
        except ValidationError as error:
            raise refuse_invalid(error.errors()) from None
        thread, run_id = read_thread(request, _find_thread_id(invocation.config)), find_run_id()
        request.state.search_id = str(run_id)
        config: RunnableConfig = {"run_id": run_id, **({"configurable": {"thread_id": thread}} if thread else {})}
        output = graph.answer(await graph.ainvoke(check(invocation.input), config)).model_dump_json()
        metadata = json.dumps({"callback_events": [], "metadata": {"run_id": str(run_id), "feedback_tokens": []}})
        return Response(f'{{"output":{output},{metadata[1:]}', media_type="application/json")

    return invoke


def _find_thread_id(config: Any) -> Any:
    own = config.get("configurable") if isinstance(config, dict) else None
    return own.get("thread_id") if isinstance(own, dict) else None


def check_target(fields: dict[str, Any]) -> AnalyzeRequest:
    """Raises `BadRequest` for a target that names no work."""
    request = check_analysis_request(fields)
    parse_analysis_target(request.target)
    return request


def check_searchable(services: Services, fields: dict[str, Any]) -> SearchRequest:
    """Raises `BadRequest`."""
    request = check_request(fields)
    if request.mode == "systematic":
        refuse_unreadable(services, request)
    return request


def check_citable(services: Services, fields: dict[str, Any]) -> CitationsRequest:
    """Raises `BadRequest`; a `Refusal` where the server does not change its library."""
    if services.settings.serve.read_only:
        raise READ_ONLY
    return check_citations_request(fields)


class AdmissionMiddleware:
    """ASGI middleware: a request that starts searches counts as one from its beginning, however many it starts."""

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self.app = app
        self.admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"].rstrip("/") in RUNNING:
            with self.admission.admit():
                await self.app(scope, receive, send)
        else:
            await self.app(scope, receive, send)
