import operator
from typing import Annotated, TypedDict

from milepost.checkpoint.memory import InMemorySaver
from milepost.graph import START, StateGraph


class State(TypedDict):
    topic: str
    notes: Annotated[list[str], operator.add]


def research(state: State):
    return {"notes": [f"{state['topic']} run to the sea"]}


def write(state: State):
    return {"notes": [f"a text from {len(state['notes'])} note(s)"]}


builder = StateGraph(State).add_sequence([research, write]).add_edge(START, "research")
graph = builder.compile(checkpointer=InMemorySaver())
config = {"configurable": {"thread_id": "1"}}
graph.invoke({"topic": "rivers"}, config)
history = list(graph.get_state_history(config))
for snapshot in history:
    print(snapshot.metadata["step"], snapshot.next, snapshot.values["notes"])
fork = graph.update_state(history[1].config, {"notes": ["some run dry"]})
print(graph.invoke(None, fork)["notes"])
