"""A progress bar drawn by rich; imported only where a terminal is."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from milepost._internal.progress import amount


class RichBar:
    """A bar with the time that has passed; it is gone at the end."""

    def __init__(self, stream: TextIO, label: str, unit: str) -> None:
        self._unit = unit
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[amount]}", markup=False),
            TimeElapsedColumn(),
            console=Console(file=stream),
            transient=True,
        )
        self._label = label
        self._task: TaskID | None = None

    def tell(self, done: int, total: int | None) -> None:
        """Move the bar; it appears with the first call."""
        text = amount(done, total, self._unit)
        if self._task is None:
            self._task = self._bar.add_task(self._label, total=total, completed=done, amount=text)
            self._bar.start()
        else:
            self._bar.update(self._task, total=total, completed=done, amount=text)

    def close(self) -> None:
        """Take the bar away."""
        if self._task is not None:
            self._bar.stop()
