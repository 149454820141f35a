"""Logs as lines of JSON on standard error, each with the run it belongs to and without what is secret: `--verbose`."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from outrider.runtime.tracing import RUN
from outrider.text.sanitize import without_control

if TYPE_CHECKING:
    from outrider.settings.redact import Redactor

OURS = "outrider"
GIVEN = "said"
"""The attribute of a record that holds its fields."""


class Structured(logging.Formatter):
    """`{"time", "level", "logger", "run", "message", ...}`; what a record says beside its message are fields."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        said = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "run": RUN.get(),
            "message": " ".join(record.getMessage().split()),
            **getattr(record, GIVEN, {}),
        }
        if record.exc_info and record.exc_info[0]:
            said["error"] = self.formatException(record.exc_info)
        return without_control(self._redactor.redact(json.dumps(said, ensure_ascii=False, default=str)))


def verbose(redactor: Redactor) -> None:
    """From now on what Outrider does is told on standard error; other libraries' warnings are, too."""
    handler = logging.StreamHandler()
    handler.setFormatter(Structured(redactor))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(OURS).setLevel(logging.INFO)
