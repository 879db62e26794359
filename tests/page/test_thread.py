"""A thread: its timeline, its states, and what differs between them."""

from __future__ import annotations

import re
from typing import Any

from page.waiting import until


def rows(page: Any) -> list[str]:
    return page.locator(".checkpoint .checkpoint-name").all_inner_texts()


def title(page: Any) -> str:
    return page.locator(".detail-head h2").inner_text()


def mark(page: Any, node: str) -> str | None:
    return page.locator(f'.graph [data-node="{node}"]').get_attribute("data-mark")


def step(page: Any, key: str, name: str) -> None:
    page.keyboard.press(key)
    until(lambda: title(page) == name)


LAMP = "#/thread/lamp-refund"


def test_forks_are_drawn_as_branches(site, visit):
    page = visit(site, LAMP)
    page.locator(".checkpoint").nth(17).wait_for()
    assert rows(page) == [
        *("reply", "research", "triage", "Start", "Input"),
        *("reply", "Edit as refund"),
        "reply",  # of the branch before the edit
        *("refund", "review", "Fork"),
        *("reply", "refund", "review"),  # of the first answer
        *("lookup", "triage", "Start", "Input"),
    ]
    places = page.locator(".checkpoint .dot").evaluate_all(
        "dots => dots.map(dot => dot.cx.baseVal.value)"
    )
    _, second = sorted(set(places))
    aside = [index for index, place in enumerate(places) if place == second]
    assert aside == [7, 11, 12, 13], "two branches beside the one that went on"
    colours = page.locator(".checkpoint .dot").evaluate_all(
        "dots => dots.map(dot => getComputedStyle(dot).fill)"
    )
    assert len({colours[0], colours[7], colours[11]}) == 3
    joins = page.locator(".checkpoint").nth(14).locator("path.lane")
    assert joins.count() == 3, "the first question: two lines come to it, one leads on"


def test_keys_step_through_the_checkpoints_and_the_address_names_them(site, visit):
    page = visit(site, LAMP)
    page.locator(".tree-row").first.wait_for()
    assert title(page) == "reply"
    page.get_by_text("22 checkpoints").wait_for()
    assert "at=" not in page.url, "the newest is followed"
    step(page, "j", "research")
    step(page, "j", "triage")
    step(page, "k", "research")
    link = page.url
    assert "at=" in link
    step(page, "p", "triage")
    page.goto("about:blank")
    page.goto(link)
    page.locator(".detail-head").wait_for()
    assert title(page) == "research"
    assert (
        page.locator('.checkpoint[aria-selected="true"] .checkpoint-name').inner_text()
        == "research"
    )
    step(page, "g", "reply")
    page.get_by_role("listbox", name="Checkpoints, newest first").focus()
    step(page, "ArrowDown", "research")
    step(page, "ArrowUp", "reply")


def test_the_graph_shows_what_ran_what_runs_next_and_what_failed(site, visit):
    page = visit(site, "#/thread/rope-refund")
    page.locator(".graph-node").first.wait_for()
    assert (mark(page, "review"), mark(page, "refund"), mark(page, "reply")) == (
        "ran",
        "failed",
        "",
    )
    assert (
        page.get_by_role("group", name="refund failed").get_by_text("price below zero").is_visible()
    )
    step(page, "j", "lookup")
    assert (mark(page, "lookup"), mark(page, "review")) == ("ran", "next")
    step(page, "j", "triage")
    assert (mark(page, "triage"), mark(page, "lookup")) == ("ran", "next")


def test_an_open_question_is_shown(site, visit):
    page = visit(site, "#/thread/tent-refund")
    asked = page.get_by_role("group", name="review asks")
    asked.get_by_text("Pay back 420.00 for the canvas tent?").wait_for()
    assert mark(page, "review") == "waiting"
    assert page.locator(".thread-head .status").inner_text() == "Waiting"


def test_a_subgraph_has_a_timeline_of_its_own(site, visit):
    page = visit(site, LAMP)
    page.get_by_label("Namespace").select_option("research")
    until(lambda: rows(page) == ["search", "plan", "Start", "Input"])
    assert page.locator('.graph [data-node="search"]').is_visible(), "drawn from what ran"
    page.locator('[data-path="[\\"queries\\",1]"]').get_by_text("return policy").wait_for()
    page.go_back()
    until(lambda: rows(page)[:2] == ["reply", "research"])
    step(page, "j", "research")
    step(page, "j", "triage")
    page.get_by_role("button", name="See what runs inside research").click()
    until(lambda: rows(page)[:1] == ["search"])


