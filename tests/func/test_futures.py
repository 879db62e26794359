"""What `@task` returns behaves like the futures that it looks like, on both libraries."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import future_programs
import pytest

from both import names_of

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def outcome(library: str, program: Any) -> Any:
    """What a program returns inside an entrypoint; in a thread, since a future may never end."""
    lib = names_of(library)
    tasks = future_programs.tasks_of(lib.task)
    found: list[Any] = []

    def run() -> None:
        if program in future_programs.SYNC:

            @lib.entrypoint(checkpointer=lib.InMemorySaver())
            def main(_: Any) -> Any:
                return program(tasks)

            found.append(main.invoke(1, CONFIG))
        else:

            @lib.entrypoint(checkpointer=lib.InMemorySaver())
            async def amain(_: Any) -> Any:
                return await program(tasks)

            found.append(asyncio.run(amain.ainvoke(1, CONFIG)))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(30)
    assert found, f"{program.__name__} does not end on {library}"
    return found[0]


@pytest.mark.parametrize(
    "program",
    [*future_programs.SYNC, *future_programs.ASYNC],
    ids=lambda program: program.__name__,
)
def test_both_libraries_give_the_same_outcome(program):
    assert outcome("milepost", program) == outcome("langgraph", program)
