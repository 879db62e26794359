"""Pictures of graphs: Mermaid text, ASCII, JSON, PNG."""

import json
import os
import stat
from typing import Any, Literal

import pytest
from langchain_core.runnables.graph import CurveStyle, NodeStyles

from both import names_of
from hitl_graphs import State, chain
from milepost.func import entrypoint
from milepost.graph import END, START, StateGraph
from milepost.types import Command


def node(state: State) -> None:
    return None


def edges(graph: Any, **options: Any) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in graph.get_graph(**options).edges}


def built(*names: str, **options: Any) -> StateGraph:
    builder = StateGraph(State)
    for name in names:
        builder.add_node(name, node, **options)
    builder.add_edge(START, names[0])
    return builder


class TestWhatIsDrawn:
    def test_nodes_start_and_end(self):
        picture = chain(("a", node), ("b", node)).get_graph()
        assert list(picture.nodes) == ["__start__", "a", "b", "__end__"]

    def test_edges_and_an_end_for_a_node_that_nothing_follows(self):
        assert edges(chain(("a", node), ("b", node))) == {
            ("__start__", "a"),
            ("a", "b"),
            ("b", "__end__"),
        }

    def test_every_source_of_a_join(self):
        builder = built("a", "b", "c")
        builder.add_edge(START, "b").add_edge(["a", "b"], "c")
        assert {("a", "c"), ("b", "c")} <= edges(builder.compile())

    def test_conditional_edges_with_what_leads_there(self):
        builder = built("a", "b")
        builder.add_conditional_edges("a", lambda state: True, {True: "b", False: END})
        found = [edge for edge in builder.compile().get_graph().edges if edge.source == "a"]
        assert [(edge.target, edge.data, edge.conditional) for edge in found] == [
            ("__end__", "False", True),
            ("b", "True", True),
        ]

    def test_conditional_edges_that_name_their_targets_have_no_label(self):
        def route(state: State) -> Literal["b", "__end__"]:
            return "b"

        builder = built("a", "b")
        builder.add_conditional_edges("a", route)
        found = [edge for edge in builder.compile().get_graph().edges if edge.source == "a"]
        assert [(edge.target, edge.data) for edge in found] == [("__end__", None), ("b", None)]

    def test_a_conditional_edge_that_may_return_more_goes_where_its_return_type_says(self):
        def route(state: State) -> list[Literal["b", "gone"]] | Literal["__end__"] | None:
            return ["c"]  # type: ignore[list-item]

        graph = built("a", "b", "c").add_conditional_edges("a", route).compile()
        assert {target for source, target in edges(graph) if source == "a"} == {"b", "__end__"}

    def test_a_conditional_edge_that_does_not_say_may_go_anywhere(self):
        builder = built("a", "b", "c")
        builder.add_conditional_edges("a", lambda state: "b")
        assert {("a", "b"), ("a", "c"), ("a", "__end__")} <= edges(builder.compile())

    def test_where_the_commands_of_a_node_go(self):
        def go(state: State) -> Command[Literal["b", "__end__"]]:
            return Command(goto="b")

        builder = built("b")
        builder.add_node("go", go)
        found = [edge for edge in builder.compile().get_graph().edges if edge.source == "go"]
        assert [(edge.target, edge.conditional) for edge in found] == [
            ("__end__", True),
            ("b", True),
        ]

    def test_destinations_with_labels(self):
        builder = built("b")
        builder.add_node("go", lambda state: Command(goto="b"), destinations={"b": "always"})
        (edge,) = [edge for edge in builder.compile().get_graph().edges if edge.source == "go"]
        assert (edge.target, edge.data) == ("b", "always")

    def test_deferred_nodes_and_interrupts(self):
        builder = built("a", "b")
        builder.add_node("last", node, defer=True, metadata={"cost": 1})
        graph = builder.compile(interrupt_before=["a"], interrupt_after="*")
        nodes = graph.get_graph().nodes
        assert nodes["last"].metadata == {"cost": 1, "defer": True, "__interrupt": "after"}
        assert nodes["a"].metadata == {"__interrupt": "before,after"}

    def test_an_entrypoint_is_drawn_as_one_node(self):
        @entrypoint()
        def flow(n):
            return n

        assert edges(flow) == {("__start__", "flow"), ("flow", "__end__")}

    def test_a_graph_is_drawn_on_an_event_loop_too(self, run):
        graph = chain(("a", node))
        if run.colour == "async":
            picture = run._runner.run(graph.aget_graph())
        else:
            picture = graph.get_graph()
        assert "a" in picture.nodes


