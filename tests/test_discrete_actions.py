"""Actions that are one of n: the agent against known values, and environments that have them."""

import math

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vgcrl
from test_foreign import KEYS
from tiny import TINY
from vgcrl.envs.gymnasium_engine import Foreign
from vgcrl.objective.agents.sac_discrete import choice, gumbel, sac_discrete
from vgcrl.objective.types import Transition
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve

pytestmark = pytest.mark.usefixtures("unrendered")

WALK = "foreign_envs:Walk-v0"
REWARDS = np.array([1.0, 0.0, -2.0], np.float32)


def agent(**changes):
    options = {"hidden": (16,), "discount": 0.5, "target_rate": 0.1, "target_entropy": 0.5, **changes}
    return sac_discrete(1, 3, lambda z: z, 1, **options)


def batch(terminal):
    actions = jnp.tile(jnp.eye(3), (4, 1))
    zeros = jnp.zeros((12, 1))
    return Transition(zeros, actions, zeros, zeros, jnp.full(12, terminal))


@jax.jit
def learned(terminal, updates=1500):
    """What 1500 updates make of it: Q (action, critic), π (action,), the best action, and α and entropy on the way."""
    made, data, zero = agent(), batch(terminal), jnp.zeros(1)
    cumulant, w = jnp.tile(jnp.asarray(REWARDS), 4)[:, None], jnp.ones((12, 1))
    rate, draws = jnp.float32(0.01), jnp.zeros((2, 12, 3))

    def once(state):
        return made.update(state, data, cumulant, w, rate, draws)

    state = jax.lax.fori_loop(0, updates, lambda i, s: once(s)[0], made.init(jax.random.key(0)))
    q = jax.vmap(lambda a: made.successors(state, zero, a, zero)[:, 0])(jnp.eye(3))
    return q, jax.nn.softmax(state.actor(jnp.zeros(2))), made.best(state, zero, zero), once(state)[1]


def test_values_and_policy_where_episodes_end():
    """Q(a) = r(a), and π ∝ exp(Q/α) with the entropy that was asked for."""
    q, pi, best, info = learned(True)
    np.testing.assert_allclose(q, np.stack([REWARDS, REWARDS], 1), atol=0.02)
    assert float(info["entropy"].mean()) == pytest.approx(0.5, abs=0.02)
    np.testing.assert_allclose(pi, jax.nn.softmax(REWARDS / float(info["alpha"][0])), atol=0.02)
    assert best.tolist() == [1, 0, 0]


def test_values_where_one_stays():
    """One state for ever: V = Σ π (Q − α log π), Q = r + γ V, so V = (Σ π r + α H) / (1 − γ)."""
    q, pi, _, info = learned(False)
    pi, alpha = np.asarray(pi), float(info["alpha"][0])
    value = (pi @ REWARDS - alpha * np.sum(pi * np.log(pi))) / (1 - 0.5)
    np.testing.assert_allclose(q.mean(axis=1), REWARDS + 0.5 * value, atol=0.05)


def test_samples_are_of_the_softmax():
    logits = jnp.log(jnp.array([0.6, 0.3, 0.1]))
    noise = jax.random.normal(jax.random.key(1), (20_000, 3))
    found, alike = jax.jit(jax.vmap(lambda n: (choice(logits + gumbel(n)), agent().random(n))))(noise)
    np.testing.assert_allclose(found.mean(axis=0), [0.6, 0.3, 0.1], atol=0.012)
    np.testing.assert_allclose(alike.mean(axis=0), [1 / 3] * 3, atol=0.012)
    assert np.isfinite(gumbel(jnp.array([-40.0, 40.0]))).all()


@pytest.mark.parametrize("workers", [0, 1])
def test_environments_are_given_the_number_of_an_action(workers):
    worlds = Foreign(WALK, 1, 3, horizon=8, workers=workers)
    assert (worlds.spec.action_dim, worlds.spec.first_action) == (3, -1)
    worlds.reset(KEYS[:1])
    preferences = np.array([[[0.9, 0, 0.1], [-1, -0.5, -0.9], [0, 0, 1]]], np.float32)
    assert worlds.step(preferences, KEYS[:1], 0).next_obs.tolist() == [[[-1], [0], [1]]]
    worlds.close()


def test_entropy_asked_for():
    assert resolve(Options("diayn", WALK)).target_entropy == pytest.approx(0.5 * math.log(3))
    assert resolve(Options("diayn", "CartPole-v1")).target_entropy == pytest.approx(0.5 * math.log(2))


@pytest.mark.slow
def test_a_run_walks_where_it_is_asked(tmp_path):
    """Goals are places on the line; hindsight and 4 000 steps suffice to end within a step of most of them."""
    small = {**TINY, "steps": 4_000, "seeds": 1, "evaluate_every": 4_000, "checkpoint_every": 4_000, "batch": 64}
    run = vgcrl.train("gcrl", env=WALK, learning_rate=3e-3, updates_per_step=0.5, out=tmp_path / "run", **small)
    policy, env = vgcrl.load(run.dir), gymnasium.make(WALK)
    ends = []
    for asked in (-4.0, 0.0, 4.0):
        obs, _ = env.reset()
        for _ in range(8):
            action = policy.act(obs, goal_state=[asked])
            obs, *_ = env.step(action)
        ends.append(abs(float(obs[0]) - asked))
    assert np.mean(ends) <= 1.0, ends
