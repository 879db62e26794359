"""Stored bytes are untrusted: each hole that a peer had is tried here."""

import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import ormsgpack
import pytest

import milepost.checkpoint.serde.event_hooks
from milepost.cache.base import BaseCache
from milepost.cache.memory import InMemoryCache
from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.errors import DeserializationError, SerializationError, UnregisteredTypeError

CANARY: list[str] = []
LOADED_WHEN_NEEDED = {milepost.checkpoint.serde.event_hooks.__name__}
"""What the first refusal of a type loads, whatever its name. It is loaded here, so that all that
reading loads in a test is there because of what was read."""


@dataclass
class Victim:
    a: int = 1

    def __post_init__(self) -> None:
        CANARY.append("init")

    def __setstate__(self, state: Any) -> None:
        CANARY.append("setstate")


def record(name: str, payload: Any, code: int = ext.RECORD) -> bytes:
    body = [name, payload] if code == ext.RECORD else [name, False, payload]
    return ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(body)))


HOSTILE_NAMES = [
    "os:system", "builtins:eval", "builtins:exec", "builtins:__import__", "subprocess:Popen", "os:popen", "pickle:loads",
    "importlib:import_module", "antigravity:x", "this:s", "sys:exit", "__main__:os", f"{__name__}:Victim",
    f"{__name__}:os.system", f"{__name__}:CANARY.append", f"{__name__}:Victim.__init__", f"{__name__}:record",
    "langchain_core:load", "langchain_core:os", "langchain_core:AIMessage.__init__", "pydantic:BaseModel", "", ":", "a@", "a@1", "a@x", "@", "x[",
    "x]", "x[int]", "[int]", "dict[int,str]", "list[" * 100 + "]" * 100, "milepost:Send@2", "milepost:Send@0", "\0", "a" * 10_000,
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=lambda n: ascii(n)[:20])
@pytest.mark.parametrize("payload", [["id"], "id", {"args": ["id"]}, None, [["id"], {}]], ids=str)
def test_type_names_run_nothing(name: str, payload: Any) -> None:
    """CVE-2026-28277: a type name in msgpack was imported and called."""
    before = set(sys.modules)
    CANARY.clear()
    serde = JsonPlusSerializer(registry=TypeRegistry())
    with pytest.raises(DeserializationError):
        serde.loads_typed(("msgpack", record(name, payload)))
    assert CANARY == []
    assert set(sys.modules) - before == set()


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=lambda n: ascii(n)[:20])
def test_exception_names_run_nothing(name: str) -> None:
    before = set(sys.modules)
    CANARY.clear()
    serde = JsonPlusSerializer(registry=TypeRegistry())
    try:
        back = serde.loads_typed(("msgpack", record(name, ["message", ["id"], {}], ext.ERROR)))
    except DeserializationError:
        pass
    else:
        assert type(back).__name__ == "RemoteError"
    assert CANARY == []
    assert set(sys.modules) - before == set()


def test_no_module_is_asked_for_in_a_process_that_has_loaded_nothing_else() -> None:
    """Here other tests may have loaded a module before; there every attempt is seen, also one that
    fails."""
    code = f"""
import sys
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.errors import DeserializationError
for name in {sorted(LOADED_WHEN_NEEDED)!r}:
    __import__(name)
asked, refused = [], 0
sys.addaudithook(lambda event, details: asked.append(details[0]) if event == "import" else None)
for data in {[record(name, ["id"], code) for name in HOSTILE_NAMES for code in (ext.RECORD, ext.ERROR)]!r}:
    try:
        JsonPlusSerializer(registry=TypeRegistry()).loads_typed(("msgpack", data))
    except DeserializationError:
        refused += 1
print(refused, asked)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    refused, _, asked = done.stdout.strip().partition(" ")
    assert int(refused) >= len(HOSTILE_NAMES)
    assert asked == "[]"


@pytest.mark.parametrize("code", [*range(32), 39, 61, 62, 63, *range(68, 128)])
def test_codes_of_other_serializers_are_not_read(code: int) -> None:
    """LangGraph's own codes carry module, class and method to call."""
    inner = ormsgpack.packb(["os", "system", ["touch /tmp/owned"], "__call__"])
    with pytest.raises(DeserializationError):
        JsonPlusSerializer().loads_typed(("msgpack", ormsgpack.packb(ormsgpack.Ext(code, inner))))


@pytest.mark.parametrize(
    "kind",
    ["json", "JSON", "jsonplus", "pickle", "yaml", "", "msgpack ", "__class__", "x" * 10_000],
)
def test_there_is_no_json_or_pickle_fallback(kind: str, tmp_path: Any) -> None:
    """CVE-2025-64439: a JSON constructor object; CVE-2026-27794: pickle by default."""
    target = tmp_path / "owned"
    constructor = f'{{"lc": 2, "type": "constructor", "id": ["os", "system"], "args": ["touch {target}"]}}'.encode()

    class Bomb:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {target}",)

    for body in (constructor, pickle.dumps(Bomb())):
        with pytest.raises(DeserializationError) as caught:
            JsonPlusSerializer().loads_typed((kind, body))
        assert len(str(caught.value)) < 500
    assert not target.exists()
    data = JsonPlusSerializer().dumps_typed(
        {"lc": 2, "type": "constructor", "id": ["os", "system"], "args": ["x"]}
    )
    assert JsonPlusSerializer().loads_typed(data)["type"] == "constructor"


