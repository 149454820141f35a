"""OpenTelemetry traces, where `tracing.endpoint` names a collector: one span a node and a call, over OTLP and HTTP.

Attributes are names, numbers and addresses; queries and texts of works are not traced. What is secret in the settings is hidden in all
of them. The exporter is OpenTelemetry's own: https://opentelemetry.io/docs/languages/python/exporters/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from outrider.runtime import tracing
from outrider.runtime.tracing import Value
from outrider.settings.redact import Redactor
from outrider.state.errors import MissingExtra, SettingsError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

    from outrider.settings.model import Settings

EXPORT_S = 3.0
"""What a collector may take: the end of a command waits for it."""


@dataclass(frozen=True, slots=True)
class OpenTelemetry:
    provider: TracerProvider
    redactor: Redactor

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, Value]) -> Iterator[None]:
        """An error's kind is told; its words may hold what was asked."""
        from opentelemetry.trace import StatusCode

        tracer = self.provider.get_tracer("outrider")
        shown: dict[str, Any] = {key: self.redactor.redact(one) if isinstance(one, str) else one for key, one in attributes.items()}
        with tracer.start_as_current_span(name, attributes=shown, record_exception=False, set_status_on_exception=False) as made:
            try:
                yield
            except BaseException as error:
                made.set_attribute("error.type", type(error).__name__)
                made.set_status(StatusCode.ERROR)
                raise


def begin(settings: Settings) -> None:
    """Installs the tracer of the settings; nothing where they name no collector. Raises `MissingExtra`, `SettingsError`."""
    if settings.tracing.endpoint:
        tracing.install(OpenTelemetry(_provider(settings.tracing.endpoint), Redactor.from_settings(settings)))


def provider_of(exporter: SpanExporter, *, at_once: bool = False) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

    made = TracerProvider(resource=Resource.create({"service.name": "outrider"}))
    made.add_span_processor(SimpleSpanProcessor(exporter) if at_once else BatchSpanProcessor(exporter))
    return made


@cache
def _provider(endpoint: str) -> TracerProvider:
    """One for a process; it is flushed when the process ends."""
    if not endpoint.startswith(("http://", "https://")):
        raise SettingsError(f"tracing.endpoint takes an address such as http://localhost:4318/v1/traces, not {endpoint[:40]!r}")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise MissingExtra("tracing", "tracing") from error
    return provider_of(OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_S))
