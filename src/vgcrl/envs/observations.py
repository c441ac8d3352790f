"""Observations of any space as vectors of numbers, and what is said of it.

Of a goal environment (a Dict of observation, achieved_goal and desired_goal) the vector is the observation and then the
achieved goal, which is what q sees. The desired goal is left out: the goal pursued is told beside the observation.
"""

import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

GOAL_KEYS = {"observation", "achieved_goal", "desired_goal"}


class Flat(NamedTuple):
    """How one observation becomes a vector."""

    low: np.ndarray
    high: np.ndarray
    flatten: Callable[[Any], np.ndarray]  # an observation -> (obs_dim,)
    goal: tuple[int, ...]  # where in it the achieved goal is, of a goal environment
    remark: str  # what a user should know of it


class NotNumbers(Exception):
    """Observations that cannot be a vector; the message says what they are and what is valid."""


def is_goal_space(space: Any) -> bool:
    from gymnasium.spaces import Dict

    return isinstance(space, Dict) and set(space) == GOAL_KEYS


def flat(space: Any) -> Flat:
    from gymnasium import spaces

    _check(space)
    if isinstance(space, spaces.Box):
        return Flat(space.low.ravel(), space.high.ravel(), np.ravel, (), "")
    if is_goal_space(space):
        return _goal(space)
    box: Any = spaces.flatten_space(space)
    said = f"observations {textwrap.shorten(str(space), 100)} are flattened to {box.shape[0]} numbers"
    return Flat(box.low, box.high, lambda obs: np.asarray(spaces.flatten(space, obs)), (), said)


def _goal(space: Any) -> Flat:
    from gymnasium import spaces

    parts = space["observation"], space["achieved_goal"]
    boxes: list[Any] = [spaces.flatten_space(part) for part in parts]
    width = boxes[0].shape[0]
    goal = tuple(range(width, width + boxes[1].shape[0]))
    said = f"a goal environment: q sees the achieved goal, dimensions {goal[0]} to {goal[-1]} of the observation"

    def flatten(obs: Any) -> np.ndarray:
        each = (obs["observation"], obs["achieved_goal"])
        return np.concatenate([np.asarray(spaces.flatten(part, x)) for part, x in zip(parts, each, strict=True)])

    return Flat(*(np.concatenate([getattr(box, end) for box in boxes]) for end in ("low", "high")), flatten, goal, said)


def _check(space: Any) -> None:
    from gymnasium import spaces

    for part in _parts(space):
        if isinstance(part, spaces.Box) and len(part.shape) == 3 and part.dtype == np.uint8:
            size = " × ".join(map(str, part.shape))
            raise NotNumbers(
                f"pictures ({size} bytes), which no network here takes; valid: numbers that tell the state"
            )
    if not space.is_np_flattenable:
        raise NotNumbers(f"{textwrap.shorten(str(space), 100)}; valid: spaces of numbers, and Dict and Tuple of them")


def _parts(space: Any) -> list[Any]:
    from gymnasium import spaces

    inner = space.spaces if isinstance(space, (spaces.Dict, spaces.Tuple)) else ()
    inner = inner.values() if isinstance(inner, dict) else inner
    return [space, *(part for each in inner for part in _parts(each))]
