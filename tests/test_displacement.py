"""LSD, METRA and CSF: posteriors that see how far φ moves, against their formulas and a probe."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vgcrl.measure import metrics
from vgcrl.objective import learner
from vgcrl.objective.goals import Discrete, Normals, Sphere
from vgcrl.objective.networks import Linear
from vgcrl.objective.posteriors import POSTERIORS, Build, PosteriorView, Standardiser
from vgcrl.objective.posteriors.displacement import DUAL_START, FRESH, SLACK, WEIGHT, ByContrast, ByTime

FEATURES = 3
SPACES = {"lsd": Normals(2), "metra": Sphere(2), "metra-discrete": Discrete(5), "csf": Sphere(2)}


def view(name, standardise=None):
    goals = SPACES[name]
    build = Build(2 * FEATURES, goals.dim, (16,), Linear, 1.0, 1, 5.0, log_prior=goals.log_prob)
    q = POSTERIORS[name](jax.random.key(0), build)
    return goals, PosteriorView(q, tuple(range(FEATURES)), "transition", 2, standardise)


def step(seed=1):
    keys = jax.random.split(jax.random.key(seed), 2)
    return jax.random.normal(keys[0], (FEATURES,)), jnp.zeros(2), jax.random.normal(keys[1], (FEATURES,))


@pytest.mark.parametrize("name", SPACES)
def test_the_reward_is_the_inner_product_with_the_change_of_phi(name):
    goals, q = view(name)
    s, action, after = step()
    change = np.asarray(q.q.phi(after) - q.q.phi(s), np.float64)
    for seed in range(5):
        z = goals.sample(jax.random.key(seed))
        corner = np.eye(5)[int(z)] - 1 / 5 if name == "metra-discrete" else None
        vector = np.asarray(z) if corner is None else corner * 5 / 4
        reward = learner.empowerment(q, goals, q.during(s, action, after), z)
        np.testing.assert_allclose(reward, vector @ change, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["metra", "csf", "lsd"])
def test_successor_features_give_the_same_reward(name):
    goals, q = view(name)
    z = goals.sample(jax.random.key(3))
    d = q.during(*step())
    cumulant, w = learner.successor(q, goals, d, z)
    np.testing.assert_allclose(cumulant @ w, learner.empowerment(q, goals, d, z), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("change", "direction"), [([2.0, 1.0], 1), ([0.1, 0.2], -1)])
def test_the_dual_of_metra_rises_where_phi_moves_too_far(change, direction):
    bound, change = ByTime(jnp.log(DUAL_START)), jnp.array(change)
    slack = min(SLACK, 1 - float(jnp.sum(change**2)))
    to_dual, to_change = jax.grad(lambda b, c: b(c), argnums=(0, 1))(bound, change)
    assert np.sign(to_dual.log_dual) == direction  # it ascends: more than it costs where the constraint is broken
    np.testing.assert_allclose(to_dual.log_dual, -DUAL_START * slack, rtol=1e-5)
    inside = slack == SLACK
    np.testing.assert_allclose(to_change, np.zeros(2) if inside else -2 * DUAL_START * np.asarray(change), rtol=1e-5)


def test_csf_tells_a_goal_apart_from_fresh_ones():
    bound = ByContrast(jnp.zeros((FRESH, 2))).refresh(jax.random.key(1))
    np.testing.assert_allclose(np.linalg.norm(bound.fresh, axis=1), 1, rtol=1e-5)
    change = jnp.array([0.7, -0.4])
    each = np.asarray(bound.fresh, np.float64) @ np.asarray(change)
    np.testing.assert_allclose(bound(change), -WEIGHT * np.log(np.mean(np.exp(each))), rtol=1e-4)


@pytest.mark.parametrize("name", ["metra", "lsd", "metra-discrete"])
def test_aim_points_from_here_to_the_target(name):
    goals, q = view(name)
    here, _, target = step()
    z = metrics.aim(goals, q, here, target)
    change = np.asarray(q.q.phi(target) - q.q.phi(here))
    if name == "metra-discrete":
        assert z == np.argmax(change)
    else:
        length = np.sqrt(2) if name == "lsd" else 1
        np.testing.assert_allclose(z, length * change / np.linalg.norm(change), rtol=1e-4)
    assert np.isfinite(np.asarray(metrics.aim(goals, q, here, here), np.float64)).all()


def test_only_a_posterior_of_transitions_aims_anew_at_every_step():
    goals, q = view("metra")
    here, _, target = step()
    pursued = metrics.Pursuit(jnp.array([1.0, 0.0]), target, jnp.array(True))
    np.testing.assert_allclose(metrics.goal_now(goals, q, here, pursued), metrics.aim(goals, q, here, target))
    own = pursued._replace(aimed=jnp.array(False))
    np.testing.assert_array_equal(metrics.goal_now(goals, q, here, own), own.z)


def test_features_are_standardised_by_what_was_usual_at_first():
    random = np.random.default_rng(0)
    mean = np.array([1.0, -20.0, 0.3, 1e4], np.float32)  # one of them, as of a map, is far from 0
    spread = np.array([0.1, 8.0, 2.0, 1.0], np.float32)
    standardise = Standardiser.init(4)
    follow = jax.jit(lambda s, batch: s.follow(batch))
    for _ in range(200):
        standardise = follow(standardise, jnp.asarray(random.normal(mean, spread, (256, 4)), jnp.float32))
    seen = jax.vmap(standardise)(jnp.asarray(random.normal(mean, spread, (5000, 4)), jnp.float32))
    np.testing.assert_allclose(np.mean(seen, axis=0), 0, atol=0.05)
    np.testing.assert_allclose(np.std(seen, axis=0), 1, atol=0.05)
    later = follow(standardise, jnp.full((256, 4), 1e3))
    np.testing.assert_array_equal(later.mean, standardise.mean)  # what is usual is known, and stays


def test_both_states_of_a_transition_are_standardised():
    shift = Standardiser(jnp.array([1.0, 2.0, 3.0]), jnp.full(3, 4.0), jnp.zeros(()))
    _, plain = view("metra")
    _, standard = view("metra", shift)
    s, action, after = step()
    expected = plain.during((s - shift.mean) / 2, action, (after - shift.mean) / 2).change
    np.testing.assert_allclose(standard.during(s, action, after).change, expected, rtol=1e-5)
