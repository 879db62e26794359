"""What the `tasks`, `checkpoints` and `debug` streams carry, and how printed events look."""

from milepost._engine.streaming.printing import bold as get_bolded_text
from milepost._stream_parts import CheckpointPayload, TaskPayload, TaskResultPayload
from milepost.pregel._payloads import (
    is_multiple_channel_write,
    map_debug_checkpoint,
    map_debug_task_results,
    map_debug_tasks,
    map_task_result_writes,
    rm_pregel_keys,
    tasks_w_writes,
)

__all__ = [
    "CheckpointPayload",
    "TaskPayload",
    "TaskResultPayload",
    "get_bolded_text",
    "is_multiple_channel_write",
    "map_debug_checkpoint",
    "map_debug_task_results",
    "map_debug_tasks",
    "map_task_result_writes",
    "rm_pregel_keys",
    "tasks_w_writes",
]
