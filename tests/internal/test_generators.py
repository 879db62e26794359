"""The driver of generators: what they yield is carried out, and its result is sent back."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Callable, Generator
from typing import Any

import pytest

from milepost._internal.generators import GeneratorDriver, adrive, drive
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph.state import CompiledStateGraph
from milepost.store.memory import InMemoryStore

Run = Callable[..., Any]


def by_hand(program: Any, carry_out: Any, thrown: Any = Exception) -> Any:
    """The loop that the module's docstring shows."""
    steps = GeneratorDriver(program)
    for effect in steps:
        try:
            steps.answer = carry_out(effect)
        except thrown as error:
            steps.error = error
    return steps.result


def on_a_loop(program: Any, carry_out: Any, thrown: Any = Exception) -> Any:
    async def awaited(effect: Any) -> Any:
        await asyncio.sleep(0)
        return carry_out(effect)

    return asyncio.run(adrive(program, awaited, thrown))


@pytest.fixture(params=[by_hand, drive, on_a_loop], ids=lambda run: run.__name__)
def run(request: pytest.FixtureRequest) -> Run:
    """Each way to drive a generator to its end."""
    return request.param


def carries_out(effect: Any) -> Any:
    """An effect is what to raise, or what to return twice."""
    if isinstance(effect, BaseException):
        raise effect
    return effect * 2


# -- answers


def test_each_effect_is_answered_and_the_result_is_returned(run: Run) -> None:
    def program() -> Generator[Any, Any, list[Any]]:
        first = yield 1
        second = yield first + 1
        return [first, second]

    assert run(program(), carries_out) == [2, 6]


def test_a_generator_without_effects_has_a_result(run: Run) -> None:
    def program() -> Generator[Any, Any, str]:
        return "done"
        yield

    assert run(program(), carries_out) == "done"


def test_an_answer_is_sent_once() -> None:
    def program() -> Generator[str, Any, Any]:
        first = yield "first"
        second = yield "second"
        return first, second

    steps = GeneratorDriver(program())
    assert next(steps) == "first"
    steps.answer = 1
    assert next(steps) == "second"
    assert list(steps) == []
    assert steps.result == (1, None)


# -- errors


def test_an_error_is_thrown_in_where_its_effect_was_yielded(run: Run) -> None:
    def program() -> Generator[Any, Any, Any]:
        try:
            yield KeyError("k")
        except KeyError as error:
            caught = error
        return caught, (yield 3)

    caught, after = run(program(), carries_out)
    assert (repr(caught), after) == ("KeyError('k')", 6)


def test_an_error_that_the_generator_does_not_catch_is_raised(run: Run) -> None:
    left = []

    def program() -> Generator[Any, Any, None]:
        try:
            yield KeyError("k")
        finally:
            left.append("program")

    with pytest.raises(KeyError, match="k"):
        run(program(), carries_out)
    assert left == ["program"]


def test_an_error_of_the_generator_itself_is_raised(run: Run) -> None:
    def program() -> Generator[Any, Any, None]:
        yield 1
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        run(program(), carries_out)


def test_a_cancellation_is_thrown_in_only_if_the_generator_is_to_hear_of_it(run: Run) -> None:
    heard = []

    def program() -> Generator[Any, Any, None]:
        try:
            yield asyncio.CancelledError()
        except asyncio.CancelledError:
            heard.append((yield "clean up"))
            raise

    with pytest.raises(asyncio.CancelledError):
        run(program(), carries_out)
    assert heard == []
    with pytest.raises(asyncio.CancelledError):
        run(program(), carries_out, thrown=BaseException)
    assert heard == ["clean upclean up"]


# -- a StopIteration that is not the end


class Stray(StopIteration):
    pass


def strays(effect: str) -> str:
    if effect == "first":
        raise Stray("not a result")
    return "done"


@pytest.mark.parametrize("run", [by_hand, drive], ids=lambda run: run.__name__)
def test_a_stop_iteration_of_an_effect_is_thrown_in_and_not_taken_for_the_end(run: Run) -> None:
    asked = []

    def program() -> Generator[str, Any, Any]:
        try:
            yield "first"
        except StopIteration:
            return (yield "second")
        return "no error"

    def carry_out(effect: str) -> str:
        asked.append(effect)
        return strays(effect)

    assert run(program(), carry_out) == "done"
    assert asked == ["first", "second"]


def test_a_stop_iteration_that_the_generator_does_not_catch_is_an_error(run: Run) -> None:
    def program() -> Generator[str, Any, str]:
        yield "first"
        return "ended"

    # Python makes a RuntimeError of one that leaves a generator or a coroutine.
    with pytest.raises(RuntimeError, match="StopIteration"):
        run(program(), strays)


# -- what is left in the middle


def test_a_generator_that_is_left_in_the_middle_is_closed() -> None:
    left = []

    def program() -> Generator[str, Any, None]:
        try:
            yield "first"
        except GeneratorExit:
            left.append("closed")
            raise

    steps = GeneratorDriver(program())
    for _ in steps:
        break
    assert left == []
    del steps
    assert left == ["closed"]


def test_an_error_that_is_not_thrown_in_ends_the_run_and_closes_the_generator(run: Run) -> None:
    left = []

    def program() -> Generator[Any, Any, None]:
        try:
            yield LookupError("unheard")
        except GeneratorExit:
            left.append("closed")
            raise
        except LookupError:
            left.append("heard")

    def play() -> None:
        with pytest.raises(LookupError, match="unheard"):
            run(program(), carries_out, thrown=ValueError)

    play()
    gc.collect()  # the traceback holds the generator, and is part of a cycle
    assert left == ["closed"]


def test_after_its_end_a_generator_has_no_more_effects() -> None:
    def program() -> Generator[str, Any, str]:
        yield "first"
        return "done"

    steps = GeneratorDriver(program())
    assert list(steps) == ["first"]
    assert steps.result == "done"
    assert list(steps) == []


def test_a_method_that_is_made_of_a_generator_says_what_it_returns():
    for method, returned in [
        (SqliteSaver.prune, "Removed"),
        (SqliteSaver.aprune, "Removed"),
        (CompiledStateGraph.get_state, "StateSnapshot"),
        (InMemoryStore.reindex, "int"),
    ]:
        assert inspect.signature(method).return_annotation == returned
