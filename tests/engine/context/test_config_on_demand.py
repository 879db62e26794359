"""The config that LangChain finds in a node is a dict in every way, whatever looks into it first.

It is made when somebody looks, so each test looks at one that nobody has looked at before.
"""

import copy
import json
import operator
import pickle
import threading
from typing import Any

import pytest

from graphs import single, thread
from milepost.config import get_config

config_module = pytest.importorskip("langchain_core.runnables.config")

GIVEN = {**thread("t"), "tags": ["red"], "max_concurrency": 3}


def in_a_node(look: Any) -> Any:
    """What `look` says of the config in a node, and of the same config as a plain dict."""
    found: list[Any] = []

    def node(state: Any, config: Any) -> dict[str, Any]:
        found.append(look({**config}))  # before: a look may change what the node sees
        found.append(look(config_module.var_child_runnable_config.get()))
        return {"log": ["a"]}

    single(node).compile().invoke({"log": []}, GIVEN)
    plain, got = found
    return got, plain


LOOKS = {
    "pop": lambda c: (c.pop("tags"), sorted(c)),
    "pop of what is not there": lambda c: c.pop("none", 5),
    "popitem": lambda c: (c.popitem(), len(c)),
    "setdefault": lambda c: (c.setdefault("tags", ["blue"]), c["tags"]),
    "update": lambda c: (c.update({"tags": ["blue"]}, extra=1), dict(c)),
    "setting": lambda c: (c.__setitem__("tags", ["blue"]), dict(c)),
    "deleting": lambda c: (c.__delitem__("tags"), sorted(c)),
    "clear": lambda c: (c.clear(), dict(c), len(c)),
    "copy": lambda c: c.copy(),
    "or": lambda c: c | {"extra": 1},
    "or, on the right": lambda c: {"extra": 1, "tags": 1} | c,
    "in-place or": lambda c: dict(c.__ior__({"extra": 1})),
    "in-place or, on the right": lambda c: {"extra": 1}.__ior__(c),
    "keys": lambda c: list(c.keys()),
    "items": lambda c: list(c.items()),
    "values": lambda c: list(c.values()),
    "iteration": list,
    "reversed": lambda c: list(reversed(c)),
    "len": len,
    "bool": bool,
    "in": lambda c: "tags" in c,
    "get": lambda c: c.get("tags"),
    "item": lambda c: c["tags"],
    "equal": lambda c: (c == {}, operator.eq({}, c)),
    "unequal": lambda c: (c != {}, operator.ne({}, c)),
    "repr": repr,
    "str": str,
    "format": "{}".format,
    "dict": dict,
    "update of another": lambda c: (lambda d: (d.update(c), d))({})[1],
    "unpacked": lambda c: {**c},
    "unpacked into a call": lambda c: (lambda **named: named)(**c),
    "json": lambda c: json.dumps(c, sort_keys=True, default=repr),
    "json, indented": lambda c: json.dumps(c, indent=1, default=repr),
    "json inside": lambda c: json.dumps({"config": [c]}, default=repr),
    "pickle": lambda c: [_new(pickle.loads(pickle.dumps(c, p))) for p in range(6)],
    "pickle, the one in Python": lambda c: _new(pickle.loads(pickle._dumps(c))),
    "shallow copy": copy.copy,
    "deep copy": lambda c: _new(copy.deepcopy(c)),
    "sorted": sorted,
    "mapping pattern": lambda c: _matched(c),
    "is a dict": lambda c: isinstance(c, dict),
    "LangChain's own": lambda c: config_module.ensure_config(c)["tags"],
}


def _new(config: Any) -> Any:
    """A config with a manager of its own, so that it can be compared."""
    return {**config, "callbacks": config["callbacks"].parent_run_id}


def _matched(config: Any) -> Any:
    match config:
        case {"tags": [tag], **rest}:
            return tag, sorted(rest)
    return None


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_config_made_on_demand_looks_like_a_plain_dict(look):
    got, plain = in_a_node(look)
    assert got == plain


