"""The saver in memory changes its key under traffic, as the others do."""

import asyncio

import pytest

from graphs import line, thread
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.keyring import AesKeyRing
from milepost.errors import CheckpointError, DecryptionError


@pytest.fixture(params=["sync", "async"])
def reencrypted(request):
    if request.param == "sync":
        return lambda saver, **options: saver.reencrypt(**options)
    return lambda saver, **options: asyncio.run(saver.areencrypt(**options))


def fill(saver):
    graph = line("a", "b").compile(checkpointer=saver)
    for n in range(6):
        graph.invoke({"log": ["x" * 400]}, thread(f"t{n % 3}"))
    return graph


def content(saver):
    return [(f.config, f.checkpoint, f.metadata, f.pending_writes) for f in saver.list(None)]


def test_after_rotating_under_traffic_the_old_key_can_be_dropped(reencrypted):
    ring = AesKeyRing({"old": b"o" * 16})
    saver = InMemorySaver(serde=EncryptedSerializer(ring))
    graph = fill(saver)
    ring.add(b"n" * 16, id="new")
    first = reencrypted(
        saver, progress=lambda *_: graph.invoke({"log": ["meanwhile"]}, thread("t0"))
    )
    assert first.resealed > 50
    assert first.refused == []
    again = reencrypted(saver)
    assert again
    assert again.current > first.resealed
    expected = content(saver)
    ring.drop("old")
    assert content(saver) == expected
    assert graph.get_state(thread("t0")).values["log"].count("meanwhile") == 3


def test_what_was_stored_in_the_clear_is_sealed(reencrypted):
    saver = InMemorySaver()
    fill(saver)
    expected = content(saver)
    ring = AesKeyRing({"new": b"n" * 16})
    saver.serde = EncryptedSerializer(ring)
    assert reencrypted(saver).refused
    with pytest.raises(DecryptionError):
        content(saver)
    saver.serde = EncryptedSerializer(ring, allow_plaintext=True)
    assert reencrypted(saver).refused == []
    saver.serde = EncryptedSerializer(ring)
    assert reencrypted(saver)
    assert content(saver) == expected


def test_a_saver_that_does_not_encrypt_says_so():
    with pytest.raises(CheckpointError, match="Nothing is encrypted"):
        InMemorySaver(serde=JsonPlusSerializer()).reencrypt()


def test_one_id_is_not_taken_for_a_list_of_ids():
    ring = AesKeyRing([b"k" * 32])
    saver = InMemorySaver(serde=EncryptedSerializer(ring, JsonPlusSerializer()))
    with pytest.raises(TypeError, match="list of ids"):
        saver.reencrypt("abc")
