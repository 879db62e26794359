"""What a state may be made of, and what nodes may write to it."""

import dataclasses
import functools
import operator
from typing import Annotated, Any, NotRequired

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

from graphs import Log, appends, single
from milepost.errors import GraphBuildError, InvalidUpdateError
from milepost.graph import END, START, StateGraph
from milepost.managed import IsLastStep, RemainingSteps
from milepost.runtime import Runtime
from milepost.types import Command, Overwrite
from milepost.warnings import MilepostWarning


class Numbers(TypedDict):
    total: int
    parts: Annotated[list[int], operator.add]


@dataclasses.dataclass
class Point:
    x: int
    y: int = 7
    trail: Annotated[list[str], operator.add] = dataclasses.field(default_factory=list)


class Form(BaseModel):
    age: int
    name: str = "nobody"
    note: str | None = None
    tags: Annotated[list[str], operator.add] = []


class Spy:
    """A node that remembers what it was given and returns what it was made with."""

    def __init__(self, result: Any = None) -> None:
        self.result = result
        self.given: Any = None

    def __call__(self, state: Any) -> Any:
        self.given = state
        return self.result


# -- schemas


def test_a_typed_dict_node_gets_a_dict_of_the_keys_that_have_values(run):
    spy = Spy({"parts": [2]})
    assert run.invoke(single(spy, Numbers).compile(), {"parts": [1]}) == {"parts": [1, 2]}
    assert spy.given == {"parts": [1]}


def test_a_plain_key_keeps_the_last_value_and_a_reducer_key_combines(run):
    graph = single(Spy({"total": 5, "parts": [3]}), Numbers).compile()
    assert run.invoke(graph, {"total": 1, "parts": [1, 2]}) == {"total": 5, "parts": [1, 2, 3]}


def test_keys_that_nobody_wrote_are_absent_from_the_result(run):
    assert run.invoke(single(Spy({"parts": [1]}), Numbers).compile(), {}) == {"parts": [1]}


def test_a_reducer_starts_from_the_empty_value_of_its_type(run):
    class Empties(TypedDict):
        seed: int
        items: Annotated[list[int], operator.add]
        table: Annotated[dict[str, int], operator.or_]
        count: Annotated[int, operator.add]
        text: Annotated[str, operator.add]
        names: Annotated[set[str], operator.or_]

    spy = Spy()
    run.invoke(single(spy, Empties).compile(), {"seed": 1})
    assert spy.given == {
        "seed": 1,
        "items": [],
        "table": {},
        "count": 0,
        "text": "",
        "names": set(),
    }


def test_a_reducer_whose_type_has_no_empty_value_starts_with_the_first_write(run):
    def larger(left: Point, right: Point) -> Point:
        return max(left, right, key=lambda point: point.x)

    class Best(TypedDict):
        best: Annotated[Point, larger]

    graph = single(Spy({"best": Point(3)}), Best).compile()
    assert run.invoke(graph, {"best": Point(5)}) == {"best": Point(5)}
    assert run.invoke(graph, {}) == {"best": Point(3)}


def test_a_reducer_may_be_any_function_of_two_arguments(run):
    def keep_two(left: list[int], right: list[int]) -> list[int]:
        return (left + right)[-2:]

    class Window(TypedDict):
        last: Annotated[list[int], "documentation", keep_two]

    graph = single(Spy({"last": [3]}), Window).compile()
    assert run.invoke(graph, {"last": [1, 2]}) == {"last": [2, 3]}


def test_a_reducer_of_one_argument_is_refused():
    class Wrong(TypedDict):
        items: Annotated[list[int], lambda only: only]

    with pytest.raises(ValueError, match="reducer"):
        StateGraph(Wrong)


def test_not_required_keys_are_keys_like_the_others(run):
    class Partial(TypedDict):
        name: str
        nick: NotRequired[str]
        log: NotRequired[Annotated[list[str], operator.add]]

    graph = single(Spy({"nick": "bo", "log": ["x"]}), Partial).compile()
    assert run.invoke(graph, {"name": "bob"}) == {"name": "bob", "nick": "bo", "log": ["x"]}


