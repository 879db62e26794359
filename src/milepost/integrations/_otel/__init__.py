"""Traces and measurements of runs by OpenTelemetry; `milepost.observe` switches them on."""
