"""PostgreSQL: what one saver does between two statements of another's operation on the thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from interleaving import Beside, Paused

from graphs import line, thread
from milepost.checkpoint._contract.step_saver import Fence
from milepost.checkpoint.base import empty_checkpoint
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.errors import CheckpointError, ThreadConflict

if TYPE_CHECKING:
    from collections.abc import Iterator

MANY = 20
"""More than any of these operations has statements."""
CONFIG = thread("t")
LARGE = "x" * 500


@pytest.fixture
def saver(postgres: PostgresSaver) -> PostgresSaver:
    """The one that is stopped in the middle."""
    return postgres


@pytest.fixture
def other(uri: str) -> Iterator[PostgresSaver]:
    """The one that does something meanwhile."""
    with PostgresSaver.from_conn_string(uri) as opened:
        yield opened


def graph_on(saver: PostgresSaver) -> Any:
    return line("a", "b").compile(checkpointer=saver)


def begin(saver: PostgresSaver, thread_id: str = "t") -> Any:
    config = thread(thread_id)
    return graph_on(saver).invoke({"log": [LARGE]}, config, durability="sync")["log"]


def put(saver: PostgresSaver, thread_id: str = "t") -> None:
    """As a foreign runtime does it."""
    version = saver.get_next_version(None, None)
    checkpoint = {**empty_checkpoint(), "channel_values": {"log": [LARGE]}}
    checkpoint["channel_versions"] = {"log": version}
    saver.put(thread(thread_id), checkpoint, {"source": "input", "step": -1}, {"log": version})


def at_each_statement(
    saver: PostgresSaver,
    uri: str,
    operation: Callable[[], Any],
    meanwhile: Callable[[], Any],
    before: Callable[[], Any] = lambda: None,
) -> Iterator[tuple[Beside, BaseException | None]]:
    """Carry out an operation again and again, each time stopped before another statement of it."""
    stops = 0
    for at in range(MANY):
        saver.delete_thread("t")
        saver.delete_thread("copy")
        before()
        beside = Beside(uri, meanwhile)
        error: BaseException | None = None
        with Paused(saver, at, beside.start) as paused:
            try:
                operation()
            except CheckpointError as raised:
                error = raised
        if not paused.reached:
            break
        beside.finish()
        stops += 1
        yield beside, error
    assert 1 < stops < MANY, "it was never stopped in the middle"


def assert_sound(saver: PostgresSaver) -> None:
    assert saver.verify() == []
    for info in saver.list_threads():
        states = list(graph_on(saver).get_state_history(thread(info.thread_id)))
        assert states[0].config["configurable"]["checkpoint_id"] == info.head


REMOVALS: dict[str, Callable[[PostgresSaver], Any]] = {
    "delete": lambda saver: saver.delete_thread("t"),
    "erase": lambda saver: saver.erase(["t"], vacuum=False),
    "prune": lambda saver: saver.prune(["t"], strategy="delete"),
    "sweep": lambda saver: saver.sweep(ttl=-60),
}


@pytest.mark.parametrize("begins", [begin, put])
@pytest.mark.parametrize("removal", ["delete", "erase", "prune"])
def test_a_thread_that_is_begun_while_it_is_deleted_is_there_whole(
    saver, other, uri, removal, begins
):
    def remove() -> None:
        REMOVALS[removal](saver)

    for beside, error in at_each_statement(saver, uri, remove, lambda: begins(other)):
        assert error is beside.error is None
        # It was begun before the deletion, of which it is a part, or after it.
        assert_sound(other)


@pytest.mark.parametrize("removal", REMOVALS)
def test_a_run_beside_a_deletion_stores_a_whole_thread_or_is_refused(saver, other, uri, removal):
    def remove() -> None:
        REMOVALS[removal](saver)

    def before() -> None:
        begin(saver)

    outcomes = set()
    for beside, error in at_each_statement(saver, uri, remove, lambda: begin(other), before):
        assert error is None
        assert beside.error is None or isinstance(beside.error, ThreadConflict)
        outcomes.add(type(beside.error))
        assert_sound(other)
    assert ThreadConflict in outcomes


@pytest.mark.parametrize("begins", [begin, put])
def test_a_thread_that_is_begun_while_it_is_pruned_is_there_whole(saver, other, uri, begins):
    def prune() -> None:
        saver.prune(["t"])

    for beside, error in at_each_statement(saver, uri, prune, lambda: begins(other)):
        assert error is beside.error is None
        assert saver.get_thread("t").checkpoints > 0
        assert_sound(other)


def test_a_new_thread_is_locked_before_anything_is_read(saver, other, uri):
    waited = []
    stops = at_each_statement(saver, uri, lambda: put(saver), lambda: other.delete_thread("t"))
    for beside, error in stops:
        assert error is beside.error is None
        waited.append(beside.waited)
        assert_sound(other)
    # Looked for, added as a lock, stored together with the end of the transaction.
    assert waited == [False, False, True, False]


def test_of_two_runs_that_claim_a_new_thread_at_once_one_is_refused(saver, other, uri, caplog):
    def claim(by: Any) -> None:
        by.hold("t", Fence(None))

    for beside, error in at_each_statement(saver, uri, lambda: claim(saver), lambda: claim(other)):
        errors = [one for one in (error, beside.error) if one is not None]
        assert [type(one) for one in errors] == [ThreadConflict]
        assert "Another run has thread 't'" in str(errors[0])
        assert saver.get_thread("t").status == "running"
    assert "attempt" not in caplog.text


def test_a_step_that_is_refused_leaves_no_entry_behind(saver, other):
    begin(saver)
    state = graph_on(saver).get_state(CONFIG)
    with Paused(saver, 0, lambda: other.delete_thread("t")), pytest.raises(ThreadConflict):
        graph_on(saver).update_state(state.config, {"log": ["u"]}, as_node="b")
    assert saver.list_threads() == []


def test_the_end_of_a_run_is_not_told_with_a_head_that_is_being_removed(saver, other, uri):
    runs = [f"{n}1111111-1111-1111-1111-111111111111" for n in (1, 2)]
    fence: Fence

    def two_runs() -> None:
        nonlocal fence
        for run_id in runs:
            graph_on(saver).invoke({"log": [LARGE]}, {**CONFIG, "run_id": run_id})
        fence = Fence(saver.head("t"))
        other.hold("t", fence)

    def remove() -> None:
        saver.delete_for_runs(runs[1:])

    def release() -> None:
        other.release("t", fence, "idle")

    for beside, error in at_each_statement(saver, uri, remove, release, two_runs):
        assert error is beside.error is None
        assert graph_on(other).get_state(CONFIG).values == {"log": [LARGE, "a", "b"]}
        assert_sound(other)


# -- copies


@pytest.mark.parametrize(
    "meanwhile",
    [
        begin,
        lambda other: other.delete_thread("t"),
        lambda other: other.prune(["t"]),
        lambda other: [other.delete_thread("t"), begin(other)],
    ],
    ids=["run", "delete", "prune", "again"],
)
@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "encrypted"])
def test_a_copy_is_the_thread_at_one_moment(uri, meanwhile, sealed):
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0" * 16) if sealed else None
    with (
        PostgresSaver.from_conn_string(uri, serde=serde) as saver,
        PostgresSaver.from_conn_string(uri, serde=serde) as other,
    ):
        saver.setup()
        sources: list[Any] = []

        def states(thread_id: str) -> list[Any]:
            history = graph_on(saver).get_state_history(thread(thread_id))
            return [(s.values, s.next, s.metadata["step"]) for s in history]

        def before() -> None:
            begin(saver)
            sources[:] = [states("t")]

        def copy() -> None:
            saver.copy_thread("t", "copy")

        stops = at_each_statement(saver, uri, copy, lambda: meanwhile(other), before)
        for beside, error in stops:
            assert error is None
            assert beside.error is None or isinstance(beside.error, ThreadConflict)
            assert_sound(other)
            found = states("copy")
            # The source as it was before or is now; with nothing to copy there is no copy.
            assert found in (*sources, states("t"))


def test_a_thread_that_was_made_again_while_a_copy_waited_is_not_copied_without_a_lock(
    saver, other, uri
):
    begin(saver)
    with psycopg.connect(uri) as deleting, Paused(saver, 1, lambda: begin(other)):
        for table in ("threads", "checkpoints", "checkpoint_blobs", "checkpoint_writes"):
            deleting.execute(f"DELETE FROM {table}")
        copying = Beside(uri, lambda: saver.copy_thread("t", "copy"))
        # When it is told that there is none, another is begun, which it has not locked.
        copying.start()
        assert copying.waited
        deleting.commit()
        copying.finish()
    assert copying.error is None
    assert [info.thread_id for info in saver.list_threads()] == ["t"]
    assert_sound(other)


def test_two_copies_onto_one_thread_are_one_copy_and_a_refusal(saver, other, uri):
    begin(saver, "one")
    begin(saver, "two")

    def copy() -> None:
        saver.copy_thread("one", "t")

    def copy_too() -> None:
        other.copy_thread("two", "t")

    for beside, error in at_each_statement(saver, uri, copy, copy_too):
        [refused] = [e for e in (error, beside.error) if e is not None]
        assert isinstance(refused, CheckpointError)
        assert "'t' exists already, and a copy would mix two histories" in str(refused)
        assert_sound(other)


def test_a_copy_onto_a_thread_that_is_begun_meanwhile_is_refused(saver, other, uri):
    begin(saver, "one")

    def copy() -> None:
        saver.copy_thread("one", "t")

    for beside, error in at_each_statement(saver, uri, copy, lambda: begin(other)):
        if beside.error is None:
            assert error is None or "'t' exists already" in str(error)
        else:
            assert error is None
            assert isinstance(beside.error, ThreadConflict)
        assert_sound(other)


def test_a_thread_that_is_begun_while_one_is_loaded_is_not_mixed_with_it(saver, other, uri):
    begin(saver, "one")
    lines = list(saver.dump(["one"]))

    def load() -> None:
        saver.load(lines, rename={"one": "t"})

    for beside, error in at_each_statement(saver, uri, load, lambda: begin(other)):
        if beside.error is None:
            assert error is None or "'t' exists already" in str(error)
        else:
            assert error is None
            assert isinstance(beside.error, ThreadConflict)
        assert_sound(other)
