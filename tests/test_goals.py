"""One contract for all goal spaces; then what is particular to each."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from vgcrl.objective.distributions import Categorical, Normal, VonMisesFisher
from vgcrl.objective.goals import Box, Discrete, Normals, Sphere, TanhBox, Visited, cube

N = 4000
SPACES = {
    "discrete": Discrete(5),
    "box": cube(3),
    "tanh": TanhBox(3),
    "sphere": Sphere(4),
    "states": Box((-1.5,) * 2, (1.5,) * 2),
}
VOLUME = {"discrete": 5.0, "box": 2.0**3, "tanh": 2.0**3, "sphere": 2 * np.pi**2, "states": 3.0**2}
INSIDE = {
    "discrete": lambda z: np.isin(z, range(5)),
    "box": lambda z: np.abs(z).max(-1) <= 1,
    "tanh": lambda z: np.isfinite(z).all(-1),
    "sphere": lambda z: np.abs(np.linalg.norm(z, axis=-1) - 1) < 1e-5,
    "states": lambda z: np.abs(z).max(-1) <= 1.5,
}
WRITTEN = {
    "discrete": 3,
    "box": (0.2, -1.0, 0.7),
    "tanh": (0.2, -0.99, 0.7),
    "sphere": (0.5, -0.5, 0.5, -0.5),
    "states": (1.5, -0.3),
}
REFUSED = {
    "discrete": [-1, 5, 1.5, [1], float("nan")],
    "box": [0.0, (0.0,) * 2, [(0.0,) * 3], (0.0, float("nan"), 0.0), (0.0, float("inf"), 0.0), "north"],
    "tanh": [0.0, (0.0,) * 4, (0.0, float("nan"), 0.0), (0.0, 1.001, 0.0), (-1.001, 0.0, 0.0)],
    "sphere": [1.0, (1.0,) * 3, (1.0, 0.0, 0.0, float("nan"))],
    "states": [0.0, (0.0,) * 3, (0.0, float("-inf"))],
}
UNREFUSED = [
    ("sphere", (0.0,) * 4),
    ("discrete", "north"),
    ("discrete", None),
]

every_space = pytest.mark.parametrize("name", SPACES)


@functools.cache
def seen(name):
    """N goals and what the space says of each, as one compiled program; `lgr` is against the next goal."""
    space = SPACES[name]

    def one(key, other):
        z, w = space.sample(key), space.sample(other)
        scores = {"lgr_self": space.lgr(z, z), "lgr": space.lgr(z, w)}
        return scores | {"z": z, "log_prob": space.log_prob(z), "embed": space.embed(z), "show": space.show(z)}

    keys = jax.random.split(jax.random.key(0), N)
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(keys, jnp.roll(keys, -1)))


def float64(x):
    return np.asarray(x, np.float64)


@every_space
def test_samples_lie_in_the_support(name):
    assert np.all(INSIDE[name](seen(name)["z"]))
    log_p = seen(name)["log_prob"]
    assert (log_p.shape, log_p.dtype) == ((N,), np.float32)
    assert np.all(np.isfinite(log_p))


@every_space
def test_samples_are_uniform(name):
    """Each coordinate in natural coordinates; of a point on the 3-sphere, (x + 1)/2 is Beta(3/2, 3/2)."""
    z = float64(seen(name)["show"])
    if name == "discrete":
        assert stats.chisquare(np.bincount(z.astype(int), minlength=5)).pvalue > 1e-4
        return
    half = 1.5 if name == "states" else 1.0
    law = stats.beta(1.5, 1.5) if name == "sphere" else stats.uniform()
    assert min(stats.kstest((x / half + 1) / 2, law.cdf).pvalue for x in z.T) > 1e-4
    assert np.abs(np.corrcoef(z.T) - np.eye(z.shape[1])).max() < 5 / np.sqrt(N)


@every_space
def test_entropy_is_the_log_volume(name):
    assert SPACES[name].entropy == pytest.approx(np.log(VOLUME[name]), rel=1e-6)


@pytest.mark.parametrize("name", [name for name in SPACES if name != "tanh"])
def test_mean_log_prob_is_minus_the_entropy(name):
    np.testing.assert_allclose(float64(seen(name)["log_prob"]).mean(), -SPACES[name].entropy, rtol=1e-5)


@pytest.mark.parametrize("dim", [1, 5])
def test_normal_goals_have_the_density_and_entropy_of_a_normal_distribution(dim):
    goals, law = Normals(dim), stats.multivariate_normal(np.zeros(dim))
    z = jax.random.normal(jax.random.key(0), (dim,))
    assert float(goals.log_prob(z)) == pytest.approx(law.logpdf(np.asarray(z)), rel=1e-5)
    assert goals.entropy == pytest.approx(law.entropy())


def test_a_goal_among_decoys_is_one_of_as_many_and_itself():
    """The most that q can tell of it is which of them it is."""
    assert Visited(2, 7).entropy == pytest.approx(np.log(8))


@every_space
def test_embed_is_a_vector_networks_can_see(name):
    embedded = seen(name)["embed"]
    assert (embedded.shape, embedded.dtype) == ((N, SPACES[name].dim), np.float32)
    assert np.abs(embedded).max() <= 1.5
    assert len(np.unique(embedded, axis=0)) == (5 if name == "discrete" else N)


def test_discrete_embeds_one_hot():
    np.testing.assert_array_equal(jax.vmap(Discrete(5).embed)(jnp.arange(5)), np.eye(5))


def test_tanh_box_embeds_natural_coordinates():
    np.testing.assert_allclose(seen("tanh")["embed"], np.tanh(float64(seen("tanh")["z"])), atol=1e-6)


@every_space
def test_what_is_written_is_shown(name):
    space = SPACES[name]
    z = space.read(WRITTEN[name])
    assert (z.shape, z.dtype) == (seen(name)["z"].shape[1:], seen(name)["z"].dtype)
    np.testing.assert_allclose(space.show(z), WRITTEN[name], atol=1e-6)


@every_space
def test_what_is_shown_can_be_read(name):
    np.testing.assert_allclose(SPACES[name].read(seen(name)["show"][7]), seen(name)["z"][7], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("length", [5.0, 1e-30, 1e30])
def test_sphere_reads_a_direction_of_any_length(length):
    z = (0.0, 0.6 * length, 0.0, -0.8 * length)
    np.testing.assert_allclose(Sphere(4).read(z), (0.0, 0.6, 0.0, -0.8), atol=1e-6)


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in REFUSED.items() for v in values] + UNREFUSED)
def test_read_refuses_what_is_no_goal(name, value):
    with pytest.raises(ValueError):  # noqa: PT011
        SPACES[name].read(value)


@every_space
def test_a_recovered_goal_scores_best(name):
    """`lgr_best` is reached by z itself; of two goals it is accuracy, or the mean squared distance."""
    best = SPACES[name].lgr_best
    np.testing.assert_allclose(seen(name)["lgr_self"], best, atol=1e-7)
    shown = float64(seen(name)["show"]).reshape(N, -1)
    square = ((shown - np.roll(shown, -1, axis=0)) ** 2).mean(-1)
    want = square == 0 if name == "discrete" else square
    np.testing.assert_allclose(seen(name)["lgr"], want, rtol=1e-4, atol=1e-5)


def test_points_stand_for_posteriors():
    mean, log_std = jnp.array([0.4, -0.3, 0.1]), jnp.log(jnp.array([0.2, 0.5, 1.0]))
    assert int(Discrete(5).point(Categorical(jnp.array([0.0, 1.0, 3.0, 2.0, 0.0])))) == 2
    np.testing.assert_allclose(cube(3).point(Normal(mean, log_std)), mean, rtol=1e-5)
    np.testing.assert_allclose(SPACES["states"].point(Normal(mean[:2], log_std[:2])), mean[:2], rtol=1e-5)
    direction = jnp.array([0.5, -0.5, 0.5, -0.5])
    np.testing.assert_allclose(Sphere(4).point(VonMisesFisher(direction, 2.0)), direction, rtol=1e-5)


def test_tanh_box_point_is_the_mean_in_natural_coordinates():
    mean, std = np.array([0.4, -2.0, 0.1]), np.array([0.2, 0.5, 1.0])
    u = TanhBox(3).point(Normal(jnp.asarray(mean, jnp.float32), jnp.asarray(np.log(std), jnp.float32)))
    z = np.tanh(stats.norm(mean, std).rvs((200_000, 3), random_state=0))
    assert np.all(np.abs(np.tanh(float64(u)) - z.mean(0)) < 5 * z.std(0) / np.sqrt(len(z)) + 1e-5)


def test_tanh_box_prior_is_logistic():
    u = np.concatenate([float64(seen("tanh")["z"]), np.full((1, 3), 40.0), np.full((1, 3), -40.0)])
    want = stats.logistic(scale=0.5).logpdf(u).sum(-1)
    np.testing.assert_allclose(jax.vmap(TanhBox(3).log_prob)(jnp.asarray(u, jnp.float32)), want, rtol=1e-5, atol=1e-5)


def test_tanh_box_reward_is_that_of_natural_coordinates():
    """log q(u) − log p(u) is log q(z) − log p(z), q(z) by change of variables and p(z) uniform on [−1, 1]^d."""
    mean, log_std = np.array([0.4, -0.3, 0.1]), np.array([-0.5, 0.0, 0.3])
    u = 1.5 * np.random.default_rng(0).normal(size=(200, 3))
    z = np.tanh(u)
    log_q = (stats.norm(mean, np.exp(log_std)).logpdf(np.arctanh(z)) - np.log1p(-(z**2))).sum(-1)
    q = Normal(jnp.asarray(mean, jnp.float32), jnp.asarray(log_std, jnp.float32))
    got = jax.vmap(lambda u: q.log_prob(u) - TanhBox(3).log_prob(u))(jnp.asarray(u, jnp.float32))
    np.testing.assert_allclose(got, log_q + np.log(2.0) * 3, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("end", [-50.0, 50.0])
def test_tanh_box_has_gradients_at_the_ends(end):
    """∂/∂μ = (u − μ)/σ² and ∂/∂u = −(u − μ)/σ² + 2 tanh u, also where tanh is ±1 to every digit."""
    reward = lambda m, u: Normal(m, jnp.zeros(3)).log_prob(u) - TanhBox(3).log_prob(u)  # noqa: E731
    mean = jnp.array([0.4, -0.3, 0.1])
    by_mean, by_u = jax.grad(reward, (0, 1))(mean, jnp.full(3, end))
    np.testing.assert_allclose(by_mean, end - float64(mean), rtol=1e-5)
    np.testing.assert_allclose(by_u, float64(mean) - end + 2 * np.sign(end), rtol=1e-5)


def test_tanh_box_reads_the_ends():
    space = TanhBox(3)
    u = space.read((1.0, -1.0, 0.0))
    assert np.all(np.isfinite(u))
    assert np.isfinite(space.log_prob(u))
    np.testing.assert_allclose(space.show(u), (1.0, -1.0, 0.0), atol=1e-5)
