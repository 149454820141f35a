"""Reports of unexpected errors to a tracker that speaks Sentry's protocol (`errors.dsn`).

A report holds the kinds of an error and its causes, the functions and lines that raised it, the release, the environment, the machine,
the node and the run. It holds no values of variables, no command line, no request and, unless `errors.messages` asks for them, no
messages: they may contain the query. Messages are sent without secrets. Errors that a user can correct (`SearchError`) are not reported.

Reports are made and sent by a thread, which imports `sentry_sdk` with the first one. Nothing waits for the tracker, except the end of the
process, `FLUSH_S` at most. Protocol: https://develop.sentry.dev/sdk/.
"""

from __future__ import annotations

import atexit
import logging
import queue
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from outrider.runtime.spans import RUN, find_place
from outrider.settings.redact import Redactor
from outrider.state.errors import MissingExtra, SearchError, explain_limit
from outrider.text.sanitize import OFFLINE, is_loopback
from outrider.version import __version__

if TYPE_CHECKING:
    from sentry_sdk import Client

    from outrider.settings.model import Settings

log = logging.getLogger(__name__)

PACKAGE = "outrider"
SERVER_LOGGERS = ("asyncio", "uvicorn.error")
"""Loggers of a server for errors that nobody waits for."""
MOST_WAITING = 100
"""Reports; further ones are dropped, as an error that repeats tells nothing new."""
FLUSH_S = 2.0
"""Limit on the wait for reports at the end of a process."""
EVENT_FIELDS = ("event_id", "timestamp", "level", "platform", "release", "environment", "server_name", "sdk", "tags")
FRAME_FIELDS = ("function", "module", "lineno", "in_app")
MECHANISM_FIELDS = ("type", "handled", "exception_id", "parent_id", "is_exception_group", "source")
REPORTED = "_outrider_reported"
"""Attribute of an error that was reported: several loggers may name it on its way."""


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """An error where it was met, before it is written for the tracker."""

    error: BaseException
    run: str
    node: str
    where: str
    """The logger that named it, or `command`."""


