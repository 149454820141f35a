"""The node `citations`: the works of its targets, and the graph around them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

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
            seeds, missing = await self.find_seeds(state.targets)
            report = await (await self.make_builder(state, steps)).build(seeds)
        except SearchError as error:
            return {"failures": (Failure(node=NODE, error=type(error).__name__, message=str(error)),)}
        return {"missing": missing, "report": report}
