"""SAC and Adam against known answers; the slow ones train a method to the paper's effect."""

import re
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jaxtyping import Float
from scipy import stats

import vgcrl
from vgcrl.objective.agents.sac import sac, sample_action, values
from vgcrl.objective.networks import INPUTS, MLP
from vgcrl.objective.optim import FIXED, adam_init, adam_step
from vgcrl.objective.types import Transition
from vgcrl.training.components import build_components
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve


def test_adam_is_that_of_the_paper():
    """In float64, with another learning rate for each of two runs side by side."""
    rates = jnp.array([1e-2, 3e-3])
    ours = {"a": jnp.stack([jnp.arange(3.0)] * 2), "b": jnp.ones((2, 2, 2))}
    state, step = jax.vmap(adam_init)(ours), jax.jit(jax.vmap(adam_step))
    exact = jax.tree.map(lambda x: np.asarray(x, np.float64), ours)
    mean, square = ({k: np.zeros_like(x) for k, x in exact.items()} for _ in range(2))
    for i in range(1, 21):
        grads = jax.tree.map(lambda x, i=i: jnp.sin(x + i), ours)
        ours, state = step(ours, grads, state, rates)
        for k, g in ((k, np.asarray(x, np.float64)) for k, x in grads.items()):
            mean[k] = 0.9 * mean[k] + 0.1 * g
            square[k] = 0.999 * square[k] + 0.001 * g**2
            up = mean[k] / (1 - 0.9**i) / (np.sqrt(square[k] / (1 - 0.999**i)) + 1e-8)
            exact[k] = exact[k] - np.asarray(rates, np.float64).reshape(2, *[1] * (up.ndim - 1)) * up
    for k in exact:
        np.testing.assert_allclose(ours[k], exact[k], rtol=1e-5)


class Half(eqx.Module):
    moved: Float[Array, " n"]
    kept: Float[Array, " n"] = eqx.field(metadata=FIXED)


def test_what_is_fixed_has_no_moments_and_is_not_moved():
    params = {"halves": (Half(jnp.ones(2), jnp.ones(2)), Half(jnp.ones(3), jnp.ones(3))), "other": jnp.ones(4)}
    state = adam_init(params)
    assert [x.shape for x in jax.tree.leaves(state.mu)] == [(2,), (3,), (4,)]
    after, _ = adam_step(params, jax.tree.map(jnp.ones_like, params), state, jnp.float32(0.1))
    for half in after["halves"]:
        np.testing.assert_array_equal(half.kept, 1.0)
        np.testing.assert_allclose(half.moved, 0.9, rtol=1e-6)
    np.testing.assert_allclose(after["other"], 0.9, rtol=1e-6)


def test_density_of_squashed_actions():
    """Against the change of variables in float64, where the tanh is not saturated."""
    actor = MLP.init(jax.random.key(0), (3, 8, 4))
    x, noise = jnp.ones(3), jnp.array([0.3, -1.2])
    action, log_pi = sample_action(actor, x, noise)
    mean, log_std = np.split(np.asarray(actor(x), np.float64), 2)
    u = np.arctanh(np.asarray(action, np.float64))
    expected = stats.norm(mean, np.exp(log_std)).logpdf(u).sum() - np.log(1 - np.tanh(u) ** 2).sum()
    assert float(log_pi) == pytest.approx(expected, abs=1e-4)


def learn(reward, terminal, steps, discount=0.9):
    """SAC on a probe: one state, one action dimension, no goal to speak of."""
    settings = {"hidden": (32, 32), "discount": discount, "target_rate": 0.05, "target_entropy": -1.0}
    agent = sac(1, 1, lambda z: z, 1, **settings)

    def body(i, state):
        key_action, key_update = jax.random.split(jax.random.fold_in(jax.random.key(1), i))
        action = jax.random.uniform(key_action, (64, 1), minval=-1.0, maxval=1.0)
        ones = jnp.ones((64, 1))
        batch = Transition(ones, action, ones, ones, jnp.full(64, terminal))
        noise = jax.random.normal(key_update, (2, 64, 1))
        return agent.update(state, batch, reward(action), ones, jnp.float32(3e-3), noise)[0]

    state = jax.jit(lambda: jax.lax.fori_loop(0, steps, body, agent.init(jax.random.key(0))))()
    return agent, state


def test_probe_one_step():
    """Terminal after one step: Q is the reward and the policy finds its maximum."""
    agent, state = learn(lambda a: -((a - 0.5) ** 2), terminal=True, steps=1500)
    line = jnp.linspace(-0.9, 0.9, 7)[:, None]
    q = jax.jit(values)(state.critics, jnp.ones((7, 2)), line)
    np.testing.assert_allclose(q[..., 0], np.tile(-((line[:, 0] - 0.5) ** 2), (2, 1)), atol=0.05)
    best = jax.jit(agent.best)(state, jnp.ones(1), jnp.ones(1))
    assert float(best[0]) == pytest.approx(0.5, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("inputs", "low", "high"), [("raw", 0.2, 0.4), ("symlog", 0.0, 0.1)])
