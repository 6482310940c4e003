"""Traces by OpenTelemetry, where the service is told where to send them: a span for each request,
and one for each attempt at a task, in the trace of the request that submitted its job."""

from collections.abc import Mapping

from .errors import package

_NAME = "torch_vulkan.service"
_EXTRA = "service-traces"


class NoTraces:
    """Nothing is sent."""

    def begin(self, name: str, headers: Mapping[str, str]) -> object | None:
        """Starts a span that belongs to the trace that the headers name; they may name none."""
        return None

    def parent(self, span: object | None) -> str:
        """What later spans of the same trace are given ("traceparent" of W3C)."""
        return ""

    def end(self, span: object | None, name: str, attributes: Mapping[str, object],
            failed: bool) -> None:
        """Ends a span."""

    def past(self, name: str, parent: str, seconds: tuple[float, float],
             attributes: Mapping[str, object], failed: bool) -> None:
        """Sends a span that is over; `seconds`: its start and end (time.time)."""

    def close(self) -> None:
        """Sends what has not been."""


class Traces(NoTraces):
    """Args:
        url: of a collector that takes OTLP by HTTP: http://HOST:4318.
    """

    def __init__(self, url: str):
        self._api = package("opentelemetry.trace", _EXTRA)
        sdk = package("opentelemetry.sdk.trace", _EXTRA)
        export = package("opentelemetry.sdk.trace.export", _EXTRA)
        exporter = package("opentelemetry.exporter.otlp.proto.http.trace_exporter", _EXTRA)
        resource = package("opentelemetry.sdk.resources", _EXTRA).Resource.create(
            {"service.name": _NAME})
        self._provider = sdk.TracerProvider(resource=resource)
        self._provider.add_span_processor(export.BatchSpanProcessor(
            exporter.OTLPSpanExporter(endpoint=f"{url.rstrip('/')}/v1/traces", timeout=10)))
        self._tracer = self._provider.get_tracer(_NAME)
        self._format = package("opentelemetry.trace.propagation.tracecontext",
                               _EXTRA).TraceContextTextMapPropagator()

    def begin(self, name, headers):
        return self._tracer.start_span(name, self._format.extract(dict(headers)),
                                       self._api.SpanKind.SERVER)

    def parent(self, span):
        carrier: dict[str, str] = {}
        self._format.inject(carrier, self._api.set_span_in_context(span))
        return carrier.get("traceparent", "")

    def end(self, span, name, attributes, failed):
        span.update_name(name)
        self._finish(span, attributes, failed, None)

    def past(self, name, parent, seconds, attributes, failed):
        start, end = (int(value * 1e9) for value in seconds)
        span = self._tracer.start_span(name, self._format.extract({"traceparent": parent}),
                                       start_time=start)
        self._finish(span, attributes, failed, end)

    def _finish(self, span, attributes, failed: bool, end: int | None) -> None:
        span.set_attributes(dict(attributes))
        if failed:
            span.set_status(self._api.Status(self._api.StatusCode.ERROR))
        span.end(end)

    def close(self):
        self._provider.shutdown()
