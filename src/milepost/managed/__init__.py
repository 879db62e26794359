"""Values that nodes can read from the state and that the runtime computes."""

from milepost.managed.is_last_step import IsLastStep, RemainingSteps

__all__ = ["IsLastStep", "RemainingSteps"]
