"""What a goal environment says of its own goals: which goals it asks for, and whether they are reached."""

from collections.abc import Callable
from typing import Any

import numpy as np

RESETS = 100  # number of starts from which the range of desired goals is taken


def desired_range(env: Any, desired: Callable[[Any], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the least and the largest desired goal over many starts; `desired` takes it from an observation."""
    goals = [desired(env.reset(seed=seed)[0]) for seed in range(RESETS)]
    return np.min(goals, axis=0), np.max(goals, axis=0)


def success(env: Any, obs: dict[str, Any], info: dict[str, Any]) -> float:
    """Returns 1 where the desired goal is reached, 0 where it is not, and NaN where the environment does not say.

    Without a flag in `info`, it is reached where the reward is at least that of being exactly there.
    """
    for name in ("is_success", "success"):
        if name in info:
            return float(bool(np.all(info[name])))
    compute_reward = getattr(env.unwrapped, "compute_reward", None)
    if compute_reward is None:
        return np.nan
    desired = obs["desired_goal"]
    here, there = (float(compute_reward(goal, desired, info)) for goal in (obs["achieved_goal"], desired))
    return float(here >= there)


class OwnSuccess:
    """Counts the episodes of an evaluation, (run, episode), in which the environment's own goal was reached."""

    def __init__(self, shape: tuple[int, ...]):
        self.running = np.ones(shape, bool)
        self.ever, self.end = np.full(shape, np.nan), np.full(shape, np.nan)

    def follow(self, succeeded: np.ndarray, last: np.ndarray) -> None:
        """Adds one step of all episodes; an episode that has ended is no longer counted."""
        self.ever = np.where(self.running, np.fmax(self.ever, succeeded), self.ever)
        self.end = np.where(self.running, succeeded, self.end)
        self.running &= ~last

    def rates(self) -> dict[str, np.ndarray]:
        """Returns the share of episodes of each run that reached it at any step, and at the end.

        A share is left out if the environment says of one of the episodes at no step, or not at the end, whether its
        goal is reached.
        """
        found = dict(zip(OWN_SUCCESS, (self.ever, self.end), strict=True))
        return {name: each.mean(axis=1) for name, each in found.items() if not np.isnan(each).any()}


OWN_SUCCESS = ("env_success", "env_success_end")
