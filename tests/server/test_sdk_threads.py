"""The official client's calls on threads, over real HTTP."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from langgraph_sdk.errors import (
    BadRequestError,
    ConflictError,
    NotFoundError,
    UnprocessableEntityError,
)
from serving import TOKEN, Running, asking_graph, on, serving

ASKED = {"question": "Go on?"}


def new_id() -> str:
    return str(uuid.uuid4())


def interrupted(ui: Running, thread_id: str | None = None) -> str:
    """A thread that waits for an answer."""
    thread_id = thread_id or new_id()
    ui.app.state.server.graphs["asking"].invoke({"log": ["in"]}, on(thread_id))
    return thread_id


def test_a_thread_is_created_read_and_deleted(sdk: Any) -> None:
    made = sdk.threads.create(metadata={"owner": "ann"}, graph_id="asking")
    assert uuid.UUID(made["thread_id"])
    assert made["metadata"] == {"owner": "ann", "graph_id": "asking"}
    assert (made["status"], made["values"], made["interrupts"]) == ("idle", {}, {})
    assert sdk.threads.get(made["thread_id"]) == made
    sdk.threads.delete(made["thread_id"])
    with pytest.raises(NotFoundError):
        sdk.threads.get(made["thread_id"])
    with pytest.raises(NotFoundError):
        sdk.threads.delete(made["thread_id"])


def test_a_thread_that_exists_is_a_conflict_unless_the_client_says_do_nothing(sdk: Any) -> None:
    thread_id = new_id()
    made = sdk.threads.create(thread_id=thread_id, metadata={"n": 1})
    with pytest.raises(ConflictError, match="exists already"):
        sdk.threads.create(thread_id=thread_id)
    again = sdk.threads.create(thread_id=thread_id, metadata={"n": 2}, if_exists="do_nothing")
    assert again == made


def test_supersteps_become_checkpoints_of_the_new_thread(sdk: Any) -> None:
    steps = [
        {"updates": [{"values": {"log": ["one"]}, "as_node": "__start__"}]},
        {"updates": [{"values": {"log": ["two"]}, "as_node": "plan"}]},
    ]
    made = sdk.threads.create(graph_id="asking", supersteps=steps)
    assert made["values"] == {"log": ["one", "two"]}
    state = sdk.threads.get_state(made["thread_id"])
    assert state["next"] == ["ask"]
    history = sdk.threads.get_history(made["thread_id"])
    assert [one["values"].get("log") for one in history][:2] == [["one", "two"], ["one"]]


def test_supersteps_that_the_graph_refuses_leave_no_thread(sdk: Any) -> None:
    thread_id = new_id()
    steps = [{"updates": [{"values": {"log": 7}, "as_node": "plan"}]}]
    with pytest.raises(UnprocessableEntityError):
        sdk.threads.create(thread_id=thread_id, graph_id="asking", supersteps=steps)
    with pytest.raises(NotFoundError):
        sdk.threads.get(thread_id)


def test_metadata_is_merged_and_the_answer_may_be_left_out(sdk: Any) -> None:
    thread_id = sdk.threads.create(metadata={"a": 1, "b": 1})["thread_id"]
    changed = sdk.threads.update(thread_id, metadata={"b": 2, "c": {"d": 3}})
    assert changed["metadata"] == {"a": 1, "b": 2, "c": {"d": 3}}
    assert sdk.threads.update(thread_id, metadata={"a": 9}, return_minimal=True) is None
    assert sdk.threads.get(thread_id)["metadata"]["a"] == 9
    with pytest.raises(NotFoundError):
        sdk.threads.update(new_id(), metadata={})


def test_a_time_to_live_is_refused_since_no_thread_has_one(sdk: Any) -> None:
    with pytest.raises(UnprocessableEntityError, match="ttl"):
        sdk.threads.create(ttl=5)
    thread_id = sdk.threads.create()["thread_id"]
    with pytest.raises(UnprocessableEntityError, match="ttl"):
        sdk.threads.update(thread_id, metadata={}, ttl=5)
    assert "ttl" not in sdk.threads.get(thread_id, include=["ttl"])


def test_threads_are_found_by_metadata_status_values_and_ids(sdk: Any, ui: Running) -> None:
    mark = new_id()
    waiting = sdk.threads.create(metadata={"mark": mark, "deep": {"x": [1, 2]}})["thread_id"]
    interrupted(ui, waiting)
    idle = sdk.threads.create(metadata={"mark": mark})["thread_id"]

    def found(**wanted: Any) -> set[str]:
        threads = sdk.threads.search(**{"metadata": {"mark": mark}, **wanted})
        return {thread["thread_id"] for thread in threads}

    assert found() == {waiting, idle}
    assert found(status="interrupted") == {waiting}
    assert found(status="idle") == {idle}
    assert found(status="busy") == set()
    assert found(metadata={"mark": mark, "deep": {"x": [2]}}) == {waiting}
    assert found(values={"log": ["planned"]}) == {waiting}
    assert found(values={"log": ["elsewhere"]}) == set()
    assert found(ids=[idle, new_id()]) == {idle}
    assert sdk.threads.count(metadata={"mark": mark}) == 2
    assert sdk.threads.count(metadata={"mark": mark}, status="interrupted") == 1
    assert sdk.threads.count(metadata={"mark": mark}, values={"log": ["in"]}) == 1


def test_a_found_thread_has_its_values_and_what_it_waits_for(sdk: Any, ui: Running) -> None:
    thread_id = interrupted(ui)
    (found,) = sdk.threads.search(ids=[thread_id])
    assert found["values"] == {"log": ["in", "planned"]}
    ((asked,),) = found["interrupts"].values()
    assert asked["value"] == ASKED
    assert found["status"] == "interrupted"
    assert found == sdk.threads.get(thread_id)


def test_a_search_is_sorted_paged_and_selected(sdk: Any, ui: Running) -> None:
    mark = new_id()
    ids = [sdk.threads.create(metadata={"mark": mark})["thread_id"] for _ in range(5)]

    def found(**wanted: Any) -> list[str]:
        threads = sdk.threads.search(metadata={"mark": mark}, **wanted)
        return [thread["thread_id"] for thread in threads]

    assert found(sort_by="thread_id", sort_order="asc") == sorted(ids)
    assert found(sort_by="thread_id", sort_order="desc") == sorted(ids, reverse=True)
    assert found() == ids[::-1]
    assert found(sort_by="created_at", sort_order="asc", limit=2, offset=3) == ids[3:]
    assert found(sort_by="status", sort_order="asc") == sorted(ids)
    assert len(found(limit=3)) == 3
    (one,) = sdk.threads.search(ids=[ids[0]], select=["thread_id", "status"])
    assert one == {"thread_id": ids[0], "status": "idle"}
    with ui.client() as client:
        body = {"metadata": {"mark": mark}, "limit": 2, "offset": 1}
        headers = client.post("/threads/search", json=body).headers
    assert (headers["x-pagination-total"], headers["x-pagination-next"]) == ("5", "3")


def test_parts_of_threads_are_extracted_by_path(sdk: Any, ui: Running) -> None:
    thread_id = interrupted(ui)
    wanted = {"last": "values.log[-1]", "none": "values.log[9].x", "who": "metadata.owner"}
    (found,) = sdk.threads.search(ids=[thread_id], extract=wanted, select=["thread_id"])
    assert found["extracted"] == {"last": "planned", "none": None, "who": None}
    for path in ("other.x", "values..x", "values[x]", "values.__class__[", ""):
        with pytest.raises(UnprocessableEntityError, match="path"):
            sdk.threads.search(extract={"x": path or "."})
    with pytest.raises(UnprocessableEntityError, match="10"):
        sdk.threads.search(extract={str(n): "values" for n in range(11)})


def test_a_copy_has_the_history_and_an_id_of_its_own(sdk: Any, ui: Running) -> None:
    thread_id = interrupted(ui)
    copied = sdk.threads.copy(thread_id)
    assert copied["thread_id"] != thread_id
    assert copied["values"] == {"log": ["in", "planned"]}
    assert copied["status"] == "interrupted"
    assert len(sdk.threads.get_history(copied["thread_id"])) == 3
    with pytest.raises(ConflictError):
        sdk.threads.copy(new_id())


def test_pruning_removes_threads_or_all_but_the_latest_state(sdk: Any, ui: Running) -> None:
    one, other = interrupted(ui), interrupted(ui)
    kept = sdk.threads.prune([one, new_id()], strategy="keep_latest")
    assert kept == {"pruned_count": 1}
    assert len(sdk.threads.get_history(one)) == 1
    assert sdk.threads.get_state(one)["next"] == ["ask"]
    assert sdk.threads.prune([one, other]) == {"pruned_count": 2}
    with pytest.raises(NotFoundError):
        sdk.threads.get(other)


def test_a_state_has_what_follows_and_where_it_is(sdk: Any, ui: Running) -> None:
    thread_id = interrupted(ui)
    state = sdk.threads.get_state(thread_id)
    assert state["values"] == {"log": ["in", "planned"]}
    assert state["next"] == ["ask"]
    (task,) = state["tasks"]
    assert task["name"] == "ask"
    assert {"id", "error", "interrupts", "checkpoint", "state", "result"} <= task.keys()
    assert [one["value"] for one in state["interrupts"]] == [ASKED]
    assert state["checkpoint"]["thread_id"] == thread_id
    assert state["parent_checkpoint"]["checkpoint_id"] < state["checkpoint"]["checkpoint_id"]
    assert state["metadata"]["step"] == 1
    parent = state["parent_checkpoint"]
    assert sdk.threads.get_state(thread_id, checkpoint=parent)["values"] == {"log": ["in"]}
    by_id = sdk.threads.get_state(thread_id, checkpoint_id=parent["checkpoint_id"])
    assert by_id["next"] == ["plan"]


def test_parts_of_a_state_are_selected(sdk: Any, ui: Running) -> None:
    thread_id = interrupted(ui)
    assert sdk.threads.get_state(thread_id, select=["next"]) == {"next": ["ask"]}
    part = sdk.threads.get_state(thread_id, select=["values.log", "next"])
    assert part == {"values": {"log": ["in", "planned"]}, "next": ["ask"]}
    history = sdk.threads.get_history(thread_id, select=["values.log"])
    assert history[0] == {"values": {"log": ["in", "planned"]}}
    with pytest.raises(UnprocessableEntityError, match="other"):
        sdk.threads.get_state(thread_id, select=["other"])


def test_a_thread_that_never_ran_has_an_empty_state(sdk: Any) -> None:
    thread_id = sdk.threads.create()["thread_id"]
    state = sdk.threads.get_state(thread_id)
    assert (state["values"], state["next"], state["tasks"]) == ({}, [], [])
    assert sdk.threads.get_history(thread_id) == []


def test_what_is_not_there_is_not_found(sdk: Any, ui: Running) -> None:
    for call in (sdk.threads.get, sdk.threads.get_state, sdk.threads.get_history):
        with pytest.raises(NotFoundError, match="no thread"):
            call(new_id())
    with pytest.raises(NotFoundError):
        sdk.threads.get_state(interrupted(ui), checkpoint_id=new_id())


def test_an_update_writes_as_a_node_and_at_an_older_checkpoint_forks(sdk: Any, ui: Running) -> None:
    thread_id = interrupted(ui)
    made = sdk.threads.update_state(thread_id, {"log": ["edited"]}, as_node="plan")
    assert sdk.threads.get_state(thread_id)["checkpoint"] == made["checkpoint"]
    assert sdk.threads.get_state(thread_id)["values"]["log"] == ["in", "planned", "edited"]
    first = sdk.threads.get_history(thread_id)[-2]
    fork = sdk.threads.update_state(
        thread_id, {"log": ["other"]}, as_node="plan", checkpoint=first["checkpoint"]
    )
    state = sdk.threads.get_state(thread_id)
    assert state["values"]["log"] == ["in", "other"]
    assert state["checkpoint"]["checkpoint_id"] == fork["checkpoint"]["checkpoint_id"]
    assert state["parent_checkpoint"]["checkpoint_id"] == first["checkpoint"]["checkpoint_id"]


def test_an_update_that_the_graph_refuses_changes_nothing(sdk: Any, ui: Running) -> None:
    thread_id = interrupted(ui)
    for values, node in (({"log": 7}, "plan"), ({"nokey": 1}, "plan"), ({}, "nonode")):
        with pytest.raises(UnprocessableEntityError):
            sdk.threads.update_state(thread_id, values, as_node=node)
    assert len(sdk.threads.get_history(thread_id)) == 3
    with pytest.raises(NotFoundError):
        sdk.threads.update_state(new_id(), {"log": []})


def test_a_thread_of_another_graph_is_read_and_not_written(sdk: Any) -> None:
    thread_id = sdk.threads.create(graph_id="elsewhere")["thread_id"]
    assert sdk.threads.get_state(thread_id)["values"] == {}
    with pytest.raises(BadRequestError, match="graph"):
        sdk.threads.update_state(thread_id, {"log": []})


def test_a_history_is_bounded_and_begins_before_a_checkpoint(sdk: Any, ui: Running) -> None:
    thread_id = interrupted(ui)
    whole = sdk.threads.get_history(thread_id)
    assert [one["metadata"]["step"] for one in whole] == [1, 0, -1]
    assert sdk.threads.get_history(thread_id, limit=1) == whole[:1]
    newest = whole[0]["checkpoint"]
    assert sdk.threads.get_history(thread_id, before=newest) == whole[1:]
    assert sdk.threads.get_history(thread_id, before=newest["checkpoint_id"]) == whole[1:]
    assert sdk.threads.get_history(thread_id, metadata={"step": 0}) == whole[1:2]
    with ui.client() as client:
        found = client.get(f"/threads/{thread_id}/history", params={"limit": 2})
    assert found.json() == whole[:2]


def test_a_checkpoint_that_names_none_is_refused(sdk: Any, ui: Running) -> None:
    thread_id = interrupted(ui)
    config = {"configurable": {"checkpoint_id": "1f"}}
    with pytest.raises(UnprocessableEntityError, match="unknown field `configurable`"):
        sdk.threads.get_history(thread_id, before=config)
    with pytest.raises(UnprocessableEntityError, match="unknown field `configurable`"):
        sdk.threads.update_state(thread_id, {}, checkpoint=config)


def test_ids_may_hold_any_character(sdk: Any, ui: Running) -> None:
    for name in ("a/b", "..", "a?b#c", "ü %2F", "<script>"):
        thread_id = f"{name}{new_id()}" if name != ".." else name
        made = sdk.threads.create(thread_id=thread_id, if_exists="do_nothing")
        assert made["thread_id"] == thread_id
        assert sdk.threads.get(thread_id)["thread_id"] == thread_id
        interrupted(ui, thread_id)
        assert sdk.threads.get_state(thread_id)["next"] == ["ask"]
        sdk.threads.delete(thread_id)
    for thread_id in ("a\0b", "\ud800"):
        with pytest.raises((UnprocessableEntityError, UnicodeEncodeError, TypeError)):
            sdk.threads.create(thread_id=thread_id)


class TestTimesToLive:
    def test_on_redis_a_thread_goes_after_its_time(self, redis_url: str) -> None:
        from langgraph_sdk import get_sync_client

        with (
            serving(redis_url, graphs={"asking": asking_graph()}, write=True) as running,
            get_sync_client(url=running.url, api_key=TOKEN) as client,
            running.client() as plain,
        ):
            client.threads.create(thread_id="short", ttl=30)
            client.threads.create(thread_id="long")
            shown = plain.get("/threads/short", params={"include": "ttl"}).json()
            assert (shown["ttl"]["strategy"], shown["ttl"]["ttl_minutes"]) == ("delete", 30)
            assert shown["ttl"]["expires_at"] > shown["updated_at"]
            assert "ttl" not in plain.get("/threads/short").json()
            assert "ttl" not in plain.get("/threads/long", params={"include": "ttl"}).json()
            client.threads.update("long", metadata={"a": 1}, ttl={"ttl": 0.002})
            deadline = time.monotonic() + 20
            while plain.get("/threads/long").status_code == 200:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert plain.get("/threads/short").status_code == 200
            for ttl in ({"ttl": 5, "strategy": "keep_latest"}, {"ttl": -1}, {"ttl": 1e300}, 5):
                assert plain.patch("/threads/short", json={"ttl": ttl}).status_code == 422

    def test_elsewhere_it_is_refused_and_nothing_is_made(self, ui: Running) -> None:
        with ui.client() as client:
            made = client.post("/threads", json={"thread_id": "never", "ttl": {"ttl": 5}})
            assert made.status_code == 422
            assert "until they are removed" in made.json()["detail"]
            assert client.get("/threads/never").status_code == 404
            client.post("/threads", json={"thread_id": "kept", "ttl": {}})
            changed = client.patch("/threads/kept", json={"metadata": {"a": 1}, "ttl": {"ttl": 5}})
            assert changed.status_code == 422
            kept = client.get("/threads/kept", params={"include": "ttl"}).json()
            assert (kept["metadata"], "ttl" in kept) == ({}, False)
