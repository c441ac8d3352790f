"""One contract for every posterior, known answers for the simple ones, and relabelling with them."""

import functools
import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vgcrl.objective.goals import Discrete, Normals, Sphere, cube
from vgcrl.objective.networks import Linear, Spectral
from vgcrl.objective.optim import adam_init, adam_step, learned
from vgcrl.objective.posteriors import POSTERIORS, Build, PosteriorView
from vgcrl.objective.posteriors.gaussian import LOG_STD_RANGE, gaussian
from vgcrl.objective.relabel import HER, NONE, PHER, relabel

D, RUNS = 3, 3
BUILD = Build(features=D, goals=D, hidden=(8, 8), layer=Linear, sigma=0.7, components=2, kappa=5.0)
PICTURE = (4, 4, 1)
SPACES = {"categorical": Discrete(D), "dynamics": Discrete(D), "vmf": Sphere(D), "nonparametric-conv": cube(16)}
SPACES |= {"lsd": Normals(D), "metra": Sphere(D), "metra-discrete": Discrete(D), "csf": Sphere(D)}
INPUTS = dict.fromkeys(("dynamics", "lsd", "metra", "metra-discrete", "csf"), 2 * D) | {"nonparametric-conv": 16}
MOVED = ("left", "block", "memory", "scale", "fresh")  # by refresh, not by gradients
FIXED = (*MOVED, "decoys", "bound")
FAMILY = list(itertools.product(("identity", "linear", "mlp"), ("fixed", "global", "state"), (False, True)))
REGISTERED = [b.keywords for b in POSTERIORS.values() if isinstance(b, partial)]
MEMBERS = {
    f"{mean}-{covariance}-{'full' if full else 'diagonal'}": partial(
        gaussian, mean=mean, covariance=covariance, full=full
    )
    for mean, covariance, full in FAMILY
    if {"full": False} | {"mean": mean, "covariance": covariance, "full": full}
    not in [{"full": False} | keywords for keywords in REGISTERED]
}
EVERY = POSTERIORS | MEMBERS
LAYERS = {"linear": Linear, "spectral": partial(Spectral.init, bound=jnp.float32(2.0))}
GAUSSIANS = [name for name, build in EVERY.items() if isinstance(build, partial) and build.func is gaussian]
KEYS = jax.random.split(jax.random.key(0), 2)[jnp.array([0, 1, 0])]  # the last run is the first again
CASES = list(itertools.product(EVERY, LAYERS))


def posteriors(name, layer):
    """One posterior per run, as drawn by its builder; layers of one shape compile once.

    A spectral layer starts with a loop that compiles anew in every posterior: there the builder gives
    the shapes, and numpy the numbers.
    """
    sizes = {"features": INPUTS.get(name, D), "image": PICTURE, "hidden": (16, 16) if name == "dynamics" else (D, D)}
    build = jax.vmap(lambda key: EVERY[name](key, BUILD._replace(**sizes, layer=LAYERS[layer])))
    if layer == "linear":
        return build(KEYS)
    rng = np.random.default_rng(0)
    drawn = jax.tree.map(lambda x: rng.uniform(-0.2, 0.5, x.shape), jax.eval_shape(build, KEYS))
    drawn = jax.tree.map(lambda x: x[[0, 1, 0]], drawn)
    bounded = lambda path, x: jnp.asarray(np.full_like(x, 2) if path[-1].name == "bound" else x, jnp.float32)  # noqa: E731
    return jax.tree_util.tree_map_with_path(bounded, drawn)


def one_run(space, q, s, key):
    """Everything a posterior answers, for one state and one goal of the space that fits it."""
    key_z, key_sample = jax.random.split(key)
    z = space.sample(key_z)
    log_prob, pull = jax.vjp(lambda q: q(s).log_prob(q.code(z)), q)
    answers = {"q": q, "z": z, "log_prob": log_prob, "grads": pull(jnp.ones_like(log_prob))[0]}
    answers |= {"sample": q(s).sample(key_sample), "mode": q(s).mode()}
    return answers | {"refreshed": q.refresh(s[None], key_sample), "learned": q.learned()}


