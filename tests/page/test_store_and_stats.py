"""The Store and the sizes."""

from __future__ import annotations

import re

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


def test_the_sizes_of_kinds_channels_and_threads(site, visit):
    page = visit(site, "#/stats")
    page.get_by_role("heading", name="Largest threads").wait_for()
    text = page.locator(".stats").inner_text()
    assert re.search(r"Threads\s+10\b", text)
    assert "messages" in text
    page.get_by_role("link", name="lamp-refund").click()
    page.get_by_role("heading", name="lamp-refund").wait_for()
