"""Parts of libraries that they do not document: bounded versions, and an error where one is gone."""

from __future__ import annotations

import sys
import tomllib
from contextvars import copy_context
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from milepost._internal.supported import RANGES
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
from milepost.errors import MissingDependencyError
from milepost.graph import START, MessagesState, StateGraph
from milepost.store.sqlite.aio import AsyncSqliteStore
from milepost.warnings import MilepostWarning

pytest.importorskip("langchain_core.language_models.chat_model_stream")

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
INSTALL = r"langchain-core>=1\.4,<1\.9, and langchain-core \S+ is installed: run `pip install 'milepost\[langchain\]'`"

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")


@pytest.mark.parametrize("extra", RANGES)
def test_messages_name_the_ranges_of_the_extras(extra: str) -> None:
    extras = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["optional-dependencies"]
    assert tuple(extras[extra]) == RANGES[extra]


def answer(state: Any, config: RunnableConfig) -> Any:
    return {"messages": [AIMessage("made by the node")]}


def streamed() -> list[Any]:
    graph = StateGraph(MessagesState).add_node("a", answer).add_edge(START, "a").compile()
    return list(graph.stream_events({"messages": "hi"}, version="v3").messages)


def test_v3_without_the_handler_for_blocks_says_which_langchain_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr("langchain_core.tracers._streaming._V2StreamingCallbackHandler")
    monkeypatch.delitem(sys.modules, "milepost.integrations._langchain.block_stream", False)
    with pytest.raises(MissingDependencyError, match=INSTALL):
        streamed()


def test_v3_without_the_events_of_a_message_says_which_langchain_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "langchain_core.language_models._compat_bridge", None)
    with pytest.raises(MissingDependencyError, match=INSTALL):
        streamed()


def test_prebuilt_without_the_base_of_injected_arguments_says_which_langchain_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr("langchain_core.tools.base._DirectlyInjectedToolArg")
    monkeypatch.delitem(sys.modules, "milepost.prebuilt._tools.injection", False)
    with pytest.raises(MissingDependencyError, match=INSTALL):
        import_module("milepost.prebuilt._tools.injection")


def test_langsmith_without_a_way_to_set_the_parent_of_a_trace_is_warned_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("langsmith")
    from milepost.integrations._langchain import callbacks

    monkeypatch.delattr("langsmith.run_helpers._set_tracing_context")
    with pytest.warns(MilepostWarning, match=r"langsmith>=0\.3\.45,<0\.15; run `pip install"):
        callbacks._trace_below(object(), copy_context())


@pytest.mark.parametrize("owner", [AsyncSqliteSaver, AsyncSqliteStore])
def test_an_aiosqlite_that_cannot_call_in_its_thread_is_named_with_the_range(
    owner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    aiosqlite = pytest.importorskip("aiosqlite")
    monkeypatch.delattr("aiosqlite.Connection._execute")
    wanted = r"aiosqlite>=0\.20,<0\.23, .* `pip install 'milepost\[aiosqlite\]'`"
    with pytest.raises(MissingDependencyError, match=wanted):
        owner(aiosqlite.connect(":memory:"))


def test_a_callback_of_the_users_that_takes_chunks_gets_those_of_a_sequence() -> None:
    from langchain_core.callbacks import BaseCallbackHandler

    from milepost.integrations._langchain.sequences import streams
    from milepost.integrations.langchain import TokenStream

    log_stream = import_module("langchain_core.tracers.log_stream")
    assert streams(log_stream.LogStreamCallbackHandler())
    assert not streams(BaseCallbackHandler())
    assert not streams(object.__new__(TokenStream))
