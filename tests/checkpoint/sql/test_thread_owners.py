"""A thread has an owner before its first checkpoint: `create_thread`, and metadata of the run."""

import asyncio
import json
import signal
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from graphs import Log, elsewhere, line, single, thread
from milepost.checkpoint._contract.step_saver import Fence
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.checkpoint.redis import RedisSaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
from milepost.errors import CheckpointError, DecryptionError, ThreadConflict
from milepost.graph import START, StateGraph
from milepost.testing._kit.saver_fixture import ThreadBuilder
from milepost.testing._suite.steps import prepared
from milepost.types import interrupt
from warm import ENGINE, Warm, warm

KEY, NEWER = b"k" * 32, b"n" * 32
OWNED = {"owner": "u1", "tenant": "acme"}


@pytest.fixture
def saver(opened: Any) -> Any:
    with opened(thread_metadata=("owner", "tenant")) as saver:
        yield saver


def ids(found: Any) -> list[str]:
    return [info.thread_id for info in found]


def owned_by(saver: Any, owner: str) -> list[str]:
    return ids(saver.list_threads(metadata={"owner": owner}))


def run_of(name: str, **metadata: Any) -> Any:
    return {**thread(name), "metadata": metadata}


# -- create_thread


def test_a_created_thread_is_listed_described_and_sound(saver):
    made = saver.create_thread("t", OWNED)
    assert (made.thread_id, made.status, made.head, made.metadata) == ("t", "idle", None, OWNED)
    assert made.created_at == made.updated_at
    counted = saver.get_thread("t")
    assert counted == made._replace(checkpoints=0, writes=0, bytes=0)
    assert saver.list_threads() == [made]
    assert owned_by(saver, "u1") == ["t"]
    assert saver.create_thread("plain").metadata == {}
    if hasattr(saver, "verify"):
        assert saver.verify() == []
        assert saver.salvage("t") == []


def test_creating_a_thread_again_adds_to_its_metadata_and_changes_nothing_else(saver):
    line("a").compile(checkpointer=saver).invoke({}, thread("t"))
    before = saver.get_thread("t")
    saver.create_thread("t", {"owner": "u1", "plan": "free"})
    saver.create_thread("t", {"plan": "pro", "flag": 1})
    saver.create_thread("t", {"flag": True})
    saver.create_thread("t")
    assert saver.get_thread("t") == before._replace(
        metadata={"owner": "u1", "plan": "pro", "flag": True}
    )
    assert saver.get_thread("t").metadata["flag"] is True
    saver.set_thread_metadata("t", {"owner": "u2"})
    assert saver.get_thread("t").metadata == {"owner": "u2"}


def test_a_run_finds_a_created_thread_as_new_and_keeps_its_metadata(saver, durability):
    graph = line("a", "b").compile(checkpointer=saver)
    saver.create_thread("t", {"owner": "u1"})
    assert graph.get_state(thread("t")).values == {}
    assert list(graph.get_state_history(thread("t"))) == []
    assert graph.invoke({"log": ["in"]}, thread("t"), durability=durability) == {
        "log": ["in", "a", "b"]
    }
    info = saver.get_thread("t")
    assert (info.status, info.metadata) == ("idle", {"owner": "u1"})
    assert info.head == graph.get_state(thread("t")).config["configurable"]["checkpoint_id"]


def test_a_thread_that_is_created_in_the_middle_of_its_run_does_not_disturb_the_run(saver):
    seen = []

    def node(_state: Log) -> Any:
        before = saver.get_thread("t")
        seen.append((before, elsewhere(lambda: saver.create_thread("t", {"owner": "u1"}))))
        return {"log": ["node"]}

    graph = single(node).compile(checkpointer=saver)
    assert graph.invoke({}, thread("t"), durability="sync") == {"log": ["node"]}
    [(before, made)] = seen
    same = (before.status, before.head, before.created_at, before.updated_at)
    assert (made.status, made.head, made.created_at, made.updated_at) == same
    assert saver.get_thread("t").metadata == {"owner": "u1"}


@pytest.mark.parametrize("is_first", [True, False])
def test_a_claim_that_is_given_back_leaves_a_created_thread(saver, is_first):
    fence = Fence(None)
    if is_first:
        saver.create_thread("t")
    saver.hold("t", fence)
    if not is_first:
        saver.create_thread("t", {"owner": "u1"})
    with pytest.raises(ThreadConflict):
        saver.hold("t", Fence(None))
    fence.ended = True
    saver.release("t", fence, fence.before)
    info = saver.get_thread("t")
    assert (info.status, info.head) == ("idle", None)
    line("a").compile(checkpointer=saver).invoke({}, thread("t"), on_conflict="reject")
    assert saver.get_thread("t").metadata == ({} if is_first else {"owner": "u1"})


