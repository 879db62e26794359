"""Every channel class by itself, and in lock-step with LangGraph's class of the same name."""

import operator
import os
from importlib import import_module
from typing import Any

import langgraph.channels as peer
import langgraph.errors
import langgraph.types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import milepost.channels as own
from milepost.channels import (
    AnyValue,
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
    UntrackedValue,
)
from milepost.errors import EmptyChannelError, InvalidUpdateError
from milepost.types import Overwrite


def keyed(channel: Any, key: str = "the_key") -> Any:
    channel.key = key
    return channel


def reloaded(channel: Any) -> Any:
    """The channel as it comes back from a saver."""
    return channel.from_checkpoint(channel.checkpoint())


def extend(value: list[Any], writes: Any) -> list[Any]:
    return [*value, *writes]


EMPTY = {
    "LastValue": lambda: LastValue(int),
    "AnyValue": lambda: AnyValue(int),
    "EphemeralValue": lambda: EphemeralValue(int),
    "UntrackedValue": lambda: UntrackedValue(int),
    "Topic": lambda: Topic(int),
    "NamedBarrierValue": lambda: NamedBarrierValue(str, {"a", "b"}),
    "NamedBarrierValueAfterFinish": lambda: NamedBarrierValueAfterFinish(str, {"a", "b"}),
    "LastValueAfterFinish": lambda: LastValueAfterFinish(int),
}


@pytest.mark.parametrize("make", EMPTY.values(), ids=EMPTY)
def test_an_empty_channel_is_not_available_and_cannot_be_read(make):
    channel = make()
    assert not channel.is_available()
    with pytest.raises(EmptyChannelError):
        channel.get()


@pytest.mark.parametrize("make", EMPTY.values(), ids=EMPTY)
def test_an_empty_update_of_an_empty_channel_changes_nothing(make):
    channel = make()
    assert channel.update([]) is False
    assert channel.consume() is False
    assert not channel.is_available()


@pytest.mark.parametrize("make", EMPTY.values(), ids=EMPTY)
def test_an_empty_channel_is_still_empty_after_storing_and_loading(make):
    assert not reloaded(make()).is_available()
    assert not make().copy().is_available()


@pytest.mark.parametrize("name", ["LastValue", "AnyValue", "EphemeralValue"])
def test_a_value_survives_storing_loading_and_copying(name):
    channel = EMPTY[name]()
    assert channel.update([4]) is True
    assert channel.get() == reloaded(channel).get() == channel.copy().get() == 4


@pytest.mark.parametrize("name", ["LastValue", "AnyValue", "EphemeralValue", "UntrackedValue"])
def test_a_copy_is_changed_independently(name):
    channel = EMPTY[name]()
    channel.update([1])
    copy = channel.copy()
    copy.update([2])
    assert (channel.get(), copy.get()) == (1, 2)


@pytest.mark.parametrize("name", ["LastValue", "EphemeralValue", "UntrackedValue"])
def test_two_writes_in_one_step_are_refused_with_the_key(name):
    with pytest.raises(InvalidUpdateError, match="the_key"):
        keyed(EMPTY[name]()).update([1, 2])


@pytest.mark.parametrize("kind", [EphemeralValue, UntrackedValue])
def test_without_the_guard_the_last_of_several_writes_counts(kind):
    channel = kind(int, guard=False)
    assert channel.update([1, 2])
    assert channel.get() == 2
    assert channel.copy().guard is False


def test_last_value_keeps_its_value_through_steps_without_a_write():
    channel = LastValue(int)
    channel.update([1])
    assert channel.update([]) is False
    assert channel.get() == 1


def test_any_value_takes_one_of_several_writes_and_forgets_it_without_a_write():
    channel = AnyValue(int)
    assert channel.update([1, 1, 1])
    assert channel.get() == 1
    assert channel.update([]) is True
    assert not channel.is_available()


def test_ephemeral_value_lasts_for_one_step():
    channel = EphemeralValue(int)
    channel.update([1])
    assert channel.update([]) is True
    assert not channel.is_available()
    assert channel.update([]) is False


