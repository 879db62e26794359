"""A run that is killed: `python crash_child.py BACKEND WHERE DURABILITY LOG KILL_AT`.

Counts the storage calls of the run: the start of each transaction, each of its statements, and
its end. At the one with the number KILL_AT the process gets SIGKILL; with 0 it runs to its end
and prints how many there were.
"""

import operator
import os
import signal
import sys
from contextlib import contextmanager
from typing import Annotated, Any

from typing_extensions import TypedDict

from milepost.graph import START, StateGraph


class State(TypedDict):
    log: Annotated[list[str], operator.add]


INPUT: Any = {"log": ["input " + "x" * 300]}
CONFIG: Any = {"configurable": {"thread_id": "t"}}


def graph_of(saver: Any, ran: Any) -> Any:
    """a, then b and c side by side, then d."""

    def node(name: str) -> Any:
        def run(state: State) -> Any:
            ran(name)
            return {"log": [name + "y" * 200]}

        return run

    builder = StateGraph(State)
    for name in "abcd":
        builder.add_node(name, node(name))
    builder.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c").add_edge(["b", "c"], "d")
    return builder.compile(checkpointer=saver)


@contextmanager
def opened(backend: str, where: str) -> Any:
    if backend == "sqlite":
        from milepost.checkpoint.sqlite import SqliteSaver

        with SqliteSaver.from_conn_string(where) as saver:
            saver.setup()
            yield saver
    else:
        from milepost.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(where) as saver:
            saver.setup()
            yield saver


def main() -> None:
    backend, where, durability, log, kill_at = sys.argv[1:]
    file = open(log, "a")  # noqa: SIM115

    def note(line: str) -> None:
        file.write(f"{line}\n")
        file.flush()

    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1
        if calls == int(kill_at):
            os.kill(os.getpid(), signal.SIGKILL)

    with opened(backend, where) as saver:
        run, commit = saver.engine.run, saver.commit

        def counted(work: Any, *, write: bool) -> Any:
            def watched() -> Any:
                operation, answer = work(), None
                while True:
                    try:
                        statement = operation.send(answer)
                    except StopIteration as done:
                        call()
                        return done.value
                    call()
                    answer = yield statement

            call()
            result = run(watched, write=write)
            call()
            return result

        def acknowledged(steps: Any) -> Any:
            outcome = commit(steps)
            for step in steps:
                for write in step.writes:
                    note(f"stored {write.task_path[-1]}")
            return outcome

        saver.engine.run, saver.commit = counted, acknowledged
        result = graph_of(saver, lambda name: note(f"ran {name}")).invoke(
            INPUT, CONFIG, durability=durability
        )
        note(f"done {len(result['log'])}")
    print(calls)


if __name__ == "__main__":
    main()