def test_inherited_keys_belong_to_the_state(run):
    class Base(TypedDict):
        items: Annotated[list[int], operator.add]

    class Derived(Base):
        name: str

    graph = single(Spy({"items": [2], "name": "n"}), Derived).compile()
    assert run.invoke(graph, {"items": [1]}) == {"items": [1, 2], "name": "n"}


def test_a_dataclass_node_gets_an_instance_with_defaults_filled_in(run):
    spy = Spy({"trail": ["n"]})
    assert run.invoke(single(spy, Point).compile(), {"x": 1}) == {"x": 1, "trail": ["n"]}
    assert spy.given == Point(x=1, y=7, trail=[])


def test_a_dataclass_instance_is_an_input_and_writes_all_its_fields(run):
    spy = Spy()
    result = run.invoke(single(spy, Point).compile(), Point(x=1, trail=["start"]))
    assert result == {"x": 1, "y": 7, "trail": ["start"]}
    assert spy.given == Point(x=1, y=7, trail=["start"])


def test_a_dataclass_instance_that_a_node_returns_writes_all_its_fields(run):
    graph = single(Spy(Point(x=5, trail=["n"])), Point).compile()
    result = run.invoke(graph, {"x": 1, "y": 2, "trail": ["i"]})
    assert result == {"x": 5, "y": 7, "trail": ["i", "n"]}


def test_a_dataclass_field_that_is_missing_fails_when_the_node_reads_it(run):
    with pytest.raises(TypeError, match="x"):
        run.invoke(single(Spy(), Point).compile(), {"y": 1})


def test_a_pydantic_node_gets_a_validated_instance_with_defaults(run):
    spy = Spy({"tags": ["n"]})
    run.invoke(single(spy, Form).compile(), {"age": "41"})
    assert spy.given == Form(age=41, name="nobody", tags=[])


def test_a_pydantic_state_that_does_not_validate_fails_when_the_node_reads_it(run):
    with pytest.raises(ValidationError, match="age"):
        run.invoke(single(Spy(), Form).compile(), {"age": "very"})
    with pytest.raises(ValidationError, match="age"):
        run.invoke(single(Spy(), Form).compile(), {"name": "ann"})


def test_a_pydantic_instance_is_an_input(run):
    spy = Spy()
    result = run.invoke(single(spy, Form).compile(), Form(age=3, tags=["i"]))
    assert result == {"age": 3, "name": "nobody", "tags": ["i"]}
    assert spy.given == Form(age=3, tags=["i"])


def test_a_pydantic_instance_that_a_node_returns_leaves_unset_none_fields_alone(run):
    graph = single(Spy(Form(age=5, tags=["n"])), Form).compile()
    result = run.invoke(graph, {"age": 1, "note": "kept", "tags": ["i"]})
    assert result["note"] == "kept"
    assert (result["age"], result["tags"]) == (5, ["i", "n"])


def test_a_pydantic_instance_with_an_explicit_none_writes_it(run):
    graph = single(Spy(Form(age=5, note=None)), Form).compile()
    assert run.invoke(graph, {"age": 1, "note": "dropped"})["note"] is None


class Aliased(BaseModel):
    user_name: str = Field("nobody", alias="userName")
    out: str = ""


class RequiredAlias(BaseModel):
    user_name: str = Field(alias="userName")
    out: str = ""


class Validated(BaseModel):
    user_name: str = Field("nobody", validation_alias="userName")
    out: str = ""


class Chosen(BaseModel):
    user_name: str = Field(
        "nobody", validation_alias=AliasChoices(AliasPath("user", "name"), "userName")
    )
    out: str = ""


class Generated(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, defer_build=True)
    user_name: str = "nobody"
    out: str = ""


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    user_name: str = Field("nobody", alias="userName")
    out: str = ""


