"""Two agents that hand over to each other (`langgraph-swarm`).

Run it with LangGraph (`python swarm.py`) or with milepost
(`milepost run --as-langgraph swarm.py`): the output is the same.
"""

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_swarm import create_handoff_tool, create_swarm
from scripted_model import calls, says, show


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


clerk = create_agent(
    says(calls(("transfer_to_counter", {})), "Welcome back."),
    [create_handoff_tool(agent_name="counter")],
    system_prompt="You welcome people.",
    name="clerk",
)
counter = create_agent(
    says(calls(("add", {"a": 2, "b": 3})), "It is 5.", calls(("transfer_to_clerk", {}))),
    [add, create_handoff_tool(agent_name="clerk")],
    system_prompt="You count.",
    name="counter",
)
app = create_swarm([clerk, counter], default_active_agent="clerk").compile(
    checkpointer=InMemorySaver()
)
thread = {"configurable": {"thread_id": "1"}}
for text in ("What is 2 + 3?", "Thank you. I want to go back."):
    result = app.invoke({"messages": [HumanMessage(text)]}, thread)
    print("active:", result["active_agent"])
show(result["messages"])
