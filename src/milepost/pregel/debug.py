"""What the `tasks`, `checkpoints` and `debug` streams carry, and how printed events look."""

from milepost._engine.streaming.printing import bold as get_bolded_text
from milepost._stream_parts import CheckpointPayload, TaskPayload, TaskResultPayload

__all__ = ["CheckpointPayload", "TaskPayload", "TaskResultPayload", "get_bolded_text"]
