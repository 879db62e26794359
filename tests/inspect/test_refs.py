"""How threads and checkpoints are named."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from milepost.inspect import BadReferenceError, Ref


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a", Ref("a")),
        ("a@1f0c", Ref("a", "", "1f0c")),
        ("a@good", Ref("a", "", "good")),
        ("a@~3", Ref("a", "", None, 3)),
        ("a@~", Ref("a", "", None, 1)),
        ("a@good~2", Ref("a", "", "good", 2)),
        ("a/inner:12@x", Ref("a", "inner:12", "x")),
        ("user%40host@x", Ref("user@host", "", "x")),
        ("a%2Fb", Ref("a/b")),
        ("100%25@x", Ref("100%", "", "x")),
    ],
)
def test_a_text_means_a_thread_a_graph_and_a_checkpoint(text, meant):
    assert Ref.parse(text) == meant


@pytest.mark.parametrize("text", ["", "@x", "a@", "a/", "/x", "a@~99999999999999"])
def test_a_text_that_names_no_thread_is_refused(text):
    with pytest.raises(BadReferenceError):
        Ref.parse(text)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(min_size=1), st.text(), st.none() | st.text(min_size=1), st.integers(0, 99))
def test_what_a_reference_is_written_as_means_it_again(thread, namespace, at, back):
    ref = Ref(thread, namespace, at, back)
    if at is not None and at.rpartition("~")[2].isdigit() and "~" in at:
        return  # would be taken for a number of steps back
    if at is not None and at.endswith("~"):
        return
    assert Ref.parse(str(ref)) == ref
