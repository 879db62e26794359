"""A deep agent (`deepagents`): it keeps files in its state and gives work to a subagent.

Run it with LangGraph (`python deep_agent.py`) or with milepost
(`milepost run --as-langgraph deep_agent.py`): the output is the same.
"""

from deepagents import create_deep_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from scripted_model import calls, says, show

researcher = {
    "name": "researcher",
    "description": "Looks things up.",
    "system_prompt": "You look things up.",
    "model": says("Rivers run to the sea."),
    "tools": [],
}
agent = create_deep_agent(
    model=says(
        calls(("task", {"description": "Where do rivers run?", "subagent_type": "researcher"})),
        calls(("write_file", {"file_path": "/rivers.txt", "content": "to the sea"})),
        calls(("read_file", {"file_path": "/rivers.txt"})),
        "It is written down.",
        "As I said: to the sea.",
    ),
    subagents=[researcher],
    checkpointer=InMemorySaver(),
)
thread = {"configurable": {"thread_id": "1"}}
result = agent.invoke({"messages": [HumanMessage("Write down where rivers run.")]}, thread)
show(result["messages"])
print("files:", {name: file["content"] for name, file in result["files"].items()})
again = agent.invoke({"messages": [HumanMessage("And?")]}, thread)
show(again["messages"][-2:])
print("files:", sorted(again["files"]))