def test_a_claim_that_is_given_back_leaves_no_thread_that_was_not_created(saver):
    fence = Fence(None)
    saver.hold("t", fence)
    fence.ended = True
    saver.release("t", fence, fence.before)
    assert saver.get_thread("t") is None


def test_the_claim_of_a_new_thread_has_the_metadata_of_the_run(saver, call):
    fence = Fence(None, thread_metadata=OWNED)
    call(saver, "hold", "t", fence)
    info = saver.get_thread("t")
    assert (info.status, info.head, info.metadata) == ("running", None, OWNED)
    assert owned_by(saver, "u1") == ["t"]
    call(saver, "hold", "t", fence)
    assert saver.commit([prepared(ThreadBuilder(saver, "t"), fence, key=1)]) == [None]
    assert saver.get_thread("t").metadata == OWNED


def test_the_metadata_of_a_claim_that_is_given_back_is_gone_with_it(saver, call):
    fence = Fence(None, thread_metadata=OWNED)
    call(saver, "hold", "t", fence)
    fence.ended = True
    call(saver, "release", "t", fence, fence.before)
    assert saver.list_threads() == []


def test_the_claim_of_a_known_thread_leaves_its_metadata_to_the_first_commit(saver, call):
    saver.create_thread("t", {"owner": "u0"})
    fence = Fence(None, thread_metadata=OWNED)
    call(saver, "hold", "t", fence)
    assert saver.get_thread("t").metadata == {"owner": "u0"}
    assert saver.commit([prepared(ThreadBuilder(saver, "t"), fence, key=1)]) == [None]
    assert saver.get_thread("t").metadata == OWNED


def test_of_two_runs_on_a_created_thread_one_wins(saver):
    saver.create_thread("t")
    builders = [ThreadBuilder(saver, "t") for _ in range(2)]
    steps = [prepared(builder, Fence(None), key=n) for n, builder in enumerate(builders)]
    first, second = saver.commit(steps[:1]), saver.commit(steps[1:])
    assert first == [None]
    assert isinstance(second[0], ThreadConflict)


def test_created_threads_are_copied_pruned_swept_and_erased(saver):
    for name in ("t", "u", "v"):
        saver.create_thread(name, {"owner": name})
    saver.copy_thread("t", "copy")
    assert saver.get_thread("copy").metadata == {"owner": "t"}
    with pytest.raises(CheckpointError, match="exists already"):
        saver.copy_thread("t", "u")
    assert saver.prune(["t"]).threads == []
    assert saver.get_thread("t") is not None
    assert saver.erase(metadata={"owner": "t"}, vacuum=False).threads == ["copy", "t"]
    assert saver.prune(["u"], strategy="delete").threads == ["u"]
    assert saver.sweep(ttl=1000).threads == []
    assert saver.sweep(ttl=-1).threads == ["v"]
    assert saver.list_threads() == []


def test_a_created_thread_is_dumped_and_loaded(saver):
    if isinstance(saver, InMemorySaver):
        pytest.skip("a saver in memory has no dump")
    saver.create_thread("t", OWNED)
    lines = list(saver.dump())
    assert saver.load(lines, rename={"t": "u"}) == ["u"]
    assert saver.get_thread("u").metadata == OWNED
    saver.delete_thread("t")
    assert saver.load(lines) == ["t"]
    line("a").compile(checkpointer=saver).invoke({}, thread("t"))
    assert owned_by(saver, "u1") == ["t", "u"]
    assert saver.verify() == []


def test_what_is_no_json_is_refused_and_makes_no_thread(saver):
    for metadata in ({"x": object()}, {"x": "\0"}, {"$sealed": {}}, {"owner": "x" * 2000}):
        with pytest.raises((TypeError, ValueError)):
            saver.create_thread("t", metadata)
    assert saver.list_threads() == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_create_thread_answers_on_a_loop(kind, request):
    kinds = {"sqlite": (AsyncSqliteSaver, "path"), "postgres": (AsyncPostgresSaver, "uri")}
    cls, where = kinds[kind]
    options = {"thread_metadata": ["owner"]}

    async def main() -> None:
        async with cls.from_conn_string(request.getfixturevalue(where), **options) as saver:
            await saver.setup()
            made = await saver.acreate_thread("t", OWNED)
            assert made == (await saver.alist_threads())[0]
            graph = line("a").compile(checkpointer=saver)
            await graph.ainvoke({}, run_of("u", owner="u2"))
            [found] = await saver.alist_threads(metadata={"owner": "u2"})
            assert (found.thread_id, found.metadata) == ("u", {"owner": "u2"})

    asyncio.run(main())