class TestXray:
    @pytest.fixture
    def nested(self):
        deep = chain(("d1", node), ("d2", node))
        middle = chain(("m1", node), ("deep", deep))
        return chain(("t1", node), ("middle", middle), ("t2", node))

    def test_without_it_an_inner_graph_is_a_node(self, nested):
        assert "middle" in nested.get_graph().nodes

    def test_opens_every_inner_graph(self, nested):
        assert edges(nested, xray=True) == {
            ("__start__", "t1"),
            ("t1", "middle:m1"),
            ("middle:m1", "middle:deep:d1"),
            ("middle:deep:d1", "middle:deep:d2"),
            ("middle:deep:d2", "t2"),
            ("t2", "__end__"),
        }

    def test_opens_as_many_levels_as_it_says(self, nested):
        assert ("t1", "middle:m1") in edges(nested, xray=1)
        assert ("middle:m1", "middle:deep") in edges(nested, xray=1)

    def test_keeps_a_start_and_an_end_with_several_edges(self):
        child = built("a", "b").add_edge(START, "b").compile()
        found = edges(chain(("child", child)), xray=True)
        assert {("__start__", "child:__start__"), ("child:__end__", "__end__")} <= found
        assert {("child:__start__", "child:a"), ("child:a", "child:__end__")} <= found

    def test_opens_a_graph_that_a_function_calls(self):
        child = chain(("c1", node))

        def call(state: State):
            return child.invoke(state)

        assert ("__start__", "call:c1") in edges(chain(("call", call)), xray=True)

    def test_names_the_inner_graphs_in_mermaid(self, nested):
        text = nested.get_graph(xray=True).draw_mermaid()
        lines = [line.strip() for line in text.splitlines()]
        assert lines.count("end") == 2
        assert "subgraph middle" in lines
        assert "subgraph deep" in lines
        assert lines.index("subgraph middle") < lines.index(r"middle\3am1(m1)")


class TestMermaid:
    def test_has_this_text(self):
        builder = built("a", "b")
        builder.add_conditional_edges("a", lambda state: "b", {"go": "b", "stop": END})
        assert builder.compile().get_graph().draw_mermaid() == (
            "---\n"
            "config:\n"
            "  flowchart:\n"
            "    curve: linear\n"
            "---\n"
            "graph TD;\n"
            "\t__start__([<p>__start__</p>]):::first\n"
            "\ta(a)\n"
            "\tb(b)\n"
            "\t__end__([<p>__end__</p>]):::last\n"
            "\t__start__ --> a;\n"
            "\ta -. &nbsp;stop&nbsp; .-> __end__;\n"
            "\ta -. &nbsp;go&nbsp; .-> b;\n"
            "\tb --> __end__;\n"
            "\tclassDef default fill:#f2f0ff,line-height:1.2\n"
            "\tclassDef first fill-opacity:0\n"
            "\tclassDef last fill:#bfb6fc\n"
        )

    def test_has_the_same_text_as_langgraphs(self):
        from langgraph.graph import StateGraph as TheirStateGraph

        texts = []
        for kind in (TheirStateGraph, StateGraph):
            builder = kind(State)
            for name in ("a", "b b"):
                builder.add_node(name, node)
            builder.add_node("c", node).add_node("d", node)
            builder.add_edge(START, "a").add_edge("a", "b b").add_edge("b b", END)
            builder.add_conditional_edges("a", node, {"z": "d", "y": END, "x": "c"})
            texts.append(builder.compile().get_graph().draw_mermaid())
        theirs, ours = texts
        assert ours == theirs

    def test_shows_deferred_nodes(self):
        graph = built("a", defer=True).compile()
        text = graph.get_graph().draw_mermaid()
        assert "a(a<hr/><small><em>defer = True</em></small>):::deferred" in text

    def test_without_styles_is_edges_only(self):
        text = chain(("a", node)).get_graph().draw_mermaid(with_styles=False)
        assert text == "graph TD;\n\t__start__ --> a;\n\ta --> __end__;\n"

    @pytest.mark.parametrize("name", ["end", "a (b)", 'say "x"', "graph", "a[b]"])
    def test_takes_any_name(self, name):
        text = chain((name, node)).get_graph().draw_mermaid(with_styles=False)
        source = text.splitlines()[1].split(" --> ")[1].rstrip(";")
        assert not set(source) & set(' ()[]"')
        assert source not in ("end", "graph")


