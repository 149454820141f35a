"""A process that is killed for real, for `usecases/test_threads.py`: started once, it forks for each case, since imports take seconds.

Reads cases from standard input, one JSON a line, and answers each on a line of its own: the exit code or signal of the fork.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import SecretStr

import outrider.models.chat.transport
from outrider.graph import guard
from outrider.services import Services
from outrider.services.sources import make_sources
from outrider.services.thread_ledger import ThreadLedger
from outrider.settings.model import EnrichSettings, LlmSettings, RunSettings, Settings, ThreadSettings
from outrider.state.records import Record, Repository
from outrider.usecases.threads import collect_response, open_threads
from support.fake_services import settings as world_settings
from support.fakes import Shelf, no_reranker, paper

TOPICS = ("migraine", "pregnancy", "stroke", "diabetes", "surgery", "asthma", "dentistry", "cancer", "gout", "fever", "travel")
RECORDS: tuple[Record, ...] = (
    paper(
        "pre", "Aspirin and acute liver injury in adults (preprint)", authors=["Smith, Ann"], year=2020, abstract="Aspirin harms livers."
    ),
    paper("pub", "Aspirin and acute liver injury in adults: a cohort study", authors=["Smith, Ann"], year=2021, abstract="Aspirin harms."),
    *(paper(f"w{at}", f"Aspirin in {one}", abstract=f"Aspirin, {one}, liver. At {at} doses.") for at, one in enumerate(TOPICS)),
    *(Repository(doc_id=f"o/{name}", title=name, description="Aspirin and liver, doses", stars=900) for name in ("dose", "pill")),
)
QUERY = "aspirin liver injury"
PATIENT_S = 600.0
"""A machine under load changes nothing in the answer."""


def services(case: dict[str, Any]) -> Services:
    folder = Path(case["folder"])
    sources = world_settings(case["world"], folder / "cache", timeout_s=PATIENT_S).sources
    llm = LlmSettings(
        model="scripted", base_url=case["chat"], api_key=SecretStr("sk-secret"), prices={"scripted": "1/10"}, timeout_s=PATIENT_S
    )
    settings = Settings(
        sources=sources,
        llm=llm,
        run=RunSettings(run_timeout_s=PATIENT_S),
        enrich=EnrichSettings(time_s=PATIENT_S, idle_s=PATIENT_S),
        threads=ThreadSettings(uri=case["uri"]),
        cache={"folder": str(folder)},
    )
    shelf = Shelf(list(RECORDS))
    mine = tuple(one for one in make_sources(settings, shelf) if one.name in {"openalex", "arxiv"})
    return Services(settings, shelf=shelf, sources=(shelf, *mine), reranker=no_reranker)


def killed_after(answers: int) -> None:
    """As soon as so many answers of the model are written down."""
    keep, remaining = ThreadLedger.keep_answer, iter(range(answers - 1))

    async def keep_and_count(self: ThreadLedger, *args: Any) -> None:
        await keep(self, *args)
        if next(remaining, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    ThreadLedger.keep_answer = keep_and_count  # type: ignore[method-assign]


def killed_at(event: list[str]) -> None:
    """Where a node writes this event: whoever reads it may be late, and requests that are under way by then have no answer to keep."""
    get_runtime = guard.get_runtime

    def watch(schema: type[Any]) -> Any:
        runtime = get_runtime(schema)

        def write(part: dict[str, Any]) -> None:
            if [part["node"], part["event"]] == event:
                os.kill(os.getpid(), signal.SIGKILL)
            runtime.stream_writer(part)

        return replace(runtime, stream_writer=write)

    guard.get_runtime = watch


async def run(case: dict[str, Any]) -> None:
    if answers := case.get("kill_after_answers"):
        killed_after(answers)
    if event := case.get("kill_at"):
        killed_at(event)
    async with open_threads(services(case)) as threads:
        request = {"query": QUERY, "top_k": 5, **case.get("request", {})}
        parts = threads.resume("one") if case.get("resume") else threads.search("one", request)
        if case.get("answer"):
            response = (await collect_response(parts)).model_dump_json()
            Path(case["answer"]).write_text(response, encoding="utf-8")  # noqa: ASYNC240 - this loop has no other task
            return
        async for _ in parts:
            pass


def main() -> None:
    outrider.models.chat.transport._make_http_client.cache_clear()
    from langchain_openai import ChatOpenAI

    assert ChatOpenAI
    for line in sys.stdin:
        case = json.loads(line)
        child = os.fork()
        if not child:
            asyncio.run(run(case))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