# -- metadata of the run


def test_the_first_commit_stores_the_named_metadata_of_the_run(saver, durability):
    graph = line("a").compile(checkpointer=saver)
    given = run_of("t", owner="u1", tenant="acme", other="x")
    graph.invoke({}, given, durability=durability)
    assert saver.get_thread("t").metadata == OWNED
    assert owned_by(saver, "u1") == ["t"]
    assert graph.get_state(thread("t")).metadata["other"] == "x"


def test_a_later_run_adds_to_the_metadata_of_its_thread(saver, durability):
    graph = line("a").compile(checkpointer=saver)
    graph.invoke({}, run_of("t", owner="u1"), durability=durability)
    saver.create_thread("t", {"plan": "pro"})
    graph.invoke({}, run_of("t", tenant="acme"), durability=durability)
    assert saver.get_thread("t").metadata == {**OWNED, "plan": "pro"}
    graph.invoke({}, thread("t"), durability=durability)
    graph.update_state(run_of("t", owner="u2"), {"log": ["x"]})
    assert saver.get_thread("t").metadata == {**OWNED, "plan": "pro", "owner": "u2"}


def test_what_a_run_takes_from_configurable_describes_its_thread_too(saver, call, durability):
    graph = line("a").compile(checkpointer=saver)
    given = {"configurable": {"thread_id": "t", **OWNED, "other": "x"}}
    call(graph, "invoke", {}, given, durability=durability)
    assert saver.get_thread("t").metadata == OWNED
    stored = graph.get_state(thread("t")).metadata
    assert {key: stored[key] for key in OWNED} == OWNED
    call(graph, "update_state", {"configurable": {"thread_id": "u", **OWNED}}, {"log": ["x"]}, "a")
    assert saver.erase(metadata={"owner": "u1"}, vacuum=False).threads == ["t", "u"]


@pytest.mark.parametrize("given", [{"metadata": OWNED}, {"configurable": OWNED}])
def test_an_update_inside_a_node_gives_a_new_thread_the_metadata_of_the_run(saver, run, given):
    inner = line("a").compile(checkpointer=saver)

    def update(_state: Log) -> Any:
        inner.update_state(thread("new"), {"log": ["x"]}, "a")
        inner.update_state(run_of("other", owner="u2"), {"log": ["x"]}, "a")
        inner.update_state(thread("known"), {"log": ["x"]}, "a")
        return {}

    inner.update_state(run_of("known", owner="u3"), {"log": ["x"]}, "a")
    config: Any = {**given, "configurable": {**given.get("configurable", {}), "thread_id": "t"}}
    run.invoke(single(update).compile(checkpointer=saver), {}, config)
    assert saver.get_thread("new").metadata == OWNED
    assert saver.get_tuple(thread("new")).metadata["owner"] == "u1"
    assert saver.get_thread("other").metadata == {**OWNED, "owner": "u2"}
    # A known thread keeps its owner; the checkpoint says which run has made it.
    assert saver.get_thread("known").metadata == {"owner": "u3"}
    assert saver.get_tuple(thread("known")).metadata["owner"] == "u1"


def test_metadata_comes_before_configurable(saver, call):
    given = {"configurable": {"thread_id": "t", **OWNED}, "metadata": {"owner": "u2"}}
    call(line("a").compile(checkpointer=saver), "invoke", {}, given)
    assert saver.get_thread("t").metadata == {"owner": "u2", "tenant": "acme"}


def test_what_a_run_does_not_take_from_configurable_does_not_describe_its_thread(opened, call):
    with opened(thread_metadata=("api_key", "__owner", "owner", "thread_id")) as saver:
        secrets = {"api_key": "k", "__owner": "u1", "owner": {"id": 1}}
        given = {"configurable": {"thread_id": "t", **secrets}}
        call(line("a").compile(checkpointer=saver), "invoke", {}, given)
        assert saver.get_thread("t").metadata == {}


