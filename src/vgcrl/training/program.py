"""A compiled configuration: `init`, `advance` and `evaluate` for all runs at once.

An iteration chooses actions, learns, and then takes the actions. In this order a simulator on the host can run while
the device learns; the results do not depend on whether it does. Each function is written for one run and vmapped over
(setting, seed). The clock is not batched, so the branch between only collecting and learning stays a branch.
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
Means = dict[str, Float[Array, ""]]  # of what updates report, by name


class RunState(NamedTuple):
    """Everything that training one run changes, and its random keys."""

    learner: LearnerState
    replay: replay.Replay
    scene: Scene
    key: Key[Array, ""]  # for training; step t uses fold_in(key, t)
    key_evaluation: Key[Array, ""]
    knobs: Knobs
    fault: Int[Array, " 2"]  # (environment step, environment) of the first observation that is not finite, or −1
    info: Means  # reported by the latest update


def without(runs: RunState, *names: str) -> RunState:
    """Returns the runs with these fields emptied, so that a function that does not need them is not given them."""
    empty: dict[str, Any] = dict.fromkeys(names, ())
    return runs._replace(**empty)


def one_run(runs: RunState, index: int) -> RunState:
    return jax.tree.map(lambda x: x[index], runs)


def policy(config: Config, runs: RunState) -> RunState:
    """Returns the runs with only what acting and q need; evaluations accept this in place of the whole state."""
    state = runs.learner
    learner = LearnerState(state.q, (), acting(state.agent, critics=bool(config.gpi)))
    return without(runs._replace(learner=learner), "replay", "scene")


def diverged(runs: RunState) -> np.ndarray:
    """Returns for every run whether a parameter of its policy or of q is not finite."""
    params = runs.learner.q, runs.learner.agent.actor
    moved = eqx.filter(params, optim.learned(params))  # FIXED arrays may be infinite, as a bound that is off is
    sound = [jnp.isfinite(x).reshape(len(runs.fault), -1).all(axis=1) for x in jax.tree.leaves(moved)]
    return ~np.asarray(jnp.stack(sound).all(axis=0))


def check_sound(config: Config, runs: RunState, index: int) -> None:
    """Raise UsageError if a run has diverged and cannot act."""
    if diverged(runs)[index]:
        raise UsageError(f"{config.named_run(index)} has diverged; valid: another seed or setting")


def init(p: Components, seed: Int[Array, ""], knobs: Knobs, obs: Float[Array, "env obs"] | None) -> RunState:
    """Returns a run before its first step; `obs` are the first observations of environments on the host, or None."""
    count = p.config.envs
    keys = jax.random.split(key_of_seed(seed), 6)
    key, key_evaluation, key_q, key_agent, key_env, key_goals = keys
    env, obs = native_envs(p, knobs, count).reset(key_env) if obs is None else ((), obs)
    state = learner.init(posterior(p, key_q, knobs), p.agent, key_agent)
    scene = Scene(env, obs, sample_goals(current(p.goals, state.q), key_goals, count))
    action, terminal = jnp.zeros((count, p.spec.action_dim)), jnp.zeros(count, bool)
    example = Transition(obs, action, obs, scene.z, terminal)
    buffer = replay.init(example, p.config.rows, p.spec.horizon, p.spec.pixels)
    info = {name: jnp.zeros(()) for name in learner.UPDATE_METRICS}
    return RunState(state, buffer, scene, key, key_evaluation, knobs, jnp.full(2, -1, jnp.int32), info)


class Keys(NamedTuple):
    """The random keys of one step."""

    act: Key[Array, ""]
    env: Key[Array, ""]
    goals: Key[Array, ""]
    learn: Key[Array, ""]


def keys_at(run: RunState, clock: Int[Array, ""]) -> Keys:
    """Returns the random keys of a run at step `clock`."""
    return Keys(*jax.random.split(jax.random.fold_in(run.key, clock), 4))


def decide(p: Components, run: RunState, clock: Int[Array, ""], key: Key[Array, ""]) -> Float[Array, "env action"]:
    """Returns the actions of all environments: random ones for the first `random_steps`, then samples of the policy."""
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
    """Returns the run after a step of its environments: the step is in replay, and goals are new where due."""
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


Learning = tuple[LearnerState, Float[Array, " name"]]  # learner, and the numbers in UPDATE_METRICS of its latest update


def draw_batches(p: Components, run: RunState, key: Key[Array, ""], count: int) -> Any:
    """Returns what `count` updates need, drawn at once and with the updates as first axis: batches, random numbers."""
    key_sample, key_draws = jax.random.split(key)
    drawn = replay.sample(run.replay, key_sample, count * p.config.batch, p.config.relabel_state)
    batches, later = jax.tree.map(lambda x: x.reshape(count, p.config.batch, *x.shape[1:]), drawn)
    draw = partial(learner.draw, batch=p.config.batch, action_dim=p.spec.action_dim)
    draws = jax.vmap(draw)(jax.random.split(key_draws, count))
    return batches, later if RELABELS[p.config.relabel].pick else None, draws


def update(p: Components, knobs: Knobs, learning: Learning, drawn: Any) -> Learning:
    """Returns the learner after one update, which uses its part of what `draw_batches` returned."""
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
    return state, jnp.mean(jnp.stack([info[k] for k in learner.UPDATE_METRICS]), axis=1)


def all_updates(
    count: int, draw: Callable[[Int[Array, ""], int], Any], update: Callable[[Any, Any], Any], learning: Any
) -> Any:
    """Returns the learner after `count` successive updates; draw(i, n) returns what the i-th n of them need."""
    few = max(n for n in range(1, min(UPDATES_PER_DRAW, count) + 1) if count % n == 0)

    def body(i: Int[Array, ""], learning: Any) -> Any:
        return jax.lax.scan(lambda learning, x: (update(learning, x), None), learning, draw(i, few))[0]

    return jax.lax.fori_loop(0, count // few, body, learning)


def learning(run: RunState) -> Learning:
    """Returns what the updates of an iteration start from."""
    return run.learner, jnp.stack([run.info[name] for name in learner.UPDATE_METRICS])


def learned(learning: Learning) -> tuple[LearnerState, Means]:
    """Returns the learner after the updates of an iteration, and what they reported, by name."""
    state, means = learning
    return state, dict(zip(learner.UPDATE_METRICS, means, strict=True))


def learn(p: Components, run: RunState, key: Key[Array, ""]) -> tuple[LearnerState, Means]:
    """Returns the learner after all updates of an iteration, and what they reported, by name."""
    draw = lambda i, count: draw_batches(p, run, jax.random.fold_in(key, i), count)  # noqa: E731
    return learned(all_updates(p.updates, draw, partial(update, p, run.knobs), learning(run)))


def adopt(run: RunState, learned: tuple[LearnerState, Means]) -> RunState:
    """Returns the run with the learner that its updates returned.

    Replay is written next, in place if XLA knows that the updates, which read it, come before; otherwise, on CPUs, all
    of replay is copied at every step. So the row to write is made to depend on the updates, by a number of theirs that
    is 0.
    """
    state, info = learned
    zero = jnp.minimum(state.optimiser.count, 0)
    return run._replace(learner=state, info=info, replay=run.replay._replace(head=run.replay.head + zero))


def enough(p: Components, i: Any) -> Any:
    """Returns whether iteration i has enough steps in replay to learn from."""
    return i * p.collects * p.config.envs >= max(p.config.random_steps, p.config.batch)


def step(p: Components, clock: Int[Array, ""], run: RunState) -> RunState:
    """Returns a run after one step of its native environments; the last step of an iteration learns too."""
    keys = keys_at(run, clock)
    action = decide(p, run, clock, keys.act)
    skip = lambda run, key: (run.learner, run.info)  # noqa: E731
    due = (clock % p.collects == p.collects - 1) & enough(p, clock // p.collects)
    run = adopt(run, jax.lax.cond(due, partial(learn, p), skip, run, keys.learn))
    env, out = native_envs(p, run.knobs, p.config.envs).step(run.scene.env, action, keys.env)
    return absorb(p, run, env, action, out, clock, keys.goals)


def advance(p: Components, run: RunState, first: Int[Array, ""], count: Int[Array, ""]) -> RunState:
    """Returns a run in native environments after the iterations first, …, first + count − 1."""
    return jax.lax.fori_loop(first * p.collects, (first + count) * p.collects, partial(step, p), run)


def improved_goal(
    p: Components, run: RunState, obs: Float[Array, " obs"], z: Shaped[Array, "*goal"]
) -> Shaped[Array, "*goal"]:
    """Returns the goal to act for: z, or by generalised policy improvement that of several goals whose action has the
    highest value for z."""
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
    """Returns the action for a goal: a sample of the policy made from standard normal noise; without it the mode."""
    agent, goal = run.learner.agent, improved_goal(p, run, obs, z)
    return p.agent.best(agent, obs, goal) if noise is None else p.agent.act(agent, obs, goal, noise)


def run_axis(config: Config) -> tuple[Int[Array, " run"], Knobs]:
    """Returns seed and knobs of every run."""
    axis = [(setting, seed) for setting in config.settings for seed in range(config.seed, config.seed + config.seeds)]
    columns = {k: jnp.array([setting[k] for setting, _ in axis]) for k in KNOBS}
    columns = {k: v.astype(jnp.int32 if k == "projection_seed" else jnp.float32) for k, v in columns.items()}
    columns["spectral_norm"] = jnp.where(columns["spectral_norm"] > 0, columns["spectral_norm"], jnp.inf)
    return jnp.array([seed for _, seed in axis]), Knobs(**columns)


class Program(ABC):
    """A compiled configuration, for all its runs at once: `init`, then `advance` and `evaluate` as often as needed.

    It writes no files. `advance` consumes the runs that it is given: they cannot be used again.
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
        """Environment steps of each run in one iteration."""
        return self.parts.collects * self.config.envs

    def act(
        self,
        run: RunState,
        obs: Float[Array, " obs"],
        z: Shaped[Array, "*goal"],
        noise: Float[Array, " action"] | None = None,
    ) -> Float[Array, " action"]:
        """Returns the action of one run: a sample made from standard normal noise, or without it the mode."""
        return act(self.parts, run, obs, z, noise)

    @abstractmethod
    def init(self) -> RunState:
        """Returns all runs before their first step."""

    @abstractmethod
    def shapes(self) -> RunState:
        """Returns shapes and types of what `init` returns."""

    @abstractmethod
    def advance(self, runs: RunState, first: int, count: int) -> RunState:
        """Returns the runs after the iterations first, …, first + count − 1."""

    @abstractmethod
    def evaluate(
        self,
        runs: RunState,
        targets: Float[Array, "target obs"] | None = None,
        episodes: int | None = None,
        noise: bool = False,
    ) -> dict[str, Any]:
        """Returns the metrics of every run, (run, ...). By default the target states are those of the environment: its
        own goals, or its start states. With `noise` actions are samples of the policy."""

    @abstractmethod
    def record_episodes(self, runs: RunState, z: Shaped[Array, " episode *goal"], noise: bool = False) -> Any:
        """Returns observations of one episode per goal, (run, step, episode, obs); with `noise` actions are sampled."""

    @abstractmethod
    def overflows(self, runs: RunState) -> int:
        """Returns in how many environment steps so far the simulator left out contacts for want of room."""

    @abstractmethod
    def save_envs(self) -> dict[str, Any]:
        """Returns the state of environments on the host, which the runs do not contain."""

    @abstractmethod
    def enter(self, runs: RunState, saved: dict[str, Any]) -> tuple[RunState, bool]:
        """Returns the runs, to go on in environments saved by `save_envs`, and whether they go on in mid-episode."""