@functools.cache
def answers(name, layer):
    """Of runs under vmap."""
    run = jax.jit(jax.vmap(partial(one_run, SPACES.get(name, cube(D)))))
    states = jnp.resize(jnp.array([0.5, -1.0, 0.3, -0.2, 0.8, 1.1, 0.7]), (2, INPUTS.get(name, D)))
    args = posteriors(name, layer), states[jnp.array([0, 1, 0])], KEYS
    return run, args, run(*args)


def shapes(tree):
    return jax.tree.map(lambda x: (x.shape, x.dtype), tree)


def finite(tree):
    return all(np.all(np.isfinite(x)) for x in jax.tree.leaves(tree))


def test_the_cases_cover_the_gaussian_family():
    keywords = [EVERY[name].keywords for name in GAUSSIANS]
    members = {(k["mean"], k["covariance"], k.get("full", False)) for k in keywords}
    assert members == set(FAMILY)


# Bounded layers are one class: in make test a posterior of each kind of head has them, in make slow every one; as for
# the members of the Gaussian family that no name stands for.
BOUNDED = ("gaussian", "gaussian-full", "categorical", "metra")
LONG = {(name, "spectral") for name in EVERY if name not in BOUNDED}
LONG |= {(name, "linear") for name in ("nonparametric-conv", *MEMBERS)}


def _marked(case):
    return pytest.param(*case, marks=pytest.mark.slow) if tuple(case) in LONG else case


EACH = pytest.mark.parametrize(("name", "layer"), list(map(_marked, CASES)))


@EACH
def test_contract(name, layer):
    _, _, a = answers(name, layer)
    assert a["log_prob"].shape == (RUNS,)
    assert finite({k: x for k, x in a.items() if k != "q"})
    assert shapes(a["sample"]) == shapes(a["mode"]) == shapes(a["z"])
    assert isinstance(a["learned"], dict)
    assert jax.tree.structure(a["refreshed"]) == jax.tree.structure(a["q"]) == jax.tree.structure(a["grads"])
    assert shapes(a["refreshed"]) == shapes(a["q"])


@EACH
def test_refresh_moves_only_what_gradients_do_not(name, layer):
    _, _, a = answers(name, layer)
    leaves = jax.tree_util.tree_leaves_with_path(a["q"])
    for (path, before), after in zip(leaves, jax.tree.leaves(a["refreshed"]), strict=True):
        if path[-1].name != "decoys":  # drawn at random from the memory, and by chance the same
            assert np.array_equal(before, after) != (path[-1].name in MOVED)


@EACH
def test_runs_are_apart(name, layer):
    """The same run answers the same wherever it stands, and another otherwise."""
    _, _, a = answers(name, layer)
    for answer in ("log_prob", "mode", "sample"):
        np.testing.assert_allclose(a[answer][2], a[answer][0], rtol=1e-5, atol=1e-6)
    assert a["log_prob"][0] != a["log_prob"][1]


LEARNS_NOTHING = ("state-fixed", "state-huber", "state-floored", "identity-fixed-full")


@EACH
def test_gradients_reach_what_is_learned(name, layer):
    """And nothing else, which has no moments either: given covariances, what `refresh` moves, bounds of layers."""
    a = answers(name, layer)[2]
    grads = [(path[-1].name, x) for path, x in jax.tree_util.tree_leaves_with_path(a["grads"])]
    assert all(np.any(x) for field, x in grads if field == "weight")
    assert any(np.any(x) for _, x in grads) == (name not in LEARNS_NOTHING)
    mask = jax.tree.leaves(learned(a["q"]))
    assert not any(np.any(x) for (_, x), moves in zip(grads, mask, strict=True) if not moves)
    given = ("value",) if any(kind in name for kind in ("fixed", "huber", "floored")) else ()
    assert mask == [field not in FIXED + given for field, _ in grads]


def member(mean, covariance, full=False, **changes):
    return gaussian(jax.random.key(0), BUILD._replace(**changes), mean=mean, covariance=covariance, full=full)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("covariance", ["fixed", "global"])
