"""What a filter on the metadata of threads finds: the same on every saver, in clear and sealed."""

from typing import Any

import pytest

from milepost.checkpoint.serde.encrypted import EncryptedSerializer

SEALED = {
    "serde": EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 32),
    "seal_thread_metadata": True,
}
THREADS: dict[str, dict[str, Any]] = {
    "both": {"owner": "u1", "tags": ["red", "blue"], "n": 1},
    "mixed": {"owner": 7, "tags": ["red", 7, None]},
    "empty": {"owner": "u1", "tags": []},
    "plain": {"n": 1.0},
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
        ({"tags": "red"}, ["both", "mixed"]),
        ({"tags": ["red", "blue"]}, ["both"]),
        ({"tags": ("red",)}, ["both", "mixed"]),
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


@pytest.mark.parametrize("given", [{}, {"owner": "u1"}])
@pytest.mark.parametrize("tags", [[], (), set(), {}])
def test_erase_refuses_an_empty_list_of_tags_and_removes_nothing(saver, call, tags, given):
    with pytest.raises(ValueError, match=r"tags") as refused:
        call(saver, "erase", ["plain"], metadata={"tags": tags, **given}, vacuum=False)
    assert "leave 'tags' out" in str(refused.value) or "list of texts" in str(refused.value)
    assert ids(saver.list_threads()) == sorted(THREADS)


def test_erase_by_a_tag_leaves_the_others(saver, call):
    removed = call(saver, "erase", metadata={"tags": ["red"]}, vacuum=False)
    assert removed.threads == ["both", "mixed"]
    assert ids(saver.list_threads()) == ["empty", "none", "plain"]
