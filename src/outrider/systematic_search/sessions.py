"""When a run was begun and gone on with: a file beside its ledger, which holds no time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

NAME = "sessions.jsonl"


def noted(folder: Path, event: str, at: str, seconds: Mapping[str, float]) -> None:
    """`seconds` are those of this session, by source."""
    with (folder / NAME).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"event": event, "at": at, "seconds": seconds}) + "\n")


def read(folder: Path) -> tuple[str, dict[str, float], int]:
    """When the run began, the seconds of the sessions that ended by themselves, and how often it was begun or gone on with."""
    said = [json.loads(line) for line in (folder / NAME).read_text(encoding="utf-8").splitlines()]
    seconds: dict[str, float] = {}
    for one in said:
        if one["event"] == "broke off":
            for name, taken in one["seconds"].items():
                seconds[name] = seconds.get(name, 0.0) + taken
    return said[0]["at"], seconds, sum(one["event"] in ("begun", "resumed") for one in said)


def moment(seconds: float) -> str:
    """Of the clock's seconds, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
