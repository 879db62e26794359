"""Each row of docs/differences.md has a program that runs on both libraries, or a test elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import test_agents_and_tools
import test_interrupts_and_updates
import test_refusals
import test_rows_of_steps
import test_threads_and_subgraphs

ROOT = Path(__file__).parents[2]
PROGRAMS = [
    row.where
    for module in (
        test_refusals, test_threads_and_subgraphs, test_rows_of_steps, test_interrupts_and_updates,
        test_agents_and_tools,
    )
    for row in module.ROWS
]  # fmt: skip
ELSEWHERE = {
    "a stored data type that is neither": "checkpoint/serde/test_serde_unregistered.py "
    "test_stored_bytes_do_not_make_a_type_known",
    "the SQLite file is removed": "checkpoint/sqlite/test_sqlite_files.py "
    "test_nothing_is_stored_in_a_file_that_was_removed_or_replaced",
    "values in `InMemorySaver.storage`": "checkpoint/memory/test_memory_saver.py "
    "test_iterating_the_storage_gives_the_thread_ids",
    "a subclass of a saver overrides": "checkpoint/contract/test_overridden_savers.py "
    "test_overriding_is_told_once_since_it_costs_the_fence",
    "`next` and `tasks` while": "model/on_purpose.py a_join_waits_for_the_end_of_the_step",
    "a coroutine that a transformer": "stream/test_transformers.py "
    "test_a_failure_of_what_was_scheduled_fails_the_end_if_asked_to",
    '`config["callbacks"]` in a node': "integrations/test_callbacks.py "
    "test_a_node_may_dispatch_events_and_pass_callbacks_on_though_nobody_listens",
    "`get_state().tasks` after a run was cancelled": "engine/drivers/test_stopping.py "
    "test_ainvoke_leaves_a_thread_that_resumes",
    "Ctrl-C while a node runs": "engine/drivers/test_stopping.py "
    "test_sigint_during_invoke_leaves_a_thread_that_resumes",
    "a step stops in the middle": "model/strategies.py _without_joins",
    "`max_concurrency` and the calls of a `ToolNode`": "prebuilt/test_durable_tools.py "
    "test_no_more_calls_run_at_once_outside_a_graph_than_the_config_allows",
    "a `Send` of `create_react_agent`": "prebuilt/test_durable_tools.py "
    "test_the_state_is_not_stored_again_with_each_call",
    "`get_state`, `get_state_history` and `update_state` at": "graph/test_graphs_in_tools.py "
    "test_what_a_graph_in_a_tool_did_is_read_through_the_graph_around_it",
    "replay of the head": "engine/test_replay.py test_a_replay_can_itself_be_replayed",
    "`checkpointer=True`, first call": "model/on_purpose.py the first call",
    "`checkpointer=True`, several calls": "engine/test_inner_calls.py "
    "test_tasks_of_a_step_that_follow_one_another_share_it",
}
"""How the other rows begin, and where to look: a file, and text that is in it."""


def rows() -> list[str]:
    """The first cells of the tables from the refusals on; `test_rule` is about those before."""
    text = (ROOT / "docs" / "differences.md").read_text().split("\n## Refusals")[1]
    cells = re.findall(r"^\| (.*?) \|", text, re.MULTILINE)
    return [cell for cell in cells if cell not in ("where", "---")]


def test_each_row_has_a_program_or_is_proved_elsewhere() -> None:
    known = [*PROGRAMS, *ELSEWHERE]
    assert [row for row in rows() if not any(row.startswith(begin) for begin in known)] == []


def test_each_program_is_of_a_row() -> None:
    known = [*PROGRAMS, *ELSEWHERE]
    assert [begin for begin in known if not any(row.startswith(begin) for row in rows())] == []


def test_what_is_elsewhere_is_there() -> None:
    for place in ELSEWHERE.values():
        file, _, name = place.partition(" ")
        assert name in (ROOT / "tests" / file).read_text(), place
