"""The SDK's exporters for an endpoint, by its scheme: HTTP with protobuf, or gRPC where that is installed."""

from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.trace.export import SpanExporter

from oomctl.schemas.errors import ExitCode, OomctlError

SCHEMES = ("http", "https", "grpc", "grpcs")


def exporters(endpoint: str, timeout_s: float) -> tuple[MetricExporter, SpanExporter]:
    """What sends metrics, and what sends spans.

    Args:
        endpoint: For instance http://localhost:4318 or grpc://localhost:4317; https and grpcs are encrypted.
        timeout_s: Of one export.

    Raises:
        OomctlError: If it is no such URL, or gRPC is not installed.
    """
    scheme, mark, place = endpoint.rstrip("/").partition("://")
    if not mark or scheme not in SCHEMES or not place:
        raise OomctlError(
            f"--otlp-endpoint is no URL: {endpoint!r}",
            "for instance http://localhost:4318 or grpc://localhost:4317",
            ExitCode.USAGE,
        )
    return _http(f"{scheme}://{place}", timeout_s) if scheme.startswith("http") else _grpc(scheme, place, timeout_s)


def _http(base: str, timeout_s: float) -> tuple[MetricExporter, SpanExporter]:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    metrics = OTLPMetricExporter(endpoint=f"{base}/v1/metrics", timeout=timeout_s)
    return metrics, OTLPSpanExporter(endpoint=f"{base}/v1/traces", timeout=timeout_s)


def _grpc(scheme: str, place: str, timeout_s: float) -> tuple[MetricExporter, SpanExporter]:
    try:
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise OomctlError(
            f"OTLP over gRPC is not installed ({scheme}://{place})",
            "pip install 'oomctl[otlp-grpc]', or send over http://",
            ExitCode.ENVIRONMENT,
        ) from None
    insecure = scheme == "grpc"
    metrics = OTLPMetricExporter(endpoint=place, insecure=insecure, timeout=timeout_s)
    return metrics, OTLPSpanExporter(endpoint=place, insecure=insecure, timeout=timeout_s)
