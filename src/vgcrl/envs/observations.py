"""Observations of any space as vectors of numbers, and what a user should know of that.

For a goal environment (a Dict of observation, achieved_goal and desired_goal) the vector is the observation and then
the achieved goal, which is what q sees. The desired goal is left out: the policy gets the goal it pursues beside the
observation. Pictures, bytes of three dimensions, become numbers from 0 to 1, row by row, with the channels last.
"""

import contextlib
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from vgcrl.errors import UsageError

GOAL_KEYS = {"observation", "achieved_goal", "desired_goal"}


class Flat(NamedTuple):
    """How one observation becomes a vector."""

    low: np.ndarray
    high: np.ndarray
    flatten: Callable[[Any], np.ndarray]  # an observation -> (obs_dim,)
    goal: tuple[int, ...]  # dimensions of the achieved goal, in a goal environment
    remark: str  # what a user should know of it
    image: tuple[int, ...] = ()  # height, width and channels, if it is a picture
    desired: Callable[[Any], np.ndarray] | None = None  # an observation -> the desired goal, in a goal environment


def in_rows(space: Any, size: int) -> Callable[[Any], np.ndarray | None]:
    """Returns a function that turns observations of a space that is no array, one or several, into numbers (size,) or
    (batch, size), and returns None for anything else. A row of choices is several observations, not a flat one."""
    from gymnasium.spaces import flatten

    def one(obs: Any) -> np.ndarray | None:
        with contextlib.suppress(Exception):  # a wrong observation makes its space raise anything
            if isinstance(obs, (dict, tuple)) or space.contains(obs):
                found = np.asarray(flatten(space, obs), np.float32)
                return found if found.shape == (size,) else None
        return None

    def read(obs: Any) -> np.ndarray | None:
        found = one(obs)
        if found is not None or not isinstance(obs, (list, tuple, np.ndarray)) or not getattr(obs, "ndim", 1):
            return found
        each = [row for row in map(one, obs) if row is not None]
        return np.stack(each) if each and len(each) == len(obs) else None

    return read


def pictures_in_rows(shape: tuple[int, ...]) -> Callable[[Any], np.ndarray | None]:
    """Returns a function that turns pictures as an environment gives them, one or several, into numbers (size,) or
    (batch, size), and returns None for anything else."""

    def read(obs: Any) -> np.ndarray | None:
        with contextlib.suppress(TypeError, ValueError), np.errstate(over="ignore"):
            found = np.asarray(obs)
            if shape in (found.shape, found.shape[1:]) and found.dtype.kind not in "cmMOSU":
                return to_numbers(found, shape)
        return None

    return read


def check_unmasked(what: str, given: Any) -> None:
    """Raises UsageError if an entry of what a user gave, at any depth, is masked: NumPy would drop the mask."""
    if np.ma.is_masked(given):
        raise UsageError(f"{what}: masked entries are no numbers; valid: numbers without a mask")
    parts = given.values() if isinstance(given, dict) else given if isinstance(given, (list, tuple)) else ()
    for part in () if {*map(type, parts)} <= {bool, int, float} else parts:  # which are many, and have no mask
        check_unmasked(what, part)


def as_numbers(what: str, given: Any) -> np.ndarray:
    """Returns an array of what a user gave, or raises UsageError where it holds anything but numbers."""
    check_unmasked(what, given)
    try:
        found = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what} is no array: {error}; valid: numbers") from None
    if found.dtype.kind not in "biuf" and not jax.dtypes.issubdtype(found.dtype, np.floating):  # such as bfloat16
        raise UsageError(f"{what} has dtype {found.dtype}; valid: numbers")
    return found


class NotNumbers(Exception):
    """Observations that cannot be a vector; the message says what they are and what is valid."""


def is_goal_space(space: Any) -> bool:
    from gymnasium.spaces import Dict

    return isinstance(space, Dict) and set(space) == GOAL_KEYS


def is_picture(space: Any) -> bool:
    from gymnasium.spaces import Box

    return isinstance(space, Box) and len(space.shape) == 3 and space.dtype == np.uint8


def to_numbers(pictures: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Returns pictures (…, *shape), as an environment gives them, as numbers (…, height · width · channels)."""
    last = np.moveaxis(pictures, -3, -1) if channels_first(shape) else pictures
    return last.reshape(*pictures.shape[:-3], -1).astype(np.float32) / np.float32(255)


def channels_first(shape: tuple[int, ...]) -> bool:
    """Returns whether the first axis of a picture has its channels, of which there are fewer than columns."""
    return shape[0] < shape[2]


def _picture(space: Any) -> Flat:
    shape = space.shape
    image = (*shape[1:], shape[0]) if channels_first(shape) else shape
    size = int(np.prod(shape))
    said = f"pictures of {' × '.join(map(str, image))} bytes, seen as numbers from 0 to 1"

    def flatten(obs: Any) -> np.ndarray:
        return to_numbers(np.asarray(obs).reshape(shape), shape)

    return Flat(np.zeros(size), np.ones(size), flatten, (), said, image)


def flat(space: Any) -> Flat:
    from gymnasium import spaces

    if is_picture(space):
        return _picture(space)
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

    low, high = (np.concatenate([getattr(box, end) for box in boxes]) for end in ("low", "high"))
    asked = space["desired_goal"]
    desired = lambda obs: np.asarray(spaces.flatten(asked, obs["desired_goal"]))  # noqa: E731
    return Flat(low, high, flatten, goal, said, desired=desired)


def _check(space: Any) -> None:
    from gymnasium import Space, spaces

    if not isinstance(space, Space):
        raise NotNumbers(f"{space!r:.60}, which is no space; valid: a space of gymnasium's, such as Box")
    for part in _parts(space):
        if isinstance(part, (spaces.Dict, spaces.Tuple)) and not part.spaces:
            raise NotNumbers(f"{textwrap.shorten(str(space), 100)}, of which a part is empty; valid: numbers in each")
        if is_picture(part):
            size = " × ".join(map(str, part.shape))
            raise NotNumbers(f"pictures ({size} bytes) beside others; valid: a picture alone, or numbers alone")
    if not space.is_np_flattenable:
        raise NotNumbers(f"{textwrap.shorten(str(space), 100)}; valid: spaces of numbers, and Dict and Tuple of them")


def _parts(space: Any) -> list[Any]:
    from gymnasium import spaces

    inner = space.spaces if isinstance(space, (spaces.Dict, spaces.Tuple)) else ()
    inner = inner.values() if isinstance(inner, dict) else inner
    return [space, *(part for each in inner for part in _parts(each))]
