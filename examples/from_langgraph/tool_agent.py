"""An agent that calls tools until it knows the answer. The model is a stand-in with a script.

Run it with LangGraph (`python tool_agent.py`) or with milepost
(`milepost run --as-langgraph tool_agent.py`): the output is the same.
"""

import json
from collections.abc import Callable

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

PRICES = {"apple": 30, "pear": 45}


def price(item: str) -> str:
    return str(PRICES[item])


def add(a: int, b: int) -> str:
    return str(a + b)


TOOLS: dict[str, Callable[..., str]] = {"price": price, "add": add}


def fake_model(messages: list[AnyMessage]) -> AIMessage:
    """Asks for both prices at once, then for their sum, then answers."""
    results = [m.content for m in messages if isinstance(m, ToolMessage)]
    if not results:
        calls = [
            {"name": "price", "args": {"item": item}, "id": f"price-{item}"} for item in PRICES
        ]
        return AIMessage("", id="ask-prices", tool_calls=calls)
    if len(results) == 2:
        a, b = map(int, results)
        call = {"name": "add", "args": {"a": a, "b": b}, "id": "sum"}
        return AIMessage("", id="ask-sum", tool_calls=[call])
    return AIMessage(f"Together they cost {results[-1]} cents.", id="answer")


def model(state: MessagesState) -> dict:
    return {"messages": [fake_model(state["messages"])]}


def tools(state: MessagesState) -> dict:
    results = []
    for call in state["messages"][-1].tool_calls:
        content = TOOLS[call["name"]](**call["args"])
        results.append(ToolMessage(content, tool_call_id=call["id"], id=f"result-{call['id']}"))
    return {"messages": results}


def wants_tools(state: MessagesState) -> str:
    return "tools" if state["messages"][-1].tool_calls else END


def main() -> None:
    builder = StateGraph(MessagesState)
    builder.add_node(model)
    builder.add_node(tools)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", wants_tools, ["tools", END])
    builder.add_edge("tools", "model")
    agent = builder.compile(checkpointer=InMemorySaver())

    config = {"configurable": {"thread_id": "prices"}}
    question = HumanMessage("What do an apple and a pear cost together?", id="question")
    for update in agent.stream({"messages": [question]}, config, stream_mode="updates"):
        for node, written in update.items():
            for message in written["messages"]:
                calls = [call["name"] for call in getattr(message, "tool_calls", [])]
                print(json.dumps([node, message.type, message.content, calls]))
    steps = [s.metadata["step"] for s in agent.get_state_history(config)]
    print("checkpoints:", steps)


if __name__ == "__main__":
    main()