class Populated(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    user_name: str = Field("nobody", alias="userName")
    out: str = ""

    @model_validator(mode="before")
    @classmethod
    def check(cls, given: Any) -> Any:
        """It finds in a node what it finds on LangGraph."""
        assert "user_name" in given or "userName" in given
        return given


@pydantic_dataclass
class AliasedData:
    user_name: str = Field("nobody", alias="userName")
    out: str = ""


ALIASED = [
    Aliased, RequiredAlias, Validated, Chosen, Generated, Closed, Populated, AliasedData
]  # fmt: skip


def greeting(schema: Any) -> Any:
    """A graph of two nodes that read `user_name`."""

    def first(state: schema) -> Any:
        return {"out": f"hello {state.user_name}"}

    def second(state: schema) -> Any:
        assert type(state) is schema
        return {"out": f"{state.out}, {state.user_name}"}

    return StateGraph(schema).add_sequence([first, second]).add_edge(START, "first").compile()


@pytest.mark.parametrize("form", ["name", "alias", "instance"])
@pytest.mark.parametrize("schema", ALIASED)
def test_a_node_gets_a_field_with_an_alias_by_its_name(run, schema, form):
    given = {
        "name": {"user_name": "ann"},
        "alias": {"userName": "ann"},
        "instance": schema(userName="ann"),
    }[form]
    result = run.invoke(greeting(schema), given)
    assert result == {"user_name": "ann", "out": "hello ann, ann"}


def test_a_stored_field_with_an_alias_is_there_in_the_next_run(run, saver, config):
    graph = greeting(Aliased)
    graph.checkpointer = saver
    run.invoke(graph, {"userName": "ann"}, config)
    assert run.invoke(graph, {"out": ""}, config)["out"] == "hello ann, ann"
    assert run.invoke(graph, {"out": ""}, config, version="v2").value.user_name == "ann"


class Paths(BaseModel):
    user_name: str = Field("nobody", validation_alias=AliasPath("user", 0, "name"))
    out: str = Field("", validation_alias=AliasPath("user", 1))


@pytest.mark.parametrize(
    "given", [{"user_name": "ann", "out": "x"}, {"user": [{"name": "ann"}, "x"]}], ids=repr
)
def test_fields_of_one_path_are_told_apart(run, given):
    result = run.invoke(greeting(Paths), given)
    assert result == {"user_name": "ann", "out": "hello ann, ann"}


class Swapped(BaseModel):
    user_name: str = Field("nobody", alias="out")
    out: str = Field("", alias="user_name")


class Shared(BaseModel):
    user_name: str = Field("nobody", validation_alias=AliasChoices("id", "user"))
    out: str = Field("", validation_alias=AliasChoices("id", "answer"))


class Extracted(BaseModel):
    raw: dict[str, str] = {}
    user_name: str = Field("nobody", validation_alias=AliasPath("raw", "name"))
    out: str = ""


@pytest.mark.parametrize("schema", [Swapped, Shared])
def test_an_alias_that_two_fields_have_mixes_up_none_of_them(run, schema):
    result = run.invoke(greeting(schema), {"user_name": "ann", "out": "x"})
    assert result == {"user_name": "ann", "out": "hello ann, ann"}


def test_a_field_that_is_read_from_another_is_read_from_it_as_on_langgraph(run):
    result = run.invoke(greeting(Extracted), {"raw": {"name": "ann"}})
    assert result == {"raw": {"name": "ann"}, "out": "hello ann, ann"}


def test_an_alias_beside_the_name_of_its_field_is_an_unknown_key(run):
    with pytest.warns(MilepostWarning, match="'userName'"):
        result = run.invoke(greeting(Aliased), {"user_name": "ann", "userName": "bob"})
    assert result["out"] == "hello ann, ann"
    with pytest.warns(MilepostWarning, match="'userName'"):
        run.invoke(single(Spy({"userName": "bob"}), Aliased).compile(), {"user_name": "ann"})


class Secretive(BaseModel):
    n: int
    _calls: int = PrivateAttr(0)


def test_a_private_attribute_of_a_model_is_no_key(run):
    def node(state: Secretive) -> Any:
        state._calls = 5
        state.n += 1
        return state

    graph = single(node, Secretive).compile()
    assert run.invoke(graph, {"n": 1}) == {"n": 2}
    with pytest.warns(MilepostWarning, match="'_calls'"):
        assert run.invoke(graph, {"n": 1, "_calls": 1}) == {"n": 2}


@dataclasses.dataclass(frozen=True)
class Derived:
    x: int = 0
    z: int = dataclasses.field(init=False, default=5)


def test_a_field_that_is_no_argument_is_a_key_as_the_others(run):
    seen: list[Any] = []

    def a(state: Derived) -> Any:
        seen.append(state.z)
        return {"z": state.z + 1}

    def b(state: Derived) -> Any:
        seen.append(state.z)

    graph = StateGraph(Derived).add_sequence([a, b]).add_edge(START, "a").compile()
    assert run.invoke(graph, {"x": 1}) == {"x": 1, "z": 6}
    assert run.invoke(graph, Derived(x=1)) == {"x": 1, "z": 6}
    assert seen == [5, 6, 5, 6]


@dataclasses.dataclass
class Work:
    items: list[int]
    log: Annotated[list[Any], operator.add] = dataclasses.field(default_factory=list)


class Job(BaseModel):
    items: list[int]
    log: Annotated[list[Any], operator.add] = []


@pytest.mark.parametrize("schema", [Work, Job])
@pytest.mark.parametrize("sent", [{"item": 1}, {"items": [1]}, Work([1]), 1], ids=repr)
def test_what_is_sent_to_a_node_is_not_made_into_the_state(run, lib, schema, sent):
    got = []
    builder = lib.StateGraph(schema).add_node("worker", got.append)
    builder.add_conditional_edges(lib.START, lambda state: [lib.Send("worker", sent)], ["worker"])
    run.invoke(builder.compile(), {"items": [1, 2]})
    assert got == [sent]
    assert type(got[0]) is type(sent)


def test_a_root_state_is_a_single_value_without_keys(run, saver, config, durability):
    builder = StateGraph(Annotated[list[int], operator.add])
    builder.add_node("count", lambda state: [len(state)])
    builder.add_edge(START, "count")
    graph = builder.compile(checkpointer=saver)
    assert run.invoke(graph, [9], config, durability=durability) == [9, 1]
    assert run.invoke(graph, [8], config, durability=durability) == [9, 1, 8, 3]
    assert run.get_state(graph, config).values == [9, 1, 8, 3]


def test_a_root_state_without_a_reducer_is_replaced(run):
    assert run.invoke(single(lambda state: state + 1, int).compile(), 1) == 2
    assert run.invoke(single(lambda state: None, int).compile(), 1) == 1


def test_a_root_state_takes_a_command(run):
    graph = single(Spy(Command(update=[7])), Annotated[list[int], operator.add]).compile()
    assert run.invoke(graph, [1]) == [1, 7]


def test_input_output_and_private_schemas_show_each_node_only_its_own_keys(run):
    seen: dict[str, Any] = {}

    class Question(TypedDict):
        question: str

    class Answer(TypedDict):
        answer: str

    class Whole(Question, Answer):
        draft: str

    class Private(TypedDict):
        secret: str

    def think(state: Question) -> Private:
        seen["think"] = state
        return {"secret": "s"}

    def write(state: Private) -> Whole:
        seen["write"] = state
        return {"draft": "d", "answer": state["secret"] + "!"}

    def read(state: Whole) -> None:
        seen["read"] = state

    builder = StateGraph(Whole, input_schema=Question, output_schema=Answer)
    builder.add_sequence([think, write, read]).add_edge(START, "think")
    graph = builder.compile()
    with pytest.warns(MilepostWarning, match="'draft', which is not in the input schema"):
        answer = run.invoke(graph, {"question": "?", "draft": "not an input"})
    assert answer == {"answer": "s!"}
    assert seen == {
        "think": {"question": "?"},
        "write": {"secret": "s"},
        "read": {"question": "?", "draft": "d", "answer": "s!"},
    }


def test_input_schema_of_a_node_overrides_its_annotation(run):
    class Narrow(TypedDict):
        total: int

    spy = Spy()
    builder = StateGraph(Numbers)
    builder.add_node("node", spy, input_schema=Narrow).add_edge(START, "node")
    run.invoke(builder.compile(), {"total": 1, "parts": [1]})
    assert spy.given == {"total": 1}


@dataclasses.dataclass
class Options:
    more: int = 2


def with_a_default(state, options: Options = Options()):  # noqa: B008
    return {"total": state["total"] + options.more}


def after_what_is_bound(options: Options, state: Numbers):
    return {"total": state["total"] + options.more}


@pytest.mark.parametrize(
    "function", [with_a_default, functools.partial(after_what_is_bound, Options())]
)
def test_an_annotation_of_another_parameter_is_no_input_schema(run, function):
    builder = StateGraph(Numbers).add_node("node", function).add_edge(START, "node")
    assert run.invoke(builder.compile(), {"total": 1})["total"] == 3
    assert "more" not in builder.channels


class Nothing(TypedDict):
    pass


class Age(BaseModel):
    age: int


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (BaseModel, Form),
        (Nothing, Form),
        (Annotated[Age, "a note"], Age),
        (Annotated[BaseModel, "a note"], Form),
    ],
)
def test_a_node_and_an_edge_read_the_schema_of_their_parameter_if_it_has_keys(
    run, annotation, kind
):
    given: list[type] = []

    def node(state):
        given.append(type(state))

    def route(state):
        given.append(type(state))
        return END

    for function in (node, route):
        function.__annotations__["state"] = annotation
    builder = StateGraph(Form).add_node(node).add_edge(START, "node")
    graph = builder.add_conditional_edges("node", route, [END]).compile()
    run.invoke(graph, {"age": 3})
    assert given == [kind, kind]


