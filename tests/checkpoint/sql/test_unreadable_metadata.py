"""Metadata of threads that is sealed with a key which is not at hand: what that stops, and not."""

import time
from contextlib import contextmanager
from typing import Any

import pytest

from graphs import line, thread
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.cli import main
from milepost.errors import DecryptionError

KEY, NEWER, OTHER = b"k" * 32, b"n" * 32, b"o" * 32


def sealed(*keys: bytes, names: Any = True) -> dict[str, Any]:
    *old, newest = keys
    serde = EncryptedSerializer.from_pycryptodome_aes(key=newest, old_keys=old)
    return {"serde": serde, "seal_thread_metadata": names, "thread_metadata": ["owner"]}


@pytest.fixture
def reopened(opened: Any) -> Any:
    """Opens savers with different options on the same threads."""
    first: list[InMemorySaver] = []

    @contextmanager
    def reopen(**options: Any) -> Any:
        with opened(**options) as saver:
            if isinstance(saver, InMemorySaver):
                first.append(saver)
                for name in ("storage", "writes", "blobs", "_threads"):
                    setattr(saver, name, getattr(first[0], name))
            yield saver

    return reopen


def ids(found: Any) -> list[str]:
    return [info.thread_id for info in found]


def refused(call: Any, saver: Any, **wanted: Any) -> str:
    with pytest.raises(DecryptionError) as error:
        call(saver, "erase", vacuum=False, **wanted)
    assert "EncryptedSerializer(...)" in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("options", [{}, sealed(OTHER)], ids=["no key", "another key"])
@pytest.mark.parametrize("wanted", [{"owner": "ann"}, {"tags": ["x"]}, {"n": 1}])
def test_erase_says_so_if_it_finds_nothing_for_want_of_a_key(reopened, call, options, wanted):
    with reopened(**sealed(KEY)) as saver:
        line("a").compile(checkpointer=saver).invoke(
            {}, {**thread("t"), "metadata": {"owner": "ann"}}
        )
        saver.create_thread("t", {"tags": ["x"], "n": 1})
    with reopened(**options) as saver:
        assert "1 thread ('t')" in refused(call, saver, metadata=wanted)
        assert call(saver, "erase", prefix="u", vacuum=False).threads == []
    with reopened(**sealed(KEY)) as saver:
        assert saver.get_thread("t").checkpoints > 0
        removed = call(saver, "erase", metadata=wanted, vacuum=False)
        assert (removed.threads, saver.list_threads()) == (["t"], [])


def test_erase_after_a_key_was_dropped_too_early_removes_what_it_can_and_names_the_rest(
    reopened, call
):
    with reopened(**sealed(KEY)) as saver:
        for n in range(7):
            saver.create_thread(f"old{n}", {"owner": "ann"})
    with reopened(**sealed(KEY, NEWER)) as saver:
        for name in ("new", "newer"):
            saver.create_thread(name, {"owner": "ann"})
        saver.create_thread("other", {"owner": "bob"})
    with reopened(**sealed(NEWER)) as saver:
        said = refused(call, saver, metadata={"owner": "ann"})
        assert "7 threads ('old0', 'old1', 'old2', 'old3', 'old4' and 2 more)" in said
        assert "2 of the other threads were found and removed" in said
    with reopened(**sealed(KEY, NEWER)) as saver:
        assert len(saver.list_threads(metadata={"owner": "ann"})) == 7
        assert saver.reencrypt().refused == []
    with reopened(**sealed(NEWER)) as saver:
        assert len(call(saver, "erase", metadata={"owner": "ann"}, vacuum=False).threads) == 7
        assert ids(saver.list_threads()) == ["other"]


@pytest.fixture
def half_lost(reopened: Any) -> Any:
    """A saver with threads whose e-mail is sealed, some with a key that is lost."""
    for key, names in ((KEY, ("lost", "of bob")), (NEWER, ("fine",))):
        with reopened(**sealed(key, names=["email"])) as saver:
            for name in names:
                owner = "bob" if "bob" in name else "ann"
                saver.create_thread(name, {"owner": owner, "email": "a@b"})
    with reopened(**sealed(NEWER, names=["email"])) as saver:
        yield saver


def test_threads_are_erased_by_keys_in_clear_whether_or_not_the_rest_opens(half_lost, call):
    removed = call(half_lost, "erase", metadata={"owner": "ann"}, vacuum=False)
    assert removed.threads == ["fine", "lost"]
    assert call(half_lost, "erase", metadata={"owner": "bob"}, vacuum=False).threads == ["of bob"]


def test_erase_by_a_sealed_key_names_only_the_threads_that_it_cannot_judge(half_lost, call):
    said = refused(call, half_lost, metadata={"owner": "ann", "email": "a@b"})
    assert "1 thread ('lost')" in said
    assert "1 of the other threads were found and removed" in said
    said = refused(call, half_lost, metadata={"email": "a@b"})
    assert "2 threads ('lost', 'of bob')" in said
    assert call(half_lost, "erase", ["lost", "of bob"], vacuum=False).threads == ["lost", "of bob"]


def test_a_sweep_removes_threads_whose_metadata_does_not_open(half_lost, call):
    assert call(half_lost, "sweep", ttl=-1).threads == ["fine", "lost", "of bob"]


def test_a_listing_names_the_thread_whose_metadata_does_not_open(half_lost, call):
    with pytest.raises(DecryptionError, match="thread 'lost'"):
        call(half_lost, "list_threads")
    with pytest.raises(DecryptionError, match="thread 'lost'"):
        call(half_lost, "list_threads", metadata={"owner": "ann"})
    assert ids(call(half_lost, "list_threads", updated_after=time.time() + 60)) == []


def test_the_command_erase_fails_if_it_finds_nothing_for_want_of_a_key(path, capsys, monkeypatch):
    def milepost(*arguments: str) -> tuple[int, str]:
        status = main([*arguments, "--db", path])
        out, err = capsys.readouterr()
        return status, out + err

    with SqliteSaver.from_conn_string(path, **sealed(KEY, names=["email"])) as saver:
        for name in ("t", "u"):
            saver.create_thread(name, {"owner": name, "email": "a@b"})
    for key in ("", OTHER.decode()):
        monkeypatch.setenv("MILEPOST_AES_KEY", key)
        for command in ("erase", "delete", "prune"):
            status, said = milepost(command, "-m", "email=a@b", "--yes")
            assert (status, "MILEPOST_AES_KEY" in said, "2 threads" in said) == (6, True, True)
    status, said = milepost("erase", "-m", "owner=u", "--yes")
    assert (status, "1 thread erased" in said) == (0, True)
    monkeypatch.setenv("MILEPOST_AES_KEY", KEY.decode())
    assert milepost("threads", "--count") == (0, "1\n")
    status, said = milepost("erase", "-m", "email=a@b", "--yes")
    assert (status, "1 thread erased" in said) == (0, True)
