"""Values that are large, and values that would like to be a script."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from milepost.graph import END, START, StateGraph
from milepost.messages import AIMessage
from page import demo
from page.waiting import until


class Anything(TypedDict, total=False):
    text: str
    rows: list[Any]
    nested: dict[str, Any]
    messages: Annotated[list[Any], operator.add]


def graph_of(update: dict[str, Any], saver: Any, node: str = "node") -> Any:
    builder = StateGraph(Anything)
    builder.add_node(node, lambda state: update)
    builder.add_edge(START, node)
    builder.add_edge(node, END)
    return builder.compile(checkpointer=saver)


def test_a_state_of_five_megabytes_comes_on_demand(tmp_path: Path, start, visit):
    path = tmp_path / "large.db"
    text = "A line of a long text.\n" * 110_000
    rows = [{"number": number, "name": f"row {number}"} for number in range(60_000)]
    with demo.opened(path) as (_, saver, _):
        graph_of({"text": text, "rows": rows}, saver).invoke({}, demo.config("large"))
    page = visit(start(path), "#/thread/large")
    sizes: dict[str, int] = {}
    page.on(
        "response", lambda got: sizes.update({got.url: int(got.headers.get("content-length", 0))})
    )
    load = page.locator(".tree-row", has_text="text").get_by_role("button", name="Load 2.5 MB")
    load.wait_for()
    assert page.locator(".tree-row").count() == 2, "neither is there yet"
    load.click()
    page.get_by_text("A line of a long text.").wait_for()
    shown = page.locator(".tree-text-long").inner_text()
    assert len(shown) < 1000, "folded"
    page.get_by_role("button", name="Show more").click()
    until(lambda: 19_000 < len(page.locator(".tree-text-long").inner_text()) < 25_000)
    page.locator(".tree-row", has_text="rows").get_by_role("button", name="Load").click()
    page.locator('.tree-branch[data-path="[\\"rows\\"]"] .tree-toggle').first.click()
    page.get_by_text("row 99", exact=False).first.wait_for()
    assert page.locator(".tree-row").count() < 500, "drawn in portions"
    page.get_by_role("button", name="Show 100 more of 59,900").click()
    page.locator('[data-path="[\\"rows\\",199]"]').wait_for()


def test_a_conversation_that_is_too_large_to_be_sent_unasked_comes_on_demand(
    tmp_path: Path, start, visit
):
    path = tmp_path / "talk.db"
    said = [{"type": "human", "content": f"message {at}, {'word ' * 30}"} for at in range(1000)]
    with demo.opened(path) as (_, saver, _):
        graph_of({"messages": said, "rows": list(range(60_000))}, saver).invoke(
            {}, demo.config("talk")
        )
    page = visit(start(path), "#/thread/talk?tab=messages")
    page.get_by_role("button", name="Load messages (").click()
    page.get_by_text("message 999, ").wait_for()
    assert page.locator(".message").count() == 50
    page.get_by_role("button", name="Show 50 earlier of 950").click()
    page.get_by_text("message 900, ").wait_for()
    page.get_by_role("button", name="Load rows (").click()
    page.get_by_text("No messages").wait_for()


def test_a_thread_whose_name_would_turn_the_text_is_shown_with_escapes(
    tmp_path: Path, start, visit
):
    path = tmp_path / "turned.db"
    with demo.opened(path) as (_, saver, _):
        graph_of({"text": "x"}, saver).invoke({}, demo.config("a\u202eb\x1b[2J"))
    page = visit(start(path))
    page.get_by_text("a\\u202eb\\x1b[2J", exact=True).click()
    until(lambda: page.locator(".thread-title").inner_text() == "a\\u202eb\\x1b[2J")


ATTACKS = [
    "<img src=x onerror=\"window.attacked='img'\">",
    "<script>window.attacked='script'</script>",
    '"><svg onload="window.attacked=\'svg\'">',
    "javascript:window.attacked='link'",
    "{{constructor.constructor('window.attacked=1')()}}",
]


def test_hostile_names_and_values_are_shown_and_never_run(tmp_path: Path, start, visit):
    path = tmp_path / "hostile.db"
    attack = " ".join(ATTACKS)
    node = "<img src=x onerror=alert(1)>"
    with demo.opened(path) as (_, saver, store):
        for number, name in enumerate([*ATTACKS, "../../..", "..", "a/b?c#d%2e"]):
            update = {
                "text": attack,
                "rows": [attack, {attack: attack}],
                "nested": {
                    attack: {attack: None},
                    "__proto__": {"polluted": True},
                    "$type": attack,
                },
                "messages": [
                    AIMessage(
                        attack,
                        name=attack,
                        tool_calls=[{"name": attack, "args": {attack: attack}, "id": attack}],
                    )
                ],
            }
            made = graph_of(update, saver, node)
            made.invoke({}, demo.config(name, metadata={"owner": attack, "channel": attack}))
            store.put(("hostile", "<b>bold</b>"), f"{name} {number}", {attack: attack})
    page = visit(start(path, graphs={attack: made}))
    links = page.locator(".thread-link")
    until(lambda: links.count() == 8)
    names = set(links.all_inner_texts())
    assert set(ATTACKS) <= names
    for name in names - {".."}:
        page.get_by_role("link", name=name, exact=True).click()
        page.locator(".tree-row").first.wait_for()
        assert page.get_by_role("heading", level=1).inner_text() == name
        page.keyboard.press("Escape")
        links.first.wait_for()
    page.get_by_role("link", name="a/b?c#d%2e").click()
    page.locator(".tree-row").first.wait_for()
    for key, part in (("m", ".talk"), ("d", ".change"), ("s", ".tree")):
        page.keyboard.press(key)
        page.locator(f".detail-body {part}").get_by_text("onerror").first.wait_for()
    page.keyboard.press("c")
    page.get_by_text("Both hold the same values").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="..", exact=True).click()
    page.get_by_role("alert").get_by_text("A browser cannot ask for '..'").wait_for()
    page.goto(f"{page.url.split('#')[0]}#/store")
    page.locator(".store-row").first.click()
    page.get_by_role("region", name="Item", exact=True).get_by_text("onerror").first.wait_for()
    page.goto(f"{page.url.split('#')[0]}#/stats")
    page.get_by_text("Largest threads").wait_for()
    assert page.evaluate("window.attacked") is None
    assert page.evaluate("({}).polluted") is None
    assert page.locator("main img, main script, main b").count() == 0


ROUTES = {
    "#/threads": ".thread-row",
    "#/thread/lamp-refund": ".checkpoint",
    "#/thread/tent-refund": ".note-waiting",
    "#/store": ".store-row",
    "#/stats": ".card",
}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_wider_than_a_narrow_window(site, visit, theme):
    page = visit(site, viewport={"width": 400, "height": 800}, color_scheme=theme)
    for route, sign in ROUTES.items():
        page.goto(f"{site.url}/{route}")
        page.locator(sign).first.wait_for(state="attached")
        for tab in page.locator(".pane-switch .tab").all():
            tab.click()
            assert page.evaluate("document.documentElement.scrollWidth") == 400
        assert page.evaluate("document.documentElement.scrollWidth") == 400
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(14, 15, 18)"
    assert dark == (theme == "dark")


def test_the_chosen_theme_is_kept(site, visit):
    page = visit(site, color_scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    for _ in range(2):
        page.get_by_role("button", name="Theme:").click()
    assert page.evaluate(background) != light
    page.reload()
    page.locator(".thread-row").first.wait_for()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate(background) != light
