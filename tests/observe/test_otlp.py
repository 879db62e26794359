"""A receiver of OTLP in a process of its own gets the spans that the exporter in memory gets."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from traced_graphs import story

from milepost.checkpoint.memory import InMemorySaver
from milepost.types import Command


class Receiver:
    """The process; it is asked once for what it got."""

    def __init__(self):
        program = Path(__file__).with_name("otlp_receiver.py")
        self._process = subprocess.Popen(
            [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.endpoint = f"http://127.0.0.1:{self._process.stdout.readline().strip()}/v1/traces"

    def got(self):
        told, _ = self._process.communicate(timeout=30)
        return json.loads(told)

    def close(self):
        if self._process.poll() is None:
            self._process.communicate(timeout=30)


@pytest.fixture
def receiver(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    receiver = Receiver()
    yield receiver
    receiver.close()


def test_a_receiver_gets_the_same_spans(run, config, recorded, receiver):
    exporter = OTLPSpanExporter(receiver.endpoint)
    recorded.tracers.add_span_processor(BatchSpanProcessor(exporter))
    graph = story().compile(checkpointer=InMemorySaver(), name="outer")
    run.invoke(graph, {"log": []}, config)
    run.invoke(graph, Command(resume="yes"), config)
    run.get_state(graph, config)
    assert recorded.tracers.force_flush()
    got = receiver.got()

    sent = {(span["name"], span["trace"], span["span"], span["parent"]) for span in got}
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
    assert {span["scope"] for span in got} == {"milepost"}
    (resumed,) = [span for span in got if span["links"]]
    (paused, _) = recorded.named("invoke_workflow outer")
    assert resumed["links"] == [f"{paused.context.span_id:016x}"]
