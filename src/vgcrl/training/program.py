"""A configuration compiled: `init`, `advance` and `evaluate` for all runs at once.

One iteration: choose actions, learn, then take them. In this order a simulator on the host can run while the
device learns; what is computed does not depend on whether it does. Each part is written for one run and vmapped
over (setting, seed). The clock is not batched, so the branch between collecting only and learning stays a branch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int, Key, Shaped

from vgcrl.errors import UsageError
from vgcrl.measure.rollout import Scene, pursue, sample_goals
from vgcrl.objective import learner, optim
from vgcrl.objective.agents.base import acting
from vgcrl.objective.goals import GoalSpace, current
from vgcrl.objective.learner import LearnerState
from vgcrl.objective.relabel import RELABELS
from vgcrl.objective.types import EnvSpec, Knobs, Step, Transition, key_of_seed
from vgcrl.training import replay
from vgcrl.training.components import Components, build_components, native_envs, posterior
from vgcrl.training.config import KNOBS, Config
from vgcrl.training.devices import over_runs

UPDATES_PER_DRAW = 32  # updates whose batches and random numbers are drawn together: fewer, larger operations
Means = dict[str, Float[Array, ""]]  # of what updates tell, by name


class RunState(NamedTuple):
    """Everything that training one run changes, and its random keys."""

    learner: LearnerState
    replay: replay.Replay
    scene: Scene
    key: Key[Array, ""]  # of training; step t uses fold_in(key, t)
    key_evaluation: Key[Array, ""]
    knobs: Knobs
    fault: Int[Array, " 2"]  # (environment step, environment) of the first observation that is not finite, or −1
    info: Means  # of the latest update


def without(runs: RunState, *names: str) -> RunState:
    """What a part does not need costs time to hand over, and space to keep."""
    empty: dict[str, Any] = dict.fromkeys(names, ())
    return runs._replace(**empty)


def policy(config: Config, runs: RunState) -> RunState:
    """What acting and q need: evaluations take it for the whole."""
    state = runs.learner
    learner = LearnerState(state.q, (), acting(state.agent, critics=bool(config.gpi)))
    return without(runs._replace(learner=learner), "replay", "scene")


def diverged(runs: RunState) -> np.ndarray:
    """Of every run, whether a parameter of its policy or of q is no finite number."""
    params = runs.learner.q, runs.learner.agent.actor
    moved = eqx.filter(params, optim.learned(params))  # what is fixed may be infinite, as a bound that is off
    sound = [jnp.isfinite(x).reshape(len(runs.fault), -1).all(axis=1) for x in jax.tree.leaves(moved)]
    return ~np.asarray(jnp.stack(sound).all(axis=0))


def check_sound(config: Config, runs: RunState, index: int) -> None:
    """That a run can act."""
    if diverged(runs)[index]:
        raise UsageError(f"{config.named_run(index)} has diverged; valid: another seed or setting")


def init(p: Components, seed: Int[Array, ""], knobs: Knobs, obs: Float[Array, "env obs"] | None) -> RunState:
    """`obs` is where the environments stand if they run on the host."""
    count = p.config.envs
    keys = jax.random.split(key_of_seed(seed), 6)
    key, key_evaluation, key_q, key_agent, key_env, key_goals = keys
    env, obs = native_envs(p, knobs, count).reset(key_env) if obs is None else ((), obs)
    state = learner.init(posterior(p, key_q, knobs), p.agent, key_agent)
    scene = Scene(env, obs, sample_goals(current(p.goals, state.q), key_goals, count))
    action, terminal = jnp.zeros((count, p.spec.action_dim)), jnp.zeros(count, bool)
    example = Transition(obs, action, obs, scene.z, terminal)
    buffer = replay.init(example, p.config.rows, p.spec.horizon, p.spec.pixels)
    info = {name: jnp.zeros(()) for name in learner.TOLD}
    return RunState(state, buffer, scene, key, key_evaluation, knobs, jnp.full(2, -1, jnp.int32), info)


class Keys(NamedTuple):
    act: Key[Array, ""]
    env: Key[Array, ""]
    goals: Key[Array, ""]
    learn: Key[Array, ""]


def keys_at(run: RunState, clock: Int[Array, ""]) -> Keys:
    return Keys(*jax.random.split(jax.random.fold_in(run.key, clock), 4))


def decide(p: Components, run: RunState, clock: Int[Array, ""], key: Key[Array, ""]) -> Float[Array, "env action"]:
    """Actions of all environments; random ones at first."""
    noise = jax.random.normal(key, (p.config.envs, p.spec.action_dim))
    chosen = jax.vmap(p.agent.act, (None, 0, 0, 0))(run.learner.agent, run.scene.obs, run.scene.z, noise)
    return jnp.where(clock * p.config.envs < p.config.random_steps, jax.vmap(p.agent.random)(noise), chosen)


def absorb(
    p: Components,
    run: RunState,
    env: Any,
    action: Float[Array, "env action"],
    out: Step,
    clock: Int[Array, ""],
    key: Key[Array, ""],
) -> RunState:
    """What came of the actions, into replay; new goals where episodes ended."""
    scene = run.scene
    transition = Transition(scene.obs, action, out.next_obs, scene.z, out.terminal)
    wrong = ~(jnp.isfinite(out.next_obs) & jnp.isfinite(out.obs)).all(axis=-1)
    first = (run.fault[0] < 0) & wrong.any()
    here = jnp.stack([clock * p.config.envs, jnp.argmax(wrong).astype(jnp.int32)])
    return run._replace(
        scene=pursue(current(p.goals, run.learner.q), scene, env, out, key, p.config.goal_steps),
        replay=replay.add(run.replay, transition, out.last),
        fault=jnp.where(first, here, run.fault),
    )


Learning = tuple[LearnerState, Float[Array, " name"]]  # a learner, and what its latest update told, as in TOLD


def draw_batches(p: Components, run: RunState, key: Key[Array, ""], count: int) -> Any:
    """What so many updates need: batches of replay and random numbers, of all of them at once."""
    key_sample, key_draws = jax.random.split(key)
    drawn = replay.sample(run.replay, key_sample, count * p.config.batch, p.config.relabel_state)
    batches, later = jax.tree.map(lambda x: x.reshape(count, p.config.batch, *x.shape[1:]), drawn)
    draw = partial(learner.draw, batch=p.config.batch, action_dim=p.spec.action_dim)
    draws = jax.vmap(draw)(jax.random.split(key_draws, count))
    return batches, later if RELABELS[p.config.relabel].pick else None, draws


def update(p: Components, knobs: Knobs, learning: Learning, drawn: Any) -> Learning:
    """One update from its share of what was drawn."""
    batch, later, draws = drawn
    state, info = learner.update(
        learning[0],
        batch,
        later,
        knobs,
        draws,
        agent=p.agent,
        goals=p.goals,
        how=RELABELS[p.config.relabel],
        critic=learner.CRITICS[p.config.critic],
        bonus=p.config.alive_bonus,
        progress=p.config.reward == "progress",
    )
    return state, jnp.mean(jnp.stack([info[k] for k in learner.TOLD]), axis=1)


def all_updates(
    count: int, draw: Callable[[Int[Array, ""], int], Any], update: Callable[[Any, Any], Any], learning: Any
) -> Any:
    """`count` updates, one after the other; draw(i, n) is what the i-th n of them need, by update."""
    few = max(n for n in range(1, min(UPDATES_PER_DRAW, count) + 1) if count % n == 0)

    def body(i: Int[Array, ""], learning: Any) -> Any:
        return jax.lax.scan(lambda learning, x: (update(learning, x), None), learning, draw(i, few))[0]

    return jax.lax.fori_loop(0, count // few, body, learning)


def learning(run: RunState) -> Learning:
    """What updates start from."""
    return run.learner, jnp.stack([run.info[name] for name in learner.TOLD])


def learned(learning: Learning) -> tuple[LearnerState, Means]:
    """What they have made, with names."""
    state, means = learning
    return state, dict(zip(learner.TOLD, means, strict=True))


def learn(p: Components, run: RunState, key: Key[Array, ""]) -> tuple[LearnerState, Means]:
    """All updates of an iteration."""
    draw = lambda i, count: draw_batches(p, run, jax.random.fold_in(key, i), count)  # noqa: E731
    return learned(all_updates(p.updates, draw, partial(update, p, run.knobs), learning(run)))


def adopt(run: RunState, learned: tuple[LearnerState, Means]) -> RunState:
    """The run with what its updates made.

    Replay is written next, in place if XLA knows that the updates, which read it, come before; otherwise, on CPUs, it
    copies all of replay at every step. So where to write is made to depend on them, by a number of theirs that is 0.
    """
    state, info = learned
    zero = jnp.minimum(state.optimiser.count, 0)
    return run._replace(learner=state, info=info, replay=run.replay._replace(head=run.replay.head + zero))


def enough(p: Components, i: Any) -> Any:
    """Whether iteration i has something to learn from."""
    return i * p.collects * p.config.envs >= max(p.config.random_steps, p.config.batch)


def step(p: Components, clock: Int[Array, ""], run: RunState) -> RunState:
    """In a native environment; the last of an iteration learns too."""
    keys = keys_at(run, clock)
    action = decide(p, run, clock, keys.act)
    skip = lambda run, key: (run.learner, run.info)  # noqa: E731
    due = (clock % p.collects == p.collects - 1) & enough(p, clock // p.collects)
    run = adopt(run, jax.lax.cond(due, partial(learn, p), skip, run, keys.learn))
    env, out = native_envs(p, run.knobs, p.config.envs).step(run.scene.env, action, keys.env)
    return absorb(p, run, env, action, out, clock, keys.goals)


def advance(p: Components, run: RunState, first: Int[Array, ""], count: Int[Array, ""]) -> RunState:
    return jax.lax.fori_loop(first * p.collects, (first + count) * p.collects, partial(step, p), run)


def improved_goal(
    p: Components, run: RunState, obs: Float[Array, " obs"], z: Shaped[Array, "*goal"]
) -> Shaped[Array, "*goal"]:
    """The goal to act for: z, or by generalised policy improvement that of several whose action is the best for z."""
    agent = run.learner.agent
    if not p.config.gpi:
        return z
    others = sample_goals(p.goals, key_of_seed(0), p.config.gpi)
    goals = jnp.concatenate([z[None].astype(others.dtype), others])
    actions = jax.vmap(lambda g: p.agent.best(agent, obs, g))(goals)
    w = learner.successor(run.learner.q, p.goals, run.learner.q(obs), z)[1]
    psi = jax.vmap(lambda a, g: p.agent.successors(agent, obs, a, g))(actions, goals)
    return goals[jnp.argmax(jnp.min(psi @ w, axis=1))]


def act(
    p: Components,
    run: RunState,
    obs: Float[Array, " obs"],
    z: Shaped[Array, "*goal"],
    noise: Float[Array, " action"] | None = None,
) -> Float[Array, " action"]:
    """The action: drawn from the policy by standard normal noise, or without it the mode."""
    agent, goal = run.learner.agent, improved_goal(p, run, obs, z)
    return p.agent.best(agent, obs, goal) if noise is None else p.agent.act(agent, obs, goal, noise)


def run_axis(config: Config) -> tuple[Int[Array, " run"], Knobs]:
    """Seed and knobs of every run."""
    axis = [(setting, seed) for setting in config.settings for seed in range(config.seed, config.seed + config.seeds)]
    columns = {k: jnp.array([setting[k] for setting, _ in axis]) for k in KNOBS}
    columns = {k: v.astype(jnp.int32 if k == "projection_seed" else jnp.float32) for k, v in columns.items()}
    columns["spectral_norm"] = jnp.where(columns["spectral_norm"] > 0, columns["spectral_norm"], jnp.inf)
    return jnp.array([seed for _, seed in axis]), Knobs(**columns)


class Program(ABC):
    """A configuration compiled, for all its runs at once: `init`, then `advance` and `evaluate` as often as one likes.

    Nothing is written anywhere. `advance` takes the runs over: what it was given cannot be used again.
    """

    def __init__(self, config: Config):
        self.config, self.parts = config, build_components(config)
        self.seeds, self.knobs = run_axis(config)
        self.for_all_runs = partial(over_runs, runs=len(self.seeds))

    @property
    def spec(self) -> EnvSpec:
        return self.parts.spec

    @property
    def goals(self) -> GoalSpace:
        return self.parts.goals

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of each run."""
        return self.parts.collects * self.config.envs

    def act(
        self,
        run: RunState,
        obs: Float[Array, " obs"],
        z: Shaped[Array, "*goal"],
        noise: Float[Array, " action"] | None = None,
    ) -> Float[Array, " action"]:
        """The action of one run for one observation and goal: with standard normal noise, as in training, or none."""
        return act(self.parts, run, obs, z, noise)

    @abstractmethod
    def init(self) -> RunState:
        """All runs before their first step."""

    @abstractmethod
    def shapes(self) -> RunState:
        """What `init` returns, as shapes and types."""

    @abstractmethod
    def advance(self, runs: RunState, first: int, count: int) -> RunState:
        """Trains for iterations first, …, first + count − 1."""

    @abstractmethod
    def evaluate(
        self,
        runs: RunState,
        targets: Float[Array, "target obs"] | None = None,
        episodes: int | None = None,
        noise: bool = False,
    ) -> dict[str, Any]:
        """Metrics of every run, (run, ...). Without targets those are states of rest from the environment's starts;
        with noise the policy acts as in training."""

    @abstractmethod
    def record_episodes(self, runs: RunState, z: Shaped[Array, " episode *goal"], noise: bool = False) -> Any:
        """Observations of an episode for each goal, (run, step, goal, ...); with noise as in training."""

    @abstractmethod
    def overflows(self, runs: RunState) -> int:
        """Environment steps so far in which a simulator had no room for all contacts, and left some out."""

    @abstractmethod
    def save_envs(self) -> dict[str, Any]:
        """State of environments on the host, which is not in that of the runs."""

    @abstractmethod
    def enter(self, runs: RunState, saved: dict[str, Any]) -> tuple[RunState, bool]:
        """Goes on in environments saved by `save_envs`; whether in mid-episode."""
