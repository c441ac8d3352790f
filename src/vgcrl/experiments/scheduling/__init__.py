"""Where the programs of an experiment run: here one after the other, or side by side on the nodes of a Ray cluster."""

from vgcrl.experiments.scheduling.tasks import Executor, Say, Task, carried_out, check_failed, here

__all__ = ["Executor", "Say", "Task", "carried_out", "check_failed", "here"]
