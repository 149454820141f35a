"""Threads over REST: saved searches listed, shown, resumed and deleted.

With keys, a thread belongs to the owner of the key that began it: its stored name begins with the owner's, which no request writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from outrider.interfaces.http.rest import SEARCH_RESPONSES, answer_run, parse_preferences, read_owner
from outrider.state.errors import NoSuchThread
from outrider.state.model import Model
from outrider.state.response import SearchResponse
from outrider.usecases.threads import MAX_NAME_CHARS, describe_run

if TYPE_CHECKING:
    from outrider.interfaces.http.search_runs import RunRegistry
    from outrider.services.thread_ledger import ThreadRun

ThreadName = Annotated[str, Path(description="The thread's name, as the list shows it.", min_length=1, max_length=MAX_NAME_CHARS)]


class RunOfThread(Model):
    """One search of a thread."""

    thread: str
    query: str
    asked: dict[str, Any] = Field(description="The request, without defaults.")
    state: Literal["begun", "waiting", "ended", "failed"] = Field(
        description="begun: under way, or interrupted; waiting: for a person; failed: interrupted."
    )
    began: str
    touched: str = Field(description="When it was last used.")


class ThreadList(Model):
    threads: tuple[RunOfThread, ...] = Field(description="The last search of each thread, the most recently used first.")


class ThreadShown(Model):
    thread: str
    runs: tuple[RunOfThread, ...] = Field(description="Its searches, oldest first.")
    answer: SearchResponse | None = Field(None, description="The last answer as far as it came.")


@dataclass(frozen=True, slots=True)
class ThreadRoutes:
    runs: RunRegistry

    async def list_threads(self, request: Request) -> Response:
        """The threads of this key's owner; without a key, those that belong to none."""
        threads = await self.runs.runner.threads()
        owner = read_owner(request)
        runs = [run for run in await threads.latest_runs() if self._find_owner(run.thread) == owner]
        return _format(ThreadList(threads=tuple(self._describe(run) for run in runs)))

    async def show(self, request: Request, thread: ThreadName) -> Response:
        """The searches of a thread, and its last answer."""
        name, threads = self._stored_name(request, thread), await self.runs.runner.threads()
        runs = tuple(self._describe(run) for run in await threads.runs(name))
        answer = await threads.last(name)
        if answer and answer.waiting:
            answer = answer.model_copy(update={"waiting": answer.waiting.model_copy(update={"thread": thread})})
        return _format(ThreadShown(thread=thread, runs=runs, answer=answer))

    async def resume(
        self,
        request: Request,
        thread: ThreadName,
        prefer: Annotated[str | None, Header(description="`respond-async`, as for a search.")] = None,
    ) -> Response:
        """Continue a thread's last search after an interruption; one that has ended returns its response. Nothing is paid twice."""
        name, preferences = self._stored_name(request, thread), parse_preferences(prefer)
        last = (await (await self.runs.runner.threads()).runs(name))[-1]  # an unknown thread is refused before anything runs
        if last.status == "waiting":  # under its own number, by which it can be answered
            return await answer_run(request, await self.runs.find(last.run, read_owner(request)), preferences)
        run = await self.runs.resume(name, read_owner(request), has_events="respond-async" in preferences)
        return await answer_run(request, run, preferences)

    async def delete(self, request: Request, thread: ThreadName) -> Response:
        """Delete a thread with all that was saved of it."""
        await (await self.runs.runner.threads()).delete(self._stored_name(request, thread))
        return Response(status_code=204)

    def _find_owner(self, stored_name: str) -> str:
        return self.runs.runner.split_owner(stored_name)[0]

    def _stored_name(self, request: Request, thread: str) -> str:
        owner = read_owner(request)
        name = f"{owner}/{thread}" if owner else thread
        if self._find_owner(name) != owner:
            raise NoSuchThread(f"there is no thread {thread!r}")
        return name

    def _describe(self, run: ThreadRun) -> RunOfThread:
        row = describe_run(run)
        return RunOfThread.model_validate({**row, "thread": self.runs.runner.split_owner(run.thread)[1]})


def _format(answer: Model) -> Response:
    return Response(answer.model_dump_json(), 200, media_type="application/json")


def make_router(handlers: ThreadRoutes) -> APIRouter:
    router = APIRouter(tags=["threads"], default_response_class=JSONResponse)
    all_threads, one = "/api/threads", "/api/threads/{thread:path}"  # a name may have a slash
    responses: dict[str, dict[int | str, dict[str, Any]]] = {"all": {200: {"model": ThreadList}}, "one": {200: {"model": ThreadShown}}}
    router.add_api_route(all_threads, handlers.list_threads, methods=["GET"], summary="Threads", responses=responses["all"])
    router.add_api_route(f"{one}/resume", handlers.resume, methods=["POST"], summary="Resume a thread", responses=SEARCH_RESPONSES)
    router.add_api_route(one, handlers.show, methods=["GET"], summary="A thread and its answer", responses=responses["one"])
    router.add_api_route(one, handlers.delete, methods=["DELETE"], summary="Delete a thread", status_code=204)
    return router
