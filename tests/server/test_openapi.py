"""The OpenAPI document, and what the server does with whatever it allows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from serving import TOKEN, Running, asking_graph, on, serving

from milepost.inspect import attached, open_database
from milepost.server import Limits
from milepost.server._routes import ALL
from milepost.server._routes.system import document

LONG = bool(os.environ.get("MILEPOST_LONG"))
OPERATIONS = [one for routes in ALL for one in routes.operations]


def test_every_route_is_in_the_document_with_what_it_takes_and_answers() -> None:
    made = document(OPERATIONS)
    listed = {(path, method) for path, item in made["paths"].items() for method in item}
    assert listed == {(one.path, one.method.lower()) for one in OPERATIONS}
    ids = [item["operationId"] for path in made["paths"].values() for item in path.values()]
    assert len(ids) == len(set(ids))
    for path in made["paths"].values():
        for item in path.values():
            assert item["summary"].endswith((".", "`"))
            assert {"401", "403", "422"} <= item["responses"].keys()
    search = made["paths"]["/threads/search"]["post"]
    name = search["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    limit = made["components"]["schemas"][name.rpartition("/")[2]]["properties"]["limit"]
    assert (limit["minimum"], limit["maximum"]) == (1, 1000)


@pytest.fixture(scope="module")
def fuzzed(address: str) -> Iterator[Running]:
    """A server that may write, with a thread named `t`."""
    if not (LONG or address.endswith(".db")):
        pytest.skip("MILEPOST_LONG=1 tries it on PostgreSQL too")
    with open_database(address, write=True) as database:
        attached(asking_graph(), database).invoke({"log": ["in"]}, on("t"))
    graphs = {"asking": asking_graph()}
    with serving(address, graphs=graphs, write=True, limits=Limits(poll=0.01)) as running:
        yield running


@pytest.fixture(scope="module")
def schema() -> Any:
    return schemathesis.openapi.from_dict(document(OPERATIONS))


NAMES = {"thread_id": "t", "graph_id": "asking", "assistant_id": "asking"}
CHECKS = (
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.response_schema_conformance,
    schemathesis.checks.content_type_conformance,
)


@pytest.mark.parametrize(
    "operation",
    [one for one in OPERATIONS if not one.streams],
    ids=lambda one: f"{one.method} {one.path}",
)
def test_nothing_that_is_sent_makes_the_server_fail(
    fuzzed: Running, schema: Any, operation: Any
) -> None:
    described = schema[operation.path][operation.method]
    if not (list(described.iter_parameters()) or described.body):
        pytest.skip("it takes nothing")
    # What is there is asked for as often as what is not; the next ones need it.
    there = {} if operation.method == "DELETE" else NAMES

    right, wrong = (described.as_strategy(generation_mode=mode) for mode in GenerationMode)

    @given(case=st.one_of(right, wrong), known=st.booleans())
    @settings(
        max_examples=500 if LONG else 4,
        deadline=None,
        database=None,
        derandomize=not LONG,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    def holds(case: Any, known: bool) -> None:
        if known:
            for name in case.path_parameters.keys() & there.keys():
                case.path_parameters[name] = there[name]
        answer = case.call(base_url=fuzzed.url, session=session, headers={"x-api-key": TOKEN})
        case.validate_response(answer, checks=CHECKS)

    with requests.Session() as session:
        holds()
