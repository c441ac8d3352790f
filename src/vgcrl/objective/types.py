"""Records that several packages share.

Axis convention, stated once: functions below the training loop are written for one example or one run. The loop adds
the run axis (seed and knobs) with one `vmap`, so an array it holds is (run, env, ...); a batch drawn from replay is
(run, batch, ...).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int, Key, Shaped

PRNG = "threefry2x32"  # fixed, so that runs are reproducible and readable whatever JAX's default is


def key_of_seed(seed: Any) -> Key[Array, ""]:
    """Returns the random key that a seed starts from."""
    return jax.random.key(seed, impl=PRNG)


class Transition(NamedTuple):
    """One environment step under goal z. It has no reward, which is a function of q and not a column of data."""

    obs: Float[Array, "... obs"]
    action: Float[Array, "... action"]
    next_obs: Float[Array, "... obs"]  # the true successor, before any reset
    z: Shaped[Array, "..."]
    terminal: Bool[Array, "..."]  # no bootstrap past here; a time limit is not a termination


class Step(NamedTuple):
    """The result of one step of parallel environments: JAX arrays, or NumPy arrays on the host."""

    next_obs: Any  # true successor
    obs: Any  # observation to act on next: after a reset where the episode ended
    terminal: Any
    last: Any  # end of an episode, by termination or time limit: draw a new z


class EnvSpec(NamedTuple):
    """What an agent may know of an environment. Index tuples address observation dimensions."""

    obs_dim: int
    action_dim: int
    horizon: int  # time limit in steps
    seconds: float  # simulated seconds per step
    low: tuple[float, ...]  # range of each observation dimension, for goals that are states; infinite: unknown
    high: tuple[float, ...]
    action_low: tuple[float, ...]  # the actions that −1 and 1 stand for
    action_high: tuple[float, ...]
    position: tuple[int, ...]
    velocity: tuple[int, ...]
    features: tuple[int, ...]  # dimensions that q sees by default
    facts: dict[str, Any]  # reported with results, e.g. the projection W
    image: tuple[int, ...] = ()  # shape of the features if they are a picture
    obs_shape: tuple[int, ...] | None = None  # shapes of one observation and one action, if known
    action_shape: tuple[int, ...] | None = None
    action_dtype: str = "float32"
    height: tuple[float, float] = (-math.inf, math.inf)  # healthy range of the height, for bodies that can fall
    place: tuple[int, ...] = ()  # position on the ground, in m
    goal: tuple[int, ...] = ()  # the achieved goal, in goal environments
    first_action: int | None = None  # number of the first of `action_dim` discrete actions; else None
    pixels: bool = False  # observations are bytes: seen as numbers from 0 to 1, stored as bytes
    remark: str = ""  # a note to users on how the environment is observed, and on its actions
    flatten: Callable[[Any], np.ndarray | None] | None = None  # of pictures, and of what is no array, see `rows`

    def rows(self, obs: Any) -> Any:
        """Returns observations that are pictures or no arrays, one or several, as numbers (obs,) or (batch, obs), and
        others as they are."""
        found = self.flatten(obs) if self.flatten else None
        return obs if found is None else found

    def scale(self, action: Any) -> Any:
        """Returns an action in the environment's own units, from one in [−1, 1], in any array namespace."""
        xp = action.__array_namespace__()
        low, high = (xp.asarray(x, dtype=action.dtype) for x in (self.action_low, self.action_high))
        middle, half = (xp.broadcast_to(x, action.shape) for x in ((low + high) / 2, (high - low) / 2))
        return middle + half * action

    def native(self, action: np.ndarray) -> Any:
        """Returns an action, given in [−1, 1], as the environment takes it: clipped to its bounds, and rounded where it
        takes integers. If actions are discrete it is the number of the largest value, for a single action a scalar."""
        if self.first_action is not None:
            return (np.argmax(action, axis=-1) + self.first_action).astype(self.action_dtype)
        inside = np.clip(self.scale(action.astype(np.float64)), self.action_low, self.action_high)
        whole = np.rint(inside) if np.dtype(self.action_dtype).kind in "iub" else inside
        shape = self.action_shape if self.action_shape is not None else (self.action_dim,)
        return whole.reshape((*action.shape[:-1], *shape)).astype(self.action_dtype)

    def unscale(self, action: Any) -> Any:
        """Returns an action in [−1, 1], from one in the environment's own units."""
        xp = action.__array_namespace__()
        low, high = (xp.asarray(x, dtype=action.dtype) for x in (self.action_low, self.action_high))
        return (2 * action - low - high) / (high - low)


class Knobs(NamedTuple):
    """Hyper-parameters that may differ between the runs of one program."""

    learning_rate: Float[Array, ""]  # policy, critics and temperature
    posterior_learning_rate: Float[Array, ""]
    relabel_fraction: Float[Array, ""]
    spectral_norm: Float[Array, ""]  # bound on every layer of q; infinity: no bound
    projection_seed: Int[Array, ""]  # of the projection W, in environments that have one
