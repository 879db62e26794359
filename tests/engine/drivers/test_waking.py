"""The thread that runs a graph is woken for events, and for many of them only once."""

from __future__ import annotations

import threading
import time
from collections import deque

from milepost._engine.drivers.thread_pool import TaskThreadPool

LAST = object()


def pool() -> TaskThreadPool:
    return TaskThreadPool(lambda program: None, hurried=False)


def test_events_that_come_before_the_waiting_thread_looks_wake_it_once():
    woken = pool()
    for _ in range(5):
        woken.wake()
    assert woken.wait() is None
    assert woken.collect(None) == []
    assert woken._mailbox.empty()


def test_an_event_that_comes_after_it_has_looked_wakes_it_again():
    woken = pool()
    woken.wake()
    assert woken.wait() is None
    woken.wake()
    assert woken.wait() is None


def test_no_event_of_several_threads_is_left_behind():
    woken, events = pool(), deque[object]()

    def tell() -> None:
        for number in range(2000):
            events.append(number)
            woken.wake()
        events.append(LAST)
        woken.wake()

    threads = [threading.Thread(target=tell, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    taken, ended = 0, 0
    while ended < len(threads):
        # As the driver does: wait, then take all that there is.
        assert woken.wait_until(time.monotonic() + 60) is None  # Empty, if one is
        while events:
            taken += 1
            ended += events.popleft() is LAST
    assert taken == 4 * 2001