class TestAscii:
    def test_has_these_lines(self):
        assert chain(("a", node)).get_graph().draw_ascii().splitlines() == [
            "+-----------+",
            "| __start__ |",
            "+-----------+",
            "      |",
            "      |",
            "      v",
            "    +---+",
            "    | a |",
            "    +---+",
            "      |",
            "      |",
            "      v",
            " +---------+",
            " | __end__ |",
            " +---------+",
        ]

    def test_is_printed_as_it_is_drawn(self, capsys):
        picture = chain(("a", node)).get_graph()
        picture.print_ascii()
        assert capsys.readouterr().out == picture.draw_ascii() + "\n"

    def test_draws_conditional_edges_dotted_and_with_labels(self):
        builder = built("a", "b")
        builder.add_conditional_edges("a", lambda state: "b", {"go": "b", "stop": END})
        text = builder.compile().get_graph().draw_ascii()
        assert "v go" in text
        assert "v stop" in text
        assert ":" in text

    def test_draws_ways_back_and_loops(self):
        builder = built("a", "b")
        builder.add_edge("a", "b")
        builder.add_conditional_edges("b", lambda state: "a", {"again": "a", "me": "b", "ok": END})
        text = builder.compile().get_graph().draw_ascii()
        assert "^ again" in text
        assert "(loop: me)" in text

    def test_names_deferred_nodes_and_interrupts(self):
        graph = built("a", defer=True).compile(interrupt_before=["a"])
        text = graph.get_graph().draw_ascii()
        assert "(deferred)" in text
        assert "(interrupt before)" in text

    def test_has_one_arrow_head_for_each_edge_and_one_box_for_each_node(self):
        builder = built(*"abcdef")
        for source, target in ["ab", "ac", "ad", "be", "ce", "de", "cf", "ef", "fb"]:
            builder.add_edge(source, target)
        picture = builder.compile().get_graph()
        text = picture.draw_ascii()
        assert text.count("v") + text.count("^") == len(picture.edges)
        for name in "abcdef":
            assert f" {name} " in text

    def test_uses_plain_characters_and_no_trailing_space(self):
        text = chain(("a", node), ("b", node)).get_graph().draw_ascii()
        assert text.isascii()
        assert all(line == line.rstrip() for line in text.splitlines())


class TestJson:
    def test_names_nodes_and_edges_and_can_be_written(self):
        builder = built("a", "b", metadata={"odd": object})
        builder.add_conditional_edges("a", lambda state: "b", {"go": "b"})
        found = builder.compile().get_graph().to_json()
        assert json.loads(json.dumps(found)) == found
        assert found["edges"][1] == {
            "source": "a",
            "target": "b",
            "data": "go",
            "conditional": True,
        }
        a = found["nodes"][1]
        assert a["id"] == "a"
        assert a["data"]["name"] == "a"