def test_a_registered_type_is_filled_without_running_its_code() -> None:
    registry = TypeRegistry()
    registry.register(Victim, name="v")
    CANARY.clear()
    serde = JsonPlusSerializer(registry=registry)
    assert serde.loads_typed(("msgpack", record("v", {"a": 5}))).a == 5
    assert CANARY == []
    for payload in (
        {"b": 1},
        {"__class__": 1},
        {"a": 1, "__dict__": {}},
        [],
        [1, 2, 3],
        5,
        None,
        "a",
    ):
        with pytest.raises(DeserializationError):
            serde.loads_typed(("msgpack", record("v", payload)))


def test_reading_imports_nothing_that_a_stored_name_asks_for(tmp_path: Any) -> None:
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.errors import UnregisteredTypeError
try:
    JsonPlusSerializer().loads_typed(("msgpack", {record("trap:X", {"a": 1})!r}))
except UnregisteredTypeError:
    print("refused", "trap" in sys.modules, any(m.startswith(("langchain", "pydantic", "numpy")) for m in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["refused", "False", "False"]


def test_reading_imports_only_what_its_lists_have() -> None:
    """Whatever the code: a package only for its own values, whatever these say."""
    code = f"""
import sys
import ormsgpack
from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.errors import DeserializationError

PACKAGES = {{"numpy", "pandas", "polars", "pyarrow", "langchain_core", "pydantic"}}

def imported(code, payload):
    try:
        JsonPlusSerializer().loads_typed(("msgpack", ormsgpack.packb(ormsgpack.Ext(code, payload))))
    except DeserializationError:
        pass
    return {{name.partition(".")[0] for name in sys.modules}} & PACKAGES

payloads = [ormsgpack.packb(p) for p in {["numpy", "pandas.DataFrame", ["numpy:ndarray", {}], ["pandas.DataFrame", 5], []]!r}]
for code in range(128):
    if code in (ext.NDARRAY, ext.NDSCALAR, ext.DTYPE, ext.PANDAS_TIME):
        continue
    for payload in (b"", b"numpy/core", b"tzdata", *payloads):
        assert not imported(code, payload), (code, payload)
print(sorted(imported(ext.DTYPE, ormsgpack.packb("<i4"))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-1_000:]
    assert done.stdout.split() == ["['numpy']"]


def test_a_message_is_read_where_langchain_was_not_imported_yet() -> None:
    pytest.importorskip("langchain_core.messages")
    from langchain_core.messages import HumanMessage

    written = JsonPlusSerializer().dumps_typed(HumanMessage("hello"))
    code = f"""
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
message = JsonPlusSerializer().loads_typed({written!r})
print(type(message).__name__, message.content)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["HumanMessage", "hello"]


def test_an_array_is_not_read_without_numpy_but_the_way_to_it_is_said() -> None:
    np = pytest.importorskip("numpy")
    data = JsonPlusSerializer().dumps_typed({"v": np.arange(3)})
    code = (
        "import sys\nsys.modules['numpy'] = None\n"
        "from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer\n"
        f"JsonPlusSerializer().loads_typed({data!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "DeserializationError: the stored value is made of numpy; run `pip install numpy`" in (
        done.stderr
    )
    assert "path 'v'" in done.stderr


def test_numpy_reads_no_objects_out_of_bytes() -> None:
    np = pytest.importorskip("numpy")
    assert np.__name__ == "numpy"
    serde = JsonPlusSerializer()
    for described in (
        "|O",
        "O",
        [["a", "|O"]],
        "|V99999999999",
        "<U999999999",
        "T",
        "os.system",
        ["a"],
        None,
        5,
        {"a": 1},
    ):
        for shape in ([1], [10**12], [-1], [2**62, 2**62], "x", [1.5], []):
            for body in (b"", b"\x00" * 8, [1], None):
                inner = ormsgpack.packb([described, shape, "C", body])
                data = ormsgpack.packb(ormsgpack.Ext(ext.NDARRAY, inner))
                try:
                    back = serde.loads_typed(("msgpack", data))
                except DeserializationError:
                    continue
                assert back.nbytes < 1_000
                assert type(body) is list or not back.dtype.hasobject


def test_unregistered_is_its_own_error_type() -> None:
    with pytest.raises(UnregisteredTypeError):
        JsonPlusSerializer().loads_typed(("msgpack", record("shop:Order", {})))


def test_a_cache_does_not_unpickle_what_somebody_put_there() -> None:
    """CVE-2026-27794: the cache of node results read pickle by default."""
    for serde in (BaseCache.serde, InMemoryCache().serde):
        with pytest.raises(DeserializationError, match="pickle"):
            serde.loads_typed(("pickle", pickle.dumps(print)))
        with pytest.raises(SerializationError):
            serde.dumps_typed(print)