def test_an_input_schema_without_keys_is_none_with_a_warning(run):
    spy = Spy()
    with pytest.warns(MilepostWarning, match="'node' is <class 'dict'>, which has no keys"):
        builder = StateGraph(Numbers).add_node("node", spy, input_schema=dict)
    run.invoke(builder.add_edge(START, "node").compile(), {"total": 1})
    assert spy.given == {"total": 1, "parts": []}
    with pytest.raises(GraphBuildError, match="has no keys: give a TypedDict"):
        StateGraph(Numbers, strict=True).add_node("node", spy, input_schema=dict)


def test_a_partial_with_too_many_arguments_fails_when_it_is_called():
    builder = StateGraph(Numbers)
    builder.add_node("n", functools.partial(with_a_default, 1, 2, 3)).add_edge(START, "n")
    with pytest.raises(TypeError, match="positional"):
        builder.compile().invoke({"total": 1})


def test_schemas_that_disagree_about_a_reducer_are_refused_with_the_key():
    class Other(TypedDict):
        parts: Annotated[list[int], operator.mul]

    with pytest.raises(ValueError, match="parts"):
        StateGraph(Numbers, input_schema=Other)


def test_a_schema_may_repeat_a_reducer_key_without_the_reducer(run):
    class Plain(TypedDict):
        parts: list[int]

    graph = single(Spy({"parts": [2]}), Numbers, output_schema=Plain).compile()
    assert run.invoke(graph, {"parts": [1]}) == {"parts": [1, 2]}


