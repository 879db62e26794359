"""Two specialists, each a graph of its own, that hand a customer over to each other."""

import operator
from typing import Annotated, Literal

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict


class Desk(TypedDict, total=False):
    request: str
    said: Annotated[list[str], operator.add]
    agent: str


def greet(state: Desk) -> Desk:
    return {"said": [f"sales: you want {state['request']}"]}


def sell(state: Desk) -> Command:
    if "broken" in state["request"]:
        said = ["sales: that is for support"]
        return Command(goto="support", graph=Command.PARENT, update={"said": said})
    return Command(update={"said": ["sales: sold"], "agent": "sales"})


def diagnose(_state: Desk) -> Desk:
    serial = interrupt("support: what is the serial number?")
    return {"said": [f"support: {serial} is under warranty"], "agent": "support"}


def mend(state: Desk) -> Command:
    if "and" in state["request"]:
        rest = state["request"].partition(" and ")[2]
        update = {"request": rest, "said": ["support: mended, back to sales"]}
        return Command(goto="sales", graph=Command.PARENT, update=update)
    return Command(update={"said": ["support: mended"]})


def specialist(*nodes):
    builder = StateGraph(Desk)
    builder.add_sequence(nodes)
    builder.add_edge(START, nodes[0].__name__)
    return builder.compile()


def route(state: Desk) -> Literal["sales", "support"]:
    return "support" if state["request"].startswith("help") else "sales"


def main() -> None:
    builder = StateGraph(Desk)
    builder.add_node("sales", specialist(greet, sell), destinations=("support",))
    builder.add_node("support", specialist(diagnose, mend), destinations=("sales",))
    builder.add_conditional_edges(START, route)
    builder.add_edge("sales", END)
    graph = builder.compile(checkpointer=InMemorySaver())

    plain = {"configurable": {"thread_id": "plain"}}
    print(graph.invoke({"request": "a pen", "said": []}, plain))

    config = {"configurable": {"thread_id": "broken"}}
    result = graph.invoke({"request": "a broken lamp mended and a bulb", "said": []}, config)
    print([question.value for question in result["__interrupt__"]])
    state = graph.get_state(config, subgraphs=True)
    print(state.next, "inside:", state.tasks[0].state.next)
    for said in graph.invoke(Command(resume="L-7"), config)["said"]:
        print(said)


if __name__ == "__main__":
    main()
