"""Traces and measurements of runs by OpenTelemetry: see docs/observability.md.

    from milepost.observe import instrument

    instrument()

From then on every run makes a trace: `invoke_workflow`, its super-steps and tasks, retries, loads
and commits. A run that goes on where another one stopped, in whatever process, is linked with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from milepost._internal.progress import Progress, shown
from milepost._internal.supported import required

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["Detail", "Progress", "instrument", "progress", "uninstrument"]

Detail: TypeAlias = Literal["run", "task", "all"]
"""How much of a run has spans: the run and its load; also its tasks; also steps and commits."""


def instrument(
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    *,
    record_values: bool = False,
    detail: Detail = "all",
) -> None:
    """Trace all runs of this process that begin from now on.

    A second call takes the place of the first.

    Args:
        tracer_provider: Gets the spans; by default the global one.
        meter_provider: Gets the measurements; by default the global one.
        record_values: Also puts inputs, outputs, what interrupts ask and the texts of exceptions
            into the spans: all of them may hold what users have said.
        detail: How much is traced, and with it what tracing costs: "run" makes spans of runs and
            loads alone, and measures nothing of single steps; "task" adds tasks and their retries;
            "all" adds super-steps and commits.

    Raises:
        MissingDependencyError: OpenTelemetry's API is not installed.

    Examples:
        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> from milepost.observe import instrument, uninstrument
        >>> instrument(TracerProvider(), detail="task")
        >>> uninstrument()
    """
    if detail not in get_args(Detail):
        raise ValueError(f"detail={detail!r} is not known. Use one of: run, task, all.")
    with required("milepost.observe needs OpenTelemetry: run `pip install 'milepost[otel]'`."):
        from milepost.integrations._otel.switch import switch_on
    switch_on(tracer_provider, meter_provider, record_values=record_values, detail=detail)


def progress(
    label: str, unit: str = "", *, quiet: bool = False
) -> AbstractContextManager[Progress]:
    """Show how far a long operation has come, on standard error: a bar, or lines in a log.

    Operations with an argument `progress` call it with what is done and how much there is.

    Args:
        label: What is being done.
        unit: What is counted.
        quiet: Show nothing.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.observe import progress
        >>> saver = InMemorySaver()
        >>> with progress("prune", "threads", quiet=True) as tell:
        ...     _ = saver.prune(["1", "2"], progress=tell)
    """
    return shown(label, unit, quiet=quiet)


def uninstrument() -> None:
    """Trace no further runs; those that are under way are traced to their ends.

    Examples:
        >>> from milepost.observe import uninstrument
        >>> uninstrument()
    """
    from sys import modules

    if "milepost.integrations._otel.switch" in modules:
        from milepost.integrations._otel.switch import switch_off

        switch_off()
