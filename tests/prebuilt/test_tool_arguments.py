"""What a model is told of its arguments, and what tools are given that the model did not choose."""

from typing import TYPE_CHECKING, Annotated, Any

import pytest
from fake_models import calling
from langchain_core.tools import BaseTool, tool
from pydantic import BaseModel, model_validator

from milepost.prebuilt import InjectedState, ToolNode, ToolRuntime

if TYPE_CHECKING:
    from somewhere import Unknown  # type: ignore[import-not-found]

SECRET = "do not tell"


def told(tools: list[Any], name: str, args: dict[str, Any]) -> str:
    state = {"messages": [calling((name, args, "1"))], "user": "me", "secret": SECRET}
    (answer,) = ToolNode(tools).invoke(state)["messages"]
    return answer.content


class Span(BaseModel):
    low: int
    high: int
    state: Annotated[dict[str, Any], InjectedState]

    @model_validator(mode="after")
    def is_ordered(self) -> "Span":
        if self.low > self.high:
            raise ValueError("low must be <= high")
        return self


@tool(args_schema=Span)
def measure(low: int, high: int, state: Any) -> str:
    """Measure."""
    return f"{high - low} {state['user']}"


def test_a_model_is_told_what_a_validator_of_all_arguments_says():
    assert told([measure], "measure", {"low": 1, "high": 3}) == "2 me"
    answer = told([measure], "measure", {"low": 3, "high": 1})
    assert "with error:\n Value error, low must be <= high\n Please" in answer
    assert SECRET not in answer


def test_what_is_wrong_with_one_argument_is_told_with_its_name():
    assert "with error:\n low: Field required\n" in told([measure], "measure", {"high": 1})


class Query(BaseModel):
    text: str


class WithRuntime(BaseTool):
    name: str = "ask"
    description: str = "Ask."
    args_schema: Any = Query

    def _run(self, text: str, runtime: ToolRuntime) -> str:
        return f"{text} {runtime.state['user']}"


class WithState(WithRuntime):
    def _run(self, text: str, state: Annotated[Any, InjectedState]) -> str:  # type: ignore[override]
        return f"{text} {state['user']}"


class AsyncToo(WithRuntime):
    async def _arun(self, text: str, runtime: ToolRuntime) -> str:
        return self._run(text, runtime)


@pytest.mark.parametrize("make", [WithRuntime, WithState, AsyncToo])
def test_the_method_of_a_tools_class_says_what_is_injected(make):
    assert told([make()], "ask", {"text": "who"}) == "who me"


def test_a_method_with_a_name_for_type_checkers_alone_is_still_a_tool():
    class Odd(WithRuntime):
        def _run(self, text: str, more: "Unknown" = None) -> str:  # type: ignore[override]
            return text

    assert told([Odd()], "ask", {"text": "who"}) == "who"


@tool
def needs(lost: Annotated[str, InjectedState("gone")]) -> str:
    """Need."""
    return lost


class Plain:
    def __init__(self) -> None:
        self.messages = [calling(("needs", {}, "1"))]


@pytest.mark.parametrize(("state", "kind"), [(vars(Plain()), KeyError), (Plain(), AttributeError)])
def test_a_key_that_the_state_does_not_have_is_named(state, kind):
    text = "Tool 'needs' wants the key 'gone' of the state for its parameter 'lost'.* default"
    with pytest.raises(kind, match=text):
        ToolNode([needs]).invoke(state)
