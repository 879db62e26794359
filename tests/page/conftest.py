"""A browser, a server on a database to show, and pages that are signed in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from page import demo
from server.serving import TOKEN, Running, serving

HOW = (
    "no browser: the tests of the page need chromium (apt-get install chromium, or its path in "
    "MILEPOST_BROWSER) and playwright (pip install playwright)"
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-sync",
)


# Not of the session: while it is open, no other test of this process could start an event loop.
@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """A browser without a window."""
    installed = map(shutil.which, BROWSERS)
    program = os.environ.get("MILEPOST_BROWSER") or next(filter(None, installed), None)
    if program is None:
        pytest.skip(HOW)
    api = pytest.importorskip("playwright.sync_api", reason=HOW)
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(OPTIONS))
        yield started
        started.close()


@pytest.fixture(scope="package")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that tests look at and do not change."""
    path = tmp_path_factory.mktemp("page") / "shown.db"
    demo.build(path, threads=6)
    return path


@pytest.fixture
def own(shown: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    for file in shown.parent.glob(f"{shown.name}*"):
        shutil.copy(file, tmp_path)
    return tmp_path / shown.name


@pytest.fixture(scope="package")
def site(shown: Path) -> Iterator[Running]:
    """A server that only reads."""
    with serving(f"sqlite:///{shown}", graphs={"support": demo.make_graph()}) as running:
        yield running


@pytest.fixture
def beside() -> Iterator[Callable[..., Any]]:
    """Calls a function beside the browser's event loop, as another program would run."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda function, *given: pool.submit(function, *given).result(20)


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    """Starts servers that end with the test, after its pages."""
    with ExitStack() as stack:
        yield lambda path, **options: stack.enter_context(serving(f"sqlite:///{path}", **options))


@pytest.fixture
def writing(own: Path, start: Any) -> Running:
    """A server that may write, on a database of this test's own."""
    return start(own, graphs={"support": demo.make_graph()}, write=True)


@pytest.fixture
def visit(browser: Any, start: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages that are signed in. Nothing that a page does may be an error or a leak."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def open(
        site: Running,
        route: str = "#/threads",
        *,
        missing: bool = False,
        signed_in: bool = True,
        **options: Any,
    ) -> Any:
        """`missing` for a test that asks for what is not there, which browsers log."""

        def logged(said: Any) -> None:
            if said.type == "error" and not (missing and "status of 404" in said.text):
                wrong.append(f"{said.text} {said.location}")

        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        contexts.append(context)
        cookie = {"name": f"milepost-{site.port}", "value": TOKEN, "url": site.url}
        if signed_in:
            context.add_cookies([{**cookie, "httpOnly": True, "sameSite": "Strict"}])
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        page.on("console", logged)
        page.on(
            "request",
            lambda sent: sent.url.startswith(site.url) or wrong.append(f"sent: {sent.url}"),
        )
        page.goto(f"{site.url}/{route}")
        page.locator(".bar .mode").wait_for()
        return page

    yield open
    for context in contexts:
        context.close()
    assert wrong == []