def test_a_run_that_is_to_be_alone_stores_its_metadata_too(saver, durability):
    graph = line("a").compile(checkpointer=saver, on_conflict="reject")
    graph.invoke({}, run_of("t", owner="u1"), durability=durability)
    assert saver.get_thread("t").metadata == {"owner": "u1"}
    graph.invoke({}, run_of("t", owner="u2"), durability=durability)
    assert owned_by(saver, "u2") == ["t"]


def test_a_graph_inside_the_run_stores_it_if_its_commit_comes_first(saver):
    child = ThreadBuilder(saver, "t", "child:1")
    fence = Fence(None, thread_metadata={"owner": "u1"})
    assert saver.commit([prepared(child, fence, key=1)]) == [None]
    info = saver.get_thread("t")
    assert (info.head, info.metadata) == (None, {"owner": "u1"})
    assert saver.erase(metadata={"owner": "u1"}, vacuum=False).threads == ["t"]


def test_the_metadata_of_a_thread_is_there_when_a_nested_graph_waits(saver, durability):
    inner = single(lambda _: {"log": [interrupt("?")]}).compile()
    graph = StateGraph(Log).add_node("inner", inner).add_edge(START, "inner").compile(saver)
    graph.invoke({}, run_of("t", owner="u1"), durability=durability)
    info = saver.get_thread("t")
    assert (info.status, info.metadata) == ("interrupted", {"owner": "u1"})


def test_a_step_that_is_refused_says_nothing_about_the_thread(saver):
    saver.create_thread("t", {"owner": "u1"})
    first, late = ThreadBuilder(saver, "t"), ThreadBuilder(saver, "t")
    step = prepared(late, Fence(None, thread_metadata={"owner": "thief"}), key=2)
    assert saver.commit([prepared(first, Fence(None), key=1)]) == [None]
    assert isinstance(saver.commit([step])[0], ThreadConflict)
    assert saver.get_thread("t").metadata == {"owner": "u1"}


def test_metadata_that_the_registry_cannot_hold_stops_a_run_before_it_begins(saver):
    ran: list[str] = []
    graph = line("a", ran=ran).compile(checkpointer=saver)
    with pytest.raises(TypeError, match="metadata of thread 't' must be plain JSON"):
        graph.invoke({}, run_of("t", owner=object()))
    assert (ran, saver.get_thread("t")) == ([], None)


def test_options_that_are_one_text_are_refused(opened):
    for option in ("thread_metadata", "seal_thread_metadata"):
        with (
            pytest.raises(TypeError, match=f"{option} must be a list of keys"),
            opened(**{option: "owner"}),
        ):
            pass


@pytest.mark.parametrize("given", [1, object(), b"owner", [1], ["owner", None]])
@pytest.mark.parametrize("option", ["thread_metadata", "seal_thread_metadata"])
def test_options_that_name_no_keys_are_refused(opened, option, given):
    with (
        pytest.raises(TypeError, match=f"{option} must be a list of keys"),
        opened(**{"serde": sealed()["serde"], option: given}),
    ):
        pass


def test_options_may_be_none(opened):
    with opened(thread_metadata=None, seal_thread_metadata=None) as saver:
        line("a").compile(checkpointer=saver).invoke({}, run_of("t", owner="u1"))
        assert saver.get_thread("t").metadata == {}


def test_options_may_be_iterators(opened):
    keys = {"thread_metadata": iter(["owner", "tenant"]), "seal_thread_metadata": iter(["owner"])}
    with opened(serde=sealed()["serde"], **keys) as saver:
        graph = line("a").compile(checkpointer=saver)
        for name in ("t", "u"):
            graph.invoke({}, run_of(name, **OWNED))
            assert saver.get_thread(name).metadata == OWNED
        assert all("owner" not in stored and "tenant" in stored for _, stored in rows_of(saver))
        twin = saver.with_serde(sealed(KEY, NEWER)["serde"])
        twin.create_thread("v", OWNED)
        assert all("owner" not in stored for _, stored in rows_of(saver))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_options_may_be_iterators_on_a_loop(kind, request):
    kinds = {"sqlite": (AsyncSqliteSaver, "path"), "postgres": (AsyncPostgresSaver, "uri")}
    cls, where = kinds[kind]
    address = request.getfixturevalue(where)

    async def main() -> None:
        async with cls.from_conn_string(address, thread_metadata=iter(["owner"])) as saver:
            await saver.setup()
            await line("a").compile(checkpointer=saver).ainvoke({}, run_of("t", owner="u1"))
            assert (await saver.aget_thread("t")).metadata == {"owner": "u1"}

    asyncio.run(main())


