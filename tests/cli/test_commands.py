"""The commands of the extra `cli` and their options; test_each_command.py has each of them."""

import functools
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from milepost.cli.names import COMMANDS

SHOP = Path(__file__).parents[1] / "inspect" / "inspect_shop.py"
GRAPH = f"{SHOP}:graph"
PATIENCE = 120
LONG = bool(os.environ.get("MILEPOST_LONG"))
ALWAYS = {"threads", "answer", "completion"}
"""In processes of their own even in the short form; the others run in this one, on each backend."""


def succeeded(done):
    status, out, err = done
    assert status == 0, err
    return out


def test_each_command_in_a_process_of_its_own(file, tmp_path):
    """One after the other on one database; the statuses and a word of what each prints."""
    dump = tmp_path / "dump.txt"
    story = [
        (["threads"], "interrupted"),
        (["show", "open"], "Buy it?"),
        (["log", "done"], "plan: messages, count, order"),
        (["diff", "done@~1", "done"], "count: 1 -> 50"),
        (["blame", "done", "messages"], "human: hello"),
        (["bisect", "done", "count == 50"], "update"),
        (["tail", "done", "-n", "1"], "ask: count"),
        (["stats"], "3 threads, 10 checkpoints"),
        (["tag", "done@~1", "good"], "done@good is "),
        (["tags", "done"], "good"),
        (["fork", "done@good", "--set", "count=7"], "done@"),
        (["answer", "open", '"yes"', "-g", GRAPH], "It has ended."),
        (["resume", "done@good", "-g", GRAPH], "asks"),
        (["run", GRAPH, "-t", "fresh", "-i", '{"messages": []}'], "next: ask"),
        (["merge", "done", "done", "-g", GRAPH], "Nothing to merge"),
        (["copy", "done", "twin"], ""),
        (["delete", "twin", "--yes"], "1 thread deleted."),
        (["dump", "fresh", "-o", str(dump)], ""),
        (["erase", "fresh", "--yes"], "1 thread erased"),
        (["load", str(dump)], "1 thread loaded."),
        (["prune", "fresh", "--yes"], "removed"),
        (["verify"], "Everything can be read."),
        (["salvage", "open"], "messages"),
        (["migrate", "--dry-run", "-g", GRAPH], "4 of 4 threads fit."),
        (["reencrypt", "--yes"], "rows sealed"),
        (["completion", "bash"], "_MILEPOST_COMPLETE"),
    ]
    assert {arguments[0] for arguments, _ in story} == set(COMMANDS)
    for arguments, said in story:
        if not LONG and arguments[0] not in ALWAYS:
            continue
        status, out, err = in_a_process(arguments, file, tmp_path)
        assert status == 0, (arguments, err)
        assert said in out, (arguments, out)
        assert "\x1b" not in out, "no terminal, no colours"


