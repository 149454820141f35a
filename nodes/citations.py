"""The node `citations`: the works of its targets, and the graph around them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from outrider.citations.build_graph import GraphBuilder, Seed
from outrider.state.citations import CitationsState, CitationsUpdate
from outrider.state.errors import SearchError
from outrider.state.jobs import JobSteps
from outrider.state.response import Failure

NODE = "citations"
FindSeeds = Callable[[Sequence[str]], Awaitable[tuple[tuple[Seed, ...], tuple[str, ...]]]]
"""The works of targets, and the targets that name none."""
MakeBuilder = Callable[[CitationsState, JobSteps], Awaitable[GraphBuilder]]


@dataclass(frozen=True, slots=True)
class Citations:
    """Reads targets, directions, budget; writes missing, report, failures."""

    find_seeds: FindSeeds
    make_builder: MakeBuilder

    async def __call__(self, state: CitationsState, steps: JobSteps) -> CitationsUpdate:
        try:
            return await self.build(state, steps)
        except SearchError as error:
            return {"failures": (Failure(node=NODE, error=type(error).__name__, message=str(error)),)}

    async def build(self, state: CitationsState, steps: JobSteps) -> CitationsUpdate:
        """The same; raises `SearchError` where nothing can be read or written."""
        seeds, missing = await find_once(self.find_seeds, state.targets, steps)
        report = await (await self.make_builder(state, steps)).build(seeds)
        return {"missing": missing, "report": report}


async def find_once(find: FindSeeds, targets: Sequence[str], steps: JobSteps) -> tuple[tuple[Seed, ...], tuple[str, ...]]:
    """The works of targets as a step: a job that continues asks for the same ones, whatever has come into the library meanwhile."""

    async def look() -> JsonValue:
        seeds, missing = await find(targets)
        return {"seeds": [seed.to_json() for seed in seeds], "missing": [*missing]}

    answer: Any = await steps.step("works of the targets", look)
    return tuple(Seed.from_json(seed) for seed in answer["seeds"]), tuple(answer["missing"])
