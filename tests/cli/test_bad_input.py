"""What is wrong is told in a line, with a status of its own; nothing in it reaches the terminal."""

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from milepost.checkpoint.sqlite import SqliteSaver
from milepost.cli import main
from milepost.cli.lines import plain, plain_lines
from milepost.cli.names import COMMANDS

SHOP = Path(__file__).parents[1] / "inspect" / "inspect_shop.py"
GRAPH = f"{SHOP}:graph"


@pytest.fixture
def milepost(cli, file, monkeypatch):
    monkeypatch.setenv("MILEPOST_DB", str(file))
    monkeypatch.chdir(file.parent)
    return cli


READING = ("show", "log", "blame", "bisect", "tail", "tags", "stats", "diff", "verify", "salvage")
MORE = {"blame": ["messages"], "bisect": ["True"], "diff": ["done"]}


class TestStatuses:
    @pytest.mark.parametrize("command", READING)
    def test_no_such_thread(self, milepost, command):
        status, out, err = milepost(command, "nobody", *MORE.get(command, []))
        assert (status, out) == (3, "")
        assert "There is no thread 'nobody'" in err

    @pytest.mark.parametrize(
        "arguments",
        [
            ["copy", "nobody", "x"],
            ["delete", "nobody", "--yes"],
            ["erase", "nobody", "--yes"],
            ["prune", "nobody", "--yes"],
            ["dump", "nobody"],
            ["tag", "nobody", "x"],
            ["fork", "nobody", "--set", "a=1"],
            ["answer", "nobody", "1", "-g", GRAPH],
            ["resume", "nobody", "-g", GRAPH],
            ["merge", "nobody@a", "nobody@b", "-g", GRAPH],
            ["migrate", "nobody", "--dry-run", "-g", GRAPH],
            ["show", "done@zzzz"],
            ["show", "done@~77"],
            ["show", "done@1f"],
            ["show", "done/inner"],
            ["show", "done", "--path", "messages.99"],
            ["blame", "done", "nope"],
            ["answer", "done", "1", "-g", GRAPH],
            ["run", "no_such_module:graph", "-i", "{}"],
            ["run", f"{SHOP}:nothing", "-i", "{}"],
            ["run", f"{SHOP}:State", "-i", "{}"],
            ["resume", "done", "-g", "langgraph.json"],
        ],
    )
    def test_what_is_not_there(self, milepost, arguments):
        status, out, err = milepost(*arguments)
        assert (status, out) == (3, ""), err
        assert err.startswith("milepost: ")
        assert len(err.splitlines()) == 1

    @pytest.mark.parametrize(
        "arguments",
        [
            ["erase", "-m", "tags=[]", "--yes"],
            ["delete", "-m", "tags=[]", "-m", "owner=ada", "--yes"],
            ["erase", "-m", "tags=5", "--yes"],
            ["threads", "-m", "tags=5"],
            ["threads", "-m", "total=NaN"],
        ],
    )
    def test_a_filter_that_does_not_say_which_threads(self, milepost, arguments):
        status, out, err = milepost(*arguments)
        assert (status, out) == (1, "")
        assert "tags" in err or "'total' must be plain JSON" in err
        assert milepost("threads", "--count")[1] == "3\n"

    @pytest.mark.parametrize(
        "arguments",
        [
            ["show"],
            ["show", ""],
            ["show", "done@"],
            ["show", "done", "--path", "a..b"],
            ["show", "done", "--path", '["a'],
            ["threads", "--sort", "size"],
            ["threads", "--limit", "-1"],
            ["threads", "--since", "yesterday"],
            ["threads", "-m", "novalue"],
            ["copy", "done", ""],
            ["delete"],
            ["delete", "done", "--status", "idle", "--yes"],
            ["delete", "--older-than", "5 years", "--yes"],
            ["fork", "done"],
            ["fork", "done", "--set", "count"],
            ["fork", "done", "--set", "count={"],
            ["fork", "done", "--set", "count=hello"],
            ["answer", "open", "yes", "-g", GRAPH],
            ["answer", "open", "1"],
            ["answer", "open", "1", "2", "3", "-g", GRAPH],
            ["run", GRAPH],
            ["run", GRAPH, "-i", "{"],
            ["bisect", "done", "1 +"],
            ["tag", "done", "a@b"],
            ["load", "no-such-file"],
            ["migrate", "-g", GRAPH],
            ["reencrypt", "--yes"],
            ["reencrypt", "--yes", "--old-key-env", "NOT_SET"],
            ["completion", "powershell"],
            ["thread"],
        ],
    )
    def test_what_is_not_understood(self, milepost, arguments, monkeypatch):
        monkeypatch.delenv("MILEPOST_AES_KEY", raising=False)
        monkeypatch.delenv("LANGGRAPH_AES_KEY", raising=False)
        status, out, err = milepost(*arguments)
        assert (status, out) == (2, ""), err
        assert "Traceback" not in err

    @pytest.mark.parametrize(
        "address",
        [
            "none.db",
            "sqlite:///none.db",
            ".",
            "mysql://x",
            "host=127.0.0.1 password=pw",
            "postgresql://me:pw@127.0.0.1:1/x",
            "postgresql://me:%pw@127.0.0.1:1/x",
            "redis://:pw@127.0.0.1:no-port",
            "redis://:pw@[::1",
            "redis://:pw/x@127.0.0.1",
            "redis://:pw@127.0.0.1/0?db=x",
            "redis://:pw@127.0.0.1:1/0?no_such_parameter=1",
        ],
    )
    def test_a_database_that_cannot_be_opened(self, milepost, address):
        for place in (["--db", address, "threads"], ["threads", "--db", address]):
            status, out, err = milepost(*place)
            assert (status, out) == (4, ""), err
            assert "pw" not in err
            assert len(err.splitlines()) == 1
            assert "\\n" not in err

    def test_no_database_at_all(self, milepost, monkeypatch):
        monkeypatch.delenv("MILEPOST_DB")
        status, _, err = milepost("threads")
        assert (status, "MILEPOST_DB" in err) == (4, True)

    def test_a_key_that_does_not_open_the_database(self, milepost, file, monkeypatch):
        pytest.importorskip("Crypto")
        monkeypatch.setenv("MILEPOST_AES_KEY", "k" * 16)
        assert milepost("reencrypt", "--yes")[0] == 0
        monkeypatch.setenv("MILEPOST_AES_KEY", "short")
        status, _, err = milepost("show", "done")
        assert (status, "16, 24 or 32 bytes" in err) == (4, True)
        monkeypatch.delenv("MILEPOST_AES_KEY")
        status, _, err = milepost("show", "done")
        assert (status, "MILEPOST_AES_KEY" in err, "salvage" in err) == (6, True, False)
        status, out, err = milepost("salvage", "done")
        assert (status, out, "Nothing of it can be read" in err) == (1, "", True)

    def test_a_file_that_is_no_database(self, milepost, tmp_path):
        text = tmp_path / "text"
        text.write_text("hello " * 1000)
        assert milepost("threads", "--db", text)[0] == 4

    @pytest.mark.parametrize("given", ["done", "done=", "=new"])
    def test_a_new_id_that_is_not_given_stores_nothing(self, milepost, given, tmp_path):
        dump, target = tmp_path / "dump", tmp_path / "new.db"
        assert milepost("dump", "done", "-o", dump)[0] == 0
        status, out, err = milepost("load", dump, "--rename", given, "--db", target)
        assert (status, out) == (2, "")
        assert f"--rename is OLD=NEW, not '{given}'" in err
        assert not target.exists()

    def test_a_damaged_file(self, milepost, file, tmp_path):
        broken = tmp_path / "broken.db"
        data = bytearray(file.read_bytes())
        data[8192:] = os.urandom(len(data) - 8192)
        broken.write_bytes(data)
        for command in (["threads"], ["log", "done"], ["verify"]):
            status, _, err = milepost("--db", broken, *command)
            assert status in (1, 3, 4, 6), err
            assert "Traceback" not in err

    def test_a_damaged_row(self, milepost, file, tmp_path):
        broken = tmp_path / "broken.db"
        broken.write_bytes(file.read_bytes())
        with closing(sqlite3.connect(broken)) as connection, connection:
            connection.execute("UPDATE checkpoints SET frame = x'00' WHERE thread_id = 'done'")
        assert milepost("--db", broken, "show", "done")[0] == 6
        status, out, _ = milepost("--db", broken, "verify")
        assert (status, "done" in out) == (1, True)
        status, out, _ = milepost("--db", broken, "log", "done")
        assert (status, out.count("  damaged: ")) == (0, 5)

    def test_a_dump_that_was_changed_is_not_loaded(self, milepost, tmp_path):
        _, out, _ = milepost("dump", "done")
        file = tmp_path / "dump"
        file.write_text(out.replace("idle", "sold"))
        status, _, err = milepost("load", file, "--db", tmp_path / "new.db")
        assert status in (1, 6), err
        assert "Traceback" not in err

    def test_langgraphs_databases_are_not_written(self, milepost, tmp_path):
        theirs = tmp_path / "theirs.db"
        with closing(sqlite3.connect(theirs)) as connection, connection:
            connection.execute(
                "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id,"
                " parent_checkpoint_id, type, checkpoint, metadata)"
            )
        status, _, err = milepost("copy", "a", "b", "--db", theirs)
        assert (status, "LangGraph" in err) == (5, True)


