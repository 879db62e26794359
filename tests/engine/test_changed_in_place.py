"""State that a node changes in place: the run goes on with it, and so does who resumes it."""

import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from milepost.channels import LastValue
from milepost.checkpoint.memory import InMemorySaver
from milepost.graph import START, StateGraph
from milepost.pregel import NodeBuilder, Pregel
from milepost.types import Command, interrupt
from milepost.warnings import MilepostWarning

pytestmark = pytest.mark.filterwarnings("ignore::milepost.warnings.MilepostWarning")


class Order(TypedDict, total=False):
    items: list[str]
    notes: Annotated[list[str], operator.add]
    seen: dict[str, int]
    said: str


def change(state: Order) -> dict[str, Any]:
    state["items"].append("tea")
    state["notes"].append("a note")
    state["seen"]["tea"] = 1
    return {"said": "planned"}


def ask(state: Order) -> dict[str, Any]:
    answer = interrupt(state["items"])
    return {"said": f"{answer}: {state['items']}"}


def ordering(**options: Any) -> Any:
    builder = StateGraph(Order).add_sequence([change, ask]).add_edge(START, "change")
    return builder.compile(**options)


NEW: Any = {"items": [], "notes": [], "seen": {}}
CHANGED = {"items": ["tea"], "notes": ["a note"], "seen": {"tea": 1}}


def test_what_was_asked_about_is_there_after_the_answer(run, saver, config, durability):
    graph = ordering(checkpointer=saver)
    asked = run.invoke(graph, {**NEW, "items": []}, config, durability=durability)
    assert asked["__interrupt__"][0].value == ["tea"]
    assert run.get_state(graph, config).values == {**CHANGED, "said": "planned"}
    # Another process reads what is stored.
    answered = run.invoke(ordering(checkpointer=saver), Command(resume="yes"), config)
    assert answered == {**CHANGED, "said": "yes: ['tea']"}


def test_each_checkpoint_has_the_state_of_its_own_step(run, saver, config):
    graph = ordering(checkpointer=saver)
    run.invoke(graph, {"items": ["cup"], "notes": [], "seen": {}}, config)
    found = [snapshot.values.get("items") for snapshot in run.history(graph, config)]
    assert found == [["cup", "tea"], ["cup"], None]


def test_the_node_that_it_is_of_is_named_once(config):
    graph = ordering(checkpointer=InMemorySaver())
    inputs = [{"items": [], "notes": ["x"], "seen": {"x": 1}} for _ in range(2)]
    with pytest.warns(MilepostWarning) as warned:
        graph.batch(inputs, config)
    texts = [str(one.message) for one in warned if "in place" in str(one.message)]
    assert len(texts) == 3
    assert all("in the step of 'change'" in text for text in texts)


def test_a_channel_that_starts_nodes_is_left_alone(saver, config):
    ran = []

    def node(value: list[int]) -> None:
        ran.append(list(value))
        value.append(len(value))

    graph = Pregel(
        nodes={"n": NodeBuilder().subscribe_only("values").do(node)},
        channels={"values": LastValue(list)},
        input_channels="values",
        output_channels="values",
        checkpointer=saver,
    )
    graph.invoke([0], config)
    assert ran == [[0]]
