"""Successor features: log q is linear where it is said to be, and the vector critic is the scalar one."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vgcrl.objective import learner
from vgcrl.objective.agents.sac import Agent, sac
from vgcrl.objective.goals import Discrete, Sphere, TanhBox, cube
from vgcrl.objective.networks import Linear
from vgcrl.objective.posteriors import LINEAR, POSTERIORS, Build, PosteriorView
from vgcrl.objective.relabel import RELABELS
from vgcrl.objective.types import Knobs, Transition
from vgcrl.training.host_program import compile_config
from vgcrl.training.options import Options
from vgcrl.training.program import build_components, policy
from vgcrl.training.resolve import resolve

D = 3
SPACES = {"categorical": Discrete(D), "vmf": Sphere(D), "gaussian-fixed": TanhBox(D)}
KEY = jax.random.key(3)


def built(name):
    build = Build(D, D, (8, 8), Linear, sigma=0.7, components=2, kappa=5.0)
    return PosteriorView(POSTERIORS[name](KEY, build), tuple(range(D)), "state", 1), SPACES.get(name, cube(D))


@pytest.mark.parametrize("name", LINEAR)
def test_log_density_is_linear_in_features_of_the_state(name):
    """log q(z|s) = ⟨φ(s), w(z)⟩ + g(z): w and g must not know the state."""
    q, goals = built(name)
    states = jax.random.normal(KEY, (5, D))
    for key in jax.random.split(KEY, 4):
        z = goals.sample(key)
        d = [q(s) for s in states]
        np.testing.assert_allclose(
            [x.log_prob(z) for x in d], [x.linear() @ x.weights(z) + x.offset(z) for x in d], rtol=1e-4, atol=1e-4
        )
        assert len({np.asarray(x.weights(z)).tobytes() for x in d}) == 1
        np.testing.assert_allclose([x.offset(z) for x in d], d[0].offset(z), rtol=1e-5)
        assert d[0].linear().shape == (D + LINEAR[name],)


@pytest.mark.parametrize("name", LINEAR)
def test_the_product_of_cumulant_and_weights_is_the_reward(name):
    q, goals = built(name)
    z = goals.sample(KEY)
    d = q(jnp.array([0.3, -0.5, 1.0]))
    cumulant, w = learner.successor(q, goals, d, z)
    np.testing.assert_allclose(cumulant @ w, learner.empowerment(q, goals, d, z), rtol=1e-4, atol=1e-4)
    assert cumulant[-1] == 0, "entropy is gathered there"
    assert w[-1] == 1


def trained(cumulant_dim, critic, steps=1500):
    """A probe: one state, reward 2a − a², no end; the value is the sum of rewards and entropy."""
    agent = sac(
        1,
        1,
        lambda z: z,
        1,
        hidden=(32, 32),
        discount=0.5,
        target_rate=0.05,
        target_entropy=-1.0,
        cumulant_dim=cumulant_dim,
    )

    def body(i, state):
        key_action, key_update = jax.random.split(jax.random.fold_in(jax.random.key(1), i))
        action = jax.random.uniform(key_action, (64, 1), minval=-1.0, maxval=1.0)
        ones = jnp.ones((64, 1))
        batch = Transition(ones, action, ones, ones, jnp.zeros(64, bool))
        noise = jax.random.normal(key_update, (2, 64, 1))
        return agent.update(state, batch, *jax.vmap(critic)(action[:, 0]), jnp.float32(3e-3), noise)[0]

    return agent, jax.jit(lambda s: jax.lax.fori_loop(0, steps, body, s))(agent.init(KEY))


def test_vector_and_scalar_critics_agree_on_a_probe():
    """The same reward as one number, and as features (a, a²) with weights (2, −1), a constant and the entropy."""
    scalar = trained(1, lambda a: ((2 * a - a**2)[None], jnp.ones(1)))
    vector = trained(4, lambda a: (jnp.stack([a, a**2, 1.0 + 0 * a, 0 * a]), jnp.array([2.0, -1.0, 0.0, 1.0])))
    w = jnp.array([2.0, -1.0, 0.0, 1.0])
    one = jnp.ones(1)
    for a in (-0.5, 0.0, 0.5, 0.9):
        action = jnp.full(1, a)
        q = np.asarray(scalar[0].successors(scalar[1], one, action, one))[:, 0]
        psi = np.asarray(vector[0].successors(vector[1], one, action, one))
        np.testing.assert_allclose(psi @ w, q, atol=0.15)
        np.testing.assert_allclose(psi[:, 0] - psi[:, 0].mean() + a, a, atol=0.1)
        assert psi[0, 2] == pytest.approx(2.0, abs=0.1), "a constant of 1 sums to 1 / (1 − γ)"
    drop = [float(x[0].successors(x[1], one, jnp.full(1, 0.9), one)[0, 0]) for x in (scalar,)]
    value = 2 * 0.9 - 0.81 + 0.5 * 2 * (2 * 0.9 - 0.81)  # at least what going on with 0.9 gives
    assert drop[0] > value - 0.3
    best = [float(x[0].best(x[1], one, one)[0]) for x in (scalar, vector)]
    assert min(best) > 0.7, "both find the maximum at 1"


def test_generalised_improvement_takes_the_best_of_what_other_goals_do():
    config = resolve(Options("visr", envs=2, hidden=(8, 8), batch=8, replay=1000, seeds=1, gpi=7))
    program, parts = compile_config(config), build_components(config)
    run = jax.tree.map(lambda x: x[0], program.init())
    obs, z = jnp.array([0.5, -0.3, 0.1, 0.2]), jnp.array([1.0, 0.0])
    chosen = program.best(run, obs, z)
    q, agent = run.learner.q, run.learner.agent
    w = learner.successor(q, program.goals, q(obs), z)[1]

    def value(td_target):
        action = parts.agent.best(agent, obs, td_target)
        return float(jnp.min(parts.agent.successors(agent, obs, action, td_target) @ w)), action

    others = jax.vmap(program.goals.sample)(jax.random.split(jax.random.key(0), 7))
    values, actions = zip(*[value(g) for g in [z, *others]], strict=True)
    np.testing.assert_allclose(chosen, actions[int(np.argmax(values))], atol=1e-6)
    assert int(np.argmax(values)) != 0, "here another goal's action is better, so that the choice shows"
    np.testing.assert_array_equal(program.best(policy(config, run), obs, z), chosen)  # which takes its critics along


@pytest.mark.parametrize("critic", ["scalar", "successor"])
def test_losses_are_finite_with_every_linear_posterior(critic):
    """Through the learner, with relabelled goals."""
    q, goals = built("vmf")
    w = jax.vmap(partial(learner.CRITICS[critic], q, goals))(
        jax.vmap(q)(jax.random.normal(KEY, (6, D))), jax.vmap(goals.sample)(jax.random.split(KEY, 6))
    )
    assert all(np.all(np.isfinite(x)) for x in w)


@pytest.mark.parametrize("name", learner.CRITICS)
def test_a_bonus_is_paid_at_every_step_whatever_the_critic(name):
    """The reward that the agent learns from, with a bonus and without; what is reported has none."""
    q, goals = built("categorical")
    seen = []

    def record(state, batch, cumulant, w, rate, noise):
        seen.append(jnp.sum(cumulant * w, axis=-1))
        return state, {}

    agent = Agent(lambda key: (), *[None] * 3, record)
    obs, action = jax.random.normal(KEY, (6, D)), jnp.zeros((6, 1))
    batch = Transition(obs, action, obs[::-1], jnp.arange(6) % D, jnp.zeros(6, bool))
    knobs = Knobs(*[jnp.zeros(())] * len(Knobs._fields))
    how = {"agent": agent, "goals": goals, "how": RELABELS["none"], "critic": learner.CRITICS[name]}
    draws = learner.draw(KEY, 6, 1)
    state = learner.init(q, agent, KEY)
    reported = [learner.update(state, batch, None, knobs, draws, **how, bonus=b)[1]["reward"] for b in (0.0, 2.5)]
    np.testing.assert_allclose(seen[1] - seen[0], 2.5, rtol=1e-5)
    np.testing.assert_array_equal(*reported)
