"""`python -m bench identity`; `python -m bench.identity.fitting` fits the weights again."""

from __future__ import annotations

from bench.report import Report


def run(records: int = 100_000) -> Report:
    from bench.identity.measuring import run as measured

    return measured(records)
