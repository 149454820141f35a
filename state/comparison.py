"""Types of a comparison: request and answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, JsonValue, ValidationError, field_validator

from outrider.state.analysis import MAX_QUESTION_CHARS, MAX_TARGET_CHARS, Rating
from outrider.state.errors import BadRequest, explain_wrong_fields
from outrider.state.model import Model
from outrider.state.notices import Notice
from outrider.state.records import Kind, WebLink
from outrider.state.response import ContextUnit, Failure, Usage

MIN_WORKS, MAX_WORKS = 2, 4


class CompareRequest(Model):
    """Two to four works of one kind, and a question."""

    targets: tuple[str, ...] = Field(
        min_length=MIN_WORKS,
        max_length=MAX_WORKS,
        description="Two to four repositories (owner/name) or papers (a DOI, arxiv:..., pmid:...), all of one kind.",
    )
    question: str = Field("", max_length=MAX_QUESTION_CHARS, description="The question that all are judged against.")
    fresh: bool = Field(False, description="Ignore cached analyses.")

    @field_validator("targets")
    @classmethod
    def strip_targets(cls, targets: tuple[str, ...]) -> tuple[str, ...]:
        stripped = tuple(target.strip() for target in targets)
        if any(not target or not target.isprintable() or len(target) > MAX_TARGET_CHARS for target in stripped):
            raise ValueError("names nothing: write owner/name, a DOI, arxiv:2101.00001 or pmid:123")
        return stripped


class ComparedWork(Model):
    """One of the works, as its analysis describes it."""

    key: str = Field(description="`[1]`, `[2]`, ...: the column of the tables.")
    target: str
    doc_id: str
    title: str
    url: WebLink = None
    description: str = ""
    retraction: str = ""
    notices: tuple[Notice, ...] = ()
    full_text: str = Field("", description="Source of the text that was read, or why there is none.")
    text_chars: int = Field(0, description="Characters of the text that was compared. In a short text, absence says little.")
    relevance: float | None = Field(None, description="How well it answers the question, 0 to 1, if a model judged.")
    evidence: tuple[ContextUnit, ...] = Field((), description="The sentences of its text that answer the question, verbatim.")
    age_s: float | None = Field(None, description="Age of its analysis, if that comes from the cache.")


class FactRow(Model):
    """A fact of each work, in the order of `works`."""

    name: str
    values: tuple[JsonValue, ...] = Field(description="null where no source says it.")


class DimensionRow(Model):
    """One dimension of each repository, in the order of `works`."""

    dimension: str
    ratings: tuple[Rating | None, ...]


class Quote(Model):
    """`text == original_text[start:end]` of the work."""

    start: int
    end: int
    text: str


class Difference(Model):
    """What one work says of itself and the texts of the others do not mention. That a text does not mention something does not mean
    that the work lacks it.
    """

    key: str = Field(description="The work, `[1]`, ...")
    doc_id: str
    statement: str = Field("", description="A model's sentence about the quotes, checked against them; empty without a model.")
    quotes: tuple[Quote, ...] = Field(min_length=1)
    unmentioned: tuple[str, ...] = Field(description="Words of the quotes that no other of the compared texts has, also in another form.")
    by: Literal["rules", "model"] = "rules"


class Comparison(Model):
    """The answer."""

    question: str = ""
    kind: Kind
    works: tuple[ComparedWork, ...]
    facts: tuple[FactRow, ...] = ()
    dimensions: tuple[DimensionRow, ...] = Field((), description="The six dimensions of repositories; none for papers.")
    differences: tuple[Difference, ...] = Field((), description="Of each work in the order of `works`, the most telling first.")
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = Field((), description="Omissions and their reasons.")
    usage: Usage = Usage()
    execution_time_ms: float = 0.0


def check_compare_request(request: Mapping[str, Any] | CompareRequest) -> CompareRequest:
    """Validate a request; `BadRequest` names every wrong field."""
    try:
        return CompareRequest.model_validate(request)
    except ValidationError as error:
        raise BadRequest(explain_wrong_fields(error.errors(), CompareRequest.model_fields)) from error
