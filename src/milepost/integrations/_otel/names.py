"""The names of spans, attributes and instruments: after the GenAI conventions where they have one.

The conventions: https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

from __future__ import annotations

from typing import Final

SCOPE: Final = "milepost"
"""The instrumentation scope."""

# -- of the conventions

OPERATION: Final = "gen_ai.operation.name"
INVOKE_WORKFLOW: Final = "invoke_workflow"
EXECUTE_TOOL: Final = "execute_tool"
WORKFLOW: Final = "gen_ai.workflow.name"
CONVERSATION: Final = "gen_ai.conversation.id"
TOOL: Final = "gen_ai.tool.name"
TOOL_CALL: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
ERROR_TYPE: Final = "error.type"
DB_SYSTEM: Final = "db.system.name"
CONNECTION_STATE: Final = "db.client.connection.state"
"""`used` or `idle`."""

# -- attributes of our own

RUN_ID: Final = "milepost.run_id"
NAMESPACE: Final = "milepost.checkpoint_ns"
CHECKPOINT: Final = "milepost.checkpoint_id"
"""On a run or step: the checkpoint that it starts from. On a commit: the last one stored."""
STORED: Final = "milepost.checkpoint_id.stored"
"""On a run: the last checkpoint that the run has stored."""
STEP: Final = "milepost.step"
STEPS: Final = "milepost.steps"
"""How many super-steps a run has taken, or how many a commit has stored."""
TASKS: Final = "milepost.tasks"
DURABILITY: Final = "milepost.durability"
NODE: Final = "milepost.node"
TASK: Final = "milepost.task_id"
ATTEMPT: Final = "milepost.attempt"
HANDLER: Final = "milepost.error_handler"
RESUMED: Final = "milepost.resumed"
CACHED: Final = "milepost.cached"
"""The result came from the node cache."""
RECALLED: Final = "milepost.recalled"
"""The result was stored with the checkpoint, by an earlier run of the step."""
OUTCOME: Final = "milepost.outcome"
INTERRUPTS: Final = "milepost.interrupts"
INTERRUPT_ID: Final = "milepost.interrupt.id"
WRITES: Final = "milepost.writes"
BYTES: Final = "milepost.bytes"
FOUND: Final = "milepost.found"
LINK: Final = "milepost.link"
"""On a link: why a run is connected with an earlier one (resume, fork or continue)."""
SAVER: Final = "milepost.saver"
REMOVED_THREADS: Final = "milepost.removed.threads"
REMOVED_CHECKPOINTS: Final = "milepost.removed.checkpoints"
REMOVED_WRITES: Final = "milepost.removed.writes"
REMOVED_VALUES: Final = "milepost.removed.values"

# -- only if values are recorded

INPUT: Final = "milepost.input"
OUTPUT: Final = "milepost.output"
INTERRUPT_VALUE: Final = "milepost.interrupt.value"

# -- instruments

STEP_DURATION: Final = "milepost.step.duration"
COMMIT_DURATION: Final = "milepost.commit.duration"
LOAD_DURATION: Final = "milepost.load.duration"
RUNS: Final = "milepost.runs"
CONFLICTS: Final = "milepost.conflicts"
RETRIES: Final = "milepost.retries"
COMMIT_BYTES: Final = "milepost.commit.bytes"
BACKLOG: Final = "milepost.backlog"
CONNECTIONS: Final = "milepost.connections"