class TestWithoutTheExtra:
    HIDE = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "hide = lambda name, *a: None if name == 'click' else real(name, *a)\n"
        "u.find_spec = hide; sys.modules['click'] = None\n"
        "import importlib; importlib.import_module('milepost.cli')\n"
        "from milepost.cli import main; sys.exit(main(sys.argv[1:]))"
    )

    def run(self, *arguments):
        return subprocess.run(
            [sys.executable, "-c", self.HIDE, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
        )

    def test_a_command_says_what_to_install(self):
        done = self.run("log", "x")
        assert done.returncode == 8
        assert "pip install 'milepost[cli]'" in done.stderr

    def test_the_others_work_and_the_help_names_the_rest(self):
        done = self.run("--help")
        assert done.returncode == 0
        assert "demo" in done.stdout
        assert "milepost[cli]" in done.stdout
        assert self.run("demo").returncode == 0
        assert self.run("export").returncode == 2

    def test_export_says_what_to_install_where_langgraph_is_missing(self, file, tmp_path):
        hide = (
            "import sys; sys.modules['langgraph'] = None\n"
            "from milepost.cli import main; sys.exit(main(sys.argv[1:]))"
        )
        target = str(tmp_path / "theirs.db")
        done = subprocess.run(
            [sys.executable, "-c", hide, "export", "--from", str(file), "--to-langgraph", target],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode, "milepost[langgraph]" in done.stderr) == (8, True), done.stderr


class TestHostileValues:
    HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m[bold]x[/bold]\u202eabc\u200b\r:smile:"

    @pytest.fixture
    def hostile(self, tmp_path):
        from inspect_shop import at, builder

        path = tmp_path / "hostile.db"
        with SqliteSaver.from_conn_string(str(path)) as saver:
            graph = builder().compile(checkpointer=saver)
            values = {"messages": [self.HOSTILE, {self.HOSTILE: 1}], "text": self.HOSTILE}
            graph.update_state(at(self.HOSTILE), values, as_node="plan")
            saver.create_thread(self.HOSTILE, {self.HOSTILE: self.HOSTILE})
        return path

    @pytest.mark.parametrize(
        "arguments",
        [
            ["threads"],
            ["show", "{}"],
            ["show", "{}", "--full"],
            ["show", "{}", "--json"],
            ["log", "{}"],
            ["log", "{}", "--json"],
            ["blame", "{}", "messages"],
            ["diff", "{}", "other"],
            ["stats"],
            ["salvage", "{}"],
            ["tags", "{}"],
            ["show", "{}x"],
            ["fork", "{}", "--set", "nope{}=1"],
        ],
    )
    def test_no_control_character_is_printed(self, milepost, hostile, arguments):
        from inspect_shop import at, builder

        with SqliteSaver.from_conn_string(str(hostile)) as saver:
            graph = builder().compile(checkpointer=saver)
            graph.update_state(at("other"), {"messages": [], "text": "a\nb"}, as_node="plan")
        given = [one.replace("{}", self.HOSTILE) for one in arguments]
        _, out, err = milepost("--db", hostile, *given)
        assert out + err
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u200b]", out + err)
        assert "☺" not in out
        assert "😄" not in out

    def test_lines_stay_lines_and_everything_else_is_an_escape(self):
        assert plain("a\nb\x1b\u202e\ud800") == "a\\nb\\x1b\\u202e\\ud800"
        assert plain_lines("a\r\nb\x07") == ["a", "b\\x07"]
        assert plain("größe 日本 😀") == "größe 日本 😀"


