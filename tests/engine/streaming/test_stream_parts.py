"""`version="v2"`: typed parts and GraphOutput; `print_mode` and `debug`: events on the console."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from pydantic import BaseModel

THREAD: Any = {"configurable": {"thread_id": "1"}}


class State(TypedDict):
    said: Annotated[list[str], operator.add]


@dataclass
class Fields:
    said: Annotated[list[str], operator.add] = field(default_factory=list)


class Model(BaseModel):
    said: Annotated[list[str], operator.add] = []


def asking(lib: Any, schema: Any = State) -> Any:
    """Says "a", then asks."""
    builder = lib.StateGraph(schema)
    builder.add_node("a", lambda state: {"said": ["a"]})
    builder.add_node("ask", lambda state: {"said": [lib.interrupt("well?")]})
    builder.add_edge(lib.START, "a")
    builder.add_edge("a", "ask")
    return builder.compile(checkpointer=lib.InMemorySaver())


def nested(lib: Any, **options: Any) -> Any:
    inner = lib.StateGraph(State)
    inner.add_node("deep", lambda state: {"said": ["deep"]})
    inner.add_edge(lib.START, "deep")
    builder = lib.StateGraph(State)
    builder.add_node("inner", inner.compile())
    builder.add_edge(lib.START, "inner")
    return builder.compile(**options)


class TestParts:
    def test_a_part_has_its_mode_its_graph_and_its_data(self, lib: Any, run: Any) -> None:
        parts = run.stream(
            asking(lib), {"said": ["x"]}, THREAD, stream_mode=["updates", "values"], version="v2"
        )
        questions = parts[-1]["interrupts"]
        assert [question.value for question in questions] == ["well?"]
        assert parts == [
            {"type": "values", "ns": (), "data": {"said": ["x"]}, "interrupts": ()},
            {"type": "updates", "ns": (), "data": {"a": {"said": ["a"]}}},
            {"type": "values", "ns": (), "data": {"said": ["x", "a"]}, "interrupts": ()},
            {"type": "updates", "ns": (), "data": {"__interrupt__": questions}},
            {"type": "values", "ns": (), "data": {"said": ["x", "a"]}, "interrupts": questions},
        ]

    def test_a_single_mode_has_the_same_form(self, lib: Any, run: Any) -> None:
        parts = run.stream(nested(lib), {"said": []}, stream_mode="updates", version="v2")
        assert parts == [{"type": "updates", "ns": (), "data": {"inner": {"said": ["deep"]}}}]

    def test_parts_of_inner_graphs_name_them(self, lib: Any, run: Any) -> None:
        parts = run.stream(
            nested(lib), {"said": []}, stream_mode="updates", version="v2", subgraphs=True
        )
        assert [[name.partition(":")[0] for name in part["ns"]] for part in parts] == [
            ["inner"],
            [],
        ]

    @pytest.mark.parametrize("schema", [Fields, Model])
    def test_values_and_checkpoints_have_the_type_of_the_schema(
        self, lib: Any, run: Any, schema: Any
    ) -> None:
        graph = asking(lib, schema)
        modes = ["values", "checkpoints", "debug"]
        parts = run.stream(graph, {"said": ["x"]}, THREAD, stream_mode=modes, version="v2")
        values = [part["data"] for part in parts if part["type"] == "values"]
        assert values[-1] == schema(said=["x", "a"])
        checkpoints = [part["data"]["values"] for part in parts if part["type"] == "checkpoints"]
        assert checkpoints[-1] == schema(said=["x", "a"])
        told = [part["data"] for part in parts if part["type"] == "debug"]
        shown = [event["payload"]["values"] for event in told if event["type"] == "checkpoint"]
        assert shown[-1] == schema(said=["x", "a"])

    def test_a_version_that_is_none_is_refused(self, run: Any) -> None:
        from both import names_of

        with pytest.raises(ValueError, match=r"'v9' .*: 'v1', 'v2' or 'v3'"):
            run.stream(nested(names_of("milepost")), {"said": []}, version="v9")


class TestGraphOutput:
    def test_it_has_the_value_and_the_questions(self, lib: Any, run: Any) -> None:
        graph = asking(lib, Model)
        first = run.invoke(graph, {"said": ["x"]}, THREAD, version="v2")
        assert first.value == Model(said=["x", "a"])
        assert [question.value for question in first.interrupts] == ["well?"]
        last = run.invoke(graph, lib.Command(resume="yes"), THREAD, version="v2")
        assert (last.value, last.interrupts) == (Model(said=["x", "a", "yes"]), ())

    def test_it_can_be_read_like_the_dict_of_before(self, lib: Any, run: Any) -> None:
        result = run.invoke(asking(lib), {"said": ["x"]}, THREAD, version="v2")
        with pytest.warns(DeprecationWarning, match="result"):
            assert result["said"] == ["x", "a"]
        with pytest.warns(DeprecationWarning, match="result"):
            assert "__interrupt__" in result
        with pytest.warns(DeprecationWarning, match="result"), pytest.raises(KeyError):
            result["missing"]

    def test_another_mode_gives_its_parts(self, lib: Any, run: Any) -> None:
        parts = run.invoke(nested(lib), {"said": []}, stream_mode="updates", version="v2")
        assert [part["type"] for part in parts] == ["updates"]

    def test_the_types_are_found_in_types(self) -> None:
        from milepost import types

        assert types.GraphOutput(5).value == 5
        assert types.ValuesStreamPart.__required_keys__ >= {"type", "ns", "data", "interrupts"}
        assert set(dir(types)) >= set(types.__all__)
        with pytest.raises(AttributeError, match="nothing"):
            types.nothing  # type: ignore[attr-defined]


def plain(text: str) -> list[str]:
    """Lines without what a terminal makes of them, and without ids."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", text).splitlines()


