"""The policy of one trained run: it acts for a goal z, or to reach a state."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vgcrl.envs.observations import as_numbers, check_unmasked
from vgcrl.measure.metrics import aim
from vgcrl.objective.goals import Discrete
from vgcrl.objective.methods import METHODS
from vgcrl.training.program import Program, RunState, check_sound, one_run, without


def _is_flat(x: Any, size: int) -> bool:
    try:
        return np.shape(x)[-1:] == (size,)
    except ValueError:  # a list of lists that differ in length
        return False


class Policy:
    """The policy of one trained run, as `vgcrl.load` returns it.

    `act` takes one observation or a batch, and one goal for all or one for each. `embed` returns the goal that stands
    for a state. `predict` takes observations of goal environments, as stable-baselines3 does. `config` and `spec`
    describe the run and its environment. `noise` tells whether the policy is meant to act with noise, as some that
    come with the package are; by default they too act without it.

    Examples:
        >>> policy = vgcrl.load("runs/gcrl-pointmass")
        >>> policy.act(obs, goal_state=target)                          # (action,)
        >>> policy.act(batch_of_obs, z=[0.5, -0.5])                     # (batch, action)
        >>> policy.act(obs, goal_state=target, deterministic=False)     # with the noise that it was trained with
    """

    def __init__(self, program: Program, runs: RunState, index: int, noise: bool = False):
        run = one_run(without(runs, "replay", "scene"), index)
        self.config, self.spec, self.goals = program.config, program.spec, program.goals
        self.seed, self.noise = program.config.seed + index % program.config.seeds, noise
        self._rng = np.random.default_rng(self.seed)
        self._act = jax.jit(partial(program.act, run))
        self._embed = jax.jit(lambda s: self.goals.point(run.learner.q(s)))
        self._aim = jax.jit(lambda obs, target: aim(self.goals, run.learner.q, obs, target))
        self._act_for_each = jax.jit(jax.vmap(partial(program.act, run)))
        self._aim_of_each = jax.jit(jax.vmap(lambda obs, target: aim(self.goals, run.learner.q, obs, target)))

    def __repr__(self) -> str:
        return f"Policy({self.config.method} on {self.config.env}, seed {self.seed})"

    @property
    def _shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of one observation: flat, and as the environment has it."""
        flat = (self.spec.obs_dim,)
        return flat, flat if self.spec.obs_shape is None else self.spec.obs_shape

    def _states(self, name: str, x: Any) -> np.ndarray:
        """Returns one flat state, (obs,), or a batch, (batch, obs); in goal environments `x` may be a dict."""
        check_unmasked(name, x)
        flat, shape = self._shapes
        given = self.spec.rows(x)
        if self.spec.flatten and self.spec.obs_shape is None and given is x and not _is_flat(x, self.spec.obs_dim):
            what = f"{name} is no observation of {self.config.env}"
            raise ValueError(f"{what}; valid: as it gives them, or as gymnasium.spaces.flatten makes them of these")
        with np.errstate(over="ignore"):  # what is too large for float32 is not finite, see below
            value = as_numbers(name, self._joined(given) if isinstance(given, dict) else given).astype(np.float32)
        if not np.all(np.isfinite(value)):
            raise ValueError(f"{name} has a number that is not finite")
        if value.shape in (flat, shape):
            return value.reshape(flat)
        if value.ndim and value.shape[1:] in (flat, shape) and len(value):
            return value.reshape(-1, *flat)
        raise ValueError(f"{name} has shape {value.shape}, the environment's observations have {shape}")

    def _joined(self, obs: dict[str, Any], goal: str = "achieved_goal") -> np.ndarray:
        """Returns the observation of a goal environment, joined with one of its goals as the policy sees it."""
        if not self.spec.goal:
            what = "this is no goal environment: an observation is an array, and a goal is named"
            raise ValueError(f"{what}; valid: act(obs, z=...) or act(obs, goal_state=...)")
        if not isinstance(obs, dict) or not {"observation", goal} <= obs.keys():
            what = f"a dict with {', '.join(map(str, obs))}" if isinstance(obs, dict) else f"a {type(obs).__name__}"
            raise ValueError(f"the observation is {what}; valid: a dict with observation and {goal}")
        return np.concatenate([np.atleast_1d(obs["observation"]), np.atleast_1d(obs[goal])], axis=-1)

    def embed(self, state: Any) -> np.ndarray:
        """Returns the goal that stands for a state, or those of a batch: z = E[q(·|s)], for categories the mode.

        It raises ValueError if q sees transitions, as in `metra`: then the goal that leads to a state depends on the
        current state.
        """
        if METHODS[self.config.method].posterior_input == "transition":
            what = f"q of {self.config.method} sees transitions, so no one goal stands for a state"
            raise ValueError(f"{what}; valid: act(obs, goal_state=...), which finds the goal at every step")
        states = self._states("state", state)
        if states.ndim == 1:
            return np.array(self.goals.show(self._embed(jnp.asarray(states))))
        return np.stack([np.asarray(self.goals.show(self._embed(jnp.asarray(each)))) for each in states])

    def _goals(self, z: Any, count: int) -> jax.Array:
        """Returns `count` goals, from one or from as many."""
        if np.ndim(z) == (0 if isinstance(self.goals, Discrete) else 1):
            one = self.goals.read(z)
            return jnp.broadcast_to(one, (count, *one.shape))
        if np.ndim(z) == 0:
            raise ValueError(f"z is {z!r}; valid: a goal of {self.goals.dim} numbers, or one for each observation")
        if len(z) != count:
            raise ValueError(f"{len(z)} goals for {count} observations; valid: one, or one for each")
        return jnp.asarray(np.stack([self.goals.read(each) for each in z]))  # jnp.stack compiles for each count

    def _targets(self, goal_state: Any, count: int) -> jax.Array:
        targets = self._states("goal_state", goal_state)
        if targets.ndim == 2 and len(targets) != count:
            raise ValueError(f"{len(targets)} goal states for {count} observations; valid: one, or one for each")
        return jnp.asarray(np.broadcast_to(targets, (count, self.spec.obs_dim)))

    def _draw(self, deterministic: bool, rng: np.random.Generator | None, batch: tuple[int, ...]) -> jax.Array | None:
        """Returns standard normal noise for an action or for each of a batch; None for an action without noise."""
        if not isinstance(deterministic, (bool, np.bool_)):
            raise ValueError(f"deterministic {deterministic!r} is not valid; valid: True or False")
        if rng is not None and (deterministic or not isinstance(rng, np.random.Generator)):
            raise ValueError("rng goes with deterministic=False, and is a numpy.random.Generator")
        if deterministic:
            return None
        rng = self._rng if rng is None else rng
        return jnp.asarray(rng.standard_normal((*batch, self.spec.action_dim), np.float32))

    def act(
        self,
        obs: Any,
        *,
        goal_state: Any = None,
        z: Any = None,
        deterministic: bool = True,
        rng: np.random.Generator | None = None,
    ) -> np.ndarray | np.integer:
        """Returns the action for a goal z, or to reach `goal_state`, in the environment's units.

        Args:
            obs: an observation, or a batch.
            goal_state: the state to reach, a whole observation; only the dimensions that q sees matter.
            z: the goal: a number of a skill, or a vector.
            deterministic: act by the mode of the policy; if False by a sample, as in training.
            rng: the source of samples; by default a generator of the policy, seeded with its seed.
        """
        if (goal_state is None) == (z is None):
            raise ValueError("name one goal: either goal_state=... or z=...")
        check_unmasked("z", z)
        states = self._states("obs", obs)
        here, noise = jnp.asarray(states), self._draw(deterministic, rng, states.shape[:-1])
        if states.ndim == 2:
            count = len(states)
            goals = (
                self._goals(z, count) if z is not None else self._aim_of_each(here, self._targets(goal_state, count))
            )
            return self.spec.native(np.asarray(self._act_for_each(here, goals, noise)))
        if z is not None:
            return self.spec.native(np.asarray(self._act(here, self.goals.read(z), noise)))
        target = self._states("goal_state", goal_state)
        if target.ndim == 2:
            raise ValueError(f"{len(target)} goal states for one observation; valid: one")
        return self.spec.native(np.asarray(self._act(here, self._aim(here, jnp.asarray(target)), noise)))

    def predict(
        self,
        observation: dict[str, Any],
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray | np.integer, None]:
        """Returns the action for the desired goal of a goal environment, and None, as in stable-baselines3.

        `observation` is a dict of observation, achieved_goal and desired_goal. `state` and `episode_start` are not
        used. `deterministic` and `rng` are those of `act`.

        Examples:
            >>> action, _ = policy.predict(obs)
        """
        check_unmasked("observation", observation)
        target = self._joined(observation, "desired_goal")
        return self.act(observation, goal_state=target, deterministic=deterministic, rng=rng), None


def policy_of(
    program: Program, runs: RunState, seed: int | None, setting: int | None = None, noise: bool = False
) -> Policy:
    """Returns the policy of one seed, by default the first, and one setting, required if there are several."""
    index = program.config.find_run(seed, setting)
    check_sound(program.config, runs, index)
    return Policy(program, runs, index, noise)