def test_untracked_value_lasts_but_is_never_stored():
    channel = UntrackedValue(int)
    channel.update([1])
    assert channel.update([]) is False
    assert channel.get() == 1
    assert not reloaded(channel).is_available()
    assert channel.copy().get() == 1


def test_a_reducer_channel_starts_from_the_empty_value_and_folds_the_writes():
    channel = BinaryOperatorAggregate(list, operator.add)
    assert channel.get() == []
    assert channel.update([[1], [2, 3]]) is True
    assert channel.get() == reloaded(channel).get() == [1, 2, 3]
    assert channel.update([]) is False


def test_a_reducer_channel_without_an_empty_value_starts_with_the_first_write():
    class Odd:
        def __init__(self, required: int) -> None: ...

    channel = BinaryOperatorAggregate(Odd, max)
    assert not channel.is_available()
    channel.update([3, 5, 4])
    assert channel.get() == 5


def test_a_reducer_channel_does_not_change_the_lists_it_was_given():
    written = [1]
    channel = BinaryOperatorAggregate(list, operator.add)
    channel.update([written])
    channel.update([[2]])
    assert written == [1]


def test_overwrite_replaces_the_value_and_wins_over_the_other_writes():
    channel = BinaryOperatorAggregate(list, operator.add)
    channel.update([[1]])
    channel.update([[2], Overwrite([9]), [3]])
    assert channel.get() == [9]
    channel.update([{"__overwrite__": [8]}])
    assert channel.get() == [8]


def test_two_overwrites_in_one_step_are_refused():
    channel = keyed(BinaryOperatorAggregate(list, operator.add))
    with pytest.raises(InvalidUpdateError):
        channel.update([Overwrite([1]), Overwrite([2])])


def test_topic_holds_the_writes_of_one_step_and_takes_lists_apart():
    topic = Topic(int)
    assert topic.update([1, [2, 3]]) is True
    assert topic.get() == reloaded(topic).get() == [1, 2, 3]
    assert topic.update([4]) is True
    assert topic.get() == [4]
    assert topic.update([]) is True
    assert not topic.is_available()


def test_an_accumulating_topic_keeps_everything():
    topic = Topic(int, accumulate=True)
    topic.update([1])
    assert topic.update([]) is False
    topic.update([2])
    assert topic.get() == reloaded(topic).get() == topic.copy().get() == [1, 2]


def test_changing_what_a_topic_returned_does_not_change_the_topic():
    topic = Topic(int, accumulate=True)
    topic.update([1])
    topic.get().append(99)
    topic.copy().update([2])
    assert topic.get() == [1]


def test_a_barrier_opens_when_all_names_have_been_written_and_closes_when_consumed():
    barrier = NamedBarrierValue(str, {"a", "b"})
    assert barrier.update(["a"]) is True
    assert barrier.update(["a"]) is False
    assert not barrier.is_available()
    assert barrier.consume() is False
    assert reloaded(barrier).update(["b"]) is True
    barrier.update(["b"])
    assert barrier.is_available()
    assert barrier.get() is None
    assert barrier.consume() is True
    assert not barrier.is_available()


def test_a_barrier_refuses_a_name_that_it_does_not_wait_for():
    with pytest.raises(InvalidUpdateError):
        keyed(NamedBarrierValue(str, {"a"})).update(["z"])


def test_a_copy_of_a_barrier_collects_names_independently():
    barrier = NamedBarrierValue(str, {"a", "b"})
    barrier.update(["a"])
    barrier.copy().update(["b"])
    assert not barrier.is_available()


def test_a_deferred_barrier_opens_only_after_the_finish():
    barrier = NamedBarrierValueAfterFinish(str, {"a", "b"})
    barrier.update(["a"])
    assert barrier.finish() is False
    barrier.update(["b"])
    assert not barrier.is_available()
    assert barrier.finish() is True
    assert barrier.is_available()
    assert reloaded(barrier).is_available()
    assert barrier.finish() is False
    assert barrier.consume() is True
    assert not barrier.is_available()


