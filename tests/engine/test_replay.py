"""Time travel: running again from a checkpoint of the past."""

import pytest

from graphs import id_of, line, steps

NODES = ("a", "b", "c")


@pytest.fixture
def travelled(run, saver, config):
    """A finished thread of three steps, the list of calls, and its history oldest first."""
    ran: list[str] = []
    graph = line(*NODES, ran=ran).compile(checkpointer=saver)
    run.invoke(graph, {}, config)
    ran.clear()
    return graph, ran, run.history(graph, config)[::-1]


@pytest.mark.parametrize(
    ("checkpoint", "again"),
    list(enumerate([["a", "b", "c"], ["a", "b", "c"], ["b", "c"], ["c"], []])),
)
def test_a_replay_runs_what_comes_after_the_checkpoint_and_nothing_before(
    run, travelled, checkpoint, again
):
    graph, ran, history = travelled
    result = run.invoke(graph, None, history[checkpoint].config)
    assert result["log"] == ["a", "b", "c"]
    assert ran == again


@pytest.mark.parametrize("durability", ["sync", "async"])
@pytest.mark.parametrize("checkpoint", range(5))
def test_a_replay_records_a_fork_that_descends_from_the_checkpoint(
    run, travelled, config, checkpoint, durability
):
    graph, _, history = travelled
    old = history[checkpoint]
    run.invoke(graph, None, old.config, durability=durability)
    new = run.history(graph, config)[: -len(history)][::-1]
    fork = new[0]
    assert fork.metadata["source"] == "fork"
    assert fork.metadata["step"] == old.metadata["step"] + 1
    assert fork.parent_config == old.config
    assert (fork.values, fork.next) == (old.values, old.next)
    assert [s.metadata["source"] for s in new[1:]] == ["loop"] * (4 - checkpoint)
    for child, parent in zip(new[1:], new, strict=False):
        assert child.parent_config == parent.config


def test_a_replay_leaves_the_original_untouched(run, travelled, durability):
    graph, _, history = travelled
    run.invoke(graph, None, history[1].config, durability=durability)
    for snapshot in history:
        again = run.get_state(graph, snapshot.config)
        assert (again.values, again.next, again.metadata, again.parent_config) == (
            snapshot.values,
            snapshot.next,
            snapshot.metadata,
            snapshot.parent_config,
        )


def test_after_a_replay_the_replayed_branch_is_the_threads_latest(run, travelled, config):
    graph, _, history = travelled
    run.invoke(graph, None, history[2].config)
    latest = run.get_state(graph, config)
    assert id_of(latest.config) > id_of(history[-1].config)
    assert latest.values == {"log": ["a", "b", "c"]}


def test_a_replay_gives_the_result_of_todays_nodes_not_of_the_stored_ones(run, saver, config):
    graph = line("a", "b").compile(checkpointer=saver)
    run.invoke(graph, {}, config)
    before_b = next(s for s in run.history(graph, config) if s.next == ("b",))
    changed = line("a", "b")
    changed.nodes.clear()
    changed.edges.clear()
    changed.add_node("a", lambda state: {"log": ["never"]})
    changed.add_node("b", lambda state: {"log": ["new b"]})
    changed.add_edge("__start__", "a").add_edge("a", "b")
    result = run.invoke(changed.compile(checkpointer=saver), None, before_b.config)
    assert result["log"] == ["a", "new b"]


def test_a_replay_can_be_stopped_and_resumed(run, travelled, config, durability):
    graph, ran, history = travelled
    run.invoke(graph, None, history[1].config, interrupt_before=["c"], durability=durability)
    assert ran == ["a", "b"]
    assert run.get_state(graph, config).next == ("c",)
    assert run.invoke(graph, None, config, durability=durability)["log"] == ["a", "b", "c"]
    assert ran == ["a", "b", "c"]


def test_a_new_input_at_an_old_checkpoint_branches_off_there(run, travelled, config):
    graph, ran, history = travelled
    old = history[2]
    result = run.invoke(graph, {"log": ["new"]}, old.config)
    assert result["log"] == ["a", "new", "a", "b", "c"]
    assert ran == ["a", "b", "c"]
    branch = run.history(graph, config)[: -len(history)][::-1]
    assert branch[0].metadata["source"] == "input"
    assert branch[0].parent_config == old.config


def test_a_replay_under_exit_saves_one_checkpoint(run, travelled, config):
    graph, ran, history = travelled
    run.invoke(graph, None, history[2].config, durability="exit")
    assert ran == ["b", "c"]
    new = run.history(graph, config)[: -len(history)]
    assert len(new) == 1
    assert (new[0].values, new[0].next) == ({"log": ["a", "b", "c"]}, ())


def test_a_replay_can_itself_be_replayed(run, travelled, config):
    graph, ran, history = travelled
    run.invoke(graph, None, history[2].config)
    fork = next(s for s in run.history(graph, config) if s.metadata["source"] == "fork")
    ran.clear()
    assert run.invoke(graph, None, fork.config)["log"] == ["a", "b", "c"]
    assert ran == ["b", "c"]
    assert [s for _, s, _ in steps(run.history(graph, config))].count("fork") == 2
