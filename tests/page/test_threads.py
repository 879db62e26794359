"""The list of threads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from milepost.checkpoint.sqlite import SqliteSaver
from page.waiting import until
from server.serving import TOKEN


def test_the_printed_address_signs_in_and_its_token_does_not_stay(site, visit):
    page = visit(site, f"?token={TOKEN}", signed_in=False)
    page.get_by_text("10 threads", exact=True).wait_for()
    assert TOKEN not in page.url


def names(page: Any) -> list[str]:
    return page.locator(".thread-link").all_inner_texts()


def test_threads_are_listed_with_what_they_are_about(site, visit):
    page = visit(site)
    row = page.locator(".thread-row", has_text="tent-refund")
    row.get_by_text(re.compile(r"\d kB")).wait_for()
    text = row.inner_text()
    assert "Waiting" in text
    assert "u-23" in text
    assert re.search("just now|min ago", text)
    assert re.search(r"\b4\b", text), "the number of its checkpoints"
    assert names(page)[0] == "lamp-refund", "what was used last is first"
    assert page.get_by_text("10 threads", exact=True).is_visible()


def test_search_and_filters_narrow_the_list_and_are_in_the_address(site, visit):
    page = visit(site)
    page.get_by_text("10 threads", exact=True).wait_for()
    page.keyboard.press("/")
    page.keyboard.type("refund")
    page.get_by_text("3 threads found").wait_for()
    assert set(names(page)) == {"lamp-refund", "tent-refund", "rope-refund"}
    page.get_by_role("button", name="Failed").click()
    page.get_by_text("1 thread found").wait_for()
    assert names(page) == ["rope-refund"]
    page.reload()
    page.get_by_text("1 thread found").wait_for()
    assert page.get_by_label("Search threads").input_value() == "refund"
    page.keyboard.press("Escape")
    page.get_by_text("10 threads", exact=True).wait_for()


def test_an_owner_is_a_filter(site, visit):
    page = visit(site)
    page.locator(".thread-row", has_text="rope-refund").get_by_title("Only threads of u-42").click()
    page.get_by_label("Remove the filter owner").wait_for()
    until(lambda: set(page.locator(".thread-row .owner").all_inner_texts()) == {"u-42"})
    assert "rope-refund" in names(page)
    page.get_by_label("Remove the filter owner").click()
    page.get_by_text("10 threads", exact=True).wait_for()
    page.get_by_label("Filter by metadata: key=value").fill("owner=u-23")
    page.keyboard.press("Enter")
    until(lambda: set(page.locator(".thread-row .owner").all_inner_texts()) == {"u-23"})
    assert "tent-refund" in names(page)


def test_unfinished_threads_and_another_order(site, visit):
    page = visit(site)
    page.get_by_label("Unfinished").check()
    page.get_by_text(re.compile(r"^\d threads found")).wait_for()
    statuses = set(page.locator(".thread-row .status").all_inner_texts())
    assert statuses == {"Waiting", "Failed"}
    page.get_by_label("Unfinished").uncheck()
    page.get_by_label("Sort by").select_option("Name")
    until(lambda: len(names(page)) == 10 and names(page) == sorted(names(page)))


def test_a_search_that_finds_nothing_says_so_and_can_be_cleared(site, visit):
    page = visit(site, "#/threads?search=there-is-no-such-thread")
    page.get_by_text("No thread matches").wait_for()
    page.get_by_role("button", name="Clear the filters").click()
    page.get_by_text("10 threads", exact=True).wait_for()


def test_a_key_that_is_pressed_as_soon_as_a_view_is_there_is_not_lost(site, visit):
    page = visit(site)
    page.get_by_role("link", name="lamp-refund").wait_for()
    page.evaluate("""() => new MutationObserver((_, observer) => {
        if (![...document.querySelectorAll("h1")].some(h => h.textContent.includes("lamp-refund")))
            return;
        observer.disconnect();
        window.pressed = true;
        dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
    }).observe(document.body, { childList: true, subtree: true, characterData: true })""")
    page.get_by_role("link", name="lamp-refund").click()
    page.wait_for_function("window.pressed")
    page.get_by_role("list", name="Threads").wait_for()


def test_keys_move_through_the_list_and_open_a_thread(site, visit):
    page = visit(site)
    page.get_by_text("10 threads", exact=True).wait_for()
    for key in "jjk":
        page.keyboard.press(key)
    assert page.locator("[data-chosen] .thread-link").inner_text() == "lamp-refund"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="lamp-refund").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("list", name="Threads").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")


def test_two_thousand_threads_scroll_and_few_are_drawn(tmp_path: Path, start, visit):
    path = tmp_path / "many.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.setup()
        saver.conn.execute("PRAGMA synchronous = OFF")
        for number in range(2000):
            saver.threads.create(f"thread-{number:04}", {"owner": f"owner {number % 7}"})
    page = visit(start(path), "#/threads?sort=thread_id.asc")
    page.get_by_text("2,000 threads", exact=True).wait_for()
    assert page.locator(".thread-row").count() < 60
    for part, name in ((0.5, "thread-1000"), (1.0, "thread-1999")):
        page.locator(".threads-list").evaluate(
            "(list, part) => { list.scrollTop = list.scrollHeight * part }", part
        )
        page.get_by_role("link", name=name).wait_for()
        assert page.locator(".thread-row").count() < 60


def test_a_database_without_threads_says_how_they_come(tmp_path: Path, start, visit):
    path = tmp_path / "empty.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.setup()
    page = visit(start(path))
    page.get_by_text("No threads yet").wait_for()
    assert page.get_by_role("link", name="Store").count() == 0, "it has none"
