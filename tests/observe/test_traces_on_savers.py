"""The same trace on every driver, durability and saver."""

from traced_graphs import RESUMED, STORY, story

from milepost.types import Command


def test_the_tree_of_a_run_is_the_same_everywhere(run, saver, durability, config, recorded):
    graph = story().compile(checkpointer=saver, name="outer")
    run.invoke(graph, {"log": []}, config, durability=durability)
    paused = recorded.one("invoke_workflow outer")

    assert recorded.tree(without=["commit"]) == STORY
    assert paused.attributes["gen_ai.operation.name"] == "invoke_workflow"
    assert paused.attributes["gen_ai.workflow.name"] == "outer"
    assert paused.attributes["gen_ai.conversation.id"] == config["configurable"]["thread_id"]
    assert paused.attributes["milepost.durability"] == durability
    assert paused.attributes["milepost.outcome"] == "interrupted"
    assert not paused.attributes["milepost.resumed"]

    recorded.clear()
    run.invoke(graph, Command(resume="yes"), config, durability=durability)
    resumed = recorded.one("invoke_workflow outer")

    assert recorded.tree(without=["commit"]) == RESUMED
    assert resumed.attributes["milepost.resumed"]
    assert resumed.attributes["milepost.outcome"] == "success"
    (link,) = resumed.links
    assert link.context.span_id == paused.context.span_id
    assert link.context.trace_id == paused.context.trace_id != resumed.context.trace_id
    assert link.attributes["milepost.link"] == "resume"


def test_commits_are_where_they_happen(run, saver, durability, config, recorded):
    graph = story().compile(checkpointer=saver, name="outer")
    run.invoke(graph, {"log": []}, config, durability=durability)

    commits = recorded.named("commit")
    parents = {recorded.path(span)[-2] for span in commits}
    if durability == "sync" or (durability == "async" and saver.instant):
        assert parents >= {"invoke_workflow outer", "super_step 1", "super_step 2"}
    else:
        assert parents <= {"invoke_workflow outer", "invoke_workflow inner"}
    stored = {span.attributes.get("milepost.checkpoint_id") for span in commits}
    last = recorded.one("invoke_workflow outer").attributes["milepost.checkpoint_id.stored"]
    assert last in stored
    assert sum(span.attributes["milepost.writes"] for span in commits) >= 1
    if not saver.instant:
        assert all(span.attributes["milepost.bytes"] > 0 for span in commits)
