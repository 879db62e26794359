"""Makes the pictures of the page in docs/img.

    python tools/screenshots.py [--browser /usr/bin/chromium] [--to FOLDER]

Serves a database of made-up threads, opens the page in a browser without a window, and takes a
picture of each of its main views. Needs `pip install -e '.[test]'`, Chromium and pngquant, and the
fonts Inter and JetBrains Mono: other fonts make other pictures.
"""

from __future__ import annotations

import argparse
import contextlib
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from page import demo  # noqa: E402
from page.conftest import OPTIONS  # noqa: E402
from server.serving import TOKEN, Running, serving  # noqa: E402

LARGEST = 200_000
"""Bytes that a picture may have."""


def threads(page: Any, url: str) -> None:
    page.goto(f"{url}/#/threads")
    page.locator(".thread-row").nth(12).get_by_text("kB").wait_for()


def thread(page: Any, url: str) -> None:
    page.goto(f"{url}/#/thread/lamp-refund")
    page.locator(".checkpoint").nth(8).click()
    page.get_by_text("2 branches start here").wait_for()
    page.locator(".tree-added").first.wait_for()


def diff(page: Any, url: str) -> None:
    thread(page, url)
    page.keyboard.press("c")
    page.locator(".checkpoint").nth(12).click()
    page.locator(".line-added").first.wait_for()


def question(page: Any, url: str) -> None:
    page.goto(f"{url}/#/thread/tent-refund?tab=messages")
    page.get_by_text("Let me look at your order.").wait_for()
    page.get_by_label("Answer to review").fill("yes")


def store(page: Any, url: str) -> None:
    page.goto(f"{url}/#/store")
    page.get_by_role("button", name="profile").nth(1).click()
    page.get_by_role("heading", name="profile").wait_for()


def narrow(page: Any, url: str) -> None:
    page.goto(f"{url}/#/thread/lamp-refund")
    page.locator(".checkpoint").nth(8).wait_for()


WIDE = {"width": 1280, "height": 760}
VIEWS: dict[str, tuple[Callable[[Any, str], None], dict[str, int], str]] = {
    "ui-threads": (threads, WIDE, "light"),
    "ui-thread": (thread, WIDE, "light"),
    "ui-diff": (diff, WIDE, "light"),
    "ui-question": (question, WIDE, "dark"),
    "ui-store": (store, WIDE, "light"),
    "ui-narrow": (narrow, {"width": 400, "height": 760}, "dark"),
}


def make_database(path: Path) -> None:
    """Threads whose last activity is spread over the past days."""
    demo.build(path, threads=40)
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("SELECT thread_id FROM threads ORDER BY updated_at DESC")
        ids = [thread_id for (thread_id,) in rows]
        connection.executemany(
            "UPDATE threads SET updated_at = updated_at - ? WHERE thread_id = ?",
            [(60 * position**2.2, thread_id) for position, thread_id in enumerate(ids)],
        )
    connection.close()


def take(browser: Any, site: Running, name: str, folder: Path) -> None:
    """One picture."""
    show, size, theme = VIEWS[name]
    context = browser.new_context(viewport=size, color_scheme=theme, device_scale_factor=1.5)
    page = context.new_page()
    page.goto(f"{site.url}/?token={TOKEN}")
    page.locator(".thread-row").first.wait_for()
    show(page, site.url)
    page.wait_for_timeout(1500)  # animations of what has just come
    file = folder / f"{name}.png"
    page.screenshot(path=file)
    context.close()
    subprocess.run(["pngquant", "--force", "--strip", "--output", file, "200", file], check=True)
    print(f"{name}.png: {file.stat().st_size:,} bytes")
    assert file.stat().st_size < LARGEST, f"{name} is too large"


def main() -> None:
    """The command."""
    plain = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--browser", default="/usr/bin/chromium")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "img")
    given = parser.parse_args()
    to = given.to.resolve()
    with tempfile.TemporaryDirectory() as folder:
        make_database(Path(folder) / "shop.db")
        graphs = {"support": demo.make_graph()}
        with (
            contextlib.chdir(folder),  # the page shows the address of the database
            serving("sqlite:///shop.db", graphs=graphs, write=True) as site,
            sync_playwright() as playwright,
        ):
            browser = playwright.chromium.launch(executable_path=given.browser, args=[*OPTIONS])
            for name in VIEWS:
                take(browser, site, name, to)
            browser.close()


if __name__ == "__main__":
    main()