def test_a_deferred_value_shows_only_after_the_finish_and_is_consumed():
    channel = LastValueAfterFinish(int)
    channel.update([1])
    assert not channel.is_available()
    assert channel.consume() is False
    assert channel.finish() is True
    assert channel.get() == reloaded(channel).get() == 1
    assert channel.consume() is True
    assert not channel.is_available()


def test_a_new_write_hides_a_deferred_value_until_the_next_finish():
    channel = LastValueAfterFinish(int)
    channel.update([1])
    channel.finish()
    channel.update([2])
    assert not channel.is_available()
    channel.finish()
    assert channel.get() == 2


@pytest.mark.parametrize("names", [set, list, tuple, frozenset])
class TestABarrierReadsWhatTheOtherKindHasStored:
    @pytest.mark.parametrize("pair", [list, tuple])
    def test_after_the_finish_is_left_out(self, names, pair):
        barrier = NamedBarrierValue(str, {"a", "b"})
        assert not barrier.from_checkpoint(pair((names("a"), False))).is_available()
        assert barrier.from_checkpoint(pair((names("ab"), False))).is_available()
        assert barrier.from_checkpoint(pair((names("ab"), True))).checkpoint() == {"a", "b"}

    def test_what_was_complete_has_opened(self, names):
        barrier = NamedBarrierValueAfterFinish(str, {"a", "b"})
        assert barrier.from_checkpoint(names("ab")).is_available()
        waiting = barrier.from_checkpoint(names("a"))
        waiting.update(["b"])
        assert not waiting.is_available()
        assert waiting.finish() is True


@pytest.mark.parametrize("stored", [None, 3, "ab", (1, 2), [True]])
def test_a_deferred_value_shows_what_another_channel_has_stored(stored):
    channel = LastValueAfterFinish(Any).from_checkpoint(stored)
    assert channel.is_available()
    assert channel.get() == stored
    assert channel.consume() is True


def test_a_delta_channel_folds_all_writes_of_a_step_at_once():
    calls: list[Any] = []

    def reducer(value: list[int], writes: Any) -> list[int]:
        calls.append(list(writes))
        return [*value, *writes]

    channel = reloaded(DeltaChannel(reducer, list))
    assert channel.get() == []
    assert channel.update([1, 2]) is True
    assert channel.update([]) is False
    assert channel.get() == [1, 2]
    assert calls == [[1, 2]]


def test_a_delta_channel_stores_nothing_and_is_rebuilt_by_replaying_writes():
    channel = DeltaChannel(extend, list)
    channel.update([1, 2])
    channel.update([3])
    loaded = reloaded(channel)
    assert loaded.get() == []
    loaded.replay_writes([("task", "key", 1), ("task", "key", 2), ("task", "key", 3)])
    assert loaded.get() == channel.get()


def test_a_delta_channel_takes_a_snapshot_as_its_seed():
    from milepost.checkpoint.serde.types import _DeltaSnapshot

    channel = DeltaChannel(extend, list).from_checkpoint(_DeltaSnapshot([1, 2]))
    channel.replay_writes([("task", "key", 3)])
    assert channel.get() == [1, 2, 3]


def test_a_delta_channel_takes_over_a_value_that_a_plain_reducer_had_stored():
    assert DeltaChannel(extend, list).from_checkpoint([1, 2]).get() == [1, 2]


def test_an_overwrite_in_the_replay_makes_what_came_before_irrelevant():
    channel = DeltaChannel(extend, list)
    channel.replay_writes([("t", "k", 1), ("t", "k", Overwrite([9])), ("t", "k", 2)])
    assert channel.get() == [9, 2]


@pytest.mark.parametrize("frequency", [0, -1])
def test_a_snapshot_frequency_below_one_is_refused(frequency):
    with pytest.raises(ValueError, match="snapshot_frequency"):
        DeltaChannel(extend, list, snapshot_frequency=frequency)


# -- the same operations on both libraries

ORDINARY = st.integers(0, 3)
NAMES = st.sampled_from(["a", "b", "z"])
LISTS = st.lists(st.integers(0, 3), max_size=2)
OVERWRITES = st.tuples(st.just("overwrite"), LISTS)