def test_covariances_start_at_sigma(covariance, full):
    q = member("identity", covariance, full)
    np.testing.assert_allclose(q.learned()["sigma"], 0.7, rtol=1e-6)
    if full:
        np.testing.assert_allclose(q.learned()["covariance"], 0.49 * np.eye(D), rtol=1e-6)


def test_an_identity_mean_needs_matching_dimensions():
    with pytest.raises(ValueError, match="as many goals as features"):
        member("identity", "fixed", goals=D + 1)


def test_state_dependent_deviations_are_clipped():
    """Far out, where the heads of a network leave every range."""
    far = 1e4 * np.random.default_rng(0).normal(size=(50, D))
    both = lambda s: (member("mlp", "state")(s).log_std, POSTERIORS["gmm"](KEYS[0], BUILD)(s).components.log_std)  # noqa: E731
    for log_std in jax.jit(jax.vmap(both))(jnp.asarray(far, jnp.float32)):
        assert (float(log_std.min()), float(log_std.max())) == pytest.approx(LOG_STD_RANGE)


TRIL = np.array([[0.4, 0.0, 0.0], [-0.6, 1.2, 0.0], [0.9, 0.5, 1.5]])
A = np.array([[1.5, -0.5, 0.2], [0.0, -1.0, 0.7], [0.3, 0.8, 1.1]])


def data(matrix, n=512):
    """z = matrix s + noise of covariance TRIL TRILᵀ."""
    rng = np.random.default_rng(0)
    s = rng.normal(size=(n, D))
    return s, s @ matrix.T + rng.normal(size=(n, D)) @ TRIL.T


@partial(jax.jit, static_argnames="steps")
def fit(q, s, z, steps=400):
    """Maximum likelihood by Adam, the step shrinking to nothing."""

    def step(carry, fraction):
        q, state = carry
        grads = jax.grad(lambda q: -jnp.mean(jax.vmap(lambda s, z: q(s).log_prob(z))(s, z)))(q)
        q, state = adam_step(q, grads, state, 0.05 * fraction)
        return (q.refresh(s, jax.random.key(0)), state), None

    return jax.lax.scan(step, (q, adam_init(q)), jnp.linspace(1.0, 0.0, steps))[0][0]


def fitted(q, matrix):
    s, z = data(matrix)
    return fit(q, jnp.asarray(s, jnp.float32), jnp.asarray(z, jnp.float32)), s, z


def test_global_sigma_becomes_the_deviation_of_goals_from_states():
    q, s, z = fitted(member("identity", "global"), np.eye(D))
    want = np.sqrt(np.mean((z - s) ** 2, axis=0))
    assert np.ptp(want) > 0.5  # one number for all dimensions would not do
    np.testing.assert_allclose(q.learned()["sigma"], want, rtol=0.01)


def test_global_covariance_becomes_that_of_goals_about_states():
    q, s, z = fitted(member("identity", "global", full=True), np.eye(D))
    want = (z - s).T @ (z - s) / len(s)
    np.testing.assert_allclose(q.learned()["covariance"], want, rtol=0.03, atol=0.02)
    np.testing.assert_allclose(q.learned()["sigma"], np.sqrt(np.diag(want)), rtol=0.02)


@pytest.mark.parametrize("covariance", ["fixed", "global"])
def test_linear_mean_becomes_least_squares(covariance):
    q, s, z = fitted(member("linear", covariance), A)
    want = np.linalg.lstsq(s, z)[0].T
    np.testing.assert_allclose(q.learned()["A"], want, atol=0.02)
    np.testing.assert_allclose(want, A, atol=0.3)
    residual = np.sqrt(np.mean((z - s @ want.T) ** 2, axis=0))
    np.testing.assert_allclose(q.learned()["sigma"], residual if covariance == "global" else 0.7, rtol=0.01)


