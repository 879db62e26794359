import operator
from typing import Annotated, TypedDict

from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import START, StateGraph


class State(TypedDict):
    notes: Annotated[list[str], operator.add]


def research(state: State):
    return {"notes": ["rivers run to the sea"]}


def write(state: State):
    return {"notes": [f"a text from {len(state['notes'])} note(s)"]}


builder = StateGraph(State).add_sequence([research, write]).add_edge(START, "research")
with SqliteSaver.from_conn_string("threads.db") as saver:
    graph = builder.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "1"}}
    print(graph.invoke({"notes": []}, config)["notes"])
    before_write = next(s for s in graph.get_state_history(config) if s.next == ("write",))
    fork = graph.update_state(before_write.config, {"notes": ["some run dry"]})
    print(graph.invoke(None, fork)["notes"])
