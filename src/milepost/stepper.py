"""Steps through a generator that yields what it wants and is sent what it gets.

A driver of either colour carries out what is wanted:

steps = Stepper(program)
for effect in steps:
    try:
        steps.answer = carry_out(effect)
    except Exception as error:
        steps.error = error
return steps.result
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Generic, Self, TypeVar

E = TypeVar("E")
R = TypeVar("R")


class Stepper(Generic[E, R]):
    """A program, and what it is to be sent next: an answer, or an error to be thrown in."""

    __slots__ = ("answer", "error", "program", "result")

    def __init__(self, program: Generator[E, Any, R]) -> None:
        self.program = program
        self.answer: Any = None
        self.error: BaseException | None = None
        self.result: R
        """What the program returned, once it has ended."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> E:
        """The next effect; an error that the program does not catch is raised here."""
        try:
            if self.error is None:
                answer, self.answer = self.answer, None
                return self.program.send(answer)
            error, self.error = self.error, None
            return self.program.throw(error)
        except StopIteration as done:
            self.result = done.value
            raise StopIteration from None
