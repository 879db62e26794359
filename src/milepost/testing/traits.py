"""Finds out what a saver can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.checkpoint.commit import StepSaver
from milepost.errors import ColourError
from milepost.ids import random_token
from milepost.testing.clauses import Trait
from milepost.testing.effects import call, caught

if TYPE_CHECKING:
    from milepost.testing.stage import Colour, Stage

FIVE = ("put", "put_writes", "get_tuple", "list", "delete_thread")
OPTIONAL = {
    Trait.COPIES: "copy_thread",
    Trait.PRUNING: "prune",
    Trait.RUNS: "delete_for_runs",
}
REGISTRY = ("list_threads", "get_thread", "set_thread_metadata")


def missing_traits(
    stage: Stage, colour: Colour, *, keeps_history: bool, persistent: bool
) -> dict[Trait, str]:
    """The traits that the saver does not have, each with the reason to skip what needs it."""
    saver = stage.saver
    name = type(saver).__name__
    lacks: dict[Trait, str] = {}
    refusal = _refusal(stage, colour)
    if refusal is None:
        lacks[Trait.NO_COLOUR] = f"{name} has {colour} methods"
    else:
        lacks[Trait.COLOUR] = f"{name} has no {colour} methods: {refusal}"
    for trait, method in OPTIONAL.items():
        if not has(saver, method, colour):
            lacks[trait] = f"{name} does not implement {named(method, colour)}()"
    if not all(hasattr(saver, named(method, colour)) for method in REGISTRY):
        lacks[Trait.REGISTRY] = f"{name} has no {Trait.REGISTRY}"
    if not isinstance(saver, StepSaver):
        lacks[Trait.STEPS] = f"{name} is no StepSaver"
    if not keeps_history:
        lacks[Trait.HISTORY] = f"{name} keeps the latest checkpoint only"
    if not persistent:
        lacks[Trait.PERSISTENCE] = "it was not said that the factory is persistent"
    return lacks


def named(method: str, colour: Colour) -> str:
    """The name of a method in a colour."""
    return method if colour == "sync" else f"a{method}"


def has(saver: BaseCheckpointSaver[Any], method: str, colour: Colour) -> bool:
    """Whether the saver's class has a method of its own in this colour."""
    name = named(method, colour)
    return getattr(type(saver), name, None) is not getattr(BaseCheckpointSaver, name, None)


def _refusal(stage: Stage, colour: Colour) -> str | None:
    """Why the saver has no methods in this colour; None if it has."""
    if not any(has(stage.saver, method, colour) for method in FIVE):
        return "they are left out"
    # Some savers have the methods only to say that they are of the other kind.
    config = {"configurable": {"thread_id": random_token()}}
    error = stage.perform(caught(call(stage.saver, "get_tuple", config)))
    return str(error) if isinstance(error, NotImplementedError | ColourError) else None
