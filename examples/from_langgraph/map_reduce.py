"""Counts words in several texts side by side, and brings the counts together.

One worker fails the first time. The others' results are kept: only it runs again.
"""

import operator
from collections import Counter
from typing import Annotated

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from typing_extensions import TypedDict

TEXTS = {
    "one": "the cat sat on the mat",
    "two": "the dog sat on the cat",
    "three": "a mat is a mat",
}


class State(TypedDict, total=False):
    names: list[str]
    counts: Annotated[list[dict], operator.add]
    top: list


class Part(TypedDict):
    name: str


runs: list[str] = []


def split(state: State) -> list[Send]:
    return [Send("count", {"name": name}) for name in state["names"]]


def count(part: Part) -> State:
    runs.append(part["name"])
    if part["name"] == "two" and runs.count("two") == 1:
        raise ConnectionResetError("the disk of 'two' did not answer")
    return {"counts": [dict(Counter(TEXTS[part["name"]].split()))]}


def reduce(state: State) -> State:
    total = Counter()
    for counts in state["counts"]:
        total.update(counts)
    return {"top": sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))[:4]}


def main() -> None:
    builder = StateGraph(State)
    builder.add_node(count)
    builder.add_node(reduce)
    builder.add_conditional_edges(START, split, ["count"])
    builder.add_edge("count", "reduce")
    builder.add_edge("reduce", END)
    graph = builder.compile(checkpointer=InMemorySaver())
    # One at a time, so that it is certain which workers have finished when one fails.
    config = {"configurable": {"thread_id": "texts"}, "max_concurrency": 1}

    try:
        graph.invoke({"names": list(TEXTS)}, config)
    except ConnectionResetError as error:
        print("failed:", error)
    print("waiting:", graph.get_state(config).next)
    result = graph.invoke(None, config)
    print("counts:", result["counts"])
    print("top:", result["top"])
    print("'one' ran", runs.count("one"), "time,", "'two' ran", runs.count("two"), "times")


if __name__ == "__main__":
    main()
