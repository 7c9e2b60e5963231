"""The one place that speaks OpenTelemetry."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

log = logging.getLogger(__name__)

#: How long the end of a job waits for a collector that does not answer.
FLUSH_SECONDS = 5.0


class Sender:
    """Hands spans to the SDK, which sends them to the collector by a thread of its own."""

    def __init__(self) -> None:
        # Imported here: without a collector nobody pays for it.
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON

        told = threading.local()

        class Numbers(RandomIdGenerator):
            """What the thread was told to take; else anything."""

            def generate_span_id(self) -> int:
                return getattr(told, "span", None) or super().generate_span_id()

            def generate_trace_id(self) -> int:
                return getattr(told, "trace", None) or super().generate_trace_id()

        self._trace, self._told = trace, told
        self._recorded = trace.TraceFlags(trace.TraceFlags.SAMPLED)
        self._broken = False
        name = os.environ.get("OTEL_SERVICE_NAME") or "convergebench"
        self.provider: TracerProvider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource.create({SERVICE_NAME: name}),
            id_generator=Numbers(),
            shutdown_on_exit=False,  # it would wait for a collector that is away
        )
        # Sent by a thread of its own; where that cannot keep up, spans are dropped.
        self.provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self.provider.get_tracer("convergebench")
        atexit.register(self.flush)

    def send(self, *about: Any, **more: Any) -> None:
        """One span; where that cannot be done no run fails, and nothing more is tried."""
        if self._broken:
            return
        try:
            self._send(*about, **more)
        except Exception:
            self._broken = True
            log.exception("no more traces")

    def _send(
        self,
        name: str,
        own: tuple[str, ...] | None,
        parent: tuple[str, ...] | None,
        key: str,
        times: tuple[float, float],
        attributes: dict[str, Any],
        *,
        failed: bool,
    ) -> None:
        """From its beginning to its end; without `own` its number is drawn."""
        trace = self._trace
        number = _number(16, "trace", key)
        self._told.trace, self._told.span = number, _number(8, "span", *own) if own else None
        within = trace.Context()
        if parent is not None:
            above = trace.SpanContext(
                number, _number(8, "span", *parent), is_remote=True, trace_flags=self._recorded
            )
            within = trace.set_span_in_context(trace.NonRecordingSpan(above), within)
        began, ended = (int(seconds * 1e9) for seconds in times)
        kind = trace.SpanKind.CLIENT if name == "call" else trace.SpanKind.INTERNAL
        span = self._tracer.start_span(name, within, kind, attributes, start_time=began)
        if failed:
            span.set_status(trace.StatusCode.ERROR)
        span.end(ended)

    def flush(self) -> None:
        """Send what waits, but wait no longer than a moment for whoever does not answer."""
        sending = threading.Thread(target=self.provider.force_flush, daemon=True)
        sending.start()
        sending.join(FLUSH_SECONDS)


def _number(size: int, *names: str) -> int:
    """A number of so many bytes, the same for the same names."""
    return int.from_bytes(sha256("\0".join(names).encode()).digest()[:size]) or 1
