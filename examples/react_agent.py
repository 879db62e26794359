"""An agent that pays and ships, and asks before it pays. The model is a stand-in with a script.

    python react_agent.py

The van breaks down after the payment. The run fails, is resumed, and nothing is paid twice.
"""

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from milepost.checkpoint.memory import InMemorySaver
from milepost.prebuilt import ToolRuntime, create_react_agent
from milepost.types import Command, interrupt

van = {"works": False}


@tool
def pay(amount: int, runtime: ToolRuntime) -> str:
    """Pay an amount, if a person agrees."""
    if interrupt(f"pay {amount}?") != "yes":
        return "refused"
    print("paid, with an idempotency key of", len(runtime.idempotency_key), "characters")
    return f"paid {amount}"


@tool
def ship(to: str) -> str:
    """Ship the order."""
    if not van["works"]:
        raise ConnectionError("the van has broken down")
    print("shipped")
    return f"shipped to {to}"


class Script(BaseChatModel):
    """Calls both tools at once, then answers."""

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        results = [str(m.content) for m in messages if isinstance(m, ToolMessage)]
        message = AIMessage(f"Done: {', '.join(results)}.")
        if not results:
            calls = [
                {"name": "pay", "args": {"amount": 30}, "id": "1"},
                {"name": "ship", "args": {"to": "home"}, "id": "2"},
            ]
            message = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


def main() -> None:
    agent = create_react_agent(Script(), [pay, ship], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "order-1"}}
    try:
        agent.invoke({"messages": [("user", "order it")]}, config)
    except ConnectionError as error:
        print("failed:", error)
    (question,) = agent.get_state(config).interrupts
    print("asked:", question.value)
    try:
        agent.invoke(Command(resume={question.id: "yes"}), config)
    except ConnectionError as error:
        print("failed again:", error)
    van["works"] = True
    print(agent.invoke(None, config)["messages"][-1].content)


if __name__ == "__main__":
    main()
