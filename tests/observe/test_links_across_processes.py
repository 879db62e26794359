"""A run that goes on in another process is linked with the one that stopped there."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from other_process import PLACES, crashing, invoke, opened
from traced_graphs import RESUMED, story


@pytest.fixture(params=["sqlite", "postgres"])
def address(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "threads.db")
    address = request.getfixturevalue("uri")
    with opened(address) as saver:
        saver.setup()
    return address


def elsewhere(*arguments):
    here = Path(__file__).parent
    command = [sys.executable, "other_process.py", *arguments]
    return subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=60)


def test_a_resume_elsewhere_links_to_the_span_that_paused(address, recorded):
    """On every driver and durability: each pauses a thread of its own."""
    paused = {}
    with opened(address) as saver:
        for driver, durability in PLACES:
            recorded.clear()
            graph = story().compile(checkpointer=saver, name="outer")
            thread_id = f"{driver}-{durability}"
            invoke(graph, driver, {"log": []}, thread_id, durability=durability)
            paused[thread_id] = recorded.one("invoke_workflow outer").context

    done = elsewhere("resume", address)
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert set(told) == set(paused)
    for thread_id, span in paused.items():
        assert told[thread_id]["links"] == [[span.trace_id, span.span_id, "resume"]]
        assert told[thread_id]["trace"] != span.trace_id
        assert told[thread_id]["tree"] == RESUMED


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_a_recovery_links_to_the_span_of_the_process_that_was_killed(address, driver, recorded):
    done = elsewhere("crash", address, driver)
    assert done.returncode == -signal.SIGKILL
    killed = json.loads(done.stdout)

    graph = crashing(lambda state: {"log": ["second"]})
    with opened(address) as saver:
        result = invoke(graph.compile(checkpointer=saver, name="crashing"), driver, None, "t")
    assert result == {"log": ["first", "second"]}
    span = recorded.one("invoke_workflow crashing")
    (link,) = span.links
    assert [link.context.trace_id, link.context.span_id] == killed
    assert link.attributes["milepost.link"] == "resume"
    assert recorded.tree(["commit", "load"])[1:] == ["  super_step 2", "    task second"]
