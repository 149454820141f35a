"""Logs for `--verbose` and for the server: lines of JSON on standard error, without secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from outrider.runtime.spans import RUN
from outrider.text.sanitize import without_control

if TYPE_CHECKING:
    from outrider.settings.redact import Redactor

PACKAGE = "outrider"
ACCESS = "outrider.access"
"""Logger of the server's requests."""
FIELDS_ATTRIBUTE = "log_fields"
"""Attribute of a log record with its fields."""


class JsonFormatter(logging.Formatter):
    """`{"time", "level", "logger", "run", "message", ...}`, with further fields of the record."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "run": RUN.get(),
            "message": " ".join(record.getMessage().split()),
            **getattr(record, FIELDS_ATTRIBUTE, {}),
        }
        if record.exc_info and record.exc_info[0]:
            fields["error"] = self.formatException(record.exc_info)
        return without_control(json.dumps(self._redact(fields), ensure_ascii=False))

    def _redact(self, value: Any) -> Any:
        """Redacted before it is written as JSON: a secret may look like a part of JSON, or be escaped in it."""
        if isinstance(value, Mapping):
            return {self._redactor.redact(str(name)): self._redact(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._redact(inner) for inner in value]
        text = str(value)
        redacted = self._redactor.redact(text)
        return value if redacted == text and (value is None or isinstance(value, bool | int | float)) else redacted


def log_server(redactor: Redactor) -> None:
    """Log a server's requests and warnings; with `--verbose` also each step."""
    if not any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers):
        log_to_stderr(redactor, logging.WARNING)
    logging.getLogger(ACCESS).setLevel(logging.INFO)


def log_to_stderr(redactor: Redactor, level: int = logging.INFO) -> None:
    """Log what Outrider does to standard error from now on, and other libraries' warnings."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(redactor))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(PACKAGE).setLevel(level)