def test_a_reader_that_closes_its_end_ends_the_command(file):
    command = f"{sys.executable} -m milepost.cli log done --db {file} | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    assert done.stdout.startswith("* ")


def test_what_the_locale_has_no_signs_for_is_shown_as_escapes(file):
    with SqliteSaver.from_conn_string(str(file)) as saver:
        saver.create_thread("日本")
    command = [sys.executable, "-m", "milepost.cli", "threads", "--db", str(file)]
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u65e5\u672c" in done.stdout


def test_a_shell_completes_threads_and_checkpoints(file):
    def complete(words):
        env = {
            **os.environ,
            "_MILEPOST_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
            "MILEPOST_DB": str(file),
        }
        done = subprocess.run(
            [sys.executable, "-m", "milepost.cli"],
            capture_output=True,
            text=True,
            timeout=120,
            env=env,
        )
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert complete("milepost show do") == ["done"]
    assert len(complete("milepost show done@")) == 5


class TestAtFirstSight:
    def test_a_status_or_a_port_that_does_not_exist_is_a_wrong_use(self, milepost, capsys):
        for command in ("threads", "delete", "prune"):
            status, _, err = milepost(command, "--status", "foo")
            assert (status, "interrupted" in err) == (2, True)
        with pytest.raises(SystemExit) as stopped:
            main(["ui", "--port", "99999"])
        assert stopped.value.code == 2
        assert "is no port" in capsys.readouterr().err

    def test_a_list_of_nothing_says_so(self, milepost, tmp_path):
        empty = tmp_path / "empty.db"
        with SqliteSaver.from_conn_string(str(empty)) as saver:
            saver.setup()
        assert milepost("threads", "--db", empty) == (0, "", "There are no threads yet.\n")
        assert milepost("threads", "-s", "nothing") == (0, "", "There is no such thread.\n")

    def test_every_option_of_every_command_says_what_it_does(self):
        import click

        from milepost.cli.app import app

        context = click.Context(app)
        silent = [
            f"{name} {option.opts[0]}"
            for name in COMMANDS
            for option in app.get_command(context, name).params
            if isinstance(option, click.Option) and not option.help
        ]
        assert silent == []
