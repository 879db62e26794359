"""The entry point by which OpenTelemetry's auto-instrumentation switches tracing on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from opentelemetry.instrumentation.instrumentor import (  # type: ignore[attr-defined, unused-ignore]
    BaseInstrumentor,
)

from milepost.integrations._otel.switch import switch_off, switch_on


class MilepostInstrumentor(BaseInstrumentor):  # type: ignore[misc, unused-ignore]
    """Traces the runs of graphs; takes the options of `milepost.observe.instrument`."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """No other package is instrumented."""
        return ()

    def _instrument(self, **options: Any) -> None:
        switch_on(
            options.get("tracer_provider"),
            options.get("meter_provider"),
            record_values=options.get("record_values", False),
            detail=options.get("detail", "all"),
        )

    def _uninstrument(self, **_options: Any) -> None:
        switch_off()
