"""A test for each command on each backend; the commands that read, on LangGraph's databases too."""

import json
from pathlib import Path

import pytest

from milepost.cli.names import COMMANDS

SHOP = Path(__file__).parents[1] / "inspect" / "inspect_shop.py"
GRAPH = f"{SHOP}:graph"


class Cli:
    """Commands that must succeed."""

    def __init__(self, run, folder):
        self.run, self.folder = run, folder

    def __call__(self, *arguments):
        status, out, err = self.run(*arguments)
        assert status == 0, (arguments, err)
        assert "\x1b" not in out, "no terminal, no styles"
        return out

    def json(self, *arguments):
        return json.loads(self(*arguments, "--json"))

    def lines(self, *arguments):
        return [json.loads(line) for line in self(*arguments, "--json").splitlines()]

    def values(self, ref):
        return self.json("show", ref)["values"]

    def ids(self, thread):
        return [entry["checkpoint_id"] for entry in self.lines("log", thread)]


def threads(cli):
    found = cli.json("threads", "--sort", "thread_id")
    statuses = {row["thread_id"]: row["status"] for row in found["threads"]}
    assert statuses == {"broken": "error", "done": "idle", "open": "interrupted"}
    assert found["threads"][2]["metadata"] == {"owner": "ada", "tags": ["vip"]}
    assert cli("threads", "--count", "--unfinished") == "2\n"
    assert cli("threads", "-m", "owner=ada", "--count") == "1\n"
    assert [line.split()[0] for line in cli("threads").splitlines()[1:]] == [
        "broken",
        "open",
        "done",
    ]


def show(cli):
    view = cli.json("show", "open")
    assert view["values"]["count"] == 1
    assert view["values"]["order"] == {
        "$type": "inspect_shop.Order",
        "number": 0,
        "items": ["tea"],
    }
    assert (view["next"], view["status"], view["checkpoints"]) == (["ask"], "interrupted", 3)
    assert view["bytes"] > 0
    assert [one["value"]["question"] for one in view["interrupts"]] == ["Buy it?"]
    assert "the plan failed" in cli("show", "broken")


def log(cli):
    entries = cli.lines("log", "done")
    assert [entry["step"] for entry in entries] == [2, 2, 1, 0, -1]
    assert entries[0]["parent_id"] == entries[1]["parent_id"] == entries[2]["checkpoint_id"]
    assert entries[1]["writes"] == {"ask": ["messages", "count"]}
    drawn = cli("log", "done").splitlines()
    assert [line[:2].strip() for line in drawn] == ["*", "|", "|/", "*", "*", "*"]


def diff(cli):
    changes = cli.json("diff", "done@~1", "done")["changes"]
    told = [(one["path"], one["before"], one["after"]) for one in changes]
    assert told == [(["count"], 1, 50)]
    assert cli.run("diff", "done", "open", "--exit-code")[0] == 1


def blame(cli):
    parts = cli.json("blame", "done", "messages")["parts"]
    assert [part["nodes"] for part in parts] == [["__start__"], ["plan"]]
    ids = cli.ids("done")
    assert [part["checkpoint_id"] for part in parts] == [ids[3], ids[2]]


def bisect(cli):
    assert cli.json("bisect", "done", "count == 50")["entry"]["checkpoint_id"] == cli.ids("done")[0]
    assert cli.run("bisect", "done", "count == 51")[0] == 1


def tail(cli):
    entries = cli.lines("tail", "done", "-n", 2)
    assert [one["checkpoint_id"] for one in entries] == cli.ids("done")[1::-1]


def tags(cli):
    cli("tag", "done@~1", "good")
    [tag] = cli.json("tags", "done")["tags"]
    assert (tag["name"], tag["checkpoint_id"]) == ("good", cli.ids("done")[2])
    assert "good" in cli("tags", "done")


def tag(cli):
    assert "done@good is " in cli("tag", "done@~1", "good")
    assert cli.json("show", "done@good")["tags"] == ["good"]
    cli("tag", "done", "good")
    assert cli.values("done@good")["count"] == 50
    cli("tag", "done", "good", "--delete")
    assert cli.run("show", "done@good")[0] == 3
    assert cli.json("threads", "-m", "owner=ada")["total"] == 1


def stats(cli):
    found = cli.json("stats")
    assert (found["threads"], found["checkpoints"]) == (3, 10)
    assert found["statuses"] == {"error": 1, "idle": 1, "interrupted": 1}
    assert sum(found["kinds"].values()) == found["bytes"] > 0
    assert {one["thread_id"] for one in found["largest"]} == {"broken", "done", "open"}
    assert cli.json("stats", "done")["checkpoints"] == 5
    assert "3 threads, 10 checkpoints" in cli("stats")


