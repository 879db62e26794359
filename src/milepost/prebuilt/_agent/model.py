"""The model of an agent: how it is chosen, bound to the tools, and given its input."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from langchain_core.language_models import BaseChatModel, LanguageModelInput, LanguageModelLike
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig, RunnableSequence
from langchain_core.tools import BaseTool

from milepost._engine.context.node_callable import callee_of
from milepost._engine.context.runtime import Runtime
from milepost._engine.context.task_context import current_context, find_context
from milepost._internal.supported import required
from milepost.prebuilt._agent.states import StateSchema, get
from milepost.prebuilt._effects import CallFunction, EffectRunnable, Effects, Invoke

Prompt: TypeAlias = (
    SystemMessage
    | str
    | Callable[[StateSchema], LanguageModelInput]
    | Runnable[StateSchema, LanguageModelInput]
)
"""What comes before the messages, or makes the model's input from the state."""

_AnyModel: TypeAlias = BaseChatModel | Runnable[LanguageModelInput, BaseMessage]
Model: TypeAlias = (
    str
    | LanguageModelLike
    | Callable[[Any, Runtime[Any]], _AnyModel]
    | Callable[[Any, Runtime[Any]], Awaitable[_AnyModel]]
)
"""A model, its name, or a function that chooses one in each step."""


class AgentModel:
    """The model of an agent, behind its prompt."""

    def __init__(
        self,
        model: Model,
        prompt: Prompt[Any] | None,
        tools: Sequence[BaseTool],
        builtin_tools: Sequence[dict[str, Any]],
    ) -> None:
        self._prompt = prompt_runnable(prompt)
        self._model: Any = model
        chooses = callable(model) and not isinstance(model, (str, Runnable))
        self._chain = None if chooses else self._prompt | _bound(model, tools, builtin_tools)

    def chain(self, state: Any) -> Effects[Runnable[Any, Any]]:
        """Prompt and model, for a state."""
        if self._chain is not None:
            return self._chain
        runtime = current_context("create_react_agent").runtime
        chosen = yield from _result_of(
            partial(self._model, state, runtime),
            "Async model callable provided but agent invoked synchronously. Use "
            "agent.ainvoke() or agent.astream(), or give a function that is not async.",
        )
        chain: Runnable[Any, Any] = self._prompt | chosen
        return chain


def _result_of(call: Callable[[], Any], refusal: str) -> Effects[Any]:
    """What a function of the program returns; an async one is refused in sync code."""
    result = yield CallFunction(call)
    if inspect.iscoroutine(result):
        result.close()
        raise RuntimeError(refusal)
    return result


def prompt_runnable(prompt: Prompt[Any] | None) -> Runnable[Any, Any]:
    """A runnable that makes the model's input from the state."""
    if prompt is None:
        return _state_function(lambda state: get(state, "messages"))
    if isinstance(prompt, (str, SystemMessage)):
        first = SystemMessage(prompt) if isinstance(prompt, str) else prompt
        return _state_function(lambda state: [first, *get(state, "messages")])
    if isinstance(prompt, Runnable):
        return prompt
    if callable(prompt):
        return _state_function(prompt)
    raise ValueError(
        f"A prompt is a text, a SystemMessage, a function or a runnable, not {prompt!r}."
    )


def _state_function(function: Callable[..., Any]) -> Runnable[Any, Any]:
    """A function of the state that is given what nodes are given: config, store, runtime.

    If the function returns a runnable, the runnable is called in its place.
    """
    name = "Prompt"
    callee = callee_of(function, name)
    called: Callable[..., Any] | None = callee.sync or callee.aio
    assert called is not None

    def logic(state: Any, config: RunnableConfig) -> Effects[Any]:
        context = find_context()
        given = {} if context is None else callee.arguments(context)
        if "config" in given:
            # That of the chain that the function is a part of, so that what it calls shows there.
            given["config"] = config
        result = yield from _result_of(
            partial(called, state, **given),
            f"'{name}' is an async function, and the agent was called from sync code: use "
            "ainvoke() or astream(), or give a sync function.",
        )
        return (yield Invoke(result, state, config)) if isinstance(result, Runnable) else result

    return EffectRunnable(logic, name)


def _bound(
    model: Any, tools: Sequence[BaseTool], builtin_tools: Sequence[dict[str, Any]]
) -> Runnable[Any, Any]:
    """The model, bound to the tools unless it is bound to them already."""
    if isinstance(model, str):
        with required(
            f"To find the model {model!r} by its name, milepost needs LangChain's catalogue: "
            "run `pip install langchain`, or pass the model itself."
        ):
            from langchain.chat_models import init_chat_model
        model = init_chat_model(model)
    every = [*tools, *builtin_tools]
    if should_bind_tools(model, tools, len(builtin_tools)) and every:
        return model.bind_tools(every)  # type: ignore[no-any-return]
    return model  # type: ignore[no-any-return]


def _inside(model: Any) -> Any:
    """The model in a sequence of runnables."""
    if isinstance(model, RunnableSequence):
        kinds = (RunnableBinding, BaseChatModel)
        return next((step for step in model.steps if isinstance(step, kinds)), model)
    return model


def should_bind_tools(model: Any, tools: Sequence[BaseTool], num_builtin: int = 0) -> bool:
    """Whether a model is bound to no tools yet; ValueError if it is bound to other ones."""
    model = _inside(model)
    if not isinstance(model, RunnableBinding) or "tools" not in model.kwargs:
        return True
    bound = model.kwargs["tools"]
    if len(tools) != len(bound) - num_builtin:
        raise ValueError(
            "The model was bound to other tools than the agent has: "
            f"{len(bound) - num_builtin} of them, and the agent has {len(tools)}. Number of tools "
            "in the model.bind_tools() and tools passed to create_react_agent must match."
        )
    known = {
        tool["function"]["name"] if tool.get("type") == "function" else tool.get("name")
        for tool in bound
    }
    if missing := {tool.name for tool in tools} - known:
        raise ValueError(
            f"Missing tools '{missing}' in the model.bind_tools(): bind the model to the tools of "
            "the agent, or pass it unbound."
        )
    return False


def chat_model_of(model: LanguageModelLike) -> BaseChatModel:
    """The chat model inside of what was bound to it and chained with it."""
    found = _inside(model)
    if isinstance(found, RunnableBinding):
        found = found.bound
    if not isinstance(found, BaseChatModel):
        raise TypeError(
            f"Expected `model` to be a ChatModel or RunnableBinding (e.g. model.bind_tools(...)), "
            f"got {type(found)}"
        )
    return found
