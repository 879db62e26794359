"""The entry point by which OpenTelemetry's auto-instrumentation switches tracing on."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from milepost.integrations._otel.switch import switch_off, switch_on

if TYPE_CHECKING:
    Base: Any = object
else:
    try:
        from opentelemetry.instrumentation.instrumentor import BaseInstrumentor as Base
    except ImportError:

        class Base:
            """The needed part of BaseInstrumentor, where its package is not installed."""

            def instrument(self, **options: Any) -> None:
                """Switch it on."""
                self._instrument(**options)

            def uninstrument(self, **options: Any) -> None:
                """Switch it off."""
                self._uninstrument(**options)


class MilepostInstrumentor(Base):  # type: ignore[misc, unused-ignore]
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
