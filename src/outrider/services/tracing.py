"""OpenTelemetry traces over OTLP and HTTP, if `tracing.endpoint` names a collector.

There is one span a node and a call. Attributes are names, numbers and addresses; queries and texts of works are not traced. Secrets of the
settings are redacted in all of them. The exporter is OpenTelemetry's own: https://opentelemetry.io/docs/languages/python/exporters/.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from outrider.runtime import spans
from outrider.runtime.spans import Value
from outrider.settings.redact import Redactor
from outrider.state.errors import MissingExtra, SettingsError
from outrider.text.sanitize import OFFLINE, is_loopback, without_password

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

    from outrider.settings.model import Settings

log = logging.getLogger(__name__)

EXPORT_S = 3.0
"""Limit on an export: the end of a command waits for it."""


@dataclass(frozen=True, slots=True)
class OpenTelemetry:
    provider: TracerProvider
    redactor: Redactor

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, Value]) -> Iterator[None]:
        """Records the kind of an error only: its message may contain the query."""
        open_span = self.begin(name, attributes)
        try:
            with open_span.within():
                yield
        except BaseException as error:
            open_span.end(error)
            raise
        open_span.end()

    def begin(self, name: str, attributes: Mapping[str, Value]) -> TracedSpan:
        redacted: dict[str, Any] = {
            key: self.redactor.redact(value) if isinstance(value, str) else value for key, value in attributes.items()
        }
        return TracedSpan(self.provider.get_tracer("outrider").start_span(name, attributes=redacted))


@dataclass(frozen=True, slots=True)
class TracedSpan:
    """A span of OpenTelemetry, below the span that was current when it began."""

    span: Span

    @contextmanager
    def within(self) -> Iterator[None]:
        from opentelemetry.trace import use_span

        with use_span(self.span, record_exception=False, set_status_on_exception=False):
            yield

    def end(self, error: BaseException | None = None) -> None:
        from opentelemetry.trace import StatusCode

        if error is not None:
            self.span.set_attribute("error.type", type(error).__name__)
            self.span.set_status(StatusCode.ERROR)
        self.span.end()


def start_tracing(settings: Settings) -> None:
    """Install the tracer of the settings, if they name a collector. Raises `MissingExtra`, `SettingsError`."""
    endpoint = settings.tracing.endpoint
    if endpoint and settings.sources.offline and not is_loopback(endpoint):
        spans.install(None)  # the settings of the process may have installed one, when the graphs were imported
        log.warning("no traces are exported: the collector at %s is not on this machine, %s", without_password(endpoint), OFFLINE)
    elif endpoint:
        spans.install(OpenTelemetry(_open_provider(endpoint), Redactor.from_settings(settings)))


@contextmanager
def keep_traces_local(settings: Settings) -> Iterator[None]:
    """Within, LangChain sends no trace to LangSmith if the process is offline, whatever its environment asks for."""
    if not settings.sources.offline:
        yield
        return
    from langsmith import tracing_context

    with tracing_context(enabled=False):
        yield


def make_provider(exporter: SpanExporter, *, at_once: bool = False) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "outrider"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter) if at_once else BatchSpanProcessor(exporter))
    return provider


@cache
def _open_provider(endpoint: str) -> TracerProvider:
    """One for a process; it is flushed when the process ends."""
    if not endpoint.startswith(("http://", "https://")):
        raise SettingsError(f"tracing.endpoint takes an address such as http://localhost:4318/v1/traces, not {endpoint[:40]!r}")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise MissingExtra("tracing", "tracing") from error
    session = None
    if is_loopback(endpoint):  # a proxy of the environment would send the spans elsewhere
        import requests  # the exporter depends on it

        session = requests.Session()
        session.trust_env = False
    return make_provider(OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_S, session=session))
