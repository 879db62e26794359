"""Programs written as functions: `@entrypoint` makes one durable, `@task` its steps."""

from milepost.func.entrypoint import entrypoint
from milepost.func.task import task

__all__ = ["entrypoint", "task"]
