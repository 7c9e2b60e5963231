"""A local collector of OpenTelemetry: takes spans by OTLP over HTTP, and keeps what was sent."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

from evaluation.testing.local_server import LocalServer


@dataclass(frozen=True)
class Told:
    """One span as it came."""

    name: str
    trace: str
    span: str
    parent: str
    began: int
    ended: int
    failed: bool
    attributes: dict[str, Any] = field(default_factory=dict)


class Collector:
    """`with Collector() as collector: collector.url`; `spans` are those that came."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.paths: set[str] = set()

    def __enter__(self) -> Self:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.paths.add(self.path)
                collector.bodies.append(body)
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *about: object) -> None:
                pass

        self._server = LocalServer(Handler).__enter__()
        self.url = self._server.url
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.__exit__(*exc)

    @property
    def spans(self) -> list[Told]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )

        return [
            Told(
                span.name,
                span.trace_id.hex(),
                span.span_id.hex(),
                span.parent_span_id.hex(),
                span.start_time_unix_nano,
                span.end_time_unix_nano,
                span.status.code == 2,
                {
                    one.key.removeprefix("convergebench."): _value(one.value)
                    for one in span.attributes
                },
            )
            for body in self.bodies
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, name: str) -> list[Told]:
        return [span for span in self.spans if span.name == name]


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))
