"""`log`, `diff` and `blame` on random histories, beside what the graph itself tells of them."""

import copy
import operator
import os
import random
from typing import Annotated, Any, TypedDict

import pytest

from milepost.graph import START, StateGraph
from milepost.inspect import Database, Ref, as_data, blame, diff, graph_rows, log

LONG = bool(os.environ.get("MILEPOST_LONG"))
CONFIG = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    appended: Annotated[list[Any], operator.add]
    edited: list[str]
    settings: dict[str, Any]
    text: str
    number: int


class History:
    """A thread that random runs, updates and forks have made, and all of its states."""

    def __init__(self, saver: Any, seed: int) -> None:
        self.random = random.Random(seed)
        self.made = 0
        self.graph = self._graph().compile(checkpointer=saver)
        self.db = Database.of(saver)
        self.graph.invoke(self.values(), CONFIG)
        for _ in range(self.random.randint(3, 8)):
            self._change()
        self.states = list(self.graph.get_state_history(CONFIG))
        self.by_id = {self.id(state): state for state in self.states}

    def _graph(self) -> StateGraph:
        graph = StateGraph(State)
        for name in ("one", "two", "three"):
            graph.add_node(name, self._write)
        graph.add_edge(START, "one")
        graph.add_edge("one", "two")
        graph.add_edge("one", "three")
        return graph

    def _write(self, state: State) -> dict[str, Any]:
        # Nodes of one step run at the same time: only a key with a reducer may be written by both.
        return {"appended": [self.token()]} if self.random.random() < 0.8 else {}

    def _change(self) -> None:
        choice = self.random.random()
        if choice < 0.3:
            self.graph.invoke(self.values(), CONFIG)
            return
        states = list(self.graph.get_state_history(CONFIG))
        base = states[0] if choice < 0.6 else self.random.choice(states)
        node = self.random.choice(["one", "two"])
        self.graph.update_state(base.config, self.values(base.values), as_node=node)
        if self.random.random() < 0.5:
            self.graph.invoke(None, CONFIG)

    def token(self) -> str:
        self.made += 1
        return f"token {self.made}"

    def values(self, before: Any = None) -> dict[str, Any]:
        """Some keys with new values; a list keeps the order of what stays in it."""
        before = before or {}
        edited = [one for one in before.get("edited", []) if self.random.random() < 0.8]
        edited.insert(self.random.randint(0, len(edited)), self.token())
        settings = {
            k: v for k, v in before.get("settings", {}).items() if self.random.random() < 0.8
        }
        settings[self.random.choice("abc")] = self.random.choice(
            [self.token(), None, {"inner": self.random.randint(0, 3)}, [self.token()]]
        )
        lines = before.get("text", "one\ntwo\nthree").split("\n")
        lines[self.random.randrange(len(lines))] = self.token()
        new = {
            "appended": [self.token()],
            "edited": edited,
            "settings": settings,
            "text": "\n".join(lines),
            "number": self.random.choice([0, 1, True, 1.0]),
        }
        keys = self.random.sample(sorted(new), self.random.randint(1, len(new)))
        return {key: new[key] for key in keys}

    @staticmethod
    def id(state: Any) -> str:
        return state.config["configurable"]["checkpoint_id"]

    def parent(self, state: Any) -> Any:
        config = state.parent_config
        return None if config is None else self.by_id[config["configurable"]["checkpoint_id"]]

    def line(self, state: Any) -> list[Any]:
        """A state and those before it, newest first."""
        found = []
        while state is not None:
            found.append(state)
            state = self.parent(state)
        return found

    def ref(self, state: Any) -> Ref:
        return Ref("t", "", self.id(state))


@pytest.fixture(params=range(30 if LONG else 3))
def history(request, saver) -> History:
    return History(saver, request.param)


def test_the_log_is_the_history_that_the_graph_tells(history):
    entries = list(log(history.db, "t"))
    assert [entry.checkpoint_id for entry in entries] == [*map(history.id, history.states)]
    for entry, state in zip(entries, history.states, strict=True):
        parent = history.parent(state)
        assert entry.parent_id == (None if parent is None else history.id(parent))
        assert (entry.step, entry.source) == (state.metadata["step"], state.metadata["source"])
        if entry is not entries[0]:
            assert sorted(entry.next) == sorted(state.next)
        assert [t.id for t in entry.tasks] == sorted_ids(state.tasks, entry.tasks)
        told = state.metadata["writes"] if entry.source in ("loop", "update") else None
        if told:
            shown = {node: sorted(keys) for node, keys in entry.writes.items() if keys}
            assert shown == {node: keys for node, keys in keys_of(told).items() if keys}


