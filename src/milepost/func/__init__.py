"""Programs written as functions: `@entrypoint` makes one durable, `@task` its steps."""

from milepost.func._entrypoint import entrypoint
from milepost.func._task import task

__all__ = ["entrypoint", "task"]
