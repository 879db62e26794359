"""create_react_agent does what LangGraph's does: each case runs on both and is compared."""

import asyncio
import warnings
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from fake_models import ScriptedModel, prebuilt_of, shown
from langchain_core.messages import AIMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import InjectedToolCallId, tool
from pydantic import BaseModel

from milepost.prebuilt import create_react_agent

OURS, THEIRS = prebuilt_of("milepost"), prebuilt_of("langgraph")
VERSIONS = pytest.mark.parametrize("version", ["v1", "v2"])
INPUT = {"messages": [("user", "hi")]}


def weather(city: str) -> str:
    """Weather."""
    return f"sunny in {city}"


@tool(return_direct=True)
def final(x: int) -> str:
    """Final."""
    return f"final {x}"


CALLS = [[("weather", {"city": "a"}, "1"), ("weather", {"city": "b"}, "2")], "done"]


def run(lib: Any, aio: bool, tools: Any, options: dict[str, Any]) -> Any:
    options = {key: one(lib) if key in LATE else one for key, one in options.items()}
    script = options.pop("script", CALLS)
    config = options.pop("config", {})
    invoked = options.pop("invoked", {})
    model = ScriptedModel(script=script, structured=options.pop("structured", None))
    make = options.pop("model", lambda model: model)
    try:
        agent = lib.create_react_agent(make(model), tools(lib), **options)
        call = {"config": config, **invoked}
        state = asyncio.run(agent.ainvoke(INPUT, **call)) if aio else agent.invoke(INPUT, **call)
    except Exception as error:
        return type(error).__name__
    return shown(state), model.heard


LATE = ("state_schema", "prompt_of", "post_model_hook", "pre_model_hook")
"""Options that are made for each library."""


def same(tools: Any = lambda lib: [weather], *, sync: bool = True, **options: Any) -> Any:
    wanted = run(THEIRS, not sync, tools, options)
    if sync:
        assert run(OURS, False, tools, options) == wanted
        assert run(OURS, True, tools, options) == wanted
    else:
        assert run(OURS, True, tools, options) == wanted
    return wanted


@VERSIONS
def test_an_agent_calls_its_tools_until_it_has_an_answer(version):
    state, heard = same(version=version)
    assert [message[0] for message in state["messages"]] == ["human", "ai", "tool", "tool", "ai"]
    assert len(heard) == 2


def test_an_agent_without_tools_just_answers():
    same(lambda lib: [], script=["hello"])
    same(lambda lib: [{"type": "web_search"}], script=["hello"])


def from_config(state: Any, config: RunnableConfig) -> list[Any]:
    return [SystemMessage(config["configurable"]["who"]), *state["messages"]]


async def on_a_loop(state: Any) -> list[Any]:
    return [SystemMessage("async"), *state["messages"]]


@pytest.mark.parametrize(
    "prompt",
    [
        *("be kind", SystemMessage("be kind"), from_config, None),
        RunnableLambda(lambda state: [SystemMessage("runnable"), *state["messages"]]),
        lambda state: RunnableLambda(lambda state: state["messages"][-1:]),
    ],
)
def test_prompts_of_all_kinds_reach_the_model(prompt):
    same(prompt=prompt, config={"configurable": {"who": "someone"}})


def test_an_async_prompt_works_on_a_loop():
    assert same(prompt=on_a_loop, sync=False)[1][0][0] == "async"
    assert run(OURS, False, lambda lib: [weather], {"prompt": on_a_loop}) == "RuntimeError"


def test_a_prompt_of_another_type_is_refused():
    assert same(prompt=7) == "ValueError"


class Answer(BaseModel):
    value: int


@pytest.mark.parametrize("response_format", [Answer, ("answer in numbers", Answer), {"title": "x"}])
@pytest.mark.parametrize("has_tools", [True, False])
def test_a_structured_response_is_asked_for_at_the_end(response_format, has_tools):
    tools = (lambda lib: [weather]) if has_tools else (lambda lib: [])
    script = CALLS if has_tools else ["hello"]
    # A model that is given a JSON schema answers with a dict.
    answer = {"value": 3} if isinstance(response_format, dict) else Answer(value=3)
    state, _ = same(tools, script=script, response_format=response_format, structured=answer)
    assert state["structured_response"] == answer


def test_a_structured_response_can_be_stored():
    model = ScriptedModel(script=["hello"], structured=Answer(value=3))
    agent = OURS.create_react_agent(
        model, [], response_format=Answer, checkpointer=OURS.InMemorySaver()
    )
    config = {"configurable": {"thread_id": "t"}}
    agent.invoke(INPUT, config)
    assert agent.get_state(config).values["structured_response"] == Answer(value=3)


def overwrite(lib: Any) -> Any:
    return lambda state: {
        "messages": [RemoveMessage(id="__remove_all__"), *state["messages"][-4:]],
    }


@VERSIONS
def test_a_hook_before_the_model_changes_the_state(version):
    same(version=version, pre_model_hook=overwrite)


def test_a_hook_before_the_model_gives_it_other_messages():
    def hook(lib: Any) -> Any:
        from langchain_core.messages import HumanMessage

        return lambda state: {"llm_input_messages": [HumanMessage("short"), *state["messages"][1:]]}

    state, heard = same(pre_model_hook=hook)
    assert [said[0] for said in heard] == ["short", "short"]
    assert state["messages"][0][1] == "hi"


def refuse_second(lib: Any) -> Any:
    def hook(state: Any) -> Any:
        last = state["messages"][-1]
        if isinstance(last, AIMessage) and len(last.tool_calls) == 2:
            return {"messages": [ToolMessage("refused", tool_call_id="2", name="weather")]}
        return {}

    return hook