def sorted_ids(theirs: Any, ours: Any) -> list[str]:
    """The ids of tasks, in the order in which the entry has them."""
    by_name: dict[str, list[str]] = {}
    for task in theirs:
        by_name.setdefault(task.name, []).append(task.id)
    return [by_name[task.name].pop(0) for task in ours]


def keys_of(told: Any) -> dict[str, list[str]]:
    return {node: sorted(written or {}) for node, written in told.items()}


def test_lanes_lead_from_every_checkpoint_to_its_parent(history):
    """Walk down the drawing by its signs alone, and see where each lane arrives."""
    rows = list(graph_rows(log(history.db, "t")))
    assert len([row for row in rows if row.entry is not None]) == len(history.states) > 1
    for at, row in enumerate(rows):
        if row.entry is None:
            continue
        column = row.lanes.index("*")
        arrived = walk_down(rows[at + 1 :], column) if row.entry.parent_id else None
        assert arrived == row.entry.parent_id


def walk_down(rows: Any, column: int) -> str | None:
    for row in rows:
        signs = row.lanes.ljust(column + 1)
        if row.entry is not None and signs[column] == "*":
            return row.entry.checkpoint_id
        if row.entry is None and signs[column] != "|":
            # This lane goes over to the left: as far as the line under it reaches.
            assert row.lanes[column - 1] == "/", row.lanes
            column -= 2
            while column >= 2 and row.lanes[column - 1] == "_":
                column -= 2
    return None


def test_a_difference_undone_gives_the_state_before(history):
    states = [history.random.choices(history.states, k=2) for _ in range(12)]
    for before, after in [*states, (history.states[0], history.states[0])]:
        changes = diff(history.db, history.ref(before), history.ref(after))
        data = stored(after)
        assert undone(copy.deepcopy(data), changes) == stored(before)
        for change in changes:
            if change.kind != "removed":
                assert part(data, change.path) == change.after
            if change.lines is not None:
                assert {line[0] for line in change.lines} <= set("@+- ")


def stored(state: Any) -> Any:
    """A state without what only the graph knows: that a key with a reducer begins empty."""
    return as_data({key: value for key, value in state.values.items() if value != []})


def part(data: Any, path: Any) -> Any:
    for step in path:
        data = data[step]
    return data


def undone(data: Any, changes: Any) -> Any:
    """The state before, made of the one after: from the inside to the outside."""
    for change in sorted(changes, key=lambda one: -len(one.path)):
        if change.kind == "changed":
            part(data, change.path[:-1])[change.path[-1]] = change.before
    for depth in sorted({len(change.path) for change in changes}, reverse=True):
        here = [change for change in changes if len(change.path) == depth]
        added = [change for change in here if change.kind == "added"]
        for change in sorted(added, key=lambda one: str(one.path[-1]).zfill(9), reverse=True):
            del part(data, change.path[:-1])[change.path[-1]]
        removed = [change for change in here if change.kind == "removed"]
        for change in sorted(removed, key=lambda one: str(one.path[-1]).zfill(9)):
            inside = part(data, change.path[:-1])
            if isinstance(inside, list):
                inside.insert(change.path[-1], change.before)
            else:
                inside[change.path[-1]] = change.before
    return data


@pytest.mark.parametrize("key", ["appended", "edited", "settings", "text", "number"])
def test_each_part_is_blamed_on_the_step_that_made_it(history, key):
    having = [state for state in history.states if state.values.get(key, []) not in ([], {})]
    assert having
    for state in history.random.sample(having, min(4, len(having))):
        parts = blame(history.db, history.ref(state), (key,))
        line = history.line(state)
        for found in parts:
            first = first_with(line, key, found.path, state)
            assert found.checkpoint_id == history.id(first)
            assert found.step == first.metadata["step"]
            told = first.metadata["writes"]
            if first.metadata["source"] in ("loop", "update") and told:
                wrote = {node for node, keys in keys_of(told).items() if key in keys}
                assert set(found.nodes) == wrote
            else:
                assert found.nodes == ("__start__",)
        count = len(state.values[key]) if isinstance(state.values[key], (list, dict)) else 1
        assert len(parts) == count


def first_with(line: Any, key: str, path: Any, state: Any) -> Any:
    """The oldest of the states, without a gap, that have the part: by its value in a list, whose
    members are all different, and else by its place."""

    def has(other: Any) -> bool:
        there = other.values.get(key)
        mine = state.values[key]
        if len(path) == 1:
            return there == mine and type(there) is type(mine)
        if isinstance(mine, list):
            return mine[path[1]] in (there or [])
        return path[1] in (there or {}) and there[path[1]] == mine[path[1]]

    first = line[0]
    for older in line[1:]:
        if not has(older):
            return first
        first = older
    return first
