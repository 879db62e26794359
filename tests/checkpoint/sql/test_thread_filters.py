"""What a filter on the metadata of threads finds: the same on every saver, in clear and sealed."""

from typing import Any

import pytest

from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.errors import MissingThreadError

SEALED = {
    "serde": EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 32),
    "seal_thread_metadata": True,
}
THREADS: dict[str, dict[str, Any]] = {
    "both": {"owner": "u1", "tags": ["red", "blue"], "n": 1},
    "mixed": {"owner": 7, "tags": ["red", 7, None]},
    "empty": {"owner": "u1", "tags": []},
    "object": {"tags": {"a": "red"}},
    "plain": {"n": 1.0},
    "text": {"tags": "red"},
    "none": {},
}


@pytest.fixture(params=["clear", "sealed"])
def saver(request: pytest.FixtureRequest, opened: Any) -> Any:
    with opened(**(SEALED if request.param == "sealed" else {})) as saver:
        for name, metadata in THREADS.items():
            saver.create_thread(name, metadata)
        yield saver


def ids(found: Any) -> list[str]:
    return [info.thread_id for info in found]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"tags": "red"}, ["both", "mixed", "text"]),
        ({"tags": ["red", "blue"]}, ["both"]),
        ({"tags": ("red",)}, ["both", "mixed", "text"]),
        ({"tags": ["re"]}, []),
        ({"tags": {"blue"}}, ["both"]),
        ({"tags": []}, []),
        ({"tags": ()}, []),
        ({"tags": [], "owner": "u1"}, []),
        ({"owner": "7"}, ["mixed"]),
        ({"n": 1}, ["both"]),
        ({"n": 1.0}, ["plain"]),
    ],
)
def test_a_filter_finds_the_same_threads_on_every_saver(saver, call, wanted, found):
    assert ids(call(saver, "list_threads", metadata=wanted)) == found


@pytest.mark.parametrize("text", ["\0", "\ud800", "\0both"])
@pytest.mark.parametrize("condition", ["prefix", "after"])
def test_text_that_no_id_has_finds_no_thread(saver, call, condition, text):
    assert call(saver, "list_threads", **{condition: text}) == []


@pytest.mark.parametrize("given", [{}, {"owner": "u1"}])
@pytest.mark.parametrize("tags", [[], (), set(), {}])
def test_erase_refuses_an_empty_list_of_tags_and_removes_nothing(saver, call, tags, given):
    with pytest.raises(ValueError, match=r"tags") as refused:
        call(saver, "erase", ["plain"], metadata={"tags": tags, **given}, vacuum=False)
    assert "leave 'tags' out" in str(refused.value) or "list of texts" in str(refused.value)
    assert ids(saver.list_threads()) == sorted(THREADS)


def test_erase_by_a_tag_leaves_the_others(saver, call):
    removed = call(saver, "erase", metadata={"tags": ["red"]}, vacuum=False)
    assert removed.threads == ["both", "mixed", "text"]
    assert ids(saver.list_threads()) == ["empty", "none", "object", "plain"]


def nested(levels: int) -> Any:
    value: Any = "core"
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "wanted",
    [
        {"tags": None},
        {"tags": 5},
        {"tags": [None]},
        {"tags": {"red": 1}},
        {"tags": iter(["red"])},
        {"n": float("nan")},
        {"n": float("inf")},
        {"n": object()},
        {"n": nested(300)},
        {"n": nested(3000)},
        {1: 1},
    ],
)
def test_a_filter_that_no_thread_could_meet_is_refused(saver, call, wanted):
    for method in ("list_threads", "erase"):
        with pytest.raises(ValueError, match="filter on"):
            call(saver, method, metadata=wanted)
    assert ids(saver.list_threads()) == sorted(THREADS)


@pytest.mark.parametrize("wanted", ["owner", [("owner", "u1")], 5])
def test_a_filter_that_is_no_mapping_is_refused(saver, call, wanted):
    for method in ("list_threads", "erase"):
        with pytest.raises(TypeError, match="must be a mapping"):
            call(saver, method, metadata=wanted)


@pytest.mark.parametrize("metadata", ["abc", ["owner"], [("owner", "u1")], 5, ""])
def test_metadata_that_is_no_mapping_is_refused(saver, call, metadata):
    for method, name in (("create_thread", "new"), ("set_thread_metadata", "both")):
        with pytest.raises(TypeError, match=f"metadata of thread '{name}' must be a mapping"):
            call(saver, method, name, metadata)
    with pytest.raises(TypeError, match="must be a mapping"):
        call(saver, "set_thread_metadata", "both", None)
    assert saver.get_thread("new") is None
    assert saver.get_thread("both").metadata == THREADS["both"]


@pytest.mark.parametrize("levels", [300, 3000])
def test_metadata_that_is_nested_too_deeply_is_refused(saver, call, levels):
    for method, name in (("create_thread", "new"), ("set_thread_metadata", "both")):
        with pytest.raises(TypeError, match="more than 200 lists and dicts"):
            call(saver, method, name, {"deep": nested(levels)})
    assert ids(saver.list_threads()) == sorted(THREADS)
    call(saver, "create_thread", "new", {"deep": nested(150)})
    assert ids(saver.list_threads(metadata={"deep": nested(150)})) == ["new"]


def test_none_is_no_id_of_a_thread(saver, call):
    calls: list[tuple[str, list[Any]]] = [
        ("create_thread", [None, {"owner": "u1"}]),
        ("get_thread", [None]),
        ("set_thread_metadata", [None, {}]),
        ("delete_thread", [None]),
        ("copy_thread", ["both", None]),
        ("erase", [[None]]),
        ("prune", [["both", None]]),
    ]
    for method, given in calls:
        with pytest.raises(MissingThreadError, match="thread_id is None"):
            call(saver, method, *given)
    assert ids(saver.list_threads()) == sorted(THREADS)
