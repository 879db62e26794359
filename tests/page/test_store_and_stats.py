"""The Store and the sizes."""

from __future__ import annotations

import re
from pathlib import Path

from milepost.store.base import PutOp
from page import demo
from page.waiting import until


def test_the_store_is_read_by_namespace_item_and_search(site, visit):
    page = visit(site, "#/store")
    keys = page.locator(".store-row .store-key")
    until(lambda: keys.count() == 8)
    page.get_by_role("navigation", name="Namespaces").get_by_text("policies").click()
    until(lambda: sorted(keys.all_inner_texts()) == ["refunds", "shipping"])
    page.get_by_role("button", name="refunds").click()
    item = page.get_by_role("region", name="Item", exact=True)
    item.get_by_text("ask above").wait_for()
    assert item.get_by_role("heading").inner_text().strip() == "refunds"
    page.reload()
    item.get_by_text("ask above").wait_for()
    page.get_by_role("button", name="All").click()
    until(lambda: keys.count() == 8)
    page.keyboard.press("/")
    page.keyboard.type("u-23 new york")
    until(lambda: keys.all_inner_texts() == ["profile"])


def test_a_store_of_more_than_a_thousand_items_is_shown_to_its_end(tmp_path: Path, start, visit):
    path = tmp_path / "many.db"
    with demo.opened(path) as (_, _, store):
        store.batch([PutOp(("notes",), f"k{at}", {"n": at}) for at in range(1050)])
        store.put(("turned \u202e",), "last", {"n": 0})
    page = visit(start(path), "#/store")
    for shown in range(100, 1100, 100):
        page.get_by_text(f"{shown:,} items shown").wait_for()
        page.get_by_role("button", name="Show more").click()
    page.get_by_text("1,051 items shown").wait_for()
    page.get_by_role("button", name="turned \\u202e", exact=True).wait_for()
    page.keyboard.press("/")
    page.keyboard.type("nowhere")
    page.get_by_text("No item matches among the 1,000 that were changed last").wait_for()


def test_the_sizes_of_kinds_channels_and_threads(site, visit):
    page = visit(site, "#/stats")
    page.get_by_role("heading", name="Largest threads").wait_for()
    text = page.locator(".stats").inner_text()
    assert re.search(r"Threads\s+10\b", text)
    assert "messages" in text
    page.get_by_role("link", name="lamp-refund").click()
    page.get_by_role("heading", name="lamp-refund").wait_for()