def test_the_state_is_a_tree_that_stays_open_from_step_to_step(site, visit):
    page = visit(site, LAMP)
    order = page.locator('.tree-branch[data-path="[\\"order\\"]"]')
    order.get_by_text("Trail lamp").wait_for()
    order.locator(".tree-toggle").click()
    order.get_by_text("Trail lamp").wait_for(state="detached")
    step(page, "j", "research")
    assert order.get_attribute("aria-expanded") == "false"
    assert order.get_by_text("Trail lamp").count() == 0


def test_messages_are_a_chat_with_tool_calls(site, visit):
    page = visit(site, LAMP)
    page.locator(".tree-row").first.wait_for()
    page.keyboard.press("m")
    chat = page.get_by_role("region", name="Messages in messages")
    chat.get_by_text("My trail lamp broke.").wait_for()
    roles = chat.locator(".message-role").all_inner_texts()
    assert roles == ["Human", "Assistant", "Tool", "Assistant", "Human", "Assistant"]
    assert chat.locator(".call").get_by_text("find_order").is_visible()
    new = chat.locator(".message", has=page.locator(".flag-new"))
    assert new.count() == 1, "what this step has said"
    assert "two days" in new.inner_text()


def test_what_a_step_changed(site, visit):
    page = visit(site, LAMP)
    page.locator(".tree-row").first.wait_for()
    step(page, "j", "research")
    step(page, "j", "triage")
    page.keyboard.press("d")
    change = page.locator(".change")
    change.get_by_text("topic").wait_for()
    until(lambda: change.count() == 1)
    assert change.locator(".side-before").inner_text().split() == ["\N{MINUS SIGN}", "refund"]
    assert change.locator(".side-after").inner_text().split() == ["+", "question"]


def test_any_two_checkpoints_are_compared_and_long_texts_line_by_line(site, visit):
    page = visit(site, LAMP)
    page.locator(".checkpoint").nth(8).click()  # the draft
    until(lambda: title(page) == "refund")
    page.keyboard.press("c")
    page.locator(".checkpoint").nth(6).click()  # the edit of it
    lines = page.locator(".lines .line-added, .lines .line-removed")
    lines.first.wait_for()
    assert lines.all_inner_texts() == ["-Best wishes", "+We are sorry for the trouble"]
    assert page.locator(".checkpoint", has=page.locator(".flag-against")).count() == 1
    page.get_by_label("Compare with a checkpoint of another thread").fill("rope-refund")
    page.keyboard.press("Enter")
    page.locator(".change-path", has_text="order.item").wait_for()
    page.locator(".detail-head").click()
    page.keyboard.press("Escape")
    assert "vs=" not in page.url


def test_who_wrote_a_value(site, visit):
    page = visit(site, LAMP)
    row = page.locator('.tree-row[data-path="[\\"approved\\"]"]')
    row.hover()
    row.get_by_role("button", name="Who wrote approved").click()
    said = page.get_by_role("dialog", name="Who wrote approved")
    said.get_by_text("review").wait_for()
    assert re.search(r"step 4\b", said.inner_text())
    said.locator(".blame-part").click()
    until(lambda: title(page) == "review")


def test_without_write_nothing_offers_to_change_anything(site, visit):
    page = visit(site, "#/thread/tent-refund")
    page.get_by_role("group", name="review asks").wait_for()
    assert page.get_by_text("read-only").is_visible()
    for name in ("Answer", "Edit and fork", "Replay", "Run"):
        assert page.get_by_role("button", name=name, exact=True).count() == 0
    assert page.get_by_role("button", name=re.compile("and fork")).count() == 0
    assert page.locator("textarea").count() == 0


def test_what_is_not_there_is_said_to_be_missing(site, visit):
    page = visit(site, "#/thread/lamp-refund?at=not-a-checkpoint", missing=True)
    page.get_by_text("This checkpoint is not in the thread").wait_for()
    page.goto(f"{site.url}/#/thread/no-such-thread")
    page.get_by_role("alert").get_by_text("no-such-thread").wait_for()
    page.goto(f"{site.url}/#/nowhere")
    page.get_by_text("There is no such view").wait_for()
