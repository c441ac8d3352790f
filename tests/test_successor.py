"""Successor features: log q is linear where it is said to be, and both critics know the sums of a probe."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vgcrl.objective import learner
from vgcrl.objective.agents.base import Agent
from vgcrl.objective.agents.sac import sac, sample_action
from vgcrl.objective.goals import Discrete, Normals, Sphere, TanhBox, cube
from vgcrl.objective.networks import Linear
from vgcrl.objective.posteriors import LINEAR, POSTERIORS, Build, PosteriorView
from vgcrl.objective.relabel import RELABELS
from vgcrl.objective.types import Knobs, Transition
from vgcrl.training.components import build_components
from vgcrl.training.host_program import compile_config
from vgcrl.training.options import Options
from vgcrl.training.program import policy
from vgcrl.training.resolve import resolve

D = 3
SPACES = {"categorical": Discrete(D), "vmf": Sphere(D), "gaussian-fixed": TanhBox(D)}
SPACES |= {"lsd": Normals(D), "metra": Sphere(D), "csf": Sphere(D)}
SEES_TRANSITIONS = ("lsd", "metra", "csf")
LEARNS_NOTHING = ("state-fixed",)
KEY = jax.random.key(3)


def built(name):
    goals, given = SPACES.get(name, cube(D)), "transition" if name in SEES_TRANSITIONS else "state"
    build = Build(D, D, (8, 8), Linear, sigma=0.7, components=2, kappa=5.0, log_prior=goals.log_prob)
    if given == "transition":
        build = build._replace(features=2 * D)
    return PosteriorView(POSTERIORS[name](KEY, build), tuple(range(D)), given, 1), goals


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

    return agent, jax.jit(lambda: jax.lax.fori_loop(0, steps, body, agent.init(KEY)))()


WEIGHTS = jnp.array([2.0, -1.0, 0.0, 1.0])
PROBES = {
    "scalar": (1, lambda a: ((2 * a - a**2)[None], jnp.ones(1))),
    "vector": (4, lambda a: (jnp.stack([a, a**2, 1.0 + 0 * a, 0 * a]), WEIGHTS)),
}


@pytest.mark.parametrize("name", PROBES)
def test_critics_know_the_sums_of_a_probe(name):
    """The reward 2a − a² as one number, and as features (a, a²) with weights (2, −1), a constant and the entropy.

    There is one state and γ = 1/2, so what follows an action is worth one mean under the policy of each feature,
    and α times its entropy.
    """
    agent, state = trained(*PROBES[name])
    one = jnp.ones(1)
    actions, log_pi = jax.vmap(sample_action, (None, None, 0))(
        state.actor, jnp.ones(2), jax.random.normal(KEY, (4000, 1))
    )
    bonus = -float(jnp.exp(state.log_alpha) * log_pi.mean())
    later = np.array([actions.mean(), (actions**2).mean(), 1.0, bonus])
    for a in (-0.5, 0.0, 0.5, 0.9):
        expected = np.array([a, a**2, 1.0, 0.0]) + later
        psi = np.asarray(agent.successors(state, one, jnp.full(1, a), one))
        np.testing.assert_allclose(psi, [expected if name == "vector" else [expected @ WEIGHTS]] * 2, atol=0.15)
    assert float(agent.best(state, one, one)[0]) > 0.7, "the maximum is at 1"


def test_generalised_improvement_takes_the_best_of_what_other_goals_do():
    config = resolve(Options("visr", envs=2, hidden=(8, 8), batch=8, replay=1000, seeds=1, gpi=7))
    program, parts = compile_config(config), build_components(config)
    run = jax.tree.map(lambda x: x[0], program.init())
    obs, z = jnp.array([0.5, -0.3, 0.1, 0.2]), jnp.array([1.0, 0.0])
    chosen = program.act(run, obs, z)
    q, agent = run.learner.q, run.learner.agent
    w = learner.successor(q, program.goals, q(obs), z)[1]

    def value(td_target):
        action = parts.agent.best(agent, obs, td_target)
        return float(jnp.min(parts.agent.successors(agent, obs, action, td_target) @ w)), action

    others = jax.vmap(program.goals.sample)(jax.random.split(jax.random.key(0), 7))
    values, actions = zip(*[value(g) for g in [z, *others]], strict=True)
    np.testing.assert_allclose(chosen, actions[int(np.argmax(values))], atol=1e-6)
    assert int(np.argmax(values)) != 0, "here another goal's action is better, so that the choice shows"
    np.testing.assert_array_equal(program.act(policy(config, run), obs, z), chosen)  # which takes its critics along


# One of each kind of goal: a category, a state, a direction on a sphere, a transition; in make slow every one.
KINDS = ("categorical", "state-fixed", "vmf", "metra")
EACH = [pytest.param(name, marks=() if name in KINDS else pytest.mark.slow) for name in LINEAR]


@pytest.mark.parametrize("critic", ["successor", pytest.param("scalar", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", EACH)
def test_an_update_is_finite_with_every_linear_posterior(name, critic):
    """Through the learner, with relabelled goals; agent and q move."""
    q, goals = built(name)
    width = D + LINEAR[name] + 2 if critic == "successor" else 1
    fixed = {"hidden": (8,), "discount": 0.9, "target_rate": 0.05, "target_entropy": -1.0}
    agent = sac(D, 1, goals.embed, goals.dim, cumulant_dim=width, **fixed)
    obs, z = jax.random.normal(KEY, (6, D)), jax.vmap(goals.sample)(jax.random.split(KEY, 6))
    batch = Transition(obs, jnp.zeros((6, 1)), obs[::-1], z, jnp.zeros(6, bool))
    knobs = Knobs(*[jnp.full((), 0.5)] * len(Knobs._fields))
    how = {"agent": agent, "goals": goals, "how": RELABELS["p-her"], "critic": learner.CRITICS[critic], "bonus": 0.0}
    before = learner.init(q, agent, KEY)
    after, info = jax.jit(partial(learner.update, **how))(before, batch, obs, knobs, learner.draw(KEY, 6, 1))
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves((after, info)))
    for part, moves in (("q", name not in LEARNS_NOTHING), ("agent", True)):
        pairs = zip(*(jax.tree.leaves(getattr(x, part)) for x in (before, after)), strict=True)
        assert any(not np.array_equal(a, b) for a, b in pairs) == moves


@pytest.mark.parametrize("name", learner.CRITICS)
def test_a_bonus_is_paid_at_every_step_whatever_the_critic(name):
    """The reward that the agent learns from, with a bonus and without; what is reported has none."""
    q, goals = built("categorical")
    seen = []

    def record(state, batch, cumulant, w, rate, noise):
        seen.append(jnp.sum(cumulant * w, axis=-1))
        return state, {}

    agent = Agent(lambda key: (), *[None] * 3, record, None)
    obs, action = jax.random.normal(KEY, (6, D)), jnp.zeros((6, 1))
    batch = Transition(obs, action, obs[::-1], jnp.arange(6) % D, jnp.zeros(6, bool))
    knobs = Knobs(*[jnp.zeros(())] * len(Knobs._fields))
    how = {"agent": agent, "goals": goals, "how": RELABELS["none"], "critic": learner.CRITICS[name]}
    draws = learner.draw(KEY, 6, 1)
    state = learner.init(q, agent, KEY)
    reported = [learner.update(state, batch, None, knobs, draws, **how, bonus=b)[1]["reward"] for b in (0.0, 2.5)]
    np.testing.assert_allclose(seen[1] - seen[0], 2.5, rtol=1e-5)
    np.testing.assert_array_equal(*reported)


@pytest.mark.parametrize("critic", learner.CRITICS)
@pytest.mark.parametrize("name", sorted(set(LINEAR) - set(SEES_TRANSITIONS)))
def test_progress_adds_up_to_what_an_episode_added_to_log_q(name, critic):
    """Rewards of successive steps, through the learner, against log q of the last state and of the first."""
    q, goals = built(name)
    path, z = jax.random.normal(KEY, (7, D)), goals.sample(KEY)
    batch = Transition(path[:-1], jnp.zeros((6, 1)), path[1:], jnp.stack([z] * 6), jnp.zeros(6, bool))
    agent = Agent(lambda key: (), *[None] * 3, lambda state, *_: (state, {}), None)
    knobs = Knobs(*[jnp.zeros(())] * len(Knobs._fields))
    how = {"agent": agent, "goals": goals, "how": RELABELS["none"], "critic": learner.CRITICS[critic], "bonus": 0.0}
    state, draws = learner.init(q, agent, KEY), learner.draw(KEY, 6, 1)
    added = jax.jit(partial(learner.update, **how, progress=True))(state, batch, None, knobs, draws)[1]["reward"]
    first, last = jax.jit(jax.vmap(lambda s: q(s).log_prob(q.code(z))))(path[jnp.array([0, -1])])
    np.testing.assert_allclose(jnp.sum(added), last - first, rtol=1e-3, atol=1e-4)
