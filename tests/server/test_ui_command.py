"""`milepost ui`, as a process of its own."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving import asking_graph, on

from milepost.cli import main
from milepost.cli.ui import _opened_in_browser
from milepost.inspect import attached, open_database

TESTS = str(Path(__file__).parent)


@contextmanager
def ui(*arguments: str, **environment: str) -> Iterator[tuple[str, Any]]:
    """The address that the command prints, and its process."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("MILEPOST_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "milepost", "ui", "--port", "0", "--no-browser", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=TESTS,
        env={**inherited, **environment},
    )
    try:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], 30)[0], "it prints nothing"
        first = process.stdout.readline()
        if not first:
            raise AssertionError(process.communicate()[1])
        yield process.stdout.readline().strip(), process
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


@pytest.fixture
def asked(file: str) -> str:
    """A database with a thread that waits for an answer."""
    with open_database(file, write=True) as database:
        attached(asking_graph(), database).invoke({"log": ["in"]}, on("t"))
    return file


def test_the_printed_address_opens_a_page_that_reads(asked: str) -> None:
    with ui(asked) as (address, process):
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/\?token=([\w-]{43})", address)
        assert found, address
        with httpx.Client(base_url=found[1], timeout=20) as browser:
            assert browser.get("/").status_code == 401
            assert browser.get("/", params={"token": found[2]}).status_code == 200
            assert browser.get("/milepost/threads").json()["total"] == 1
            headers = {"origin": found[1]}
            assert browser.delete("/threads/t", headers=headers).status_code == 403
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_the_page_runs_a_graph_if_it_may_write(asked: str) -> None:
    arguments = (asked, "--write", "--graph", "serving:asking_graph")
    with ui(*arguments, MILEPOST_UI_TOKEN="chosen") as (address, _):
        assert address.endswith("?token=chosen")
        url = address.partition("/?")[0]
        with httpx.Client(base_url=url, headers={"x-api-key": "chosen"}, timeout=20) as client:
            (graph,) = client.get("/milepost/info").json()["graphs"]
            assert graph["graph_id"] == "asking"
            body = {"graph_id": "asking", "resume": "yes"}
            assert "event: end" in client.post("/milepost/threads/t/run", json=body).text
            assert client.get("/threads/t").json()["values"]["answer"] == "yes"


def test_the_graphs_of_a_configuration_are_offered(asked: str, tmp_path: Path) -> None:
    config = tmp_path / "langgraph.json"
    config.write_text(json.dumps({"graphs": {"one": f"{TESTS}/serving.py:asking_graph"}}))
    with ui(asked, "--graph", str(config), MILEPOST_UI_TOKEN="x") as (address, _):
        url = address.partition("/?")[0]
        info = httpx.get(f"{url}/milepost/info", headers={"x-api-key": "x"}, timeout=20).json()
    assert [graph["graph_id"] for graph in info["graphs"]] == ["one"]


MADE = """
import asyncio
import serving
from milepost.graph import START, StateGraph

async def make(config):
    loop = asyncio.get_running_loop()

    async def node(state):
        assert asyncio.get_running_loop() is loop
        return {"log": ["on the loop"]}

    return StateGraph(serving.State).add_node(node).add_edge(START, "node")

async def fails():
    raise RuntimeError("no key")
"""


def test_an_async_function_makes_its_graph_on_the_servers_loop(asked: str, tmp_path: Path) -> None:
    (tmp_path / "program_of_the_ui.py").write_text(MADE)
    config = tmp_path / "langgraph.json"
    made = "./program_of_the_ui.py"
    config.write_text(json.dumps({"graphs": {"one": f"{made}:fails", "two": f"{made}:make"}}))
    arguments = (asked, "--write", "--graph", str(config))
    with ui(*arguments, MILEPOST_UI_TOKEN="x") as (address, process):
        url = address.partition("/?")[0]
        with httpx.Client(base_url=url, headers={"x-api-key": "x"}, timeout=20) as client:
            (graph,) = client.get("/milepost/info").json()["graphs"]
            assert graph["graph_id"] == "two"
            body = {"graph_id": "two", "input": {"log": []}}
            client.post("/threads", json={"thread_id": "new"})
            assert "event: end" in client.post("/milepost/threads/new/run", json=body).text
            assert client.get("/threads/new").json()["values"]["log"] == ["on the loop"]
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
    assert said.count("\n") == 1
    assert "graph 'one' is left out" in said
    assert "RuntimeError: no key" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ui", "nothing.db"], "nothing.db"),
        (["ui", "FILE", "--graph", "nomodule:graph"], "nomodule"),
        (["ui", "FILE", "--graph", "nothing.json"], "nothing.json"),
        (["ui", "FILE", "--host", "203.0.113.7"], "203.0.113.7"),
        (["ui", "FILE", *["--graph", f"{TESTS}/serving.py:asking_graph"] * 2], "'asking'"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(
    file: str, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main([file if one == "FILE" else one for one in arguments]) != 0
    printed = capsys.readouterr().err
    assert said in printed
    assert printed.count("\n") == 1


def test_a_token_that_cannot_be_sent_is_said_in_one_line(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILEPOST_UI_TOKEN", "two words")
    assert main(["ui", file, "--no-browser"]) == 1
    said = "milepost: MILEPOST_UI_TOKEN must be one word of printable ASCII.\n"
    assert capsys.readouterr().err == said


def test_of_two_databases_none_is_chosen(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["ui", file, "--db", "other.db"])
    assert stopped.value.code == 2
    assert "one database" in capsys.readouterr().err


def test_the_browser_is_given_a_file_that_others_cannot_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import webbrowser
    from threading import Event
    from urllib.parse import unquote, urlsplit

    opened: list[str] = []
    done = Event()

    def open(address: str) -> None:
        opened.append(address)
        done.set()

    monkeypatch.setattr(webbrowser, "open", open)
    with _opened_in_browser("http://127.0.0.1:1/?token=secret&x=1"):
        assert done.wait(20)
        assert "secret" not in opened[0]
        file = Path(unquote(urlsplit(opened[0]).path))
        assert file.stat().st_mode & 0o077 == 0
        assert file.parent.stat().st_mode & 0o077 == 0
        assert "url=http://127.0.0.1:1/?token=secret&amp;x=1" in file.read_text()
    assert not file.exists()
