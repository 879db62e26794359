"""How far a long operation has come: lines in a log, a bar on a terminal."""

import io

import pytest

from milepost._internal import progress
from milepost._internal.progress import Bar, Lines, shown
from milepost.observe import progress as public


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_come_now_and_then_and_one_at_the_end():
    stream, clock = io.StringIO(), Clock()
    lines = Lines(stream, "prune", "threads", clock)
    for done in range(1, 13):
        clock.now += 1.0
        lines.tell(done, 12)
    lines.close()

    assert stream.getvalue().splitlines() == [
        "prune: 5 of 12 threads",
        "prune: 10 of 12 threads",
        "prune: 12 of 12 threads",
    ]


def test_nothing_is_said_of_what_did_nothing():
    stream = io.StringIO()
    Lines(stream, "prune", "threads").close()
    Bar(stream, "prune", "threads").close()
    assert stream.getvalue() == ""


def test_a_number_without_a_total_is_said_alone():
    stream = io.StringIO()
    with shown("load", "threads", stream=stream) as tell:
        tell(3, None)
    assert stream.getvalue() == "load: 3 threads\n"


def test_the_line_of_what_failed_is_said_too():
    stream = io.StringIO()
    with pytest.raises(LookupError), shown("load", stream=stream) as tell:  # noqa: PT012
        tell(3, 5)
        raise LookupError
    assert stream.getvalue() == "load: 3 of 5\n"


def test_a_plain_bar_is_drawn_in_place_and_taken_away():
    stream, clock = Terminal(), Clock()
    bar = Bar(stream, "verify", "threads", clock)
    bar.tell(1, 2)
    bar.tell(1, 2)  # too soon
    clock.now = 1.0
    bar.tell(2, 2)
    bar.close()

    assert stream.getvalue().split("\r\x1b[K") == [
        "",
        f"verify [{'#' * 15}{'.' * 15}] 1 of 2 threads",
        f"verify [{'#' * 30}] 2 of 2 threads",
        "",
    ]


def test_a_bar_has_no_length_where_the_total_is_not_known():
    stream = Terminal()
    Bar(stream, "load", "threads").tell(7, None)
    assert stream.getvalue() == "\r\x1b[Kload 7 threads"


def test_a_terminal_has_a_bar():
    stream = Terminal()
    with shown("verify", "threads", stream=stream) as tell:
        tell(2, 2)
    assert "2 of 2 threads" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_quiet_shows_nothing(capsys):
    with public("prune", "threads", quiet=True) as tell:
        tell(1, 1)
    assert capsys.readouterr() == ("", "")


def test_progress_goes_to_standard_error(capsys):
    with public("prune", "threads") as tell:
        tell(1, 1)
    assert capsys.readouterr() == ("", "prune: 1 of 1 threads\n")
    assert progress.LINES_EVERY >= 1