@pytest.mark.filterwarnings("ignore:values of the unregistered type")
@pytest.mark.parametrize("given", ["instance", "dict"])
def test_a_context_schema_reaches_nodes_through_the_runtime(run, given):
    @dataclasses.dataclass
    class Context:
        user: str
        retries: int = 3

    def node(state: Log, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"log": [runtime.context]}

    graph = single(node, context_schema=Context).compile()
    context = Context("ann") if given == "instance" else {"user": "ann"}
    assert run.invoke(graph, {}, context=context) == {"log": [Context("ann", 3)]}


@pytest.mark.filterwarnings("ignore:values of the unregistered type")
def test_a_context_may_be_a_typed_dict_or_a_pydantic_model(run):
    class Mapped(TypedDict):
        user: str

    class Modelled(BaseModel):
        user: str

    def node(state: Log, runtime: Runtime[Any]) -> dict[str, Any]:
        return {"log": [runtime.context]}

    for schema, expected in ((Mapped, {"user": "u"}), (Modelled, Modelled(user="u"))):
        graph = single(node, context_schema=schema).compile()
        assert run.invoke(graph, {}, context={"user": "u"}) == {"log": [expected]}


def test_without_a_context_the_runtime_has_none(run):
    def node(state: Log, runtime: Runtime[Any]) -> dict[str, Any]:
        return {"log": [runtime.context]}

    assert run.invoke(single(node).compile(), {}) == {"log": [None]}


