"""Records that programs see can be copied, pickled and shown."""

import copy
import pickle

import pytest

from milepost.types import CachePolicy, Command, Interrupt, Overwrite, TimeoutPolicy


@pytest.mark.parametrize(
    "given",
    [
        TimeoutPolicy(run_timeout=1),
        CachePolicy(ttl=3),
        Interrupt("why?", "an-id"),
        Command(update={"a": 1}, goto="there"),
        Overwrite([1]),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_record_can_be_copied_and_pickled(given):
    assert copy.deepcopy(given) == given
    assert pickle.loads(pickle.dumps(given)) == given


def test_a_class_may_have_its_own_way_to_be_shown():
    assert repr(Command(goto="there")) == "Command(goto='there')"
