"""Traces and measurements of runs by OpenTelemetry: see docs/observability.md.

    from milepost.observe import instrument

    instrument()

From then on every run makes a trace: `invoke_workflow`, its super-steps, tasks and attempts, loads
and commits. A run that goes on where another one stopped, in whatever process, is linked with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.errors import MissingDependencyError

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["instrument", "uninstrument"]


def instrument(
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    *,
    record_values: bool = False,
) -> None:
    """Trace all runs of this process that begin from now on.

    Spans and measurements go to the given providers, or to the global ones. `record_values` also
    puts inputs, outputs, what interrupts ask and the texts of exceptions into the spans: all of
    them may hold what users have said. A second call takes the place of the first.
    """
    try:
        from milepost.integrations._otel.switch import switch_on
    except ImportError as error:
        raise MissingDependencyError(
            "milepost.observe needs OpenTelemetry: run `pip install 'milepost[otel]'`."
        ) from error
    switch_on(tracer_provider, meter_provider, record_values=record_values)


def uninstrument() -> None:
    """Trace no further runs; those that are under way are traced to their ends."""
    from sys import modules

    if "milepost.integrations._otel.switch" in modules:
        from milepost.integrations._otel.switch import switch_off

        switch_off()
