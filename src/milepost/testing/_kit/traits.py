"""Finds out what a saver can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost._internal.ids import random_token
from milepost.checkpoint._contract.step_saver import StepSaver
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.errors import ColourError
from milepost.testing._kit.clauses import Trait
from milepost.testing._kit.effects import call, caught

if TYPE_CHECKING:
    from milepost.testing._kit.runner import Api, Runner

FIVE = ("put", "put_writes", "get_tuple", "list", "delete_thread")
OPTIONAL = {
    Trait.COPIES: "copy_thread",
    Trait.PRUNING: "prune",
    Trait.RUNS: "delete_for_runs",
}
REGISTRY = ("list_threads", "get_thread", "set_thread_metadata")


def missing_traits(
    runner: Runner, api: Api, *, keeps_history: bool, persistent: bool
) -> dict[Trait, str]:
    """The traits that the saver does not have, each with the reason to skip what needs it."""
    saver = runner.saver
    name = type(saver).__name__
    lacks: dict[Trait, str] = {}
    refusal = _refusal(runner, api)
    if refusal is None:
        lacks[Trait.NO_METHODS] = f"{name} has {api} methods"
    else:
        lacks[Trait.METHODS] = f"{name} has no {api} methods: {refusal}"
    for trait, method in OPTIONAL.items():
        if not has(saver, method, api):
            lacks[trait] = f"{name} does not implement {named(method, api)}()"
    if not all(hasattr(saver, named(method, api)) for method in REGISTRY):
        lacks[Trait.REGISTRY] = f"{name} has no {Trait.REGISTRY}"
    if not hasattr(saver, named("create_thread", api)):
        lacks[Trait.CREATION] = f"{name} has no {Trait.CREATION}"
    if not isinstance(saver, StepSaver):
        lacks[Trait.STEPS] = f"{name} is no StepSaver"
    if not keeps_history:
        lacks[Trait.HISTORY] = f"{name} keeps the latest checkpoint only"
    if not persistent:
        lacks[Trait.PERSISTENCE] = "it was not said that the factory is persistent"
    return lacks


def named(method: str, api: Api) -> str:
    """The name of a method in the sync or the async API."""
    return method if api == "sync" else f"a{method}"


def has(saver: BaseCheckpointSaver[Any], method: str, api: Api) -> bool:
    """Whether the saver's class has a method of its own in this API."""
    name = named(method, api)
    return getattr(type(saver), name, None) is not getattr(BaseCheckpointSaver, name, None)


def _refusal(runner: Runner, api: Api) -> str | None:
    """Why the saver has no methods in this API; None if it has."""
    if not any(has(runner.saver, method, api) for method in FIVE):
        return "they are left out"
    # Some savers have the methods only to say that they are of the other kind.
    config = {"configurable": {"thread_id": random_token()}}
    error = runner.perform(caught(call(runner.saver, "get_tuple", config)))
    return str(error) if isinstance(error, NotImplementedError | ColourError) else None
