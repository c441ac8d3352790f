"""A configuration compiled: `init`, `advance` and `evaluate` for all runs at once.

Each is written for one run and vmapped over (setting, seed). The step counter is not batched, so the
branch between collecting only and collecting and learning stays a branch. The number of iterations is
an argument, so one compiled program serves every chunk and a resumed run takes the same path.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vgcrl import learner, metrics, replay
from vgcrl.agents.sac import Agent, sac
from vgcrl.config import KNOBS, Config
from vgcrl.envs import Vectorised, vectorise
from vgcrl.goals import GoalSpace
from vgcrl.learner import LearnerState
from vgcrl.methods import METHODS
from vgcrl.networks import Linear, Spectral
from vgcrl.posteriors import POSTERIORS, Build, Seen
from vgcrl.relabel import RELABELS
from vgcrl.rollout import Scene, begin, collect
from vgcrl.types import EnvSpec, Knobs, Transition

KAPPA = 5.0  # concentration of von Mises–Fisher posteriors


class RunState(NamedTuple):
    """Everything that training one run changes, and its random keys."""

    learner: LearnerState
    replay: replay.Replay
    scene: Scene
    key: Array  # of training; iteration i uses fold_in(key, i)
    key_evaluation: Array
    knobs: Knobs
    fault: Array  # (environment step, environment) of the first observation that is not finite, or −1
    info: dict[str, Array]  # of the latest update


class Program(NamedTuple):
    config: Config
    spec: EnvSpec
    goals: GoalSpace
    agent: Agent
    steps_per_iteration: int
    init: Callable[[], RunState]
    advance: Callable[[RunState, Any, Any], RunState]  # runs, first iteration, how many
    evaluate: Callable[..., dict[str, Any]]  # runs, targets or None; episodes=
    shapes: Callable[[], RunState]


def compiler_options() -> dict[str, Any]:
    """On CPUs, Eigen's matrix products: 1.15 times the updates/s of XLA's default library on two Neoverse-N1 cores."""
    return {"xla_cpu_experimental_ynn_fusion_type": ""} if jax.default_backend() == "cpu" else {}


class Parts(NamedTuple):
    """What a configuration is made of; the functions below are written for one run."""

    config: Config
    spec: EnvSpec
    features: tuple[int, ...]
    goals: GoalSpace
    agent: Agent
    collects: int  # environment steps (per environment) and updates in one iteration
    updates: int


def take_apart(config: Config) -> Parts:
    spec = config.build_env().spec
    features = config.feature_indices(spec)
    goals = METHODS[config.method].goals(spec, features, config.goal_dim)
    agent = sac(
        spec.obs_dim,
        spec.action_dim,
        goals.embed,
        goals.dim,
        hidden=config.hidden,
        discount=config.discount,
        target_rate=config.target_rate,
        target_entropy=config.target_entropy,
    )
    return Parts(config, spec, features, goals, agent, *config.schedule)


def worlds(p: Parts, knobs: Knobs, count: int) -> Vectorised:
    return vectorise(p.config.build_env(knobs), count)


def posterior(p: Parts, key: Array, knobs: Knobs) -> Seen:
    c = p.config
    layer = partial(Spectral.init, bound=knobs.spectral_norm) if any(c.spectral_norm) else Linear
    build = Build(len(p.features), c.goal_dim, c.hidden, layer, c.sigma, c.components, KAPPA)
    return Seen(POSTERIORS[c.posterior](key, build), p.features)


def init(p: Parts, seed: Array, knobs: Knobs) -> RunState:
    count = p.config.envs
    key, key_evaluation, key_q, key_agent, key_scene = jax.random.split(jax.random.key(seed), 5)
    state = learner.init(posterior(p, key_q, knobs), p.agent, key_agent)
    scene = begin(worlds(p, knobs, count), p.goals, key_scene, count)
    action, terminal = jnp.zeros((count, p.spec.action_dim)), jnp.zeros(count, bool)
    example = Transition(scene.obs, action, scene.obs, scene.z, terminal)
    buffer = replay.init(example, p.config.rows, p.spec.horizon)
    run = RunState(state, buffer, scene, key, key_evaluation, knobs, jnp.full(2, -1, jnp.int32), {})
    info = jax.eval_shape(partial(learn_once, p), run, key)[1]
    return run._replace(info=jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), info))


def collect_once(p: Parts, run: RunState, step: Array, key: Array) -> RunState:
    key_act, key_env = jax.random.split(key)
    scene = run.scene
    noise = jax.random.normal(key_act, (p.config.envs, p.spec.action_dim))
    chosen = jax.vmap(p.agent.act, (None, 0, 0, 0))(run.learner.agent, scene.obs, scene.z, noise)
    uniform = jax.scipy.special.erf(noise / 2**0.5)  # the same noise through its distribution function
    action = jnp.where(step < p.config.random_steps, uniform, chosen)
    scene, transition, last = collect(worlds(p, run.knobs, p.config.envs), p.goals, scene, action, key_env)
    wrong = ~jnp.isfinite(transition.next_obs).all(axis=-1)
    first = (run.fault[0] < 0) & wrong.any()
    fault = jnp.where(first, jnp.stack([step, jnp.argmax(wrong).astype(jnp.int32)]), run.fault)
    return run._replace(scene=scene, replay=replay.add(run.replay, transition, last), fault=fault)


def learn_once(p: Parts, run: RunState, key: Array) -> tuple[LearnerState, dict[str, Array]]:
    key_sample, key_update = jax.random.split(key)
    batch, later = replay.sample(run.replay, key_sample, p.config.batch, p.config.relabel_state)
    how = RELABELS[p.config.relabel]
    return learner.update(run.learner, batch, later, run.knobs, key_update, agent=p.agent, goals=p.goals, how=how)


def learn(p: Parts, run: RunState, key: Array) -> tuple[LearnerState, dict[str, Array]]:
    def body(i: Array, carry: tuple[LearnerState, dict[str, Array]]):
        return learn_once(p, run._replace(learner=carry[0]), jax.random.fold_in(key, i))

    return jax.lax.fori_loop(0, p.updates, body, (run.learner, run.info))


def iterate(p: Parts, i: Array, run: RunState) -> RunState:
    """Collect, then learn once there is enough to learn from."""
    key_collect, key_learn = jax.random.split(jax.random.fold_in(run.key, i))
    for j in range(p.collects):
        step = (i * p.collects + j) * p.config.envs
        run = collect_once(p, run, step, jax.random.fold_in(key_collect, j))
    enough = (i + 1) * p.collects * p.config.envs >= max(p.config.random_steps, p.config.batch)
    skip = lambda run, key: (run.learner, run.info)  # noqa: E731
    state, info = jax.lax.cond(enough, partial(learn, p), skip, run, key_learn)
    return run._replace(learner=state, info=info)


def advance(p: Parts, run: RunState, first: Array, count: Array) -> RunState:
    return jax.lax.fori_loop(first, first + count, partial(iterate, p), run)


def evaluate(p: Parts, run: RunState, targets: Array | None, episodes: int) -> dict[str, Any]:
    q, many = run.learner.q, worlds(p, run.knobs, episodes)
    key_goals, key_targets, key_reach = jax.random.split(run.key_evaluation, 3)
    act = partial(p.agent.best, run.learner.agent)
    out = metrics.evaluate(many, p.goals, q, act, key_goals, episodes)
    if targets is None:  # states of rest from the environment's own starts
        _, targets = many.reset(key_targets)
    some = worlds(p, run.knobs, targets.shape[0])
    lgr_s, lgr_v = metrics.latent_goal_reaching(some, act, lambda s: p.goals.point(q(s)), targets, key_reach)
    return {**out, "lgr_s": lgr_s, "lgr_v": lgr_v, "train": run.info, "posterior": q.learned()}


def run_axis(config: Config) -> tuple[Array, Knobs]:
    """Seed and knobs of every run."""
    axis = [(setting, seed) for setting in config.settings for seed in range(config.seed, config.seed + config.seeds)]
    columns = {k: jnp.array([setting[k] for setting, _ in axis]) for k in KNOBS}
    columns = {k: v.astype(jnp.int32 if k == "projection_seed" else jnp.float32) for k, v in columns.items()}
    columns["spectral_norm"] = jnp.where(columns["spectral_norm"] > 0, columns["spectral_norm"], jnp.inf)
    return jnp.array([seed for _, seed in axis]), Knobs(**columns)


def compile_config(config: Config) -> Program:
    p, arguments = take_apart(config), run_axis(config)
    jit = partial(jax.jit, compiler_options=compiler_options())
    init_all = jax.vmap(partial(init, p))
    init_jit = jit(init_all)

    def evaluate_all(runs: RunState, targets: Array | None, episodes: int = config.evaluate_episodes) -> dict[str, Any]:
        return jax.vmap(partial(evaluate, p, episodes=episodes), (0, None))(runs, targets)

    return Program(
        config,
        p.spec,
        p.goals,
        p.agent,
        p.collects * config.envs,
        init=lambda: init_jit(*arguments),
        advance=jit(jax.vmap(partial(advance, p), (0, None, None)), donate_argnums=0),
        evaluate=jit(evaluate_all, static_argnames="episodes"),
        shapes=lambda: jax.eval_shape(init_all, *arguments),
    )
