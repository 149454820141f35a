"""Earlier rounds of a search; the next round runs other queries.

A strategy contains the rounds before it, so that the last answer's strategy is enough to pass in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from outrider.state.model import Model

MAX_ROUNDS = 20
"""Number of earlier rounds in use, the last ones."""
MAX_EARLIER_CHARS = 1_000
"""Characters of an earlier query that are stored and compared."""
MAX_FEEDBACK_CHARS = 2_000


def _cut(text: object) -> object:
    """At most so many characters, without lone surrogates."""
    return text[:MAX_EARLIER_CHARS].encode(errors="replace").decode() if isinstance(text, str) else text


class EarlierQuery(Model):
    """The texts of an earlier query; other fields of a planned query are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    text: Annotated[str, BeforeValidator(_cut)]
    boolean_query: Annotated[str, BeforeValidator(_cut)] = ""


class EarlierStrategy(Model):
    model_config = ConfigDict(frozen=True, extra="ignore")

    queries: tuple[EarlierQuery, ...] = Field(max_length=20)
    user_feedback: str = Field("", max_length=MAX_FEEDBACK_CHARS, description="The caller's feedback before that round.")


def parse_rounds(value: object) -> tuple[EarlierStrategy, ...]:
    """The rounds of these strategies and of those before them, oldest first, each once, at most `MAX_ROUNDS`.

    A `ValueError` names the strategy that cannot be read.
    """
    if value is None:
        return ()
    if isinstance(value, str | Mapping | BaseModel) or not isinstance(value, Iterable):
        raise ValueError("takes a list of strategies, as answers hold them under `strategy`")  # noqa: TRY004  (pydantic wants this one)
    strategies = list(value)
    if len(strategies) > MAX_ROUNDS:
        raise ValueError(f"holds {len(strategies):,} strategies; at most {MAX_ROUNDS} are read")
    rounds: list[EarlierStrategy] = []
    for place, strategy in enumerate(strategies, start=1):
        plain: Any = strategy.model_dump(mode="json") if isinstance(strategy, BaseModel) else strategy
        before = plain.get("earlier") if isinstance(plain, Mapping) else None
        try:
            rounds += [EarlierStrategy.model_validate(earlier) for earlier in (*(before or ())[-MAX_ROUNDS:], plain)]
        except (ValidationError, TypeError) as error:
            raise ValueError(f"strategy {place} is not a strategy: it takes an object with `queries`, each with a `text`") from error
    return tuple(dict.fromkeys(rounds))[-MAX_ROUNDS:]


Rounds = Annotated[tuple[EarlierStrategy, ...], BeforeValidator(parse_rounds)]
