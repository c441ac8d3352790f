"""The few records that cross layers.

Axis convention, stated once: functions below the training loop are written for one example or one
run. The loop adds the run axis (seed and knobs) with one `vmap`, so an array it holds is
(run, env, ...); a batch drawn from replay is (run, batch, ...).
"""

import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int, Key, Shaped

PRNG = "threefry2x32"  # so that a run is the same, and can be read back, whatever JAX's default is


def key_of_seed(seed: Any) -> Key[Array, ""]:
    """A key."""
    return jax.random.key(seed, impl=PRNG)


class Transition(NamedTuple):
    """One environment step under goal z. There is no reward: it is a function of q, not a column."""

    obs: Float[Array, "... obs"]
    action: Float[Array, "... action"]
    next_obs: Float[Array, "... obs"]  # the true successor, before any reset
    z: Shaped[Array, "..."]
    terminal: Bool[Array, "..."]  # no bootstrap past here; a time limit is not a termination


class Step(NamedTuple):
    """What environments side by side answer: JAX arrays, or numpy's on the host."""

    next_obs: Any  # true successor
    obs: Any  # what to act on next: after a reset where the episode ended
    terminal: Any
    last: Any  # episode boundary, by termination or time limit: draw a new z


class EnvSpec(NamedTuple):
    """What an agent may know of an environment. Index tuples address observation dimensions."""

    obs_dim: int
    action_dim: int
    horizon: int  # time limit in steps
    seconds: float  # of simulated time per step
    low: tuple[float, ...]  # range of each observation dimension, the prior of goals that are states; infinite: unknown
    high: tuple[float, ...]
    action_low: tuple[float, ...]  # what −1 and 1 stand for
    action_high: tuple[float, ...]
    position: tuple[int, ...]
    velocity: tuple[int, ...]
    features: tuple[int, ...]  # what q sees unless told otherwise
    facts: dict[str, Any]  # what a reader of results wants to know, e.g. the projection W
    image: tuple[int, ...] = ()  # shape of the features where they are a picture
    obs_shape: tuple[int, ...] | None = None  # of one observation and one action, where the environment says
    action_shape: tuple[int, ...] | None = None
    action_dtype: str = "float32"
    height: tuple[float, float] = (-math.inf, math.inf)  # healthy range of the height, of bodies that can fall
    place: tuple[int, ...] = ()  # where on the ground it is, in metres
    goal: tuple[int, ...] = ()  # of a goal environment, the achieved goal
    first_action: int | None = None  # the number of the first action, where one of `action_dim` is chosen
    pixels: bool = False  # observations are bytes, seen as numbers from 0 to 1, and kept as bytes
    remark: str = ""  # what a user should know of how it is seen

    def scale(self, action: Any) -> Any:
        """From [−1, 1] to the environment's own units, in any array namespace."""
        xp = action.__array_namespace__()
        low, high = (xp.asarray(x, dtype=action.dtype) for x in (self.action_low, self.action_high))
        middle, half = (xp.broadcast_to(x, action.shape) for x in ((low + high) / 2, (high - low) / 2))
        return middle + half * action

    def native(self, action: np.ndarray) -> Any:
        """From [−1, 1] as the environment takes it: not past a bound by rounding, the nearest where it has integers. Of
        actions to choose from, the number of the one with the largest value; for a single one no array."""
        if self.first_action is not None:
            return (np.argmax(action, axis=-1) + self.first_action).astype(self.action_dtype)
        inside = np.clip(self.scale(action.astype(np.float64)), self.action_low, self.action_high)
        whole = np.rint(inside) if np.dtype(self.action_dtype).kind in "iub" else inside
        shape = self.action_shape if self.action_shape is not None else (self.action_dim,)
        return whole.reshape((*action.shape[:-1], *shape)).astype(self.action_dtype)

    def unscale(self, action: Any) -> Any:
        """Back to [−1, 1]."""
        xp = action.__array_namespace__()
        low, high = (xp.asarray(x, dtype=action.dtype) for x in (self.action_low, self.action_high))
        return (2 * action - low - high) / (high - low)


class Knobs(NamedTuple):
    """Numbers that may differ from run to run inside one program."""

    learning_rate: Float[Array, ""]  # policy, critics and temperature
    posterior_learning_rate: Float[Array, ""]
    relabel_fraction: Float[Array, ""]
    spectral_norm: Float[Array, ""]  # bound on every layer of q; infinity is off
    projection_seed: Int[Array, ""]  # of the matrix an environment is seen through, where it is
