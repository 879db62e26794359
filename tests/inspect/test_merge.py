"""Three-way merges of two branches."""

import operator
from typing import Annotated, Any, TypedDict

import pytest
from inspect_shop import at

from milepost.graph import START, StateGraph
from milepost.inspect import (
    Database,
    InspectError,
    MergeConflictError,
    Ref,
    log,
    merge,
    show,
)
from milepost.types import Overwrite


class State(TypedDict, total=False):
    notes: Annotated[list[str], operator.add]
    total: Annotated[int, operator.add]
    title: str
    status: str


def graph() -> Any:
    builder = StateGraph(State)
    builder.add_node("write", lambda _: {})
    builder.add_edge(START, "write")
    return builder


@pytest.fixture
def branches(saver):
    """A database, its graph, and a function that makes a branch from the common ancestor."""
    compiled = graph().compile(checkpointer=saver)
    compiled.invoke({"notes": ["base"], "total": 1, "title": "T", "status": "new"}, at("t"))
    base = compiled.get_state(at("t")).config

    def branch(*updates: dict[str, Any]) -> Ref:
        config = base
        for update in updates:
            config = compiled.update_state(config, update)
        return Ref("t", "", config["configurable"]["checkpoint_id"])

    return Database.of(saver), compiled, branch


def test_a_key_that_one_branch_changed_gets_its_value(branches):
    db, compiled, branch = branches
    ours, theirs = branch({"title": "ours"}), branch({"status": "theirs"})
    done = merge(db, compiled, ours, theirs)
    values = show(db, done.ref).values
    assert (values["title"], values["status"]) == ("ours", "theirs")
    assert done.taken == ["status"]
    assert show(db, done.ref).parent_id == ours.at
    assert show(db, done.ref).metadata["merged"] == theirs.at


def test_a_reducer_is_given_what_the_other_branch_wrote(branches):
    db, compiled, branch = branches
    ours = branch({"notes": ["a"], "total": 10})
    theirs = branch({"notes": ["b"], "total": 5}, {"notes": ["c"]})
    done = merge(db, compiled, ours, theirs)
    values = show(db, done.ref).values
    assert values["notes"] == ["base", "a", "b", "c"]
    assert values["total"] == 1 + 10 + 5
    assert sorted(done.combined) == ["notes", "total"]
    assert len(list(log(db, "t"))) == 3 + 1 + 2 + 1  # in one checkpoint


def test_a_key_with_a_reducer_that_only_the_other_branch_changed_has_its_value(branches):
    db, compiled, branch = branches
    done = merge(db, compiled, branch({"title": "x"}), branch({"total": 5}, {"total": 7}))
    assert show(db, done.ref).values["total"] == 13


def test_conflicts_are_named_by_key_and_nothing_is_written(branches):
    db, compiled, branch = branches
    ours, theirs = branch({"title": "a", "status": "a"}), branch({"title": "b", "status": "b"})
    before = len(list(log(db, "t")))
    with pytest.raises(MergeConflictError, match="'status', 'title'") as caught:
        merge(db, compiled, ours, theirs)
    assert caught.value.keys == ("status", "title")
    assert len(list(log(db, "t"))) == before
    done = merge(db, compiled, ours, theirs, prefer={"title": "theirs", "status": "ours"})
    values = show(db, done.ref).values
    assert (values["title"], values["status"]) == ("b", "a")


def test_the_same_change_on_both_is_no_conflict(branches):
    db, compiled, branch = branches
    done = merge(db, compiled, branch({"title": "x"}), branch({"title": "x"}))
    assert (done.ref, dict(done.values)) == (None, {})


def test_a_value_that_was_overwritten_is_a_conflict_for_a_reducer(branches):
    db, compiled, branch = branches
    with pytest.raises(MergeConflictError, match="'notes'"):
        merge(db, compiled, branch({"notes": ["a"]}), branch({"notes": Overwrite([])}))


def test_a_dry_run_writes_nothing(branches):
    db, compiled, branch = branches
    ours, theirs = branch({"title": "ours"}), branch({"status": "theirs"})
    before = len(list(log(db, "t")))
    done = merge(db, compiled, ours, theirs, dry_run=True)
    assert (done.ref, dict(done.values)) == (None, {"status": "theirs"})
    assert len(list(log(db, "t"))) == before


def test_two_threads_are_not_merged(branches):
    db, compiled, branch = branches
    compiled.invoke({"title": "x"}, at("other"))
    with pytest.raises(InspectError, match="one thread"):
        merge(db, compiled, branch({"title": "a"}), Ref("other"))
