"""A conversation goes on after a tool has failed or a run was cancelled: the model is told."""

import asyncio
from typing import Any

import pytest
from fake_models import ScriptedModel, calling
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from milepost.prebuilt import create_react_agent
from milepost.prebuilt.chat_agent_executor import _validate_chat_history
from milepost.warnings import MilepostWarning

VERSIONS = pytest.mark.parametrize("version", ["v1", "v2"])
GO_ON: Any = {"messages": [("user", "are you there?")]}
LOST = "did not finish"


@tool
def fail(x: int) -> str:
    """Fail."""
    raise ConnectionError("no line")


@tool
def work(x: int) -> str:
    """Work."""
    return f"done {x}"


CALLS = [("fail", {"x": 1}, "1"), ("work", {"x": 2}, "2")]


def agent_of(*script: Any, **options: Any) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(script=list(script))
    return create_react_agent(model, [fail, work], **options), model


@VERSIONS
@pytest.mark.filterwarnings("ignore:Thread .* waits in a step in which")
def test_after_a_failure_the_user_can_go_on(run, saver, config, version):
    agent, model = agent_of(CALLS, "yes", checkpointer=saver, version=version)
    with pytest.raises(ConnectionError):
        run.invoke(agent, {"messages": [("user", "go")]}, config)
    with pytest.warns(MilepostWarning, match="The model is told"):
        state = run.invoke(agent, GO_ON, config)
    # The state has what was said, and no more; the model has an answer after each call.
    assert [m.content for m in state["messages"]] == ["go", "", "are you there?", "yes"]
    go, _call, *told, then = model.heard[-1]
    assert (go, then) == ("go", "are you there?")
    assert [LOST in one for one in told] == [True, True]
    assert ["'fail'" in told[0], "'work'" in told[1]] == [True, True]


def test_an_agent_warns_once_and_tells_its_model_each_time(run, saver, config):
    agent, model = agent_of(CALLS, "yes", "still", checkpointer=saver)
    with pytest.raises(ConnectionError):
        run.invoke(agent, {"messages": [("user", "go")]}, config)
    with pytest.warns(MilepostWarning):
        run.invoke(agent, GO_ON, config)
    run.invoke(agent, GO_ON, config)  # a warning would be an error
    assert [sum(LOST in text for text in heard) for heard in model.heard] == [0, 2, 2]


def test_after_a_cancelled_run_the_user_can_go_on(saver, config):
    async def main() -> Any:
        begun = asyncio.Event()

        @tool
        async def wait(x: int) -> None:
            """Wait."""
            begun.set()
            await asyncio.Event().wait()

        script = [[("wait", {"x": 1}, "1")], "yes"]
        agent = create_react_agent(ScriptedModel(script=script), [wait], checkpointer=saver)
        first = asyncio.create_task(agent.ainvoke({"messages": [("user", "go")]}, config))
        await begun.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return await agent.ainvoke(GO_ON, config)

    with pytest.warns(MilepostWarning, match="'wait'"):
        state = asyncio.run(main())
    assert state["messages"][-1].content == "yes"


def heard_of(given: list[Any], **options: Any) -> list[str]:
    """What the model is asked, and an error of the agent's as its text."""
    agent, model = agent_of("one", "two", **options)
    agent.invoke({"messages": given})
    return model.heard[0]


ANSWER = ToolMessage("done 2", tool_call_id="2")


@pytest.mark.filterwarnings("ignore::milepost.warnings.MilepostWarning")
@pytest.mark.parametrize(
    ("given", "heard"),
    [
        ([calling(*CALLS), ANSWER, HumanMessage("hi")], ["", "?", "done 2", "hi"]),
        ([calling(*CALLS), ANSWER], ["", "?", "done 2"]),
        ([calling(*CALLS), HumanMessage("hi"), ANSWER], ["", "?", "hi", "done 2"]),
        ([calling(CALLS[1]), ANSWER, HumanMessage("hi")], ["", "done 2", "hi"]),
    ],
)
def test_calls_that_have_an_answer_keep_it(given, heard):
    assert ["?" if LOST in text else text for text in heard_of(given)] == heard


def test_what_a_hook_gives_the_model_is_told_of_too():
    given = [calling(*CALLS), HumanMessage("hi")]
    with pytest.warns(MilepostWarning):
        heard = heard_of(
            [HumanMessage("?")], pre_model_hook=lambda _: {"llm_input_messages": given}
        )
    assert [LOST in text for text in heard] == [False, True, True, False]


class Answer(BaseModel):
    value: int


@pytest.mark.filterwarnings("ignore::milepost.warnings.MilepostWarning")
def test_so_is_the_model_that_gives_the_response_its_form():
    model = ScriptedModel(script=["one"], structured=Answer(value=1))
    agent = create_react_agent(model, [fail], response_format=Answer)
    agent.invoke({"messages": [calling(CALLS[0]), HumanMessage("hi")]})
    assert [[LOST in text for text in heard].count(True) for heard in model.heard] == [1, 1]


NAMELESS = AIMessage("", tool_calls=[{"name": "fail", "args": {"x": 1}, "id": None}])


@pytest.mark.parametrize("given", [[calling(*CALLS)], [HumanMessage("hi"), calling(*CALLS)]])
def test_calls_at_the_end_are_still_to_be_made(given):
    with pytest.raises(ValueError, match="Let the tools run first"):
        heard_of(given)


def test_a_call_without_an_id_cannot_be_answered():
    with pytest.raises(ValueError, match="do not have a corresponding ToolMessage"):
        heard_of([NAMELESS, HumanMessage("hi")])


@pytest.mark.usefixtures("strictly")
def test_a_strict_agent_refuses_them_all():
    with pytest.raises(ValueError, match="do not have a corresponding ToolMessage"):
        heard_of([calling(*CALLS), HumanMessage("hi")])


def test_the_check_that_other_packages_import_refuses_them_all():
    with pytest.raises(ValueError, match="do not have a corresponding ToolMessage"):
        _validate_chat_history([calling(*CALLS), HumanMessage("hi")])