class Managed(TypedDict):
    log: Annotated[list[Any], operator.add]
    left: RemainingSteps
    last: IsLastStep


def test_managed_values_count_down_to_the_last_step(run):
    builder = StateGraph(Managed)
    builder.add_node("count", lambda state: {"log": [(state["left"], state["last"])]})
    builder.add_edge(START, "count")
    builder.add_conditional_edges("count", lambda state: END if state["last"] else "count")
    result = run.invoke(builder.compile(), {}, {"recursion_limit": 4})
    assert result == {"log": [(3, False), (2, False), (1, True)]}


def test_managed_values_are_neither_stored_nor_part_of_the_result(run, saver, config):
    graph = single(appends("x"), Managed).compile(checkpointer=saver)
    assert run.invoke(graph, {"log": []}, config) == {"log": ["x"]}
    assert run.get_state(graph, config).values == {"log": ["x"]}


# -- what may be written


def test_none_and_an_empty_dict_write_nothing(run):
    for nothing in (None, {}):
        result = run.invoke(single(Spy(nothing), Numbers).compile(), {"total": 1})
        assert result == {"total": 1, "parts": []}


def test_a_none_value_is_a_value(run):
    result = run.invoke(single(Spy({"total": None}), Numbers).compile(), {"total": 1})
    assert result == {"total": None, "parts": []}


@pytest.mark.parametrize("wrong", ["text", 5, [], [{"total": 1}], [("total", 1)]], ids=repr)
def test_a_node_that_returns_no_mapping_is_refused_by_name(run, wrong):
    builder = StateGraph(Numbers).add_node("culprit", Spy(wrong)).add_edge(START, "culprit")
    with pytest.raises(InvalidUpdateError) as caught:
        run.invoke(builder.compile(), {"total": 1})
    assert "culprit" in _told(caught.value)


def test_an_input_that_is_no_mapping_is_refused(run):
    with pytest.raises(InvalidUpdateError):
        run.invoke(single(Spy(), Numbers).compile(), "text")


@pytest.mark.parametrize("result", [{"totl": 1}, {"total": 1, "totl": 1}], ids=repr)
@pytest.mark.usefixtures("strictly")
def test_a_wrong_key_names_the_key_and_the_node(run, result):
    builder = StateGraph(Numbers).add_node("culprit", Spy(result)).add_edge(START, "culprit")
    with pytest.raises(InvalidUpdateError) as caught:
        run.invoke(builder.compile(), {"total": 1})
    assert "totl" in str(caught.value)
    assert "culprit" in str(caught.value)


@pytest.mark.usefixtures("strictly")
def test_a_wrong_key_in_a_command_names_the_key_and_the_node(run):
    builder = StateGraph(Numbers).add_node("culprit", Spy(Command(update={"totl": 1})))
    with pytest.raises(InvalidUpdateError) as caught:
        run.invoke(builder.add_edge(START, "culprit").compile(), {"total": 1})
    assert "totl" in str(caught.value)
    assert "culprit" in str(caught.value)


