"""Drives generators that yield what they want done and are sent the results.

A generator of this kind never waits. Its driver carries out what it yields, in sync code
or on an event loop: `drive` and `adrive` do so to the end, `GeneratorDriver` leaves the loop to
its user:

    steps = GeneratorDriver(generator)
    for effect in steps:
        try:
            steps.answer = carry_out(effect)
        except Exception as error:
            steps.error = error
    return steps.result

`except StopIteration` is around `send` and `throw` alone: one that `carry_out` raises is an error
like any other, and not the end of the generator.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, Self, TypeVar

E = TypeVar("E")
R = TypeVar("R")


class GeneratorDriver(Generic[E, R]):
    """A generator, and what it is to be sent next: an answer, or an error to be thrown in."""

    __slots__ = ("answer", "error", "generator", "result")

    def __init__(self, generator: Generator[E, Any, R]) -> None:
        self.generator = generator
        self.answer: Any = None
        self.error: BaseException | None = None
        self.result: R
        """What the generator returned, once it has ended."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> E:
        """The next effect; an error that the generator does not catch is raised here."""
        try:
            if self.error is None:
                answer, self.answer = self.answer, None
                return self.generator.send(answer)
            error, self.error = self.error, None
            return self.generator.throw(error)
        except StopIteration as done:
            self.result = done.value
            raise StopIteration from None


def drive(
    generator: Generator[E, Any, R],
    carry_out: Callable[[E], Any],
    thrown: type[BaseException] = Exception,
) -> R:
    """Drive a generator to its end in sync code; return its result.

    Errors of the kind `thrown` are thrown into the generator, others end it.
    """
    send = generator.send
    step: Callable[[Any], E] = send
    given: Any = None
    while True:
        try:
            effect = step(given)
        except StopIteration as done:
            result: R = done.value
            return result
        try:
            given, step = carry_out(effect), send
        except thrown as error:
            given, step = error, generator.throw


async def adrive(
    generator: Generator[E, Any, R],
    carry_out: Callable[[E], Awaitable[Any]],
    thrown: type[BaseException] = Exception,
) -> R:
    """`drive`, for use on an event loop."""
    send = generator.send
    step: Callable[[Any], E] = send
    given: Any = None
    while True:
        try:
            effect = step(given)
        except StopIteration as done:
            result: R = done.value
            return result
        try:
            given, step = await carry_out(effect), send
        except thrown as error:
            given, step = error, generator.throw
