"""A receiver of OTLP over HTTP gets the spans that the exporter in memory gets."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from traced_graphs import story

from milepost.checkpoint.memory import InMemorySaver
from milepost.types import Command


class Receiver(ThreadingHTTPServer):
    """Keeps the spans that are sent to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Any] = []
        self.scopes: set[str] = set()


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.server.scopes.add(scope.scope.name)
                self.server.spans.extend(scope.spans)
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *said: Any) -> None:
        pass


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Receiver() as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server
        server.shutdown()
        serving.join()


def test_a_receiver_gets_the_same_spans(run, config, recorded, receiver):
    endpoint = f"http://127.0.0.1:{receiver.server_port}/v1/traces"
    recorded.tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
    graph = story().compile(checkpointer=InMemorySaver(), name="outer")
    run.invoke(graph, {"log": []}, config)
    run.invoke(graph, Command(resume="yes"), config)
    assert recorded.tracers.force_flush()

    sent = {
        (span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
        for span in receiver.spans
    }
    kept = {
        (
            span.name,
            f"{span.context.trace_id:032x}",
            f"{span.context.span_id:016x}",
            f"{span.parent.span_id:016x}" if span.parent else "",
        )
        for span in recorded.spans()
    }
    assert sent == kept
    assert len(sent) > 15
    assert receiver.scopes == {"milepost"}
    (resumed,) = [span for span in receiver.spans if span.links]
    (paused, _) = recorded.named("invoke_workflow outer")
    assert resumed.links[0].span_id.hex() == f"{paused.context.span_id:016x}"
