"""What is concluded from episodes, against numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vgcrl.measure import metrics
from vgcrl.measure.rollout import EpisodeStats, Pursuit, Scene, StepSeen, pursue
from vgcrl.objective.distributions import Categorical
from vgcrl.objective.goals import Discrete, cube
from vgcrl.objective.posteriors import PosteriorView
from vgcrl.objective.types import Step
from vgcrl.training.host_program import compile_config
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve
from vgcrl.training.summary import SUMMARISED, summarise

body = resolve(Options()).specification


def pursuing(count):
    """Skill 0 in every episode."""
    return Pursuit(jnp.zeros(count, jnp.int32), jnp.zeros((count, 3)), jnp.zeros(count, bool))


def test_velocities_and_distances_of_episodes_of_different_lengths():
    random = np.random.default_rng(0)
    paths = [random.normal(i, 1.0, (length, 2)) for i, length in enumerate((3, 7, 5, 4))]  # velocities at each step
    targets = random.normal(size=(1, 3)).astype(np.float32)
    last = np.stack([[path[-1, 0], 0.0, path[-1, 1]] for path in paths]).astype(np.float32)
    lengths = jnp.array([float(len(path)) for path in paths])
    sums = {
        "F": jnp.zeros(4),
        "lgr_z_steps": jnp.zeros(4),
        "velocity": jnp.asarray(np.stack([path.sum(axis=0) for path in paths]), jnp.float32),
    }
    spec = body._replace(velocity=(0, 2), seconds=0.05)
    q = PosteriorView(lambda s: Categorical(jnp.zeros(2)), (0,))  # whose mode is skill 0
    obs = jnp.asarray(last)
    stats = EpisodeStats(obs, StepSeen(obs, obs, obs), jnp.zeros(4, bool), lengths, sums)
    out = metrics.conclude(Discrete(2), q, spec, stats, pursuing(4), jnp.asarray(targets))
    own = paths[:3]
    means, distances = (np.stack([f(path) for path in own]) for f in (lambda p: p.mean(0), lambda p: 0.05 * p.sum(0)))
    assert out["spread_v"] == pytest.approx(means.var(axis=0).mean() ** 0.5, rel=1e-5)
    assert out["spread_x"] == pytest.approx(distances.var(axis=0).mean() ** 0.5, rel=1e-5)
    assert out["lgr_v"] == pytest.approx(((last[3] - targets[0])[[0, 2]] ** 2).sum(), rel=1e-5)
    assert out["episode_steps"] == pytest.approx(5.0)


def test_a_q_that_is_no_number_recovers_no_skill():
    """Though the largest of no numbers is the first."""
    q = PosteriorView(lambda s: Categorical(jnp.zeros(2)), (0,))  # whose mode is skill 0
    obs, spec = jnp.zeros((2, 3)), body._replace(velocity=())
    for f in (1.0, np.nan):
        sums = {"F": jnp.array([f, 1.0]), "lgr_z_steps": jnp.ones(2)}
        stats = EpisodeStats(obs, StepSeen(obs, obs, obs), jnp.zeros(2, bool), jnp.ones(2), sums)
        out = metrics.conclude(Discrete(2), q, spec, stats, pursuing(2), jnp.zeros((0, 3)))
        expected = np.nan if np.isnan(f) else 1.0
        np.testing.assert_array_equal([out["lgr_z"], out["lgr_z_steps"]], expected)


def test_another_goal_once_in_so_many_steps():
    """And always where an episode ended; without `goal_steps` nowhere else."""
    count, obs = 4000, jnp.zeros((4000, 2))
    ended = jnp.arange(count) % 2 == 0
    scene, out = Scene((), obs, jnp.full((count, 2), 5.0)), Step(obs, obs, jnp.zeros(count, bool), ended)

    def renewed(*goal_steps):
        z = pursue(cube(2), scene, (), out, jax.random.key(0), *goal_steps).z
        return np.asarray((z != 5.0).all(axis=1))

    np.testing.assert_array_equal(renewed(), ended)
    often = renewed(10)
    assert often[::2].all()
    assert 0.07 < often[1::2].mean() < 0.13


@pytest.mark.parametrize("features", ["position", "velocity", "1,0", "2,1", "all", "0"])
def test_singular_values_are_of_the_rows_of_w_that_q_sees(features):
    """In their order; each dimension of the observation is a row of W, applied to positions or to velocities."""
    program = compile_config(
        resolve(Options("lingcrl", "projected-pointmass", dims=3, projection_dim=2, features=features, seeds=1))
    )
    seen = program.config.feature_indices(program.spec)
    a = np.random.default_rng(0).normal(size=(1, 2, len(seen)))
    out = dict.fromkeys(SUMMARISED, np.zeros(1)) | {"posterior": {"A": a}}
    learned = summarise(program, out)["seeds"][0]["posterior"]
    w, zero = np.array(learned["projection"]), np.zeros(3)
    whole = [np.concatenate([w[i], zero] if i < 2 else [zero, w[i - 2]]) for i in seen]
    expected = np.linalg.svd(a[0] @ np.stack(whole), compute_uv=False)
    np.testing.assert_allclose(learned["singular_values"], expected, atol=1e-12)
