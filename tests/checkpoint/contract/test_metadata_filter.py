"""Filters on the metadata of checkpoints."""

import pytest

from milepost.checkpoint.base import empty_checkpoint
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.sqlite import SqliteSaver

METADATA = {"source": "input", "user": {"access-level": "all", "a.b": 1}, "x.y": 5, "x": {"y": 6}}


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ({"user.access-level": "all"}, 1),
        ({"user.access-level": "none"}, 0),
        ({"user.access-level.deeper": "all"}, 0),
        ({"user.missing": None}, 0),
        ({"x.y": 5}, 1),  # a key of that name comes first
        ({"x.y": 6}, 0),
        ({"source": "input", "x": {"y": 6}}, 1),
    ],
)
def test_a_name_with_a_period_is_a_key_or_the_way_to_a_value_inside(filter, found):
    with SqliteSaver.from_conn_string(":memory:") as sqlite:
        for saver in (InMemorySaver(), sqlite):
            config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
            saver.put(config, empty_checkpoint(), METADATA, {})
            assert len(list(saver.list(None, filter=filter))) == found
