"""What is removed while others change threads, and whatever a program has stored."""

from typing import Any

from graphs import thread
from milepost.checkpoint.base import empty_checkpoint


def test_erase_looks_again_after_each_page(saver):
    for number in range(130):
        saver.create_thread(f"{number:03}", {"owner": "ada"})
    given_away = []

    def meanwhile(done: int, _of_all: int | None) -> None:
        if done == 1:
            saver.set_thread_metadata("120", {"owner": "bob"})
            given_away.append("120")

    removed = saver.erase(metadata={"owner": "ada"}, vacuum=False, progress=meanwhile).threads
    assert given_away == ["120"]
    assert len(removed) == 129
    assert saver.get_thread("120") is not None


def test_prune_takes_any_parents_in_metadata(saver):
    for at, parents in enumerate(["x", ["a"], {"": None}, {"": 5}]):
        config: Any = thread(str(at))
        config["configurable"]["checkpoint_ns"] = ""
        metadata = {"source": "loop", "step": 0, "parents": parents}
        for _ in range(2):
            config = saver.put(config, empty_checkpoint(), metadata, {})
        saver.prune([str(at)])
        assert len(list(saver.list(thread(str(at))))) == 1
