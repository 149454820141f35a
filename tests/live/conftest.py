"""What the live suite notes: shapes now in `build/live/`, and at the end what is other than in `tests/live/shapes/`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from live.shapes import difference, keep, kept

KEPT = Path(__file__).parent / "shapes"
NOW = Path(__file__).parents[2] / "build" / "live"
CHANGES = pytest.StashKey[dict[str, str]]()


@pytest.fixture
def noted(pytestconfig: pytest.Config) -> Callable[[str, frozenset[str]], None]:
    changes = pytestconfig.stash.setdefault(CHANGES, {})

    def note(name: str, shape: frozenset[str]) -> None:
        keep(shape, NOW / f"{name}.txt")
        before = kept(KEPT / f"{name}.txt")
        changes[name] = "no shape is kept yet" if before is None else str(difference(before, shape)) or "as it was"

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    changes = config.stash.get(CHANGES, {})
    if changes:
        terminalreporter.section(f"shapes of answers, in {NOW}; to keep one, copy it to {KEPT}")
    for name, change in changes.items():
        terminalreporter.write_line(f"{name}: {change}" if "\n" not in change and change[0] not in "+-" else f"{name}:\n{change}")
