"""The schema of an answer, from `interrupt(response_schema=)`."""

from __future__ import annotations

from typing import Any

from milepost.errors import MissingDependencyError, mark_invalid_resume


class ResponseSchema:
    """JSON Schema for callers, and the check of their answers."""

    __slots__ = ("_adapter", "shown")

    def __init__(self, schema: type[Any] | dict[str, Any]) -> None:
        self._adapter: Any = None
        self.shown: dict[str, Any]
        """The JSON Schema that callers see."""
        if isinstance(schema, dict):
            self.shown = schema
            return
        try:
            from pydantic import TypeAdapter
        except ImportError as error:
            raise MissingDependencyError(
                "interrupt(response_schema=) with a class is checked by pydantic: run "
                "`pip install pydantic`, or pass JSON Schema as a dict."
            ) from error
        self._adapter = TypeAdapter(schema)
        self.shown = self._adapter.json_schema()

    def checked(self, answer: Any) -> Any:
        """The answer as the node gets it; pydantic's ValidationError if it does not fit."""
        if self._adapter is None:
            return answer
        try:
            return self._adapter.validate_python(answer)
        except ValueError as error:
            mark_invalid_resume(error)
            raise
