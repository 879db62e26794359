"""A RemoteGraph is a LangChain Runnable, and its runs are streams, as LangGraph's are."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

pytest.importorskip("langgraph_sdk")

from langchain_core.runnables import Runnable, RunnableLambda
from langgraph.pregel.remote import RemoteGraph as TheirRemoteGraph
from langgraph.types import Command as TheirCommand

from milepost.pregel.remote import RemoteGraph
from milepost.types import Command

LIBRARIES = pytest.mark.parametrize(
    ("make", "command"),
    [(RemoteGraph, Command), (TheirRemoteGraph, TheirCommand)],
    ids=["milepost", "langgraph"],
)
T: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "ns", "user": "u"}}


class SdkThread(MagicMock):
    """The client's thread, with what the server is told."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.thread_id = "t"
        self.values = ["v1", "v2"]
        self.interrupts = ["q"]
        self.interrupted = True


def graph(make: Any, **thread: Any) -> tuple[Any, Any]:
    """A graph whose server starts one run, and the client's thread."""
    sdk_thread = SdkThread(**thread)
    sdk_thread.run.start.return_value = {"run_id": "r"}
    client = MagicMock()
    client.threads.stream.return_value = sdk_thread
    return make("agent", client=client, sync_client=client), sdk_thread


@LIBRARIES
def test_entering_it_starts_the_run_with_what_the_server_can_be_told(make, command):
    remote, thread = graph(make)
    with remote.stream_events({"x": 1}, T, version="v3", metadata={"m": 1}) as run:
        assert list(run.values) == ["v1", "v2"]
        assert (run.interrupted, run.interrupts) == (True, ["q"])
        assert set(run.extensions) >= {"values", "messages", "updates", "custom"}
    thread.run.start.assert_called_once_with(
        input={"x": 1}, config={"configurable": {"user": "u"}}, metadata={"m": 1}
    )
    assert remote.sync_client.threads.stream.call_args.kwargs == {
        "thread_id": "t",
        "assistant_id": "agent",
        "headers": None,
    }
    thread.__exit__.assert_called_once_with(None, None, None)


@LIBRARIES
def test_of_a_command_the_answer_alone_is_sent(make, command):
    remote, thread = graph(make)
    with remote.stream_events(command(resume="yes"), version="v3"):
        assert thread.run.start.call_args.kwargs["input"] == "yes"
    with pytest.raises(NotImplementedError, match="goto"):
        remote.stream_events(command(goto="there"), version="v3")


@LIBRARIES
def test_a_run_that_does_not_start_closes_the_thread(make, command):
    remote, thread = graph(make)
    thread.run.start.side_effect = RuntimeError("no")
    with pytest.raises(RuntimeError, match="no"), remote.stream_events({}, version="v3"):
        pass
    assert thread.__exit__.call_args.args[0] is RuntimeError


@LIBRARIES
def test_aborting_cancels_the_run_once_and_closes_the_thread_whatever_the_server_says(
    make, command
):
    remote, thread = graph(make)
    remote.sync_client.runs.cancel.side_effect = RuntimeError("gone")
    with remote.stream_events({}, version="v3") as run:
        run.abort()
        run.abort()
    remote.sync_client.runs.cancel.assert_called_once_with("t", "r", wait=False)
    thread.close.assert_called_once()


@LIBRARIES
@pytest.mark.parametrize("option", ["control", "transformers", "interrupt_before", "context"])
def test_what_the_server_has_no_words_for_is_refused(make, command, option):
    remote, _ = graph(make)
    with pytest.raises(NotImplementedError, match=option):
        remote.stream_events({}, version="v3", **{option: ["x"]})


@LIBRARIES
def test_a_run_of_async_events_is_followed_and_aborted_like_a_sync_one(make, command):
    async def go() -> Any:
        remote, thread = graph(make)
        thread.run.start = AsyncMock(return_value={"run_id": "r"})
        thread.close = AsyncMock()
        remote.client.runs.cancel = AsyncMock()
        async with await remote.astream_events({"x": 1}, T, version="v3") as run:
            seen = (await run.interrupted(), await run.interrupts(), run.values)
            await run.abort()
        remote.client.runs.cancel.assert_awaited_once_with("t", "r", wait=False)
        with pytest.raises(NotImplementedError, match="not implemented"):
            await remote.astream_events({}, version="v2")
        return seen

    assert asyncio.run(go()) == (True, ["q"], ["v1", "v2"])


def test_a_remote_graph_is_a_runnable(monkeypatch):
    remote, _ = graph(RemoteGraph)
    monkeypatch.setattr(RemoteGraph, "invoke", lambda self, input, config=None, **_: input + 1)
    assert isinstance(remote, Runnable)
    doubled = RunnableLambda(lambda n: n * 2)
    assert (remote | doubled).invoke(1) == 4
    assert (doubled | remote).invoke(1) == 3
    assert remote.batch([1, 2]) == [2, 3]
    assert remote.with_retry().invoke(1) == 2
    assert remote.with_fallbacks([doubled]).invoke(1) == 2
    assert remote.bind().invoke(5) == 6
