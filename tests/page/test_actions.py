"""What the page does with a graph: answers, forks, replays, runs; and what it sees of other runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from milepost.types import Command
from page import demo
from page.waiting import until

ANSWER = "Parcels take two days."


def rows(page: Any) -> list[str]:
    return page.locator(".checkpoint .checkpoint-name").all_inner_texts()


def ended(page: Any, outcome: str) -> Any:
    said = page.locator(f'.progress[data-outcome="{outcome}"]')
    said.wait_for()
    return said


def values(path: Path, thread_id: str) -> dict[str, Any]:
    with demo.opened(path) as (made, _, _):
        return made.get_state(demo.config(thread_id)).values


@pytest.mark.parametrize(("given", "approved"), [("yes", True), ("false", False)])
def test_an_answer_goes_to_its_question_and_the_run_is_watched(
    writing, own, visit, beside, given, approved
):
    page = visit(writing, "#/thread/tent-refund")
    page.get_by_label("Answer to review").fill(given)
    page.get_by_role("button", name="Answer", exact=True).click()
    ended(page, "done")
    until(lambda: rows(page)[:3] == ["reply", "refund", "review"])
    assert page.locator(".detail-head h2").inner_text() == "reply", "the newest is shown"
    assert beside(values, own, "tent-refund")["approved"] is approved


def test_a_new_input_runs_and_its_tokens_are_shown_as_they_come(writing, own, visit, beside):
    page = visit(writing, "#/thread/shipping")
    page.get_by_label("New input").fill("And to the moon?")
    page.keyboard.press("Enter")
    done = ended(page, "done")
    assert done.locator(".progress-said").inner_text().split() == ["reply", *ANSWER.split()]
    assert "triage → " in done.locator(".progress-steps").inner_text()
    until(lambda: rows(page)[:2] == ["reply", "research"])
    said = [message.content for message in beside(values, own, "shipping")["messages"]]
    assert said[-2:] == ["And to the moon?", ANSWER]


def test_a_thread_that_names_none_of_several_graphs_runs_with_the_one_that_is_chosen(
    own, start, visit
):
    graphs = {"first": demo.make_graph(), "support": demo.make_graph()}
    page = visit(start(own, graphs=graphs, write=True), "#/thread/shipping")
    shown = page.locator(".detail-head code")
    assert shown.get_attribute("title")[-8:] == shown.inner_text(), "as on the command line"
    chosen, line = page.locator(".thread-head select").last, page.get_by_label("New input")
    assert (chosen.input_value(), line.count()) == ("", 0)
    page.locator(".thread-title").evaluate("title => { title.textContent = 'long'.repeat(50) }")
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 700})
        box = chosen.bounding_box()
        assert 99 < box["width"] <= width - box["x"]
    chosen.select_option("support")
    line.wait_for()


def test_an_input_can_be_json_and_what_is_no_json_is_refused_here(writing, visit):
    page = visit(writing, "#/thread/shipping")
    page.get_by_role("button", name="JSON", exact=True).click()
    page.get_by_label("New input").fill("{not json")
    page.keyboard.press("Enter")
    page.get_by_role("alert").get_by_text("This is not JSON").wait_for()
    page.get_by_label("New input").fill(
        '{"messages": [{"role": "user", "content": "Refund A-2077"}]}'
    )
    page.keyboard.press("Enter")
    ended(page, "interrupted")
    page.get_by_role("group", name="review asks").wait_for()


def test_a_thread_begins_with_its_first_input(writing, visit):
    page = visit(writing)
    page.get_by_role("button", name="New thread").click()
    page.get_by_label("New input").fill("How long does a parcel take?")
    page.keyboard.press("Enter")
    ended(page, "done")
    until(lambda: rows(page)[:2] == ["reply", "research"])
    page.locator(".live").wait_for()
    page.get_by_label("All threads").click()
    page.get_by_text("11 threads", exact=True).wait_for()


def test_an_edit_is_saved_as_a_fork(writing, own, visit, beside):
    page = visit(writing, "#/thread/lamp-refund")
    page.locator(".checkpoint").nth(8).click()
    row = page.locator('.tree-row[data-path="[\\"draft\\"]"]')
    row.hover()
    row.get_by_role("button", name="Edit draft and fork").click()
    window = page.get_by_role("dialog")
    update = window.get_by_label("Update as JSON")
    until(lambda: "Best wishes" in update.input_value())
    update.fill('{"draft": ')
    window.get_by_role("button", name="Save the fork").click()
    window.get_by_role("alert").get_by_text("This is not JSON").wait_for()
    update.fill('{"draft": "Shorter."}')
    window.get_by_role("button", name="Save the fork").click()
    window.wait_for(state="detached")
    until(lambda: rows(page)[0] == "Edit as refund")
    page.get_by_text("Shorter.").wait_for()
    assert beside(values, own, "lamp-refund")["draft"] == "Shorter."
    page.locator(".checkpoint").nth(9).click()
    page.get_by_text("3 branches start here").wait_for()


def test_what_json_cannot_say_is_not_saved_as_an_object(writing, own, visit, beside):
    def write() -> None:
        with demo.opened(own) as (made, _, _):
            made.update_state(demo.config("lamp-refund"), {"draft": b"\x00"})

    beside(write)
    page = visit(writing, "#/thread/lamp-refund")
    row = page.locator('.tree-row[data-path="[\\"draft\\"]"]')
    row.hover()
    row.get_by_role("button", name="Edit draft and fork").click()
    window = page.get_by_role("dialog")
    until(lambda: "$bytes" in window.get_by_label("Update as JSON").input_value())
    window.get_by_role("button", name="Save the fork").click()
    window.get_by_role("alert").get_by_text("draft is 1 B of bytes: JSON cannot say it").wait_for()
    assert beside(values, own, "lamp-refund")["draft"] == b"\x00"


def test_a_fork_runs_on_from_its_checkpoint(writing, own, visit, beside):
    page = visit(writing, "#/thread/lamp-refund")
    page.locator(".checkpoint").nth(8).click()
    page.get_by_role("button", name="Edit and fork", exact=True).click()
    window = page.get_by_role("dialog")
    window.get_by_label("Update as JSON").fill('{"draft": "In short: yes."}')
    window.get_by_role("button", name="Fork and run").click()
    ended(page, "done")
    until(lambda: rows(page)[:2] == ["reply", "Edit as refund"])
    assert beside(values, own, "lamp-refund")["messages"][-1].content == "In short: yes."


def test_a_replay_starts_at_the_chosen_checkpoint(writing, visit):
    page = visit(writing, "#/thread/shipping")
    page.locator(".checkpoint").nth(1).click()
    page.get_by_role("button", name="Replay").click()
    ended(page, "done")
    until(lambda: len(rows(page)) > 5)
    assert rows(page)[0] == "reply"


def test_a_run_that_fails_says_why(writing, visit):
    page = visit(writing, "#/thread/rope-refund")
    page.get_by_role("button", name="Replay").click()
    ended(page, "failed").get_by_text("has a price below zero").wait_for()
    page.get_by_role("button", name="Close the output").click()
    page.locator(".progress").wait_for(state="detached")


def test_checkpoints_of_another_program_appear_as_they_are_saved(site_of_own, own, visit, beside):
    page = visit(site_of_own, "#/thread/tent-refund")
    page.locator(".live").wait_for()
    assert rows(page)[0] == "lookup"

    def run() -> None:
        with demo.opened(own) as (made, _, _):
            made.invoke(Command(resume="yes"), demo.config("tent-refund"))

    beside(run)
    until(lambda: rows(page)[:3] == ["reply", "refund", "review"])
    until(lambda: page.locator(".thread-head .status").inner_text() == "Idle")
    assert page.locator(".detail-head h2").inner_text() == "reply", "the newest is followed"


@pytest.fixture
def site_of_own(own: Path, start: Any) -> Any:
    """A server that only reads, on a database that another program writes to."""
    return start(own, graphs={"support": demo.make_graph()})