@pytest.mark.usefixtures("strictly")
def test_a_wrong_key_leaves_the_thread_where_it_was(run, saver, config):
    graph = single(Spy({"totl": 1}), Numbers).compile(checkpointer=saver)
    with pytest.raises(InvalidUpdateError):
        run.invoke(graph, {"total": 1}, config, durability="sync")
    state = run.get_state(graph, config)
    assert state.values == {"total": 1, "parts": []}
    assert state.next == ("node",)


def test_two_writes_to_a_plain_key_in_one_step_name_the_key_and_the_nodes(run):
    builder = StateGraph(Numbers)
    for name in ("left_writer", "right_writer"):
        builder.add_node(name, Spy({"total": 1})).add_edge(START, name)
    with pytest.raises(InvalidUpdateError) as caught:
        run.invoke(builder.compile(), {"total": 0})
    message = str(caught.value)
    assert "total" in message
    assert "left_writer" in message
    assert "right_writer" in message


def test_two_writes_to_a_plain_key_in_different_steps_are_fine(run):
    builder = StateGraph(Numbers)
    builder.add_sequence([("first", Spy({"total": 1})), ("second", Spy({"total": 2}))])
    result = run.invoke(builder.add_edge(START, "first").compile(), {"total": 0})
    assert result == {"total": 2, "parts": []}


@pytest.mark.parametrize(
    "written",
    [Overwrite([9]), {"__overwrite__": [9]}, dataclasses.asdict(Overwrite([9]))],
    ids=repr,
)
def test_overwrite_replaces_the_value_of_a_reducer_key(run, written):
    graph = single(Spy({"parts": written}), Numbers).compile()
    assert run.invoke(graph, {"total": 0, "parts": [1]}) == {"total": 0, "parts": [9]}


def test_overwrite_works_in_the_input_too(run, saver, config):
    graph = single(Spy({"parts": [2]}), Numbers).compile(checkpointer=saver)
    run.invoke(graph, {"parts": [1]}, config)
    assert run.invoke(graph, {"parts": Overwrite([7])}, config) == {"parts": [7, 2]}


def test_overwrite_wins_over_other_writes_of_its_step(run):
    builder = StateGraph(Numbers)
    for name, parts in (("a", [1]), ("m", Overwrite([9])), ("z", [2])):
        builder.add_node(name, Spy({"parts": parts})).add_edge(START, name)
    assert run.invoke(builder.compile(), {"total": 0, "parts": [0]})["parts"] == [9]


def test_two_overwrites_of_a_key_in_one_step_are_refused(run):
    builder = StateGraph(Numbers)
    for name in ("a", "b"):
        builder.add_node(name, Spy({"parts": Overwrite([1])})).add_edge(START, name)
    with pytest.raises(InvalidUpdateError):
        run.invoke(builder.compile(), {"total": 0})


def test_what_a_node_does_to_its_input_does_not_change_the_state_of_the_thread(run, saver, config):
    def vandal(state: Numbers) -> dict[str, Any]:
        state["total"] = 99
        return {"parts": [1]}

    graph = single(vandal, Numbers).compile(checkpointer=saver)
    assert run.invoke(graph, {"total": 1}, config) == {"total": 1, "parts": [1]}
    assert run.get_state(graph, config).values == {"total": 1, "parts": [1]}


@pytest.mark.parametrize("schema", [5, "Numbers", {"total": int}, [int, operator.add]])
def test_a_schema_that_is_no_type_is_warned_of(schema):
    with pytest.warns(MilepostWarning, match="is no type"):
        StateGraph(schema)
    with pytest.raises(GraphBuildError, match="is no type"):
        StateGraph(schema, strict=True)


@pytest.mark.parametrize(
    "schema", [Numbers, int, list[int], Annotated[list[int], operator.add], int | str, Any]
)
def test_what_is_a_type_may_be_a_schema(schema):
    StateGraph(schema, strict=True)


def _told(error: BaseException) -> str:
    """All that a user sees of an error: its message and its notes."""
    return "\n".join([str(error), *getattr(error, "__notes__", ())])
