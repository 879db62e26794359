"""The official client's calls on assistants, over real HTTP."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError
from serving import Running, asking_graph, serving


def test_each_graph_has_an_assistant_with_the_id_that_every_server_gives_it(sdk: Any) -> None:
    found = sdk.assistants.get("asking")
    namespace = uuid.UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
    assert found["assistant_id"] == str(uuid.uuid5(namespace, "asking"))
    assert found["metadata"] == {"created_by": "system"}
    assert (found["graph_id"], found["version"]) == ("asking", 1)
    assert sdk.assistants.get(found["assistant_id"]) == found
    with pytest.raises(NotFoundError):
        sdk.assistants.get("nothing")
    with pytest.raises(ConflictError):
        sdk.assistants.delete("asking")


def test_an_assistant_is_created_changed_and_deleted(sdk: Any) -> None:
    made = sdk.assistants.create(
        "asking",
        {"configurable": {"model": "m"}},
        metadata={"a": 1},
        name="Mine",
        description="of mine",
    )
    assert (made["name"], made["description"], made["version"]) == ("Mine", "of mine", 1)
    id = made["assistant_id"]
    changed = sdk.assistants.update(id, metadata={"b": 2}, name="Ours", config={"tags": ["x"]})
    assert changed["version"] == 2
    assert changed["metadata"] == {"a": 1, "b": 2}
    assert changed["config"] == {"tags": ["x"]}
    assert [one["version"] for one in sdk.assistants.get_versions(id)] == [2, 1]
    assert sdk.assistants.set_latest(id, 1)["name"] == "Mine"
    assert sdk.assistants.get(id)["version"] == 1
    assert sdk.assistants.update(id, name="Third")["version"] == 3
    with pytest.raises(NotFoundError):
        sdk.assistants.set_latest(id, 9)
    sdk.assistants.delete(id)
    with pytest.raises(NotFoundError):
        sdk.assistants.get_versions(id)


def test_an_id_that_exists_is_a_conflict_and_a_graph_must_be_there(sdk: Any) -> None:
    id = str(uuid.uuid4())
    made = sdk.assistants.create("asking", assistant_id=id)
    with pytest.raises(ConflictError):
        sdk.assistants.create("asking", assistant_id=id)
    assert sdk.assistants.create("asking", assistant_id=id, if_exists="do_nothing") == made
    with pytest.raises(ConflictError):  # the name of a graph means its own assistant
        sdk.assistants.create("asking", assistant_id="asking")
    with pytest.raises(NotFoundError):
        sdk.assistants.create("nothing")
    with pytest.raises(UnprocessableEntityError):
        sdk.assistants.create(None)
    sdk.assistants.delete(id)


def test_assistants_are_found_counted_and_paged(sdk: Any) -> None:
    mark = str(uuid.uuid4())
    made = [
        sdk.assistants.create("asking", metadata={"mark": mark}, name=f"Number {n}")
        for n in range(3)
    ]
    assert sdk.assistants.count(metadata={"mark": mark}) == 3
    found = sdk.assistants.search(metadata={"mark": mark}, sort_by="name", sort_order="asc")
    assert found == made
    page = sdk.assistants.search(
        metadata={"mark": mark}, limit=2, sort_by="name", response_format="object"
    )
    assert (len(page["assistants"]), page["next"]) == (2, "2")
    (one,) = sdk.assistants.search(metadata={"mark": mark}, name="BER 1", select=["name"])
    assert one == {"name": "Number 1"}
    assert sdk.assistants.search(metadata={"mark": mark}, graph_id="nothing") == []
    for one in made:
        sdk.assistants.delete(one["assistant_id"])


def test_with_its_threads_an_assistant_is_deleted(sdk: Any) -> None:
    id = sdk.assistants.create("asking")["assistant_id"]
    gone = sdk.threads.create(metadata={"assistant_id": id})["thread_id"]
    stays = sdk.threads.create(metadata={"assistant_id": "another"})["thread_id"]
    sdk.assistants.delete(id, delete_threads=True)
    with pytest.raises(NotFoundError):
        sdk.threads.get(gone)
    assert sdk.threads.get(stays)["thread_id"] == stays


def test_a_graph_is_drawn_with_the_keys_that_remote_graphs_know(sdk: Any) -> None:
    drawn = sdk.assistants.get_graph("asking", xray=True)
    assert [node["id"] for node in drawn["nodes"]] == ["__start__", "plan", "ask", "__end__"]
    known = {"source", "target", "data", "conditional"}
    assert all(edge.keys() <= known for edge in drawn["edges"])
    assert {"source": "plan", "target": "ask"} in drawn["edges"]
    assert sdk.assistants.get_graph("asking", xray=2) == drawn
    with pytest.raises(UnprocessableEntityError):
        sdk.assistants.get_graph("asking", xray="deep")


def test_schemas_say_what_a_graph_takes(sdk: Any) -> None:
    found = sdk.assistants.get_schemas("asking")
    assert found["graph_id"] == "asking"
    assert set(found["input_schema"]["properties"]) == {"log", "answer"}
    assert found["state_schema"] is not None
    assert found["context_schema"] is None


def test_inner_graphs_have_schemas_too(sdk: Any) -> None:
    assert sdk.assistants.get_subgraphs("asking", recurse=True) == {}
    with pytest.raises(NotFoundError):
        sdk.assistants.get_subgraphs("asking", "plan")


def test_the_latest_version_may_be_named_in_the_query(ui: Running) -> None:
    with ui.client() as client:
        made = client.post("/assistants", json={"graph_id": "asking"}).json()["assistant_id"]
        client.patch(f"/assistants/{made}", json={"name": "two"})
        chosen = client.post(f"/assistants/{made}/latest", params={"version": 1}).json()
        assert chosen["version"] == 1
        assert client.post(f"/assistants/{made}/latest").status_code == 422


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
def test_assistants_are_there_after_a_restart(
    kind: str, request: pytest.FixtureRequest, tmp_path: Any
) -> None:
    """In a database that had no store before; a server that only reads shows them too."""
    from milepost.inspect import open_database

    if kind == "sqlite":
        address = str(tmp_path / "threads.db")
    else:
        address = request.getfixturevalue("uri" if kind == "postgres" else "redis_url")
    with open_database(address, write=True, create=True) as db:
        assert db.store is None
    graphs = {"asking": asking_graph(), "other": asking_graph()}
    with serving(address, graphs=graphs, write=True) as running, running.client() as client:
        made = client.post("/assistants", json={"graph_id": "other", "name": "Mine"}).json()
        id = made["assistant_id"]
        client.patch(f"/assistants/{id}", json={"config": {"tags": ["x"]}})
        client.post(f"/assistants/{id}/latest", json={"version": 1})
        changed = client.patch("/assistants/asking", json={"name": "Renamed"}).json()
        gone = client.post("/assistants", json={"graph_id": "other"}).json()["assistant_id"]
        client.delete(f"/assistants/{gone}")
    only = {"asking": graphs["asking"]}
    with serving(address, graphs=only) as running, running.client() as client:
        assert client.get(f"/assistants/{id}").json() == made
        versions = client.post(f"/assistants/{id}/versions", json={}).json()
        assert [(one["version"], one["config"]) for one in versions] == [
            (2, {"tags": ["x"]}),
            (1, {}),
        ]
        assert client.get("/assistants/asking").json() == changed
        assert client.get(f"/assistants/{gone}").status_code == 404
        found = client.post("/assistants/search", json={"sort_by": "name"}).json()
        assert [one["name"] for one in found] == ["Renamed", "Mine"]
        assert client.get(f"/assistants/{id}/graph").status_code == 404, "its graph is not here"
        refused = client.patch(f"/assistants/{id}", json={"name": "No"})
        assert refused.status_code == 403
    with serving(address, graphs=graphs, write=True) as running, running.client() as client:
        item = {"namespace": ["milepost:assistants"], "key": id, "value": {}}
        assert client.put("/store/items", json=item).status_code == 422
        assert client.patch(f"/assistants/{id}", json={}).json()["version"] == 3


def test_what_is_stored_in_place_of_an_assistant_is_left_out(file: str) -> None:
    from milepost.store.sqlite import SqliteStore

    values = [{}, {"versions": 1}, {"latest": 1, "versions": []}, {"latest": 2, "versions": [{}]}]
    with SqliteStore.from_conn_string(file) as store:
        for at, value in enumerate(values):
            store.put(("milepost:assistants",), f"bad {at}", value)
    with serving(file, graphs={"asking": asking_graph()}) as running, running.client() as client:
        assert client.post("/assistants/count", json={}).json() == 1
        assert client.get("/assistants/bad%200").status_code == 404


def test_a_type_that_has_no_schema_is_logged_once(file: str, caplog: Any) -> None:
    class Opaque:
        pass

    def node(state: Any) -> Any:
        return state

    from typing_extensions import TypedDict

    from milepost.graph import START, StateGraph

    Odd = TypedDict("Odd", {"plain": int, "opaque": Opaque})  # noqa: UP013
    graph = StateGraph(Odd).add_node("node", node).add_edge(START, "node").compile()
    with serving(file, graphs={"odd": graph}) as running, running.client() as client:
        for _ in range(2):
            found = client.get("/assistants/odd/schemas").json()
            assert set(found["state_schema"]["properties"]) == {"plain", "opaque"}
    told = [one for one in caplog.records if one.name == "milepost.server"]
    assert [one.levelname for one in told] == ["WARNING"]
    assert "Odd" in told[0].getMessage()
