"""`python -m bench identity`; the weights are fitted anew by `python -m bench.identity.fitting`."""

from __future__ import annotations

from bench.report import Report


def run(records: int = 100_000) -> Report:
    from bench.identity.measuring import run as measured

    return measured(records)
