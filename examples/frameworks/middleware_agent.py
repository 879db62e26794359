"""An agent of `langchain.agents.create_agent` with middleware that asks a person before it buys.

Run it with LangGraph (`python middleware_agent.py`) or with milepost
(`milepost run --as-langgraph middleware_agent.py`): the output is the same.
"""

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, wrap_model_call
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from scripted_model import calls, says, show


def price(item: str) -> str:
    """What an item costs."""
    return {"apple": "30", "pear": "45"}[item]


def buy(item: str) -> str:
    """Buy an item."""
    return f"bought: {item}"


@wrap_model_call
def counted(request, handler):
    print("model is called with", len(request.messages), "messages")
    return handler(request)


model = says(
    calls(("price", {"item": "apple"}), ("price", {"item": "pear"})),
    calls(("buy", {"item": "apple"})),
    "You have an apple.",
)
agent = create_agent(
    model,
    [price, buy],
    middleware=[counted, HumanInTheLoopMiddleware(interrupt_on={"buy": True})],
    checkpointer=InMemorySaver(),
)
thread = {"configurable": {"thread_id": "1"}}
question = {"messages": [HumanMessage("Buy the cheaper fruit.")]}
for update in agent.stream(question, thread, stream_mode="updates"):
    print("update from", sorted(update))
asked = agent.get_state(thread).interrupts[0].value["action_requests"][0]
print("asked:", asked["name"], asked["args"])
approval = Command(resume={"decisions": [{"type": "approve"}]})
tokens = []
for chunk, metadata in agent.stream(approval, thread, stream_mode="messages"):
    if metadata["langgraph_node"] == "model":
        tokens.append(chunk.text)
print("tokens:", [token for token in tokens if token])
show(agent.get_state(thread).values["messages"])