def test_no_method_of_dict_was_forgotten():
    """A later Python may have more of them: each sees what is there, or is told apart here."""
    kind = type(in_a_node(lambda c: c)[0])
    inherited = {name for name in vars(dict) if name not in vars(kind)}
    assert inherited <= {"__new__", "__getattribute__", "__class_getitem__", "__hash__", "fromkeys"}


def test_two_that_nobody_has_looked_at_are_compared_by_what_they_hold():
    compared: list[bool] = []

    def node(state: Any) -> dict[str, Any]:
        config = config_module.var_child_runnable_config.get()
        kind, context = type(config), config._context
        compared.append(kind(context) == kind(context))
        compared.append(kind(context) != kind(context))
        return {"log": ["a"]}

    single(node).compile().invoke({"log": []}, GIVEN)
    assert compared == [True, False]


def test_a_model_that_is_called_in_a_node_gets_the_tags():
    runnables = pytest.importorskip("langchain_core.runnables")
    seen: list[Any] = []

    def node(state: Any) -> dict[str, Any]:
        runnables.RunnableLambda(lambda _, config: seen.append(config)).invoke(1)
        return {"log": ["a"]}

    single(node).compile().invoke({"log": []}, GIVEN)
    assert seen[0]["tags"] == ["red"]
    assert seen[0]["configurable"]["thread_id"] == "t"


def test_a_change_after_the_first_look_is_seen_by_the_next_model():
    runnables = pytest.importorskip("langchain_core.runnables")
    seen: list[Any] = []
    show = runnables.RunnableLambda(lambda _, config: seen.append(config.get("tags")))

    def node(state: Any, config: Any) -> dict[str, Any]:
        show.invoke(1)
        config["tags"] = ["blue"]
        show.invoke(1)
        del config["tags"]
        show.invoke(1)
        return {"log": ["a"]}

    single(node).compile().invoke({"log": []}, GIVEN)
    assert seen == [["red"], ["blue"], []]


def test_a_change_of_what_langchain_finds_is_seen_by_the_node():
    seen: list[Any] = []

    def node(state: Any) -> dict[str, Any]:
        found = config_module.var_child_runnable_config.get()
        found["tags"] = ["green"]
        seen.append(get_config()["tags"])
        del found["tags"]
        seen.append("tags" in get_config())
        seen.append(list(dict.keys(found)) == list(get_config()))  # what C code may read
        return {"log": ["a"]}

    single(node).compile().invoke({"log": []}, GIVEN)
    assert seen == [["green"], False, True]


def test_c_code_that_reads_its_storage_unasked_fails_rather_than_finds_nothing():
    pydantic_core = pytest.importorskip("pydantic_core")

    def node(state: Any) -> dict[str, Any]:
        found = config_module.var_child_runnable_config.get()
        with pytest.raises(TypeError, match="not filled"):
            pydantic_core.to_jsonable_python(found, fallback=str)
        assert pydantic_core.to_jsonable_python(dict(found), fallback=str)["tags"] == ["red"]
        return {"log": ["a"]}

    single(node).compile().invoke({"log": []}, GIVEN)


def test_what_one_thread_has_taken_out_another_does_not_put_back():
    """Both look at the same moment; one has filled it and changed it before the other fills it."""
    results: list[Any] = []

    def node(state: Any) -> dict[str, Any]:
        config = config_module.var_child_runnable_config.get()
        context = config._context
        late, popped = threading.Event(), threading.Event()

        class Slow:
            @property
            def config(self) -> Any:
                late.set()
                assert popped.wait(30)
                return context.config

        config._context = Slow()
        reader = threading.Thread(target=lambda: results.append("tags" in config))
        reader.start()
        assert late.wait(30)
        config._context = context
        config.pop("tags")
        popped.set()
        reader.join(30)
        return {"log": ["a"]}

    single(node).compile().invoke({"log": []}, GIVEN)
    assert results == [False]
