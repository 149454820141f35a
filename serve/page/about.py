"""What the page needs to know of the server before anything is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from outrider.graph.pipeline import DESCRIPTIONS
from outrider.ingest.export import FORMATS
from outrider.services.systematic import FORMATS as RUN_FORMATS
from outrider.services.systematic import world_of
from outrider.state.model import Model
from outrider.state.records import LIBRARY
from outrider.state.request import SearchMode
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.services import Services


class Step(Model):
    name: str
    about: str


class About(Model):
    version: str
    model: str = Field(description="The chat model, or why there is none.")
    sources: tuple[str, ...]
    exact_sources: tuple[str, ...] = Field(description="Those that a systematic run can ask.")
    search_modes: tuple[str, ...]
    steps: tuple[Step, ...] = Field(description="Of a ranked search, in the order in which they run.")
    formats: tuple[str, ...]
    run_formats: tuple[str, ...] = Field(description="Of the hits of a systematic run.")


def about(services: Services) -> About:
    return About(
        version=__version__,
        model=services.chat_says,
        sources=services.source_names,
        exact_sources=(LIBRARY, *world_of(services)),
        search_modes=tuple(SearchMode),
        steps=tuple(Step(name=name, about=said) for name, said in DESCRIPTIONS.items() if name != "systematic"),
        formats=tuple(FORMATS),
        run_formats=tuple(RUN_FORMATS.values()),
    )