class TestPrinting:
    def test_modes_are_printed_and_nothing_else_changes(
        self, lib: Any, run: Any, capsys: Any
    ) -> None:
        assert run.invoke(nested(lib), {"said": []}, print_mode="updates") == {"said": ["deep"]}
        assert plain(capsys.readouterr().out) == ["[updates] {'inner': {'said': ['deep']}}"]
        streamed = run.stream(nested(lib), {"said": []}, stream_mode="values", print_mode="tasks")
        assert streamed == [{"said": []}, {"said": ["deep"]}]
        printed = plain(capsys.readouterr().out)
        assert [line.partition(" ")[0] for line in printed] == ["[tasks]", "[tasks]"]

    def test_messages_are_printed_and_stay_out_of_a_stream_of_another_mode(
        self, lib: Any, run: Any, capsys: Any
    ) -> None:
        builder = lib.StateGraph(State)
        builder.add_node("speak", lambda state: {"said": [AIMessage("hi", id="1")]})
        graph = builder.add_edge(lib.START, "speak").compile()
        streamed = run.stream(graph, {"said": []}, print_mode="messages")
        assert streamed == [{"speak": {"said": [AIMessage("hi", id="1")]}}]
        (printed,) = plain(capsys.readouterr().out)
        assert printed.startswith("[messages] (AIMessage(content='hi'")

    def test_lines_of_inner_graphs_name_them(self, lib: Any, run: Any, capsys: Any) -> None:
        run.stream(nested(lib), {"said": []}, print_mode=["values"], subgraphs=True)
        assert plain(capsys.readouterr().out) == [
            "[values] {'said': []}",
            "[values] [graph=('inner:ID',)] {'said': []}",
            "[values] [graph=('inner:ID',)] {'said': ['deep']}",
            "[values] {'said': ['deep']}",
        ]

    @pytest.mark.parametrize("where", ["compile", "call"])
    def test_debug_prints_updates_and_values(
        self, lib: Any, run: Any, capsys: Any, where: str
    ) -> None:
        graph = nested(lib, debug=where == "compile")
        run.invoke(graph, {"said": []}, **({"debug": True} if where == "call" else {}))
        assert plain(capsys.readouterr().out) == [
            "[values] {'said': []}",
            "[updates] {'inner': {'said': ['deep']}}",
            "[values] {'said': ['deep']}",
        ]

    def test_an_unknown_mode_is_warned_of(self, run: Any) -> None:
        from both import names_of
        from milepost.warnings import MilepostWarning

        with pytest.warns(MilepostWarning, match="print_mode 'loud'"):
            run.invoke(nested(names_of("milepost")), {"said": []}, print_mode="loud")