PAIRS: dict[str, tuple[Any, Any, Any]] = {
    "last value": (lambda c: c.LastValue(int), ORDINARY, 2),
    "any value": (lambda c: c.AnyValue(int), ORDINARY, 3),
    "ephemeral": (lambda c: c.EphemeralValue(int), ORDINARY, 2),
    "ephemeral unguarded": (lambda c: c.EphemeralValue(int, guard=False), ORDINARY, 3),
    "untracked": (lambda c: c.UntrackedValue(int), ORDINARY, 2),
    "untracked unguarded": (lambda c: c.UntrackedValue(int, guard=False), ORDINARY, 3),
    "topic": (lambda c: c.Topic(int), st.one_of(ORDINARY, LISTS), 3),
    "topic accumulating": (
        lambda c: c.Topic(int, accumulate=True),
        st.one_of(ORDINARY, LISTS),
        3,
    ),
    "barrier": (lambda c: c.NamedBarrierValue(str, {"a", "b"}), NAMES, 3),
    "deferred barrier": (
        lambda c: c.NamedBarrierValueAfterFinish(str, {"a", "b"}),
        NAMES,
        3,
    ),
    "deferred value": (lambda c: c.LastValueAfterFinish(int), ORDINARY, 2),
    "sum": (lambda c: c.BinaryOperatorAggregate(int, operator.add), ORDINARY, 3),
    "reducer": (
        lambda c: c.BinaryOperatorAggregate(list, operator.add),
        st.one_of(LISTS, OVERWRITES),
        3,
    ),
    "delta": (lambda c: c.DeltaChannel(extend, list), st.one_of(ORDINARY, OVERWRITES), 3),
}


EXAMPLES = 1000 if os.environ.get("MILEPOST_LONG") else 80


@pytest.mark.parametrize("name", PAIRS)
def test_a_channel_behaves_as_the_peers_class_of_the_same_name(name):
    make, write, most = PAIRS[name]
    operation = st.one_of(
        st.tuples(st.just("update"), st.lists(write, max_size=most)),
        st.tuples(st.sampled_from(["consume", "finish", "copy", "reload"]), st.none()),
    )

    @settings(deadline=None, derandomize=True, database=None, max_examples=EXAMPLES)
    @given(st.lists(operation, max_size=12))
    def in_lock_step(operations: list[tuple[str, Any]]) -> None:
        ours, theirs = reloaded(make(own)), reloaded(make(peer))  # as a run starts
        for what, writes in operations:
            ours, did = _apply(ours, what, writes, Overwrite)
            theirs, expected = _apply(theirs, what, writes, langgraph.types.Overwrite)
            assert did == expected
            if did == "refused":
                break  # ends a run; what is left in the channel is nobody's business
            assert _seen(ours) == _seen(theirs)
            assert _seen(reloaded(ours)) == _seen(reloaded(theirs))

    in_lock_step()


def _apply(channel: Any, what: str, writes: Any, overwrite: Any) -> tuple[Any, Any]:
    """Do one operation; the channel to go on with, and what the operation reported."""
    if what == "copy":
        return channel.copy(), None
    if what == "reload":
        return reloaded(channel), None
    if what != "update":
        return channel, getattr(channel, what)()
    values = [overwrite(write[1]) if isinstance(write, tuple) else write for write in writes]
    try:
        return channel, channel.update(values)
    except (InvalidUpdateError, langgraph.errors.InvalidUpdateError):
        return channel, "refused"


def _seen(channel: Any) -> tuple[bool, Any]:
    """All that can be observed of a channel."""
    try:
        return channel.is_available(), channel.get()
    except (EmptyChannelError, langgraph.errors.EmptyChannelError):
        return channel.is_available(), "empty"


# -- where they are


@pytest.mark.parametrize("name", peer.__all__)
def test_a_channel_is_found_under_the_name_of_langgraphs_module(name: str) -> None:
    module = getattr(peer, name).__module__.replace("langgraph.", "milepost.", 1)
    assert getattr(import_module(module), name) is getattr(own, name)