def test_a_bounded_linear_mean_stays_within_its_bound():
    """The matrix that is reported is the one that acts."""
    q, s, _ = fitted(member("linear", "fixed", layer=partial(Spectral.init, bound=jnp.float32(1.0))), A)
    reported = np.asarray(q.learned()["A"])
    assert np.linalg.norm(A, 2) > 1.5
    np.testing.assert_allclose(np.linalg.norm(reported, 2), 1.0, rtol=0.01)
    np.testing.assert_allclose(q(jnp.asarray(s[0], jnp.float32)).mode(), reported @ s[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("full", [False, True])
def test_a_fixed_posterior_does_not_move(full):
    start = member("identity", "fixed", full)
    q, _, _ = fitted(start, np.eye(D))
    np.testing.assert_array_equal(q.scale.value, start.scale.value)


def test_seen_hides_other_dimensions():
    """Gradients of log q by the observation are zero where it is hidden, and only there."""
    q = PosteriorView(member("mlp", "state"), (4, 0, 2))
    s, z = jnp.array([0.5, 2.0, -1.0, 0.3, -0.2, 0.8]), jnp.array([0.3, -0.2, 0.5])
    by_s = jax.jit(jax.grad(lambda s: q(s).log_prob(z)))(s)
    np.testing.assert_array_equal(np.asarray(by_s) != 0, [True, False, True, False, True, False])
    assert q.refresh(s[None], jax.random.key(0)).features == (4, 0, 2)
    assert q.learned() == {}


def test_seen_keeps_the_order_it_is_given():
    q = PosteriorView(member("identity", "global"), (4, 0, 2))
    np.testing.assert_array_equal(q(jnp.arange(6.0)).mode(), [4.0, 0.0, 2.0])
    np.testing.assert_array_equal(q.learned()["sigma"], q.q.learned()["sigma"])


N = 4000
SIGMA = 0.7


def relabelled(how, fraction, q=None):
    """Goals of 9 replaced by what q reads off states within [−1, 1]."""
    later = jax.random.uniform(jax.random.key(1), (N, D), minval=-1.0, maxval=1.0)
    q = q or member("identity", "fixed")
    z = jax.jit(partial(relabel, how))(jnp.float32(fraction), q, jnp.full((N, D), 9.0), later, jax.random.key(2))
    return np.asarray(z), np.asarray(later)


def test_her_takes_the_mode():
    z, later = relabelled(HER, 1.0)
    np.testing.assert_array_equal(z, later)


def test_p_her_takes_a_sample():
    """Its own for every row: N(s, σ²) of each coordinate, and none like another."""
    z, later = relabelled(PHER, 1.0)
    noise = (z - later) / SIGMA
    assert np.abs(noise.mean(0)).max() < 5 / np.sqrt(N)
    assert np.abs(noise.T @ noise / N - np.eye(D)).max() < 5 * np.sqrt(2 / N)
    assert len(np.unique(noise.round(6), axis=0)) == N


@pytest.mark.parametrize(("how", "fraction"), [(HER, 0.0), (PHER, 0.0), (NONE, 1.0)])
def test_goals_are_kept(how, fraction):
    assert np.all(relabelled(how, fraction)[0] == 9)


@pytest.mark.parametrize("how", [HER, PHER])
def test_a_fraction_of_goals_is_replaced(how):
    """Goals as a whole, not coordinates of them."""
    new = relabelled(how, 0.3)[0] != 9
    assert np.all(new.all(-1) == new.any(-1))
    assert abs(new[:, 0].mean() - 0.3) < 5 * np.sqrt(0.3 * 0.7 / N)


def test_categories_stay_categories():
    """A mask over a batch of integers, without a goal axis."""
    q = POSTERIORS["categorical"](jax.random.key(0), BUILD)
    later = jax.random.normal(jax.random.key(1), (200, D))
    z = jax.jit(partial(relabel, HER))(jnp.float32(1.0), q, jnp.full(200, 7, jnp.int32), later, jax.random.key(2))
    assert (z.shape, z.dtype) == ((200,), jnp.int32)
    np.testing.assert_array_equal(z, np.argmax(jax.vmap(q.logits)(later), axis=-1))
