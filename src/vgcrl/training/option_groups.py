"""Options of a run in the groups that `vgcrl train --help` shows, and the values that it would use."""

import dataclasses
from typing import Any

from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve

GROUPS = {
    "environment": (
        *("env", "env_arg", "engine", "envs", "horizon", "positions", "terminate", "alive_bonus", "physics", "workers"),
        *("dims", "wind", "projection_dim", "projection_seed"),
    ),
    "method": (
        *("method", "goal_dim", "features", "posterior", "posterior_features", "sigma", "components", "spectral_norm"),
        *("relabel", "relabel_fraction", "relabel_state", "relative_goals", "goal_range", "reward", "critic", "gpi"),
    ),
    "learning": (
        *("steps", "seeds", "seed", "hidden", "inputs", "batch", "learning_rate", "posterior_learning_rate"),
        *("discount", "target_rate", "initial_alpha", "target_entropy", "updates_per_step", "random_steps", "replay"),
    ),
    "evaluation": ("evaluate_every", "evaluate_episodes", "checkpoint_every", "log_every"),
}


def values_for(given: Options) -> dict[str, Any]:
    """Every option as a run with those given would have it."""
    return dataclasses.asdict(resolve(given))
