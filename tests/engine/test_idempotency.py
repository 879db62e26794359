"""The idempotency key: the same for every attempt at the same thing, and for nothing else."""

import pytest

from hitl_graphs import Inner, State, before_node, calling, chain, step
from milepost.func import entrypoint, task
from milepost.graph import START, StateGraph
from milepost.runtime import Runtime, get_runtime
from milepost.types import Command, RetryPolicy, Send, interrupt
from savers import Lossy


class Crash(BaseException):
    """Stands for the end of the process: no handler of the runtime counts on it."""


def key() -> str:
    """The idempotency key of the task that asks."""
    return get_runtime().execution_info.idempotency_key


class TestTheIdempotencyKey:
    @pytest.fixture
    def keys(self) -> list[str]:
        return []

    def failing(self, keys, times, error=ValueError):
        """A node that has an effect under its key, and then fails so many times."""

        def node(state: State):
            keys.append(key())
            if len(keys) <= times:
                raise error("after the effect")
            return {"log": ["node"]}

        return node

    def test_is_a_string(self, run, keys, saver, config):
        run.invoke(chain(("node", self.failing(keys, 0)), checkpointer=saver), {"log": []}, config)
        assert isinstance(keys[0], str)
        assert keys[0]

    def test_is_in_the_injected_runtime(self, run, keys, saver, config):
        def node(state: State, runtime: Runtime):
            keys.extend([runtime.execution_info.idempotency_key, key()])

        run.invoke(chain(("node", node), checkpointer=saver), {"log": []}, config)
        assert keys[0] == keys[1]

    def test_is_the_same_on_a_retry(self, run, keys, saver, config, durability):
        builder = StateGraph(State)
        retry = RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError)
        builder.add_node("node", self.failing(keys, 2), retry_policy=retry)
        builder.add_edge(START, "node")
        graph = builder.compile(checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        assert len(keys) == 3
        assert len(set(keys)) == 1

    @pytest.mark.parametrize("durability", ["sync", "async"])
    def test_is_the_same_on_a_resume_after_an_error(self, run, keys, saver, config, durability):
        graph = chain(("a", step([], "a")), ("node", self.failing(keys, 1)), checkpointer=saver)
        with pytest.raises(ValueError, match="after the effect"):
            run.invoke(graph, {"log": []}, config, durability=durability)
        run.invoke(graph, None, config, durability=durability)
        assert len(keys) == 2
        assert len(set(keys)) == 1

    @pytest.mark.parametrize("durability", ["sync", "async"])
    def test_is_the_same_on_a_resume_after_an_interrupt(self, run, keys, saver, config, durability):
        def node(state: State):
            keys.append(key())
            return {"log": [interrupt("one?"), interrupt("two?")]}

        graph = chain(("node", node), checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        run.invoke(graph, Command(resume=1), config, durability=durability)
        run.invoke(graph, Command(resume=2), config, durability=durability)
        assert len(keys) == 3
        assert len(set(keys)) == 1

    @pytest.mark.parametrize("durability", ["sync", "async"])
    def test_is_the_same_on_a_resume_after_a_crash(self, keys, saver, config, durability):
        graph = chain(
            ("a", step([], "a")), ("node", self.failing(keys, 1, Crash)), checkpointer=saver
        )
        with pytest.raises(Crash):
            graph.invoke({"log": []}, config, durability=durability)
        graph.invoke(None, config, durability=durability)
        assert len(keys) == 2
        assert len(set(keys)) == 1

    @pytest.mark.parametrize("reached", [-1, 0, 1])
    def test_is_the_same_when_the_crash_lost_checkpoints_that_were_on_their_way(
        self, keys, config, reached
    ):
        lossy = Lossy()
        lossy.loses_after = reached
        graph = chain(
            ("a", step([], "a")), ("node", self.failing(keys, 1, Crash)), checkpointer=lossy
        )
        with pytest.raises(Crash):
            graph.invoke({"log": []}, config, durability="async")
        lossy.loses_after = None
        assert graph.get_state(config).metadata["step"] == reached
        assert graph.invoke(None, config, durability="async") == {"log": ["a", "node"]}
        assert len(keys) == 2
        assert len(set(keys)) == 1

    def test_under_exit_is_the_same_for_the_same_run_id(self, keys, config):
        lossy = Lossy()
        lossy.loses_after = -2
        graph = chain(("node", self.failing(keys, 1, Crash)), checkpointer=lossy)
        config = {**config, "run_id": "01890a5d-ac96-774b-bcce-b302099a8057"}
        with pytest.raises(Crash):
            graph.invoke({"log": []}, config, durability="exit")
        lossy.loses_after = None
        graph.invoke({"log": []}, config, durability="exit")
        assert len(keys) == 2
        assert len(set(keys)) == 1

    def test_is_another_one_on_a_replay(self, run, keys, saver, config):
        graph = chain(("node", self.failing(keys, 0)), checkpointer=saver)
        run.invoke(graph, {"log": []}, config)
        at = before_node(run.history(graph, config), "node")
        run.invoke(graph, None, at.config)
        run.invoke(graph, None, at.config)
        assert len(keys) == 3
        assert len(set(keys)) == 3

    def test_is_another_one_on_a_fork(self, run, keys, saver, config):
        graph = chain(("node", self.failing(keys, 0)), checkpointer=saver)
        run.invoke(graph, {"log": []}, config)
        at = before_node(run.history(graph, config), "node")
        forks = [run.update_state(graph, at.config, {"log": [n]}) for n in range(2)]
        for fork in forks:
            run.invoke(graph, None, fork)
        assert len(keys) == 3
        assert len(set(keys)) == 3

    def test_of_a_replay_is_the_same_when_the_replay_is_resumed(self, run, keys, saver, config):
        def node(state: State):
            keys.append(key())
            return {"log": [interrupt("sure?")]}

        graph = chain(("node", node), checkpointer=saver)
        run.invoke(graph, {"log": []}, config)
        run.invoke(graph, Command(resume=1), config)
        at = before_node(run.history(graph, config), "node")
        run.invoke(graph, None, at.config)
        run.invoke(graph, Command(resume=2), config)
        first, second, third, fourth = keys
        assert first == second != third == fourth

    def test_differs_between_tasks_steps_runs_and_threads(self, run, keys, saver):
        def node(state: State):
            keys.append(key())
            return {"log": ["x"]}

        builder = StateGraph(State)
        for name in "xy":
            builder.add_node(name, node)
            builder.add_edge(START, name)
        builder.add_node("sent", lambda state: keys.append(key()))
        builder.add_conditional_edges(
            "x", lambda state: [Send("sent", {}) for _ in range(2)], ["sent"]
        )
        graph = builder.compile(checkpointer=saver)
        for thread in ("one", "one", "two"):
            run.invoke(graph, {"log": []}, {"configurable": {"thread_id": thread}})
        assert len(keys) == 12
        assert len(set(keys)) == 12

    @pytest.mark.parametrize("durability", ["sync", "async"])
    def test_differs_between_calls_of_a_task_and_stays_over_a_resume(
        self, run, keys, saver, config, durability
    ):
        failing = [True]

        @task
        def effect(n):
            keys.append(key())
            if n == 1 and failing:
                failing.pop()
                raise ValueError("once")
            return n

        @entrypoint(checkpointer=saver)
        def flow(n):
            return [effect(i).result() for i in range(n)]

        with pytest.raises(ValueError, match="once"):
            run.invoke(flow, 2, config, durability=durability)
        assert run.invoke(flow, None, config, durability=durability) == [0, 1]
        zero, one, again = keys
        assert zero != one == again

    @pytest.mark.parametrize("called", [False, True], ids=["node", "function"])
    def test_of_a_subgraphs_node_stays_over_a_resume_and_changes_on_a_replay(
        self, run, keys, saver, config, called
    ):
        def node(state: Inner):
            keys.append(key())
            return {"inner": [interrupt("sure?")]}

        child = chain(("node", node), schema=Inner)
        if called:
            outer = calling(run, [], "child", child, {"inner": []})
        else:
            outer = child
        graph = chain(("child", outer), checkpointer=saver)
        run.invoke(graph, {"log": []}, config)
        run.invoke(graph, Command(resume=1), config)
        at = before_node(run.history(graph, config), "child")
        run.invoke(graph, None, at.config)
        first, second, third = keys
        assert first == second != third

    @pytest.mark.parametrize("memory", [None, True], ids=["no memory", "memory"])
    def test_differs_between_two_calls_of_a_graph_in_one_task(
        self, run, keys, saver, config, memory
    ):
        def node(state: Inner):
            keys.append(key())

        child = chain(("node", node), schema=Inner, checkpointer=memory)

        def twice(state: State):
            for _ in range(2):
                child.invoke({"inner": []})

        async def atwice(state: State):
            for _ in range(2):
                await child.ainvoke({"inner": []})

        outer = twice if run.colour == "sync" else atwice
        run.invoke(chain(("outer", outer), checkpointer=saver), {"log": []}, config)
        first, second = keys
        assert first != second

    def test_is_there_without_a_checkpointer(self, run, keys):
        run.invoke(chain(("node", self.failing(keys, 0))), {"log": []})
        assert keys[0]