class TestPng:
    def test_without_a_renderer_says_what_to_install(self, monkeypatch):
        monkeypatch.setenv("PATH", "")
        monkeypatch.setattr("milepost.graph._drawing.mermaid.find_spec", lambda _: None)
        with pytest.raises(ImportError, match="npm install -g @mermaid-js/mermaid-cli"):
            chain(("a", node)).get_graph().draw_mermaid_png()

    def test_is_what_the_renderer_draws(self, tmp_path, monkeypatch):
        renderer = tmp_path / "mmdc"
        renderer.write_text('#!/bin/sh\n{ printf PNG; cat "$2"; } > "$4"\n')
        renderer.chmod(renderer.stat().st_mode | stat.S_IEXEC)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        picture = chain(("a", node)).get_graph()
        image = picture.draw_mermaid_png(tmp_path / "graph.png")
        assert image == b"PNG" + picture.draw_mermaid().encode()
        assert (tmp_path / "graph.png").read_bytes() == image

    def test_is_drawn_by_langchain_where_there_is_no_renderer(self, monkeypatch, tmp_path):
        asked: list[Any] = []

        def draw(text: str, **options: Any) -> bytes:
            asked.append((text, options))
            return b"PNG"

        monkeypatch.setenv("PATH", "")
        monkeypatch.setattr("langchain_core.runnables.graph_mermaid.draw_mermaid_png", draw)
        picture = chain(("a", node)).get_graph()
        where = tmp_path / "graph.png"
        assert picture.draw_mermaid_png(output_file_path=where, max_retries=3) == b"PNG"
        options = {"output_file_path": str(where), "background_color": "white", "max_retries": 3}
        assert asked == [(picture.draw_mermaid(), options)]

    def test_tells_what_the_renderer_complains_about(self, tmp_path, monkeypatch):
        renderer = tmp_path / "mmdc"
        renderer.write_text("#!/bin/sh\necho 'no browser' >&2\nexit 1\n")
        renderer.chmod(renderer.stat().st_mode | stat.S_IEXEC)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        with pytest.raises(RuntimeError, match="no browser"):
            chain(("a", node)).get_graph().draw_mermaid_png()


def test_nodes_and_edges_are_tuples_as_those_of_langchain():
    graph = StateGraph(dict).add_node("n", lambda _: {}).add_edge(START, "n").compile().get_graph()
    assert [(source, target) for source, target, *_ in graph.edges] == [
        ("__start__", "n"),
        ("n", "__end__"),
    ]
    id, name, *_ = graph.nodes["n"]
    assert (id, name) == ("n", "n")


def on(library: str) -> Any:
    """Graphs with loops, labels, an inner graph, a node that waits for the others, and several
    ways between two nodes."""
    lib = names_of(library)
    inner = lib.StateGraph(State).add_node("i1", node).add_node("i2", node)
    inner.add_edge(lib.START, "i1").add_edge("i1", "i2")
    inner.add_conditional_edges("i2", lambda _: "i1", {"again": "i1", "a b c d e f g h i j k": END})
    builder = lib.StateGraph(State).add_node("a", node).add_node("inner", inner.compile())
    builder.add_node("b", node).add_node("last", node, defer=True)
    builder.add_edge(lib.START, "a").add_edge("a", "inner").add_edge("inner", "last")
    builder.add_edge("b", "last")
    builder.add_conditional_edges("a", lambda _: "b", {"go": "b", "redo": "a"})
    builder.add_conditional_edges("b", lambda _: "a", {"yes": "a", "no": "a"})
    builder.add_node("joined", node).add_edge(["a", "b"], "joined").add_edge("joined", "last")
    builder.add_conditional_edges("a", node, {"x": "joined"})
    return builder.compile(interrupt_before=["b"])


def test_the_json_of_a_graph_is_the_same_on_both_libraries():
    pictures = [on(library).get_graph() for library in ("milepost", "langgraph")]
    mine, theirs = (picture.to_json() for picture in pictures)
    assert mine["nodes"] == theirs["nodes"]
    by_ends = [sorted(json["edges"], key=str) for json in (mine, theirs)]
    assert by_ends[0] == by_ends[1]


@pytest.mark.parametrize("xray", [False, True])
def test_the_mermaid_text_has_the_same_lines_on_both_libraries(xray):
    colors = NodeStyles(default="fill:#fff", first="fill:#0f0", last="fill:#f00")
    look: Any = {
        "curve_style": CurveStyle.BASIS,
        "node_colors": colors,
        "wrap_label_n_words": 3,
        "frontmatter_config": {"config": {"theme": "neutral"}},
    }
    mine, theirs = (
        on(library).get_graph(xray=xray).draw_mermaid(**look).splitlines()
        for library in ("milepost", "langgraph")
    )
    ours_alone = {"\tclassDef deferred stroke-dasharray:5 3"}
    mine = [line.removesuffix(":::deferred") for line in mine]
    assert sorted({*mine} - ours_alone) == sorted(set(theirs))
