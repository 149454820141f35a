"""Report of the live suite: current shapes in `build/live/`, and their differences from `tests/live/shapes/`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from live.shapes import difference, read_shape, write_shape

STORED = Path(__file__).parent / "shapes"
NOW = Path(__file__).parents[2] / "build" / "live"
CHANGES = pytest.StashKey[dict[str, str]]()


@pytest.fixture
def note_shape(pytestconfig: pytest.Config) -> Callable[[str, frozenset[str]], None]:
    changes = pytestconfig.stash.setdefault(CHANGES, {})

    def note(name: str, shape: frozenset[str]) -> None:
        write_shape(shape, NOW / f"{name}.txt")
        before = read_shape(STORED / f"{name}.txt")
        changes[name] = "no shape is stored yet" if before is None else str(difference(before, shape)) or "unchanged"

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    changes = config.stash.get(CHANGES, {})
    if changes:
        terminalreporter.section(f"shapes of answers, in {NOW}; to store one, copy it to {STORED}")
    for name, change in changes.items():
        terminalreporter.write_line(f"{name}: {change}" if "\n" not in change and change[0] not in "+-" else f"{name}:\n{change}")