class ErrorTracker(logging.Handler):
    """Reports what is logged as an error with its exception."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(logging.ERROR)
        self._dsn = settings.errors.dsn.get_secret_value()
        self._environment = settings.errors.environment
        self._redactor = Redactor.from_settings(settings) if settings.errors.messages else None
        self._reports: queue.Queue[ErrorReport] = queue.Queue(MOST_WAITING)
        self._client: Client | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and (error := record.exc_info[1]) is not None:
            self.report(error, record.name)

    def report(self, error: BaseException, where: str) -> None:
        """Queue a report, unless the error is expected or was reported. Returns at once and raises nothing."""
        if is_expected(error) or getattr(error, REPORTED, False):
            return
        with suppress(AttributeError, TypeError):  # an error whose class has no room for it may be reported twice
            setattr(error, REPORTED, True)
        run, node = find_place(error)
        with suppress(queue.Full):
            self._reports.put_nowait(ErrorReport(error, run or RUN.get(), node, where))
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._send, name="error-reports", daemon=True)
                self._thread.start()

    def flush(self, timeout_s: float = FLUSH_S) -> None:
        """Wait until all reports are sent, as long as the limit allows."""
        deadline = time.monotonic() + timeout_s
        with self._reports.all_tasks_done:
            while self._reports.unfinished_tasks and (left := deadline - time.monotonic()) > 0:
                self._reports.all_tasks_done.wait(left)
        if self._client is not None:
            self._client.flush(timeout=max(deadline - time.monotonic(), 0.0))

    def _send(self) -> None:
        while True:
            report = self._reports.get()
            try:
                self._write(report)
            except Exception as error:  # noqa: BLE001 - a report that fails is worth a line, not another error
                log.warning("an error could not be reported: %s", type(error).__name__)
            finally:
                del report  # its traceback holds the variables of the failed call
                self._reports.task_done()

    def _write(self, report: ErrorReport) -> None:
        from sentry_sdk.utils import event_from_exception

        if self._client is None:
            self._client = self._make_client()
        event, _ = event_from_exception(report.error, self._client.options)
        given = {"run": report.run, "node": report.node, "where": report.where}
        tags = {name: value for name, value in given.items() if value}
        self._client.capture_event({**event, "tags": tags})

    def _make_client(self) -> Client:
        """A client of our own: one that the surrounding program has set up stays as it is."""
        import sentry_sdk

        proxies: dict[str, Any] = {"http_proxy": "", "https_proxy": ""} if is_loopback(self._dsn) else {}
        return sentry_sdk.Client(
            dsn=self._dsn,
            release=f"outrider@{__version__}",
            environment=self._environment,
            default_integrations=False,
            auto_enabling_integrations=False,
            include_local_variables=False,
            include_source_context=False,
            send_client_reports=False,
            max_breadcrumbs=0,
            shutdown_timeout=FLUSH_S,
            before_send=lambda event, _: self._select(event),
            **proxies,
        )

    def _select(self, event: Mapping[str, Any]) -> Any:
        """Only what the report is meant to hold, whatever the client adds."""
        values = (event.get("exception") or {}).get("values") or []
        return {name: event[name] for name in EVENT_FIELDS if name in event} | {
            "exception": {"values": [self._select_exception(value) for value in values]}
        }

    def _select_exception(self, value: Mapping[str, Any]) -> dict[str, Any]:
        selected: dict[str, Any] = {"type": value.get("type"), "module": value.get("module")}
        if self._redactor is not None:
            selected["value"] = self._redactor.redact(str(value.get("value") or ""))
        if mechanism := value.get("mechanism"):
            selected["mechanism"] = {name: mechanism[name] for name in MECHANISM_FIELDS if name in mechanism}
        frames = (value.get("stacktrace") or {}).get("frames") or []
        selected["stacktrace"] = {
            "frames": [
                # the folders of an absolute path may name the user
                {name: frame[name] for name in FRAME_FIELDS if name in frame} | {"filename": _shorten_path(frame.get("filename") or "")}
                for frame in frames
            ]
        }
        return selected


def _shorten_path(path: str) -> str:
    return PurePath(path).name if PurePath(path).is_absolute() else path


def is_expected(error: BaseException) -> bool:
    """Whether a user can correct it, or has asked for it."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_expected, error.exceptions))
    return isinstance(error, SearchError) or not isinstance(error, Exception) or bool(isinstance(error, OSError) and explain_limit(error))


_installed: list[tuple[str, ErrorTracker]] = []


def start(settings: Settings, *, loggers: tuple[str, ...] = ()) -> None:
    """Report errors of this process from now on, if the settings name a tracker. Raises `MissingExtra`.

    `loggers` are watched besides Outrider's own.
    """
    if not (dsn := find_dsn(settings)):
        return
    if find_spec("sentry_sdk") is None:
        raise MissingExtra("errors", "errors")
    if not _installed or _installed[0][0] != dsn:
        stop()
        _installed.append((dsn, ErrorTracker(settings)))
        atexit.register(stop)
    tracker = _installed[0][1]
    for name in (PACKAGE, *loggers):
        logging.getLogger(name).addHandler(tracker)


def stop(timeout_s: float = FLUSH_S) -> None:
    """Send what waits, and report no more."""
    for _, tracker in _installed:
        for name in (PACKAGE, *SERVER_LOGGERS):
            logging.getLogger(name).removeHandler(tracker)
        tracker.flush(timeout_s)
    _installed.clear()


def find_dsn(settings: Settings) -> str:
    """The tracker's address, empty where none is named or may be contacted."""
    dsn = settings.errors.dsn.get_secret_value()
    if dsn and settings.sources.offline and not is_loopback(dsn):
        log.warning("no errors are reported: the tracker is not on this machine, %s", OFFLINE)
        return ""
    return dsn


def report_crash(error: Exception) -> None:
    """Report the error that ends a command. The settings are read for it; errors in them are not reported."""
    from outrider.settings.load import load

    with suppress(SearchError):
        settings = load().settings
        start(settings)
    for _, tracker in _installed:
        tracker.report(error, "command")
    stop()
