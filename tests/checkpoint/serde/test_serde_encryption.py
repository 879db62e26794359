"""Sealed values open with the right key, at the right place, unaltered, and in no other way."""

import hmac
from typing import Any

import pytest

from milepost.checkpoint.serde import keyring
from milepost.checkpoint.serde.base import dumps_at, is_two_step, loads_at
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.keyring import AesKeyRing
from milepost.errors import DecryptionError, DeserializationError

SECRET = "the canary sings"
VALUE = {"text": SECRET, "t": (1, 2)}


def sealed(size: int = 32, **options: Any) -> EncryptedSerializer:
    return EncryptedSerializer.from_pycryptodome_aes(key=bytes(range(size)), **options)


@pytest.mark.parametrize("size", [16, 24, 32])
@pytest.mark.parametrize("value", [VALUE, None, b"", b"raw", [], 1])
def test_what_is_sealed_opens_again(size: int, value: Any) -> None:
    serde = sealed(size)
    kind, data = serde.dumps_typed_at(value, "here")
    assert kind.endswith("+aes")
    assert SECRET.encode() not in data
    assert serde.loads_typed_at((kind, data), "here") == value
    assert serde.loads_typed(serde.dumps_typed(value)) == value


def test_the_same_value_never_looks_the_same_twice() -> None:
    serde = sealed()
    assert serde.dumps_typed(VALUE) != serde.dumps_typed(VALUE)


@pytest.mark.parametrize("size", [0, 15, 17, 33])
def test_a_key_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="16, 24 or 32"):
        sealed(size)


@pytest.mark.parametrize("variable", ["MILEPOST_AES_KEY", "LANGGRAPH_AES_KEY"])
def test_the_key_can_come_from_the_environment(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MILEPOST_AES_KEY", "LANGGRAPH_AES_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="MILEPOST_AES_KEY"):
        EncryptedSerializer.from_pycryptodome_aes()
    monkeypatch.setenv(variable, "0123456789abcdef")
    written = EncryptedSerializer.from_pycryptodome_aes().dumps_typed(VALUE)
    named = EncryptedSerializer.from_pycryptodome_aes(
        serde=JsonPlusSerializer(), key=b"0123456789abcdef"
    )
    assert named.loads_typed(written) == VALUE


def test_a_row_that_was_moved_does_not_open() -> None:
    serde = sealed()
    row = serde.dumps_typed_at(VALUE, "thread 1")
    for place in ("thread 2", "", "thread 1\0", "thread"):
        with pytest.raises(DecryptionError, match="another place") as caught:
            serde.loads_typed_at(row, place)
        assert SECRET not in str(caught.value)
    with pytest.raises(DecryptionError):
        serde.loads_typed(row)
    with pytest.raises(DecryptionError):
        serde.loads_typed_at(("bytes+aes", row[1]), "thread 1")


def test_a_wrong_key_or_an_altered_row_does_not_open() -> None:
    serde = sealed()
    kind, data = serde.dumps_typed_at(VALUE, "p")
    with pytest.raises(DecryptionError, match="not on the ring"):
        EncryptedSerializer.from_pycryptodome_aes(key=b"x" * 32).loads_typed_at((kind, data), "p")
    same_id = EncryptedSerializer(AesKeyRing({serde.cipher.ids[0]: b"x" * 32}))  # type: ignore[attr-defined]
    with pytest.raises(DecryptionError, match="another one"):
        same_id.loads_typed_at((kind, data), "p")
    for i in range(len(data)):
        for altered in (data[:i], data[:i] + bytes((data[i] ^ 1,)) + data[i + 1 :]):
            with pytest.raises(DecryptionError) as caught:
                serde.loads_typed_at((kind, altered), "p")
            assert SECRET not in repr(caught.value)
            assert caught.value.__cause__ is None


def test_a_plaintext_row_is_refused_unless_migration_is_on() -> None:
    plain = JsonPlusSerializer().dumps_typed(VALUE)
    for row in (plain, ("msgpack+aes", plain[1])):
        with pytest.raises(DecryptionError, match="not encrypted"):
            sealed().loads_typed_at(row, "p")
    with pytest.raises(DecryptionError, match="not encrypted"):
        sealed().unseal(plain[1], "p")
    migrating = sealed(allow_plaintext=True)
    assert migrating.loads_typed_at(plain, "p") == VALUE
    assert migrating.unseal(plain[1], "p") == plain[1]
    row = migrating.reseal_typed(plain, "p")
    assert sealed().loads_typed_at(row, "p") == VALUE


