"""Replay against a plain Python list of episodes, over random lengths, terminations and wraps."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vgcrl.objective.types import Transition
from vgcrl.training import replay

ENVS, HORIZON = 3, 9


def tag(env, episode, t):
    """An observation that says where it comes from."""
    return [float(env), float(episode), float(t)]


@partial(jax.jit, static_argnames=("batch", "later"))
def sample(buffer, key, batch, later):
    return replay.sample(buffer, key, batch, later)


add = jax.jit(replay.add)


def play(seed, steps, rows):
    """Random episodes; the lengths of all episodes, finished or not, per environment."""
    rng = np.random.default_rng(seed)
    zeros = jnp.zeros((ENVS, 3))
    example = Transition(zeros, jnp.zeros((ENVS, 1)), zeros, jnp.zeros(ENVS, jnp.int32), jnp.zeros(ENVS, bool))
    buffer = replay.init(example, rows, HORIZON)
    lengths = [[0] for _ in range(ENVS)]
    for _ in range(steps):
        where = [(e, len(lengths[e]) - 1, lengths[e][-1]) for e in range(ENVS)]
        last = [t + 1 == HORIZON or rng.random() < 0.25 for _, _, t in where]
        step = Transition(
            jnp.array([tag(*w) for w in where]),
            jnp.array([[float(t)] for _, _, t in where]),
            jnp.array([tag(e, i, t + 1) for e, i, t in where]),
            jnp.array([i for _, i, _ in where], jnp.int32),
            jnp.array(last),
        )
        buffer = add(buffer, step, jnp.array(last))
        for e in range(ENVS):
            lengths[e][-1] += 1
            if last[e]:
                lengths[e].append(0)
    return buffer, lengths


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10_000), steps=st.integers(1, 120), later=st.sampled_from(replay.RELABEL_STATES))
def test_samples_are_true_steps_and_states_of_their_episode(seed, steps, later):
    buffer, lengths = play(seed, steps, rows=32)
    step, state = sample(buffer, jax.random.key(seed), 256, later)
    for obs, action, next_obs, z, terminal, place in zip(*map(np.asarray, (*step, state)), strict=True):
        env, episode, t = obs.astype(int)
        length = lengths[env][episode]
        assert t < length, "a final observation starts no step"
        assert next_obs.tolist() == tag(env, episode, t + 1)
        assert action[0] == t
        assert z == episode
        assert terminal == (t + 1 == length and episode < len(lengths[env]) - 1)
        assert place[:2].tolist() == [env, episode]
        least = {"final": length, "later": t + 1, "episode": 0}[later]
        assert least <= place[2] <= length


def test_sampling_is_uniform_and_covers_whole_recent_episodes():
    buffer, lengths = play(seed=5, steps=200, rows=64)
    step, _ = sample(buffer, jax.random.key(0), 60_000, "final")
    found, counts = np.unique(np.asarray(step.obs).astype(int), axis=0, return_counts=True)
    kept = {(e, i) for e, i, _ in found}
    expected = {(e, i, t) for e, i in kept for t in range(lengths[e][i])}
    assert {tuple(row) for row in found} == expected, "episodes are kept and evicted whole"
    for e in range(ENVS):
        newest = sorted(i for env, i in kept if env == e)
        assert newest == list(range(newest[0], newest[-1] + 1))
        assert newest[-1] >= len(lengths[e]) - 2
        mine = counts[found[:, 0] == e]
        assert len(mine) > 64 - 2 * (HORIZON + 1) - len(newest), "little of the ring is unused"
        assert mine.max() / mine.min() < 1.35  # 5 standard errors at about 400 draws each


def test_later_states_are_uniform():
    buffer, lengths = play(seed=2, steps=9, rows=32)
    step, state = sample(buffer, jax.random.key(0), 40_000, "later")
    obs, state = np.asarray(step.obs), np.asarray(state)
    mine = (obs[:, 0] == 0) & (obs[:, 1] == 0) & (obs[:, 2] == 0)
    ahead = np.bincount(state[mine][:, 2].astype(int))[1:]
    assert len(ahead) == lengths[0][0]
    assert ahead.max() / ahead.min() < 1.5


def test_each_observation_is_stored_once_within_100_bytes_per_step():
    obs, action = jnp.zeros((8, 17)), jnp.zeros((8, 6))
    example = Transition(obs, action, obs, jnp.zeros(8, jnp.int32), jnp.zeros(8, bool))
    shapes = jax.eval_shape(lambda: replay.init(example, 125_000, 1000))
    assert sum(x.size * x.dtype.itemsize for x in shapes) <= 100e6


def test_too_small_a_ring_is_refused():
    zeros = jnp.zeros((1, 1))
    with pytest.raises(ValueError, match="less than"):
        replay.init(Transition(zeros, zeros, zeros, zeros, jnp.zeros(1, bool)), 10, horizon=100)
