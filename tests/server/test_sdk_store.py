"""The official client's calls on the store, over real HTTP."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from langgraph_sdk.errors import NotFoundError, UnprocessableEntityError
from serving import TOKEN, Running, asking_graph, serving


def place() -> list[str]:
    return ["users", uuid.uuid4().hex]


def test_an_item_is_stored_read_and_removed(sdk: Any) -> None:
    where = place()
    sdk.store.put_item(where, "k", {"text": "hello", "n": [1, None]})
    found = sdk.store.get_item(where, "k")
    assert found["namespace"] == where
    assert (found["key"], found["value"]) == ("k", {"text": "hello", "n": [1, None]})
    assert found["created_at"] <= found["updated_at"]
    sdk.store.delete_item(where, "k")
    assert sdk.store.get_item(where, "k") is None
    sdk.store.delete_item(where, "k")


def test_items_are_found_by_what_they_hold(sdk: Any) -> None:
    where = place()
    for n in range(4):
        sdk.store.put_item(where, f"k{n}", {"n": n, "even": n % 2 == 0})
    found = sdk.store.search_items(where, filter={"even": True})["items"]
    assert sorted(item["key"] for item in found) == ["k0", "k2"]
    assert len(sdk.store.search_items(where, limit=3)["items"]) == 3
    assert len(sdk.store.search_items(where, limit=3, offset=3)["items"]) == 1
    assert len(sdk.store.search_items(where[:1], filter={"n": {"$gte": 99}})["items"]) == 0
    with pytest.raises(UnprocessableEntityError):
        sdk.store.search_items(where, filter={"n": {"$near": 1}})


def test_namespaces_are_listed_by_prefix_suffix_and_depth(sdk: Any) -> None:
    first, second = place()
    sdk.store.put_item([first, second, "notes"], "k", {})
    sdk.store.put_item([first, second, "facts", "old"], "k", {})
    found = sdk.store.list_namespaces(prefix=[first, second])["namespaces"]
    assert found == [[first, second, "facts", "old"], [first, second, "notes"]]
    cut = sdk.store.list_namespaces(prefix=[first, second], max_depth=2)["namespaces"]
    assert cut == [[first, second]]
    ends = sdk.store.list_namespaces(prefix=[first, second], suffix=["notes"], limit=1)
    assert ends["namespaces"] == [[first, second, "notes"]]


def test_an_item_may_be_left_out_of_the_index_and_may_have_a_time_to_live(sdk: Any) -> None:
    where = place()
    sdk.store.put_item(where, "k", {"text": "x"}, index=False, ttl=60)
    sdk.store.put_item(where, "l", {"text": "x"}, index=["text"])
    assert sdk.store.get_item(where, "k", refresh_ttl=False)["value"] == {"text": "x"}


@pytest.mark.parametrize("namespace", [[], ["a", ""], ["a.b"], "a", [1], None])
def test_a_namespace_that_no_item_can_have_is_refused(ui: Running, namespace: Any) -> None:
    body = {"namespace": namespace, "key": "k", "value": {}}
    with ui.client() as client:
        assert client.put("/store/items", json=body).status_code == 422
        gone = client.request("DELETE", "/store/items", json={**body, "value": None})
        assert gone.status_code == 422


def test_a_key_and_a_value_are_checked(ui: Running) -> None:
    with ui.client() as client:
        for key, value in ((None, {}), ("", {}), ("k\0", {}), ("k", None), ("k", [1])):
            body = {"namespace": ["a"], "key": key, "value": value}
            assert client.put("/store/items", json=body).status_code == 422
        body = {"namespace": ["a"], "key": "k", "value": {}, "index": True}
        assert client.put("/store/items", json=body).status_code == 422
        assert client.get("/store/items", params={"key": "k"}).status_code == 422


def test_a_database_without_a_store_says_so(tmp_path: Any) -> None:
    from langgraph_sdk import get_sync_client

    from milepost.checkpoint.memory import InMemorySaver

    with (
        serving(InMemorySaver(), graphs={"asking": asking_graph()}) as running,
        get_sync_client(url=running.url, api_key=TOKEN) as client,
        pytest.raises(NotFoundError, match="no store"),
    ):
        client.store.search_items(["a"])
