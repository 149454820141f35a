"""What a search is expected to take, before it runs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from outrider.state.intent import SearchStrategy
from outrider.state.model import Model

EstimatedQuantity = Literal["seconds", "calls", "cost_usd", "hits", "recall"]


class Estimate(Model):
    """An 80 % interval of one quantity; of equal ends where it is known."""

    quantity: EstimatedQuantity
    of: str = Field("", description="A source, a service or `model`; empty for the whole run.")
    low: float
    expected: float
    high: float
    exact: bool = Field(False, description="Known, not estimated.")
    basis: str = Field(description="What it rests on, such as the number of earlier runs.")


class Unknown(Model):
    """A quantity that cannot be estimated, and the reason."""

    quantity: EstimatedQuantity
    why: str


class SearchPlan(Model):
    """The plan of a search and what it is expected to take. No service and no model was asked for it."""

    query: str | dict[str, str]
    mode: str
    strategy: SearchStrategy | None = Field(None, description="The searches by rules, or a model's cached plan; None in systematic mode.")
    sources: tuple[str, ...] = Field(description="Sources that would be searched.")
    estimates: tuple[Estimate, ...]
    unknown: tuple[Unknown, ...] = ()
    runs: int = Field(description="Earlier runs of this installation that the estimates rest on.")

    def find(self, quantity: EstimatedQuantity, of: str = "") -> Estimate | None:
        return next((one for one in self.estimates if (one.quantity, one.of) == (quantity, of)), None)
