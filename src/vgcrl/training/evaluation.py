"""The evaluation of one run: the functions around its episodes, and all of it if the environment is native."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Shaped

from vgcrl.measure import metrics
from vgcrl.measure.rollout import Pursuit, draw_noise, episodes, trajectories
from vgcrl.training.components import Components, native_envs
from vgcrl.training.program import RunState, act


class EvaluationParts(NamedTuple):
    """The functions around the episodes of an evaluation, for one run."""

    plan: Callable[..., Pursuit]  # (run, targets) -> what all episodes pursue
    act: Callable[..., Array]  # (run, obs, Pursuit, noise or None) -> action, for one episode
    measure: Callable[..., Any]  # run -> Measure
    conclude: Callable[..., dict[str, Any]]  # (run, stats, path, Pursuit, targets) -> metrics


def evaluation_parts(p: Components, count: int) -> EvaluationParts:
    """Returns the functions of an evaluation with `count` goals from the prior."""

    def plan(run: RunState, targets: Float[Array, "target obs"]) -> Pursuit:
        return metrics.plan(p.goals, run.learner.q, jax.random.fold_in(run.key_evaluation, 0), count, targets)

    def pursue(
        run: RunState, obs: Float[Array, " obs"], pursued: Pursuit, noise: Float[Array, " action"] | None
    ) -> Float[Array, " action"]:
        return act(p, run, obs, metrics.goal_now(p.goals, run.learner.q, obs, pursued), noise)

    def conclude(
        run: RunState,
        stats: Any,
        path: Float[Array, "step episode place"],
        pursued: Pursuit,
        targets: Float[Array, "target obs"],
    ) -> dict[str, Any]:
        out = metrics.conclude(p.goals, run.learner.q, p.spec, stats, pursued, targets)
        gone = {"path": path, "asked": targets[:, jnp.array(p.spec.place)]} if p.spec.place else {}
        return {**out, **gone, "train": run.info, "posterior": run.learner.q.learned()}

    return EvaluationParts(plan, pursue, lambda run: metrics.measuring(p.goals, run.learner.q, p.spec), conclude)


def evaluate(
    p: Components, run: RunState, targets: Float[Array, "target obs"] | None, count: int, noise: bool
) -> dict[str, Any]:
    """Returns the metrics of one run in a native environment, by default with its start states as target states."""
    part = evaluation_parts(p, count)
    key_targets, key_episodes = (jax.random.fold_in(run.key_evaluation, i) for i in (1, 2))
    if targets is None:
        _, targets = native_envs(p, run.knobs, count).reset(key_targets)
    pursued = part.plan(run, targets)
    envs = native_envs(p, run.knobs, pursued.aimed.shape[0])
    draws = draw_noise(envs, jax.random.fold_in(run.key_evaluation, 4)) if noise else None
    stats, path = episodes(envs, partial(part.act, run), pursued, key_episodes, part.measure(run), draws)
    return part.conclude(run, stats, path, pursued, targets)


def record_episodes(
    p: Components, run: RunState, z: Shaped[Array, " episode *goal"], noise: bool
) -> Float[Array, "step episode obs"]:
    """Returns the observations of one episode per goal in a native environment; with `noise` actions are sampled."""
    envs, key = native_envs(p, run.knobs, z.shape[0]), jax.random.fold_in(run.key_evaluation, 3)
    draws = draw_noise(envs, jax.random.fold_in(run.key_evaluation, 4)) if noise else None
    return trajectories(envs, partial(act, p, run), z, key, draws)
