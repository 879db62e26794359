"""The checks find what is wrong in histories that are made by hand."""

from __future__ import annotations

import itertools
from typing import Any

from attack.checks import ALONE, COPY, FOLLOWS, GONE, ONE_VALUE, SOUND, THERE, TYPED, WHOLE, Checks
from attack.graph import marked, told
from attack.history import Event


class Story:
    """Events one after the other, as one worker records them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._numbers = itertools.count()

    def call(self, operation: str, result: Any = None, error: Any = None, **told: Any) -> None:
        number = next(self._numbers)
        begin = Event("0.0", 0, number, "begin", len(self.events), operation, told)
        outcome = "error" if error else "ok"
        self.events.append(begin)
        at = len(self.events)
        self.events.append(
            begin._replace(phase="end", at=at, outcome=outcome, result=result, error=error)
        )

    def node(self, token: str, task: str, run: str, checkpoint: str, seen: Any = None) -> None:
        told = {"node": "begin", "thread": "t", "token": token, "task": task, "run": run}
        event = Event("0.0", -1, next(self._numbers), "note", len(self.events), "node")
        told |= {"checkpoint": checkpoint, "seen": seen}
        self.events.append(event._replace(arguments=told))

    def observe(self, *checkpoints: Any, problems: Any = ()) -> None:
        threads = {"t": list(checkpoints)} if checkpoints else {}
        self.call("observe", {"problems": list(problems), "threads": threads, "errors": {}})

    def broken(self) -> set[str]:
        return {violation.promise for violation in Checks().violations(self.events)}


def state(*tokens: str) -> dict[str, Any]:
    values: dict[str, Any] = {"log": [], "delta": [], "table": {}, "count": 0}
    for token in tokens:
        values["log"].append(token)
        values["delta"].append(token)
        values["table"] |= marked(token)["table"]
        values["count"] += 1
    return told(values)


def checkpoint(id: str, parent: str | None = None, run: str = "sync:r", **given: Any) -> Any:
    found = {"id": id, "parent": parent, "run": run, "source": "loop", "state": state()}
    return {**found, "tasks": [], "added": None if parent is None else [], **given}


def update(story: Story, id: str) -> None:
    story.call("update", id, thread="t", run="update:u", token=f"token {id}", at=None)


def delete(story: Story) -> None:
    story.call("remove", None, thread="t", how="delete_thread", options={})


def test_what_was_acknowledged_and_is_there_is_fine():
    story = Story()
    update(story, "1")
    story.observe(checkpoint("1", run="update:u"))
    assert story.broken() == set()


def test_what_was_acknowledged_must_be_there():
    story = Story()
    update(story, "1")
    story.observe(checkpoint("0"))
    assert story.broken() == {THERE}


def test_what_was_removed_need_not_be_there():
    story = Story()
    update(story, "1")
    delete(story)
    story.observe()
    assert story.broken() == set()


def test_a_step_on_which_a_node_ran_under_sync_must_be_there():
    story = Story()
    story.node("n", "task", "sync:r", "1", state())
    story.observe(checkpoint("0"))
    assert story.broken() == {THERE}


def test_what_was_there_before_a_deletion_must_not_be_seen_after_it():
    story = Story()
    update(story, "1")
    delete(story)
    story.call("read", [["", "1", state()]], thread="t", how="history")
    story.observe()
    assert story.broken() == {GONE}


def test_a_checkpoint_has_one_value():
    story = Story()
    story.call("read", [["", "1", state()]], thread="t", how="get_state")
    story.call("read", [["", "1", state("a")]], thread="t", how="get_state")
    assert story.broken() == {ONE_VALUE}


def test_a_state_whose_keys_disagree_was_not_read_whole():
    story = Story()
    values = {"log": ["a"], "delta": [], "table": {"a": 1}, "count": 1}
    story.call("read", [["", "1", told(values)]], thread="t", how="get_state")
    assert story.broken() == {WHOLE}


def test_a_state_has_what_the_tasks_of_its_parent_wrote():
    story = Story()
    story.node("n", "task", "sync:r", "1")
    first = checkpoint("1", tasks=[["task", "begin"]])
    story.observe(first, checkpoint("2", "1", added=["n"]))
    assert story.broken() == set()


def test_a_state_must_have_what_the_tasks_of_its_parent_wrote():
    story = Story()
    story.node("n", "another task", "sync:r", "1")
    first = checkpoint("1", tasks=[["task", "begin"]])
    story.observe(first, checkpoint("2", "1", added=["n"]))
    assert story.broken() == {FOLLOWS}


def test_nothing_is_in_a_state_that_nobody_wrote():
    story = Story()
    story.observe(checkpoint("1"), checkpoint("2", "1", added=["invented"]))
    assert story.broken() == {FOLLOWS}


def test_a_run_must_not_go_on_after_another_took_its_thread():
    story = Story()
    runs = ["sync:a", "sync:b", "sync:a"]
    story.observe(*(checkpoint(str(at), run=run) for at, run in enumerate(runs)))
    assert story.broken() == {ALONE}


def test_a_copy_must_have_what_its_source_had():
    story = Story()
    update(story, "1")
    update(story, "2")
    result = {"states": [["", "1", state()]], "problems": []}
    story.call("copy", result, thread="p", source="t", how="copy_thread")
    assert story.broken() == {COPY}


def test_what_verify_finds_is_a_violation():
    story = Story()
    story.observe(problems=["a row is gone"])
    assert story.broken() == {SOUND}


def test_an_untyped_error_is_a_violation():
    story = Story()
    error = ["sqlite3.OperationalError", "database is locked"]
    story.call("read", error=error, thread="t", how="get_state")
    assert story.broken() == {TYPED}


def test_a_conflict_needs_another_party():
    story = Story()
    error = ["milepost.errors.ThreadConflict", "taken"]
    story.call("update", error=error, thread="t", run="u", token="x", at=None)
    assert story.broken() == {TYPED}


def test_what_an_operation_says_is_wrong_is_a_violation():
    story = Story()
    told = {"promise": "nothing is lost", "what": "a row"}
    story.events.append(Event("0.0", 0, 0, "note", 0, "wrong", told))
    assert story.broken() == {"nothing is lost"}


def test_a_connection_of_the_checkers_own_fails_only_by_a_fault():
    hindered = ["attack.aside.Hindered", "disk I/O error"]
    for faults, broken in (((), {TYPED}), (("full",), set())):
        story = Story()
        for kind in faults:
            story.call("fault", kind=kind)
        story.call("look", error=hindered, thread="t", how="rows gone")
        assert story.broken() == broken
