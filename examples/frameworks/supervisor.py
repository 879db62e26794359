"""A supervisor that gives work to an agent (`langgraph-supervisor`).

Run it with LangGraph (`python supervisor.py`) or with milepost
(`milepost run --as-langgraph supervisor.py`): the output is the same.
"""

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_supervisor import create_supervisor
from scripted_model import calls, says, show


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


counter = create_agent(says(calls(("add", {"a": 2, "b": 3})), "It is 5."), [add], name="counter")
app = create_supervisor(
    [counter], model=says(calls(("transfer_to_counter", {})), "The answer is 5."), prompt="Lead."
).compile(checkpointer=InMemorySaver())
thread = {"configurable": {"thread_id": "1"}}
question = {"messages": [HumanMessage("What is 2 + 3?")]}
for namespace, update in app.stream(question, thread, stream_mode="updates", subgraphs=True):
    print([part.partition(":")[0] for part in namespace], sorted(update))
show(app.get_state(thread).values["messages"])