PROGRAM = textwrap.dedent(
    """
    import os, signal, sys
    from typing_extensions import TypedDict
    from milepost.checkpoint.postgres import PostgresSaver
    from milepost.checkpoint.sqlite import SqliteSaver
    from milepost.graph import START, StateGraph

    kind, where, durability, moment = sys.argv[1:]

    class State(TypedDict):
        x: int

    def killing(commit):
        def commit_and_die(steps):
            commit(steps)
            os.kill(os.getpid(), signal.SIGKILL)

        return commit_and_die

    def node(state):
        if moment == "in the first node":
            os.kill(os.getpid(), signal.SIGKILL)
        return {"x": 2}

    savers = {"sqlite": SqliteSaver, "postgres": PostgresSaver}
    with savers[kind].from_conn_string(where, thread_metadata=["owner"]) as saver:
        saver.setup()
        on_conflict = "reject"
        if moment == "after the first commit":
            saver.commit = killing(saver.commit)
            on_conflict = "newest"
        graph = StateGraph(State).add_node("node", node).add_edge(START, "node").compile(saver)
        config = {"configurable": {"thread_id": "t"}, "metadata": {"owner": "u1"}}
        graph.invoke({"x": 1}, config, durability=durability, on_conflict=on_conflict)
    """
)


@pytest.fixture(scope="module")
def programs() -> Iterator[Warm]:
    with warm(*ENGINE, "milepost.checkpoint.postgres") as started:
        yield started


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_data_of_a_run_that_was_killed_after_its_first_commit_are_erased_by_their_owner(
    kind, durability, tmp_path: Path, request, programs
):
    where = request.getfixturevalue({"sqlite": "path", "postgres": "uri"}[kind])
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    child = programs.run(program, kind, where, durability, "after the first commit")
    assert child.returncode == -signal.SIGKILL, child.stderr
    cls: Any = {"sqlite": SqliteSaver, "postgres": PostgresSaver}[kind]
    with cls.from_conn_string(where) as saver:
        stored = saver.get_thread("t").checkpoints
        removed = saver.erase(metadata={"owner": "u1"}, vacuum=False)
        assert (removed.threads, removed.checkpoints) == (["t"], stored)
        assert stored > 0
        assert saver.get_thread("t") is None


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_run_that_claimed_its_thread_and_was_killed_before_its_first_commit_has_an_owner(
    kind, durability, tmp_path: Path, request, programs
):
    where = request.getfixturevalue({"sqlite": "path", "postgres": "uri"}[kind])
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    child = programs.run(program, kind, where, durability, "in the first node")
    assert child.returncode == -signal.SIGKILL, child.stderr
    cls: Any = {"sqlite": SqliteSaver, "postgres": PostgresSaver}[kind]
    with cls.from_conn_string(where) as saver:
        assert saver.erase(metadata={"owner": "u1"}, vacuum=False).threads == ["t"]
        assert saver.list_threads() == []


# -- sealing


def sealed(*keys: bytes, **options: Any) -> Any:
    *old, newest = keys or (KEY,)
    serde = EncryptedSerializer.from_pycryptodome_aes(key=newest, old_keys=old)
    return {"serde": serde, "seal_thread_metadata": True, **options}


def rows_of(saver: Any) -> list[Any]:
    """The registry as it is stored."""
    if isinstance(saver, InMemorySaver):
        return [(None, entry.metadata) for entry in saver._threads.values()]
    if isinstance(saver, SqliteSaver):
        with closing(saver.conn.execute("SELECT owner, metadata FROM threads")) as rows:
            return [(owner, json.loads(text)) for owner, text in rows]
    if isinstance(saver, RedisSaver):
        read = saver.engine.client.hmget
        cells = [read(key, "owner", "metadata") for key in saver.engine.client.keys("*:thread")]
        return [(owner and owner.decode(), json.loads(text)) for owner, text in cells]
    return saver.conn.execute("SELECT owner, metadata FROM threads").fetchall()


ALL = {"owner": "u1", "tags": ["red", "blue"], "n": 1, "inner": {"b": 1, "a": 2}}


