"""Agents of other packages, as they are installed, on milepost: they print what they print on
LangGraph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import pytest

from warm import ENGINE, LANGCHAIN, Warm, warm

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "frameworks"
NEEDED = {
    "deep_agent": "deepagents",
    "middleware_agent": "langchain.agents",
    "supervisor": "langgraph_supervisor",
    "swarm": "langgraph_swarm",
}


@pytest.fixture(scope="module")
def on_langgraph() -> Iterator[Callable[[str], str]]:
    """What a program prints."""
    with warm(*LANGCHAIN, cwd=FOLDER) as programs:
        yield cache(lambda path: printed(programs, path))


@pytest.fixture(scope="module")
def on_milepost() -> Iterator[Callable[..., str]]:
    with warm(*LANGCHAIN, *ENGINE, cwd=FOLDER) as programs:
        yield partial(printed, programs, "-m", "milepost.cli", "run", "--as-langgraph")


def printed(programs: Warm, *arguments: str) -> str:
    done = programs.run(*arguments)
    assert done.returncode == 0, done.stderr
    assert "MilepostWarning" not in done.stderr
    return done.stdout


def test_there_is_a_program_for_each_framework():
    assert sorted(NEEDED) == sorted(p.stem for p in FOLDER.glob("*.py") if "scripted" not in p.stem)


@pytest.mark.parametrize("prebuilt", ["ours", "original"])
@pytest.mark.parametrize("program", NEEDED)
def test_a_framework_prints_the_same_on_both_libraries(
    program, prebuilt, on_langgraph, on_milepost
):
    """With `langgraph.prebuilt` answered by milepost, and with the wheel of that name."""
    pytest.importorskip(NEEDED[program].partition(".")[0])
    original = ["--original", "prebuilt"] if prebuilt == "original" else []
    path = str(FOLDER / f"{program}.py")
    ours = on_milepost(*original, path)
    assert ours == on_langgraph(path)
    assert len(ours.splitlines()) > 10


REACHED_FOR = """
import sys

sys.path.insert(0, ".")

from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel
from scripted_model import calls


class Whole(FakeMessagesListChatModel):
    def bind_tools(self, tools, **_options):
        return self


def says(*script):
    return Whole(responses=[AIMessage(m) if isinstance(m, str) else m for m in script])


class Verdict(BaseModel):
    text: str


judge = create_agent(
    says(calls(("Verdict", {"text": "good"}))),
    response_format=ToolStrategy(Verdict),
    checkpointer=InMemorySaver(),
)
thread = {"configurable": {"thread_id": "1"}}
judge.invoke({"messages": [HumanMessage("well?")]}, thread)
print("stored:", repr(judge.get_state(thread).values["structured_response"]))

worker = create_agent(says("done"), name="worker")


def delegate(task: str) -> str:
    \"\"\"Let the worker do it.\"\"\"
    return worker.invoke({"messages": [HumanMessage(task)]})["messages"][-1].content


boss = create_agent(says(calls(("delegate", {"task": "dig"})), "thanks"), [delegate], name="boss")
print("tools:", sorted(boss.nodes["tools"].bound.tools_by_name))
run = boss.stream_events({"messages": [HumanMessage("dig!")]}, version="v3")
for agent in run.subagents:
    for _ in agent:
        pass
    print("agent:", agent.name, agent.cause)
"""

DEEP_MESSAGES = """
import sys

sys.path.insert(0, ".")

from deepagents import create_deep_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from scripted_model import says

agent = create_deep_agent(model=says("one", "two"), checkpointer=InMemorySaver())
thread = {"configurable": {"thread_id": "1"}}
seen = []
for text in ("a", "b"):
    agent.invoke({"messages": [HumanMessage(text)]}, thread)
    seen.append([m.id for m in agent.get_state(thread).values["messages"]])
print("ids:", all(seen[1]), "kept:", seen[1][:2] == seen[0], "messages:", len(seen[1]))
"""


@pytest.mark.parametrize(
    ("framework", "program", "expected"),
    [
        (
            "langchain",
            REACHED_FOR,
            "stored: Verdict(text='good')\n"
            "tools: ['delegate']\n"
            "agent: worker {'type': 'toolCall', 'tool_call_id': 'call-delegate'}\n",
        ),
        ("deepagents", DEEP_MESSAGES, "ids: True kept: True messages: 4\n"),
    ],
    ids=["answers, agents and tools", "ids of messages"],
)
def test_what_programs_expect_of_an_agent_is_there(
    tmp_path, framework, program, expected, on_langgraph, on_milepost
):
    """Answers of a type are stored, inner agents have their names, messages keep their ids."""
    pytest.importorskip(framework)
    path = tmp_path / "program.py"
    path.write_text(program)
    assert on_langgraph(str(path)) == expected
    assert on_milepost(str(path)) == expected


ASYNC_TOOL = """
import sys

sys.path.insert(0, ".")

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from scripted_model import calls, says


@tool
async def fetch(page: str) -> str:
    \"\"\"Fetch.\"\"\"
    return f"got {page}"


agent = create_agent(says(calls(("fetch", {"page": "x"})), "done"), [fetch])
print([m.content for m in agent.invoke({"messages": [HumanMessage("go")]})["messages"]])
"""


def test_an_agent_calls_async_tools_in_a_sync_run(tmp_path, on_milepost):
    pytest.importorskip("langchain")
    path = tmp_path / "program.py"
    path.write_text(ASYNC_TOOL)
    assert on_milepost(str(path)) == "['go', '', 'got x', 'done']\n"
