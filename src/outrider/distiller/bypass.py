"""When distilling is not worth it: the texts are short already, or what it leaves out is worth less than the time it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.state.distilling import KeptUnit, Reading

SHARE_LEFT_OUT = 0.3
"""Of the text, by an engine that nobody has calibrated."""


@dataclass(frozen=True, slots=True)
class Worth:
    """`units_a_second` is a rate that the engine is known to reach, not one just measured: the same texts are treated alike."""

    short_tokens: int = 100
    token_ms: float = 5.0
    """Milliseconds that one token less is worth; 0 for any time."""
    units_a_second: float = float("inf")
    left_out: float = SHARE_LEFT_OUT


def why_bypass(tokens: int, units: int, worth: Worth) -> str:
    """Why the texts had better pass as they are; empty where they had not."""
    if tokens <= worth.short_tokens:
        return (
            f"the texts are short already: {tokens:,} tokens, and up to {worth.short_tokens:,} pass as they are (distiller.bypass_tokens)"
        )
    saved = tokens * worth.left_out
    takes_s, worth_s = units / worth.units_a_second, saved * worth.token_ms / 1000
    if worth.token_ms and takes_s > worth_s:
        return (
            f"about {takes_s:.2g} s to leave out about {saved:,.0f} of {tokens:,} tokens, which are worth {worth_s:.2g} s "
            "(distiller.token_ms); bypass=False distils all the same"
        )
    return ""


def passed(readings: Sequence[Reading]) -> tuple[KeptUnit, ...]:
    """Each text whole, without white space around it."""
    return tuple(unit for one in readings for unit in _whole(one))


def _whole(one: Reading) -> list[KeptUnit]:
    said = one.text.strip()
    start = len(one.text) - len(one.text.lstrip())
    return [KeptUnit(one.doc_id, start, start + len(said), said, 1.0, "text", "passed", one.key)] if said else []