def test_probe_a_small_goal_beside_large_numbers(inputs, low, high):
    """The best action is half the goal; noise a hundred times larger hides it (0.29 is knowing nothing of it)."""
    settings = {"hidden": (32, 32), "discount": 0.9, "target_rate": 0.05, "target_entropy": -1.0}
    agent = sac(9, 1, lambda z: z, 1, **settings, scale=INPUTS[inputs])

    def draw(key, count):
        key_obs, key_z = jax.random.split(key)
        return 100 * jax.random.normal(key_obs, (count, 9)), jax.random.uniform(key_z, (count, 1), minval=-1.0)

    def body(i, state):
        key_draw, key_action, key_noise = jax.random.split(jax.random.fold_in(jax.random.key(1), i), 3)
        obs, z = draw(key_draw, 64)
        action = jax.random.uniform(key_action, (64, 1), minval=-1.0)
        batch = Transition(obs, action, obs, z, jnp.full(64, True))
        noise = jax.random.normal(key_noise, (2, 64, 1))
        return agent.update(state, batch, -((action - z / 2) ** 2), jnp.ones((64, 1)), jnp.float32(3e-3), noise)[0]

    @jax.jit
    def error():
        state = jax.lax.fori_loop(0, 1500, body, agent.init(jax.random.key(0)))
        obs, z = draw(jax.random.key(2), 200)
        best = jax.vmap(agent.best, (None, 0, 0))(state, obs, z)
        return jnp.sqrt(jnp.mean((best - z / 2) ** 2))

    assert low < float(error()) < high


def test_inputs_are_a_setting_of_a_run():
    """A run with symlog acts on numbers as a raw one does on their logarithms."""
    config = {"method": "gcrl", "env": "pointmass", "steps": 1000, "hidden": (8, 8)}
    parts, other = (build_components(resolve(Options(**config, inputs=how))) for how in INPUTS)
    raw, logarithmic, state = jax.jit(parts.agent.best), jax.jit(other.agent.best), parts.agent.init(jax.random.key(0))
    obs, z = jnp.linspace(-40.0, 5.0, parts.spec.obs_dim), jnp.linspace(-3.0, 0.5, parts.goals.dim)
    seen = [INPUTS["symlog"](x) for x in (obs, z)]
    np.testing.assert_allclose(logarithmic(state, obs, z), raw(state, *seen), rtol=1e-6)
    assert not np.allclose(logarithmic(state, obs, z), raw(state, obs, z))


def test_probe_bootstraps_only_past_time_limits():
    """Reward 1 for ever: at the target entropy of −1 the bonus costs α per step, so Q = (1 − γα)/(1 − γ)."""
    _, state = learn(lambda a: jnp.ones_like(a), terminal=False, steps=1500)
    q = float(jax.jit(values)(state.critics, jnp.ones((1, 2)), jnp.zeros((1, 1))).min())
    alpha = float(jnp.exp(state.log_alpha))
    assert q == pytest.approx((1 - 0.9 * alpha) / (1 - 0.9), rel=0.15)
    _, state = learn(lambda a: jnp.ones_like(a), terminal=True, steps=600)
    assert float(values(state.critics, jnp.ones((1, 2)), jnp.zeros((1, 1))).min()) == pytest.approx(1.0, abs=0.05)


@pytest.mark.slow
def test_default_run_discriminates_ten_skills(tmp_path):
    run = vgcrl.train(out=tmp_path / "run")
    assert min(row["lgr_z"] for row in run.last["seeds"]) > 0.949  # 19 episodes of 20, in single precision


@pytest.mark.slow
@pytest.mark.parametrize("wind", [(0.0, 40.0), (40.0, 0.0), (30.0, 0.0, 60.0)])
def test_adaptive_variance_finds_the_windless_dimension(tmp_path, wind):
    run = vgcrl.train("agcrl", env="windy-pointmass", dims=len(wind), wind=wind, out=tmp_path / "run")
    calm = wind.index(0.0)
    for row in run.last["seeds"]:
        sigma = row["posterior"]["sigma"]
        assert all(sigma[calm] < 0.6 * s for i, s in enumerate(sigma) if i != calm)


@pytest.mark.slow
@pytest.mark.parametrize("posterior", ["gaussian", "gmm"])
def test_continuous_goals_beat_an_uninformed_mode(tmp_path, posterior):
    run = vgcrl.train("vgcrl", posterior=posterior, out=tmp_path / "run")
    assert max(row["lgr_z"] for row in run.last["seeds"]) < 0.2  # an uninformed mode gives 1/3


@pytest.mark.slow
def test_an_environment_of_ones_own_is_learned(tmp_path):
    """The example, as a user runs it: to within a fifth of a lake of 2 by 2."""
    script = Path(__file__).parents[1] / "examples" / "own_environment.py"
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Overriding" not in done.stderr
    assert float(re.search(r"LGR\(s\) of 20 places: ([\d.]+)", done.stdout)[1]) < 0.04