def run(cli):
    said = cli("run", GRAPH, "-t", "fresh", "-i", '{"messages": []}')
    assert "asks" in said
    assert cli.json("show", "fresh")["next"] == ["ask"]


def answer(cli):
    assert "It has ended." in cli("answer", "open", '"yes"', "-g", GRAPH)
    view = cli.json("show", "open")
    assert (view["status"], view["next"]) == ("idle", [])
    assert view["values"]["messages"][-1]["content"] == "answer: yes"


def resume(cli):
    before = cli.ids("done")
    assert "asks" in cli("resume", "done@~1", "-g", GRAPH)
    assert cli.json("show", "done")["status"] == "interrupted"
    assert set(before) <= set(cli.ids("done"))


def fork(cli):
    before = cli.ids("done")
    made = cli.json("fork", "done@~1", "--set", "count=7")
    assert cli.values("done") == cli.values(made["ref"])
    assert cli.values("done")["count"] == 7
    assert cli.ids("done") == [made["checkpoint_id"], *before]
    through = cli.json("fork", "done@~1", "--set", 'messages=["more"]', "-g", GRAPH)
    assert cli.values(through["ref"])["messages"][-1] == "more"


def merge(cli):
    ours = cli.json("fork", "done@~1", "--set", "count=1000")["ref"]
    theirs = cli.json("fork", f"{ours}~1", "--set", 'messages=["b"]', "-g", GRAPH)["ref"]
    done = cli.json("merge", ours, theirs, "-g", GRAPH)
    assert done["taken"] == ["messages"]
    merged = cli.values("done")
    assert (merged["count"], merged["messages"][-1]) == (1000, "b")


def copy(cli):
    cli("copy", "done", "twin")
    assert cli("diff", "done", "twin") == "No differences.\n"
    assert len(cli.ids("twin")) == 5


def delete(cli):
    assert cli("delete", "done", "--yes") == "1 thread deleted.\n"
    assert cli.run("show", "done")[0] == 3
    assert cli("threads", "--count") == "2\n"


def erase(cli):
    assert cli("erase", "-m", "owner=ada", "--yes").startswith("1 thread erased: 3 checkpoints")
    assert cli.run("show", "open")[0] == 3


def prune(cli):
    assert cli.json("prune", "done", "--dry-run")["removed"]["checkpoints"] == 4
    assert len(cli.ids("done")) == 5
    before = cli.values("done")
    cli("prune", "done", "--yes")
    assert len(cli.ids("done")) == 1
    assert cli.values("done") == before


def dump(cli):
    everything = cli("dump")
    assert "".join(cli("dump", name) for name in ("broken",)) != everything
    file = cli.folder / "dump"
    cli("dump", "-o", file)
    assert file.read_text() == everything


def load(cli):
    file = cli.folder / "dump"
    cli("dump", "open", "-o", file)
    assert cli("load", file, "--rename", "open=again") == "1 thread loaded.\n"
    assert cli("diff", "open", "again") == "No differences.\n"
    assert cli.json("show", "again")["thread_metadata"] == {"owner": "ada", "tags": ["vip"]}


def verify(cli):
    assert cli("verify") == "Everything can be read.\n"
    assert cli.json("verify", "done")["problems"] == []


def salvage(cli):
    found = cli.lines("salvage", "done")
    assert [one["checkpoint_id"] for one in found] == cli.ids("done")
    assert found[0]["values"]["count"] == 50
    assert not any(one["lost"] for one in found)


def reencrypt(cli):
    pytest.importorskip("Crypto")
    cli.environment("MILEPOST_AES_KEY", "a" * 16)
    assert cli.json("reencrypt", "--yes")["resealed"] > 0
    assert cli.values("done")["count"] == 50
    cli.environment("MILEPOST_AES_KEY", "b" * 16)
    assert cli.run("show", "done")[0] == 6


def migrate(cli):
    assert cli.json("migrate", "--dry-run", "-g", GRAPH) == {"threads": 3, "problems": []}


def completion(cli):
    cli.environment("_MILEPOST_COMPLETE", "bash_complete")
    cli.environment("COMP_WORDS", "milepost show op")
    cli.environment("COMP_CWORD", "2")
    assert cli() == "plain,open\n"
    cli.environment("COMP_WORDS", "milepost show done@")
    cli.environment("COMP_CWORD", "2")
    assert len(cli().splitlines()) == 5


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_does_the_same_on_each_backend(command, milepost, tmp_path, monkeypatch):
    cli = Cli(milepost, tmp_path)
    cli.environment = monkeypatch.setenv
    globals()[command](cli)


# -- LangGraph's databases