def in_a_process(arguments, file, folder):
    """A command as a user starts it: its status, output and errors."""
    env = {**os.environ, "MILEPOST_DB": f"sqlite:///{file}"}
    if arguments[0] == "reencrypt":
        env["MILEPOST_AES_KEY"] = "k" * 16
    done = subprocess.run(
        [sys.executable, "-m", "milepost.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
        env=env,
        cwd=folder,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_warning_of_a_run_is_a_line(file, tmp_path):
    given = '{"messages": [], "no such key": 1}'
    _, _, err = in_a_process(["run", GRAPH, "-t", "warned", "-i", given], file, tmp_path)
    assert "milepost: The input has the key 'no such key'" in err.splitlines()[0]
    assert "MilepostWarning" not in err


class TestReading:
    def test_threads_as_json(self, milepost):
        found = json.loads(succeeded(milepost("threads", "--json", "--sort", "thread_id")))
        assert [row["thread_id"] for row in found["threads"]] == ["broken", "done", "open"]
        assert found["total"] == 3

    def test_threads_are_filtered_and_counted(self, milepost):
        def ids(*options):
            found = json.loads(succeeded(milepost("threads", "--json", *options)))
            return [row["thread_id"] for row in found["threads"]]

        assert ids("-m", "owner=ada") == ["open"]
        assert ids("--status", "error") == ["broken"]
        assert ids("--unfinished", "--search", "OPEN") == ["open"]
        assert ids("--since", "1h") == ["broken", "open", "done"]
        assert ids("--before", "2020-01-01") == []
        assert succeeded(milepost("threads", "--count", "--unfinished")) == "2\n"

    def test_a_state_and_a_part_of_it(self, milepost):
        view = json.loads(succeeded(milepost("show", "done", "--json")))
        assert view["values"]["order"] == {
            "$type": "inspect_shop.Order",
            "number": 0,
            "items": ["tea"],
        }
        part = json.loads(succeeded(milepost("show", "done", "-p", "messages.0.content", "--json")))
        assert part["values"] == "hello"
        assert "RuntimeError: the plan failed" in succeeded(milepost("show", "broken"))

    def test_the_log_as_lines_of_json(self, milepost):
        lines = succeeded(milepost("log", "done", "--json")).splitlines()
        entries = [json.loads(line) for line in lines]
        assert [entry["step"] for entry in entries] == [2, 2, 1, 0, -1]
        before = f"done@{entries[1]['checkpoint_id'][-8:]}"
        older = succeeded(milepost("log", before, "-n", 1, "--json"))
        assert json.loads(older)["checkpoint_id"] == entries[2]["checkpoint_id"]

    def test_forks_are_drawn(self, milepost):
        lines = succeeded(milepost("log", "done")).splitlines()
        assert [line[:3].rstrip() for line in lines] == [
            "* " + lines[0][2],
            "| *",
            "|/",
            *("* " + line[2] for line in lines[3:]),
        ]

    def test_differences_and_their_exit_code(self, milepost):
        changes = json.loads(succeeded(milepost("diff", "open@~1", "open", "--json")))["changes"]
        kinds = {".".join(map(str, one["path"])): one["kind"] for one in changes}
        assert kinds == {"messages.1": "added", "count": "added", "order": "added"}
        assert milepost("diff", "open", "--exit-code")[0] == 1
        assert milepost("diff", "open", "open", "--exit-code")[0] == 0

    def test_long_texts_are_compared_by_lines(self, milepost):
        succeeded(milepost("fork", "open", "--set", 'text="one\\n2\\nthree"'))
        shown = succeeded(milepost("diff", "open"))
        assert "    -two\n    +2\n" in shown

    def test_a_long_line_of_a_text_is_cut_off(self, milepost):
        succeeded(milepost("fork", "open", "--set", f'text="{"x" * 1000}"'))
        shown = succeeded(milepost("diff", "open"))
        assert f"    +{'x' * 399}…\n" in shown

    def test_what_is_nested_deeply_is_shown_by_its_path(self, milepost):
        nested = json.dumps(functools.reduce(lambda inner, _: [inner], range(90), "bottom"))
        succeeded(milepost("fork", "open", "--set", f"order={nested}"))
        assert "… (--path shows what is deeper)" in succeeded(milepost("show", "open", "--full"))
        path = ".".join(["order", *["0"] * 85])
        assert "bottom" in succeeded(milepost("show", "open", "--full", "--path", path))

    def test_blame_and_bisect_as_json(self, milepost):
        parts = json.loads(succeeded(milepost("blame", "done", "messages", "--json")))["parts"]
        assert [part["nodes"] for part in parts] == [["__start__"], ["plan"]]
        found = json.loads(succeeded(milepost("bisect", "done", "len(messages) > 1", "--json")))
        assert found["entry"]["step"] == 1
        status, _, err = milepost("bisect", "done", "nowhere > 1")
        assert status == 1
        assert "NameError" in err

    def test_tags_stats_and_tail_as_json(self, milepost):
        succeeded(milepost("tag", "done", "v1"))
        [tag] = json.loads(succeeded(milepost("tags", "done", "--json")))["tags"]
        assert (tag["name"], tag["exists"]) == ("v1", True)
        succeeded(milepost("tag", "done", "v1", "--delete"))
        assert json.loads(succeeded(milepost("tags", "done", "--json")))["tags"] == []
        assert json.loads(succeeded(milepost("stats", "done", "--json")))["checkpoints"] == 5
        assert len(succeeded(milepost("tail", "done", "--json")).splitlines()) == 5


class TestChanging:
    def test_an_answer_needs_its_id_only_if_there_are_several(self, milepost):
        view = json.loads(succeeded(milepost("show", "open", "--json")))
        id = view["interrupts"][0]["id"]
        out = succeeded(milepost("answer", "open", id[:8], '{"fine": true}', "-g", GRAPH, "--json"))
        *events, last = map(json.loads, out.splitlines())
        assert [event["event"] for event in events if event["event"] == "updates"] == ["updates"]
        assert last["thread"]["next"] == []

    def test_a_fork_goes_on(self, milepost):
        out = succeeded(milepost("fork", "done@~1", "--set", "count=5", "-g", GRAPH, "--go-on"))
        assert "asks" in out
        view = json.loads(succeeded(milepost("show", "done", "--json")))
        assert view["values"]["count"] == 5

    def test_a_program_that_fails_shows_its_own_error(self, milepost):
        given = '{"messages": [], "text": "fail"}'
        status, _, err = milepost("run", GRAPH, "-t", "bad", "-i", given)
        assert status == 1
        assert "RuntimeError: the plan failed" in err

    def test_the_error_of_a_program_reaches_the_terminal_as_text(self, milepost, tmp_path):
        program = tmp_path / "failing_program.py"
        program.write_text(
            "from milepost.graph import StateGraph, START\n"
            "def fail(state):\n    raise ValueError('a title: \\x1b]0;x\\x07')\n"
            "graph = StateGraph(dict).add_node(fail).add_edge(START, 'fail')\n"
        )
        _, _, err = milepost("run", f"{program}:graph", "-t", "bad", "-i", "{}")
        assert "ValueError: a title: \\x1b]0;x\\x07\n" in err
        assert "\x1b" not in err

    def test_a_merge_with_a_conflict_and_without(self, milepost):
        def fork(value):
            done = milepost("fork", "done@~1", "--set", value, "--json")
            return json.loads(succeeded(done))["ref"]

        ours, theirs = fork("count=1000"), fork("count=2000")
        status, _, err = milepost("merge", ours, theirs, "-g", GRAPH)
        assert (status, "'count'" in err) == (7, True)
        out = succeeded(milepost("merge", ours, theirs, "--theirs", "count", "-g", GRAPH, "--json"))
        assert json.loads(out)["taken"] == ["count"]

    def test_nothing_is_removed_without_a_yes(self, milepost, monkeypatch):
        monkeypatch.setattr("sys.stdin", io.StringIO())
        for command in ("delete", "erase", "prune"):
            status, _, err = milepost(command, "done")
            assert (status, "--yes" in err) == (2, True)
        assert "5 checkpoints" in succeeded(milepost("stats", "done"))

    def test_prune_counts_first(self, milepost):
        done = json.loads(succeeded(milepost("prune", "done", "--dry-run", "--json")))
        assert done["removed"]["checkpoints"] == 4
        assert "of 3 threads" in succeeded(milepost("prune", "--all", "--dry-run"))
        assert "5 checkpoints" in succeeded(milepost("stats", "done"))
        succeeded(milepost("prune", "done", "--yes"))
        assert "1 checkpoint" in succeeded(milepost("stats", "done"))

    def test_threads_are_removed_by_what_is_known_of_them(self, milepost):
        assert "1 thread deleted" in succeeded(milepost("delete", "-m", "owner=ada", "--yes"))
        assert "1 thread erased" in succeeded(milepost("erase", "--status", "error", "--yes"))
        assert "No thread fits" in succeeded(milepost("delete", "--older-than", "9d", "--yes"))
        assert succeeded(milepost("threads", "--count")) == "1\n"

    def test_a_dump_goes_through_a_pipe(self, milepost, tmp_path):
        text = succeeded(milepost("dump", "open"))
        file = tmp_path / "dump"
        file.write_text(text)
        succeeded(milepost("load", file, "--rename", "open=copy"))
        assert succeeded(milepost("diff", "open", "copy")) == "No differences.\n"

    def test_threads_that_the_code_does_not_fit_are_named(self, milepost, tmp_path):
        other = tmp_path / "other_program.py"
        other.write_text(
            "from milepost.graph import StateGraph, START\n"
            "graph = StateGraph(dict)\ngraph.add_node('other', lambda s: s)\n"
            "graph.add_edge(START, 'other')\n"
        )
        status, out, _ = milepost("migrate", "--dry-run", "-g", f"{other}:graph", "--json")
        assert status == 1
        assert "open" in [one["thread_id"] for one in json.loads(out)["problems"]]

    def test_everything_is_sealed_with_a_key(self, milepost, monkeypatch):
        pytest.importorskip("Crypto")
        monkeypatch.setenv("MILEPOST_AES_KEY", "a" * 16)
        done = json.loads(succeeded(milepost("reencrypt", "--yes", "--json")))
        assert done["resealed"] > 0
        monkeypatch.setenv("OLD", "a" * 16)
        monkeypatch.setenv("MILEPOST_AES_KEY", "b" * 16)
        assert milepost("show", "done")[0] == 6
        monkeypatch.setenv("SHORT", "b")
        _, _, err = milepost("reencrypt", "--yes", "--old-key-env", "SHORT")
        assert "variable SHORT: An AES key has 16, 24 or 32 bytes" in err
        succeeded(milepost("reencrypt", "--yes", "--old-key-env", "OLD"))
        assert "hello" in succeeded(milepost("show", "done"))


def test_the_page_names_every_command_and_status():
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text("utf-8")
    for name in COMMANDS:
        assert re.search(rf"`{name}\b", page), name
    import milepost.cli.exit_codes as codes

    table = [line for line in (codes.__doc__ or "").splitlines() if line.startswith("| ")]
    assert [line for line in table if line not in page] == []
    named = {value for name, value in vars(codes).items() if name.isupper()}
    assert named == {int(line.split("|")[1]) for line in table if line[2].isdigit()}