def test_sealed_metadata_shows_nothing_and_is_found_by_equality(opened):
    with opened(**sealed()) as saver:
        saver.create_thread("t", ALL)
        saver.create_thread("u", {"owner": "u2", "n": True})
        shown = repr(rows_of(saver))
        for hidden in ("u1", "u2", "red", "blue", "tags", "inner"):
            assert repr(hidden) not in shown
        assert saver.get_thread("t").metadata == ALL
        for key, value in ALL.items():
            assert ids(saver.list_threads(metadata={key: value})) == ["t"], key
        assert ids(saver.list_threads(metadata={"tags": "red", "owner": "u1"})) == ["t"]
        assert ids(saver.list_threads(metadata={"inner": {"a": 2, "b": 1}})) == ["t"]
        for other in ({"n": 1.0}, {"n": "1"}, {"tags": ["red", "x"]}, {"owner": "u"}, {"x": None}):
            assert ids(saver.list_threads(metadata=other)) == [], other
        assert saver.erase(metadata={"owner": "u1"}, vacuum=False).threads == ["t"]


def test_named_keys_are_sealed_and_the_others_are_not(opened):
    with opened(**sealed(seal_thread_metadata=["owner"], thread_metadata=["owner"])) as saver:
        line("a").compile(checkpointer=saver).invoke({}, run_of("t", owner="u1"))
        saver.create_thread("t", {"plan": "pro"})
        [(owner, stored)] = rows_of(saver)
        assert (owner == "u1", stored["plan"], "owner" in stored) == (False, "pro", False)
        assert saver.get_thread("t").metadata == {"owner": "u1", "plan": "pro"}
        assert ids(saver.list_threads(metadata={"owner": "u1", "plan": "pro"})) == ["t"]


def test_sealed_metadata_goes_with_a_copy_and_opens_nowhere_else(opened):
    with opened(**sealed()) as saver:
        saver.create_thread("t", ALL)
        saver.copy_thread("t", "copy")
        assert saver.get_thread("copy").metadata == ALL
        assert ids(saver.list_threads(metadata={"tags": ["red"]})) == ["copy", "t"]
        if hasattr(saver, "dump"):
            saver.load(list(saver.dump(["t"])), rename={"t": "loaded"})
            assert saver.get_thread("loaded").metadata == ALL
            assert saver.verify() == []
        if isinstance(saver, SqliteSaver):
            saver.conn.execute(
                "UPDATE threads SET metadata = (SELECT metadata FROM threads WHERE thread_id = 't')"
                " WHERE thread_id = 'copy'"
            )
            with pytest.raises(DecryptionError, match="another place"):
                saver.get_thread("copy")
            [problem] = saver.verify(["copy"])
            assert (problem.table, problem.key) == ("threads", "copy")


def test_reencrypt_seals_metadata_with_the_newest_key(opened):
    with opened(**sealed(KEY)) as saver:
        saver.create_thread("t", ALL)
        twin = saver.with_serde(sealed(KEY, NEWER)["serde"])
        assert owned_by(twin, "u1") == ["t"]
        assert twin.reencrypt().resealed == 1
        done = twin.reencrypt()
        assert (done.resealed, done.current, bool(done)) == (0, 1, True)
        last = saver.with_serde(sealed(NEWER)["serde"])
        assert owned_by(last, "u1") == ["t"]
        assert ids(last.list_threads(metadata={"tags": "blue", "n": 1})) == ["t"]
        assert last.get_thread("t").metadata == ALL
        with pytest.raises(DecryptionError):
            saver.get_thread("t")
        assert [one.table for one in saver.reencrypt().refused] == ["threads"]


def test_metadata_in_clear_is_found_and_sealed_by_reencrypt(opened):
    if opened.__name__ == "memory":
        pytest.skip("a saver in memory is not opened again")
    with opened(serde=sealed()["serde"]) as saver:
        saver.create_thread("t", ALL)
    with opened(**sealed()) as saver:
        assert owned_by(saver, "u1") == ["t"]
        assert saver.reencrypt().resealed == 1
        assert "'red'" not in repr(rows_of(saver))
        assert owned_by(saver, "u1") == ["t"]
    with opened(serde=sealed()["serde"]) as saver:  # what is sealed stays sealed
        saver.create_thread("t", {"plan": "pro"})
        assert saver.get_thread("t").metadata == {**ALL, "plan": "pro"}
        assert "'red'" not in repr(rows_of(saver))
    with opened() as saver, pytest.raises(DecryptionError, match="this saver has no key"):
        saver.list_threads()


def test_sealing_needs_a_cipher_with_digests(opened):
    class Plain:
        def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
            return "plain", plaintext

        def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
            return ciphertext

    for serde in (None, EncryptedSerializer(Plain())):
        with (
            pytest.raises(ValueError, match="seal_thread_metadata needs a key"),
            opened(serde=serde, seal_thread_metadata=True),
        ):
            pass
