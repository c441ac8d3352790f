"""Measure a saved run again: in more episodes, or on a user's own target states."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from vgcrl.errors import UsageError
from vgcrl.measure import target_states
from vgcrl.training.fields import EPISODES, is_whole
from vgcrl.training.summary import summarise
from vgcrl.training.trainer import restore


def check_episodes(episodes: int | None) -> None:
    """Raise UsageError unless the number of episodes is valid."""
    if episodes is not None and not (is_whole(episodes) and 1 <= episodes <= EPISODES):
        raise UsageError(f"--episodes {episodes!r} is not valid; valid: a whole number from 1 to {EPISODES}")


def evaluate_run(
    folder: Path,
    episodes: int | None,
    targets: Any,
    warn: Callable[[str], None],
    noise: bool = False,
) -> dict[str, Any]:
    """Returns the metrics of a saved run. Target states are the given rows of observations or a file of them, else
    those that ship for the environment, else its own; with `noise` actions are samples of the policy."""
    check_episodes(episodes)
    if not isinstance(noise, (bool, np.bool_)):
        raise UsageError(f"--noise {noise!r} is not valid; valid: True or False")
    program, runs, counters = restore(folder, warn)
    config, spec = program.config, program.spec
    if isinstance(targets, Path):
        wanted = target_states.from_file(targets, spec.obs_dim, spec.obs_shape, spec.rows)
    elif targets is not None:
        wanted = target_states.from_rows("targets", spec.rows(targets), spec.obs_dim, spec.obs_shape)
    else:
        wanted = target_states.for_spec(config.env, spec)
    missed, count = target_states.quality(config.env)
    if targets is None and 2 * missed > count:
        warn(f"{config.env}: of the {count} experts behind the target states, {missed} missed the velocity asked for")
    out = jax.device_get(program.evaluate(runs, wanted, episodes or config.evaluate_episodes, noise))
    del out["train"]
    if isinstance(targets, Path):
        source = str(targets)
    elif wanted is None:
        source = "the environment's own starts"
    else:
        source = f"{len(wanted)} {'expert states' if targets is None else 'states given'}"
    head = {"method": config.method, "env": config.env, "steps": counters["step"], "targets": source, "noise": noise}
    return {**head, **summarise(program, out)}