def test_the_plain_serializer_says_that_a_row_is_encrypted() -> None:
    with pytest.raises(DeserializationError, match="EncryptedSerializer"):
        JsonPlusSerializer().loads_typed(sealed().dumps_typed(VALUE))


def test_encode_and_seal_are_two_steps() -> None:
    serde = sealed()
    assert is_two_step(serde)
    assert is_two_step(JsonPlusSerializer())
    kind, plain = serde.encode(VALUE)
    assert (kind, plain) == JsonPlusSerializer().encode(VALUE)
    data = serde.seal(plain, "p")
    assert serde.decode(kind, serde.unseal(data, "p")) == VALUE
    with pytest.raises(DecryptionError):
        serde.unseal(data, "q")
    moved = serde.reseal(data, "p", "q")
    assert serde.unseal(moved, "q") == plain


def test_a_new_key_writes_and_old_rows_still_read_until_the_old_key_is_dropped() -> None:
    ring = AesKeyRing([b"a" * 16])
    serde = EncryptedSerializer(ring)
    rows = {f"place {i}": serde.dumps_typed_at({"n": i}, f"place {i}") for i in range(20)}
    (old,) = ring.ids
    ring.add(b"b" * 32)
    assert ring.ids[0] == old
    rows["new"] = serde.dumps_typed_at({"n": -1}, "new")
    assert all(serde.loads_typed_at(row, place) for place, row in rows.items())
    stale = [place for place, (_, data) in rows.items() if not serde.is_current(data)]
    assert len(stale) == 20
    for place in stale:
        rows[place] = serde.reseal_typed(rows[place], place)
    ring.drop(old)
    assert [serde.loads_typed_at(row, place)["n"] for place, row in rows.items()] == [
        *range(20),
        -1,
    ]
    with pytest.raises(ValueError, match="last key"):
        ring.drop(ring.ids[0])


def test_a_key_that_is_refused_leaves_the_ring_as_it_was() -> None:
    ring = AesKeyRing({"2025": b"a" * 16})
    name, data = ring.encrypt(b"x")
    with pytest.raises(ValueError, match="Another key"):
        ring.add(b"b" * 16, id="2025")
    assert ring.ids == ("2025",)
    assert ring.decrypt(name, data) == b"x"


def test_a_ring_may_change_while_other_threads_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = AesKeyRing({"2025": b"a" * 16, "2026": b"b" * 16})
    before = ring.digests(b"x")

    class Meanwhile:
        """What takes a digest, while another thread puts a key on the ring."""

        @staticmethod
        def digest(*arguments: Any) -> bytes:
            ring.add(b"c" * 16, id="2027")
            return hmac.digest(*arguments)

    monkeypatch.setattr(keyring, "hmac", Meanwhile)
    assert ring.digests(b"x") == before
    assert len(ring.digests(b"x")) == 3


class Backwards:
    """A cipher of the user's that checks a sum."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "backwards", plaintext[::-1] + bytes((sum(plaintext) % 256,))

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        plaintext = ciphertext[:-1][::-1]
        if ciphername != "backwards" or sum(plaintext) % 256 != ciphertext[-1]:
            raise RuntimeError(f"bad: {plaintext!r}")
        return plaintext


def test_a_custom_cipher_is_bound_to_its_place_too() -> None:
    serde = EncryptedSerializer(Backwards())
    row = serde.dumps_typed_at(VALUE, "p")
    assert row[0] == "msgpack+backwards"
    assert serde.loads_typed_at(row, "p") == VALUE
    with pytest.raises(DecryptionError, match="another place"):
        serde.loads_typed_at(row, "q")
    with pytest.raises(DecryptionError) as caught:
        serde.loads_typed_at((row[0], row[1][:-1] + b"\xff"), "p")
    assert "canary" not in repr(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


class OnlyTwo:
    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return "text", repr(obj).encode()

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return data


def test_a_foreign_serializer_works_with_and_without_encryption() -> None:
    foreign = OnlyTwo()
    assert not is_two_step(foreign)
    assert loads_at(foreign, dumps_at(foreign, 1, "p"), "p") == ("text", b"1")
    serde = EncryptedSerializer(Backwards(), foreign)
    assert loads_at(serde, dumps_at(serde, 1, "p"), "p") == ("text", b"1")
    with pytest.raises(DecryptionError):
        loads_at(serde, dumps_at(serde, 1, "p"), "q")
