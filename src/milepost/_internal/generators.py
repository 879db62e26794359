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

A sync and an async method are made of one generator function by what `method_pairs` returns.

`except StopIteration` is around `send` and `throw` alone: one that `carry_out` raises is an error
like any other, and not the end of the generator.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

E = TypeVar("E")
R = TypeVar("R")
S = TypeVar("S")
P = ParamSpec("P")


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
    thrown: type[BaseException] | tuple[()] = Exception,
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
    thrown: type[BaseException] | tuple[()] = Exception,
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


class MethodPairs(Protocol):
    """Makes a sync and an async method of a generator function."""

    def __call__(
        self, program: Callable[Concatenate[S, P], Generator[Any, Any, R]], /
    ) -> tuple[
        Callable[Concatenate[S, P], R], Callable[Concatenate[S, P], Coroutine[Any, Any, R]]
    ]: ...


def method_pairs(
    carry_out: Callable[[Any, Generator[Any, Any, Any], str], Any],
    acarry_out: Callable[[Any, Generator[Any, Any, Any], str], Awaitable[Any]],
) -> MethodPairs:
    """What makes the methods `x` and `ax` of a generator function `_x`.

    Both have its parameters and its docstring. They hand the object, the generator and the name
    `x` to `carry_out` and `acarry_out`, which drive the generator to its end. What `inspect` and
    `help` show of them is read off the generator function, which is private: so it is annotated
    with what the generator returns.
    """

    def pair(program: Callable[..., Generator[Any, Any, Any]]) -> Any:
        name = program.__name__.removeprefix("_")
        yields, _, returned = str(program.__annotations__.get("return", "")).partition("[")
        if returned and yields != "Generator":  # an alias, such as Transactions[int]
            program.__annotations__["return"] = returned.removesuffix("]")

        def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            return carry_out(self, program(self, *args, **kwargs), name)

        async def amethod(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            return await acarry_out(self, program(self, *args, **kwargs), name)

        for made, its_name in ((method, name), (amethod, f"a{name}")):
            update_wrapper(made, program)
            made.__name__ = its_name
            made.__qualname__ = program.__qualname__.replace(program.__name__, its_name)
        return method, amethod

    return pair
