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


def compile_config(config: Config) -> Program:
    env = config.build_env()
    spec, features = env.spec, config.feature_indices(env.spec)

    def worlds(knobs: Knobs, count: int) -> Vectorised:
        return vectorise(config.build_env(knobs), count)

    goals = METHODS[config.method].goals(spec, features, config.goal_dim)
    collects, updates = config.schedule
    how = RELABELS[config.relabel]
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
    update = partial(learner.update, agent=agent, goals=goals, how=how)

    def posterior(key: Array, knobs: Knobs) -> Seen:
        layer = partial(Spectral.init, bound=knobs.spectral_norm) if any(config.spectral_norm) else Linear
        build = Build(len(features), config.goal_dim, config.hidden, layer, config.sigma, config.components, KAPPA)
        return Seen(POSTERIORS[config.posterior](key, build), features)

    def init(seed: Array, knobs: Knobs) -> RunState:
        key, key_evaluation, key_q, key_agent, key_scene = jax.random.split(jax.random.key(seed), 5)
        state = learner.init(posterior(key_q, knobs), agent, key_agent)
        scene = begin(worlds(knobs, config.envs), goals, key_scene, config.envs)
        example = Transition(
            scene.obs, jnp.zeros((config.envs, spec.action_dim)), scene.obs, scene.z, jnp.zeros(config.envs, bool)
        )
        buffer = replay.init(example, config.rows, spec.horizon)
        run = RunState(state, buffer, scene, key, key_evaluation, knobs, jnp.full(2, -1, jnp.int32), {})
        info = jax.eval_shape(learn_once, run, key)[1]
        return run._replace(info=jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), info))

    def collect_once(run: RunState, step: Array, key: Array) -> RunState:
        key_act, key_env = jax.random.split(key)
        scene = run.scene
        noise = jax.random.normal(key_act, (config.envs, spec.action_dim))
        chosen = jax.vmap(agent.act, (None, 0, 0, 0))(run.learner.agent, scene.obs, scene.z, noise)
        uniform = jax.scipy.special.erf(noise / 2**0.5)  # the same noise through its distribution function
        action = jnp.where(step < config.random_steps, uniform, chosen)
        scene, transition, last = collect(worlds(run.knobs, config.envs), goals, scene, action, key_env)
        wrong = ~jnp.isfinite(transition.next_obs).all(axis=-1)
        first = (run.fault[0] < 0) & wrong.any()
        fault = jnp.where(first, jnp.stack([step, jnp.argmax(wrong).astype(jnp.int32)]), run.fault)
        return run._replace(scene=scene, replay=replay.add(run.replay, transition, last), fault=fault)

    def learn_once(run: RunState, key: Array) -> tuple[LearnerState, dict[str, Array]]:
        key_sample, key_update = jax.random.split(key)
        batch, later = replay.sample(run.replay, key_sample, config.batch, config.relabel_state)
        return update(run.learner, batch, later, run.knobs, key_update)

    def learn(run: RunState, key: Array) -> tuple[LearnerState, dict[str, Array]]:
        def body(i: Array, carry: tuple[LearnerState, dict[str, Array]]):
            return learn_once(run._replace(learner=carry[0]), jax.random.fold_in(key, i))

        return jax.lax.fori_loop(0, updates, body, (run.learner, run.info))

    def iterate(i: Array, run: RunState) -> RunState:
        key_collect, key_learn = jax.random.split(jax.random.fold_in(run.key, i))
        for j in range(collects):
            step = (i * collects + j) * config.envs
            run = collect_once(run, step, jax.random.fold_in(key_collect, j))
        done = (i + 1) * collects * config.envs
        state, info = jax.lax.cond(
            done >= max(config.random_steps, config.batch),
            learn,
            lambda run, key: (run.learner, run.info),
            run,
            key_learn,
        )
        return run._replace(learner=state, info=info)

    def advance(run: RunState, first: Array, count: Array) -> RunState:
        return jax.lax.fori_loop(first, first + count, iterate, run)

    def evaluate(run: RunState, targets: Array | None, episodes: int) -> dict[str, Any]:
        q, many = run.learner.q, worlds(run.knobs, episodes)
        key_goals, key_targets, key_reach = jax.random.split(run.key_evaluation, 3)
        act = partial(agent.best, run.learner.agent)
        out = metrics.evaluate(many, goals, q, act, key_goals, episodes)
        if targets is None:  # states of rest from the environment's own starts
            _, targets = many.reset(key_targets)
        some = worlds(run.knobs, targets.shape[0])
        lgr_s, lgr_v = metrics.latent_goal_reaching(some, act, lambda s: goals.point(q(s)), targets, key_reach)
        return {**out, "lgr_s": lgr_s, "lgr_v": lgr_v, "train": run.info, "posterior": q.learned()}

    axis = [(setting, seed) for setting in config.settings for seed in range(config.seed, config.seed + config.seeds)]
    columns = {k: jnp.array([setting[k] for setting, _ in axis]) for k in KNOBS}
    columns = {k: v.astype(jnp.int32 if k == "projection_seed" else jnp.float32) for k, v in columns.items()}
    columns["spectral_norm"] = jnp.where(columns["spectral_norm"] > 0, columns["spectral_norm"], jnp.inf)
    arguments = jnp.array([seed for _, seed in axis]), Knobs(**columns)
    jit = partial(jax.jit, compiler_options=compiler_options())
    init_all = jit(jax.vmap(init))
    return Program(
        config,
        spec,
        goals,
        agent,
        collects * config.envs,
        init=lambda: init_all(*arguments),
        advance=jit(jax.vmap(advance, (0, None, None)), donate_argnums=0),
        evaluate=jit(
            lambda runs, targets, episodes=config.evaluate_episodes: jax.vmap(
                partial(evaluate, episodes=episodes), (0, None)
            )(runs, targets),
            static_argnames="episodes",
        ),
        shapes=lambda: jax.eval_shape(jax.vmap(init), *arguments),
    )
