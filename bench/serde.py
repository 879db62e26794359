"""How fast values are written and read, beside LangGraph's serializer in the same run.

    python bench/serde.py

Prints microseconds of processor time for one call, best of several rounds that alternate between
the two, and how many times faster milepost is. The garbage collector is off meanwhile, as it is in
timeit: it runs or not by how many objects are alive elsewhere, and would decide the comparison by
chance.
"""

from __future__ import annotations

import gc
import sys
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer as Theirs
from pydantic import BaseModel

from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer as Ours
from milepost.checkpoint.serde.registry import default_registry


@dataclass
class Item:
    name: str
    price: float
    tags: list[str] = field(default_factory=list)


class Order(BaseModel):
    id: int
    customer: str
    notes: list[str] = []
    total: float = 0.0


def messages(count: int) -> list[Any]:
    made: list[Any] = []
    for i in range(count):
        match i % 3:
            case 0:
                made.append(HumanMessage(f"What about number {i}? " * 4, id=f"h{i}"))
            case 1:
                call = {"name": "look_up", "args": {"query": f"number {i}"}, "id": f"c{i}"}
                made.append(AIMessage("Let me see.", id=f"a{i}", tool_calls=[call]))
            case _:
                made.append(ToolMessage("A result. " * 8, id=f"t{i}", tool_call_id=f"c{i - 1}"))
    return made


def turn(i: int) -> dict[str, Any]:
    return {"role": "user", "content": f"message {i} " * 10, "n": i, "scores": [0.5, i / 7, None]}


CASES: dict[str, Any] = {
    "plain, small": {"count": 1, "name": "x", "items": [1, 2, 3], "done": False},
    "plain, 1,000 dicts": {"messages": [turn(i) for i in range(1000)]},
    "plain, 10,000 floats": {"vector": [i / 7 for i in range(10_000)]},
    "plain, accented text": {"text": ["čeština ąęĆź " * 20 for _ in range(500)]},
    "plain, int keys": {i: [i, str(i)] for i in range(1000)},
    "tuples": [(i, str(i)) for i in range(1000)],
    "1,000 dataclasses": [Item(f"item {i}", i / 3, ["a", "b"]) for i in range(1000)],
    "1,000 pydantic models": [Order(id=i, customer=f"c{i}", total=i / 3) for i in range(1000)],
    "1,000 LangChain messages": messages(1000),
}


def best(calls: list[Any], rounds: int = 7, seconds: float = 0.05) -> list[float]:
    """The best time of each call, in microseconds; rounds alternate between them."""
    repeats = []
    for call in calls:
        start = time.process_time()
        call()
        repeats.append(max(1, int(seconds / max(time.process_time() - start, 1e-7))))
    times = [float("inf")] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            start = time.process_time()
            for _ in range(repeats[i]):
                call()
            times[i] = min(times[i], (time.process_time() - start) / repeats[i])
    return [t * 1e6 for t in times]


def main() -> None:
    warnings.simplefilter("ignore")
    gc.disable()
    default_registry.register_module_types(sys.modules[__name__])
    allowed = [(__name__, "Item"), (__name__, "Order")]
    ours, theirs = Ours(), Theirs(allowed_msgpack_modules=allowed)
    print(f"{'':28}{'write':>10}{'theirs':>10}{'ratio':>8}{'read':>12}{'theirs':>10}{'ratio':>8}")
    for name, value in CASES.items():
        mine, other = ours.dumps_typed(value), theirs.dumps_typed(value)
        assert ours.loads_typed(mine) == value, name
        write, their_write, read, their_read = best(
            [
                lambda value=value: ours.dumps_typed(value),
                lambda value=value: theirs.dumps_typed(value),
                lambda mine=mine: ours.loads_typed(mine),
                lambda other=other: theirs.loads_typed(other),
            ]
        )
        print(
            f"{name:28}{write:10.1f}{their_write:10.1f}{their_write / write:7.2f}x"
            f"{read:12.1f}{their_read:10.1f}{their_read / read:7.2f}x"
        )


if __name__ == "__main__":
    main()
