"""Earlier rounds of a search, as a caller or a thread hands them back: the next round looks elsewhere.

A strategy names the rounds before it, so that handing back the last answer's strategy hands back all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from outrider.state.model import Model

MAX_ROUNDS = 20
"""Earlier rounds that are remembered; of more, the last ones."""
MAX_EARLIER_CHARS = 1_000
"""Characters of an earlier query that are kept and compared."""
MAX_FEEDBACK_CHARS = 2_000


def _cut(text: object) -> object:
    return text[:MAX_EARLIER_CHARS] if isinstance(text, str) else text


class EarlierQuery(Model):
    """What was searched; whatever else a planned query says is left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    text: Annotated[str, BeforeValidator(_cut)]
    boolean_query: Annotated[str, BeforeValidator(_cut)] = ""


class EarlierStrategy(Model):
    model_config = ConfigDict(frozen=True, extra="ignore")

    queries: tuple[EarlierQuery, ...] = Field(max_length=20)
    user_feedback: str = Field("", max_length=MAX_FEEDBACK_CHARS, description="What the caller had said before that round.")


def parse_rounds(given: object) -> tuple[EarlierStrategy, ...]:
    """The rounds that strategies and the strategies before them tell of, oldest first, each once, at most `MAX_ROUNDS`.

    A `ValueError` says which one cannot be read.
    """
    if given is None:
        return ()
    if isinstance(given, str | Mapping | BaseModel) or not isinstance(given, Iterable):
        raise ValueError("takes a list of strategies, as answers hold them under `strategy`")  # noqa: TRY004  (pydantic wants this one)
    strategies = list(given)
    if len(strategies) > MAX_ROUNDS:
        raise ValueError(f"holds {len(strategies):,} strategies; at most {MAX_ROUNDS} are read")
    told = [one for place, strategy in enumerate(strategies, start=1) for one in _told(strategy, place)]
    return tuple(dict.fromkeys(told))[-MAX_ROUNDS:]


def _told(strategy: object, place: int) -> list[EarlierStrategy]:
    """The rounds before a strategy, as it tells them, and its own."""
    plain: Any = strategy.model_dump(mode="json") if isinstance(strategy, BaseModel) else strategy
    before = plain.get("earlier") if isinstance(plain, Mapping) else None
    try:
        return [EarlierStrategy.model_validate(one) for one in (*(before or ())[-MAX_ROUNDS:], plain)]
    except (ValidationError, TypeError) as error:
        raise ValueError(f"strategy {place} is none: it takes an object with `queries`, each with a `text`") from error


Rounds = Annotated[tuple[EarlierStrategy, ...], BeforeValidator(parse_rounds)]