READING = {
    "threads": [],
    "show": ["t"],
    "log": ["t"],
    "diff": ["t@~1", "t"],
    "blame": ["t", "messages"],
    "bisect": ["t", "n == 2"],
    "tail": ["t"],
    "tags": ["t"],
    "stats": [],
    "migrate": ["--dry-run", "-g", GRAPH],
}
NEEDING_OURS = {"dump": ["t"], "verify": [], "salvage": ["t"]}
CHANGING = {
    "run": [GRAPH, "-t", "t", "-i", "{}"],
    "answer": ["t", '"yes"', "-g", GRAPH],
    "resume": ["t", "-g", GRAPH],
    "fork": ["t", "--set", "n=3"],
    "merge": ["t", "t", "-g", GRAPH],
    "tag": ["t", "x"],
    "copy": ["t", "u"],
    "delete": ["t", "--yes"],
    "erase": ["t", "--yes"],
    "prune": ["t", "--yes"],
    "reencrypt": ["--yes"],
}


def path(change):
    return tuple(change["path"])


def told(name, found):
    """A word of what each prints as JSON."""
    return {
        "threads": lambda: [row["status"] for row in found[0]["threads"]] == ["interrupted"],
        "show": lambda: (found[0]["values"]["n"], found[0]["next"]) == (2, ["ask"]),
        "log": lambda: len(found) == 6 and found[0]["next"] == ["ask"],
        "diff": lambda: sorted(map(path, found[0]["changes"])) == [("messages", 3), ("n",)],
        "blame": lambda: found[0]["parts"][1]["nodes"] == ["plan"],
        "bisect": lambda: found[0]["entry"]["writes"] == {"plan": ["messages", "n"]},
        "tail": lambda: len(found) == 6 and found[-1]["next"] == ["ask"],
        "tags": lambda: found == [{"tags": []}],
        "stats": lambda: found[0]["checkpoints"] == 6,
        "migrate": lambda: found == [{"threads": 1, "problems": []}],
    }[name]()


@pytest.fixture(params=["sqlite", "postgres"])
def langgraphs(request, monkeypatch):
    name = "langgraph_file" if request.param == "sqlite" else "langgraph_uri"
    monkeypatch.setenv("MILEPOST_DB", str(request.getfixturevalue(name)))


@pytest.mark.usefixtures("langgraphs")
class TestLangGraphsDatabases:
    def test_every_command_is_tried(self):
        tried = {*READING, *NEEDING_OURS, *CHANGING, "load", "completion"}
        assert tried == set(COMMANDS)

    @pytest.mark.parametrize("command", READING)
    def test_commands_that_read_tell_what_is_there(self, command, cli):
        arguments = READING[command]
        status, out, err = cli(command, *arguments, "--json")
        assert status == 0, err
        assert told(command, [json.loads(line) for line in out.splitlines()])
        status, out, err = cli(command, *arguments)
        assert status == 0, err
        assert out or command == "tags"

    @pytest.mark.parametrize("command", [*CHANGING, "load"])
    def test_changing_is_refused(self, command, cli, filled, tmp_path, monkeypatch):
        arguments = CHANGING.get(command)
        if command == "load":
            file = tmp_path / "dump"
            assert cli("dump", "done", "-o", file, "--db", filled)[0] == 0
            arguments = [file]
        if command == "reencrypt":
            pytest.importorskip("Crypto")
            monkeypatch.setenv("MILEPOST_AES_KEY", "a" * 16)
        status, out, err = cli(command, *arguments)
        assert (status, out) == (5, "")
        assert "import --from-langgraph" in err

    @pytest.mark.parametrize("command", NEEDING_OURS)
    def test_what_only_our_databases_have_says_so(self, command, cli):
        status, _, err = cli(command, *NEEDING_OURS[command])
        assert status == 5
        assert f"{command} " in err
        assert "LangGraph" in err

    def test_migrate_names_a_thread_that_the_code_does_not_fit(self, cli, tmp_path):
        program = tmp_path / "newer_program.py"
        program.write_text(
            "from milepost.graph import StateGraph, START\n"
            "graph = StateGraph(dict)\ngraph.add_node('other', lambda s: s)\n"
            "graph.add_edge(START, 'other')\n"
        )
        status, out, _ = cli("migrate", "--dry-run", "-g", f"{program}:graph", "--json")
        assert status == 1
        assert [one["thread_id"] for one in json.loads(out)["problems"]] == ["t"]

    def test_completion_offers_the_threads(self, cli, monkeypatch):
        monkeypatch.setenv("_MILEPOST_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", "milepost show t")
        monkeypatch.setenv("COMP_CWORD", "2")
        assert cli()[:2] == (0, "plain,t\n")