@pytest.mark.parametrize("response_format", [None, Answer])
def test_a_hook_after_the_model_may_answer_its_calls(response_format):
    state, _ = same(
        post_model_hook=refuse_second, response_format=response_format, structured=Answer(value=1)
    )
    assert sorted(m[1] for m in state["messages"] if m[0] == "tool") == ["refused", "sunny in a"]


@VERSIONS
@pytest.mark.parametrize(
    "calls",
    [[("final", {"x": 1}, "1")], [("weather", {"city": "a"}, "1"), ("final", {"x": 1}, "2")]],
)
def test_a_tool_that_returns_directly_ends_the_agent(version, calls):
    _state, heard = same(lambda lib: [weather, final], script=[calls, "done"], version=version)
    assert len(heard) == 1


@VERSIONS
@pytest.mark.parametrize("limit", [2, 3, 4, 5])
def test_the_recursion_limit_ends_the_agent_alike(version, limit):
    same(script=[CALLS[0]], version=version, config={"recursion_limit": limit})


def custom_state(lib: Any) -> Any:
    class State(lib.AgentState):
        user: str

    return State


def pydantic_state(lib: Any) -> Any:
    class State(lib.AgentStatePydantic):
        user: str = "?"

    return State


def renaming(lib: Any) -> list[Any]:
    @tool
    def rename(
        state: Annotated[Any, lib.InjectedState], id: Annotated[str, InjectedToolCallId]
    ) -> Any:
        """Rename."""
        kind = "dict" if isinstance(state, dict) else "model"
        done = ToolMessage(f"renamed in {kind}", tool_call_id=id)
        return lib.Command(update={"user": "new", "messages": [done]})

    return [rename]


@VERSIONS
@pytest.mark.parametrize("schema", [custom_state, pydantic_state])
def test_a_tool_changes_a_state_of_the_programs_own(version, schema):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state, _ = same(
            renaming, script=[[("rename", {}, "1")], "done"], state_schema=schema, version=version
        )
    assert state["user"] == "new"


def test_a_state_without_the_keys_is_refused():
    def schema(lib: Any) -> Any:
        return lib.MessagesState

    assert same(state_schema=schema) == "ValueError"


@dataclass
class Context:
    line: str


def chosen(model: Any) -> Any:
    def choose(state: Any, runtime: Any) -> Any:
        assert runtime.context.line == "x"
        return model.bind_tools([tool(weather)])

    return choose


def chosen_on_a_loop(model: Any) -> Any:
    async def choose(state: Any, runtime: Any) -> Any:
        return model.bind_tools([tool(weather)])

    return choose


def test_a_function_chooses_the_model():
    same(model=chosen, context_schema=Context, invoked={"context": Context("x")})


def test_an_async_function_chooses_the_model_on_a_loop_only():
    same(model=chosen_on_a_loop, sync=False)
    assert same_error(model=chosen_on_a_loop) == "RuntimeError"


def same_error(**options: Any) -> Any:
    found = [run(lib, False, lambda lib: [weather], options) for lib in (OURS, THEIRS)]
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("bound", [[tool(weather)], [tool(weather), final], [final]])
def test_a_model_that_was_bound_before_must_know_the_same_tools(bound):
    same(model=lambda model: model.bind_tools(bound))


def test_a_name_marks_the_messages_of_the_model():
    state, _ = same(name="helper")
    assert state["messages"][-1][2] == "helper"


def test_unknown_options_and_versions_are_refused():
    assert same(extra=1) == "TypeError"
    assert same(version="v3") == "ValueError"


def test_the_former_name_of_the_context_schema_warns():
    with pytest.warns(DeprecationWarning, match="config_schema"):
        agent = create_react_agent(ScriptedModel(script=["x"]), [], config_schema=Context)
    assert agent.builder.context_schema is Context


def test_an_unanswered_call_at_the_end_of_the_input_is_refused():
    call = {"name": "weather", "args": {}, "id": "7", "type": "tool_call"}
    given = {"messages": [("user", "hi"), AIMessage("", tool_calls=[call])]}
    for lib in (OURS, THEIRS):
        agent = lib.create_react_agent(ScriptedModel(script=CALLS), [weather])
        with pytest.raises(ValueError, match="do not have a corresponding ToolMessage"):
            agent.invoke(given)


@VERSIONS
def test_pauses_before_and_after_nodes_are_alike(version):
    found = []
    for lib in (OURS, THEIRS):
        agent = lib.create_react_agent(
            ScriptedModel(script=CALLS),
            [weather],
            checkpointer=lib.InMemorySaver(),
            interrupt_before=["tools"],
            interrupt_after=["tools"],
            version=version,
        )
        config = {"configurable": {"thread_id": "t"}}
        steps = []
        for given in (INPUT, None, None):
            state = agent.invoke(given, config)
            steps.append((len(state["messages"]), sorted(set(agent.get_state(config).next))))
        found.append(steps)
    assert found[0] == found[1]


@pytest.mark.parametrize("before", [None, lambda state: {}])
@pytest.mark.parametrize("after", [None, lambda state: {}])
@pytest.mark.parametrize("response_format", [None, Answer])
@pytest.mark.parametrize("tools", [[], [weather], [weather, final]])
def test_pictures_are_the_same(before, after, response_format, tools):
    def picture(lib: Any) -> str:
        agent = lib.create_react_agent(
            ScriptedModel(script=["x"]),
            tools,
            pre_model_hook=before,
            post_model_hook=after,
            response_format=response_format,
        )
        return agent.get_graph().draw_mermaid(with_styles=False)

    assert picture(OURS) == picture(THEIRS)
