"""Every distribution against scipy or a float64 reference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from vgcrl.objective.distributions import Categorical, FullNormal, Huber, Mixture, Normal, VonMisesFisher
from vgcrl.objective.goals import Box
from vgcrl.objective.posteriors.floored import Floored

N = 20_000

LOGITS = np.array([0.3, -1.2, 2.0, 0.0])
MEAN = np.array([0.5, -1.0, 2.0])
STD = np.array([0.3, 1.0, 2.5])
TRIL = np.array([[0.8, 0.0, 0.0], [-0.5, 1.2, 0.0], [0.7, 0.4, 0.3]])
MIX_LOGITS = np.array([0.5, -0.2, 0.1])
MIX_MEANS = np.array([[-6.0, 0.0], [5.0, 5.0], [4.0, -7.0]])
MIX_STDS = np.array([[0.9, 1.1], [0.5, 0.4], [1.0, 0.6]])  # the highest density is not at the highest weight
SPHERES = [(dim, kappa) for dim in (2, 3, 5) for kappa in (0.5, 5.0, 50.0)]


def f32(x):
    return jnp.asarray(x, jnp.float32)


def normal():
    return Normal(f32(MEAN), f32(np.log(STD)))


def full():
    return FullNormal(f32(MEAN), f32(TRIL))


def mixture():
    return Mixture(f32(MIX_LOGITS), jax.vmap(Normal)(f32(MIX_MEANS), f32(np.log(MIX_STDS))))


def direction(dim):
    x = np.arange(1.0, dim + 1) * (-1.0) ** np.arange(dim)
    return x / np.linalg.norm(x)


@jax.jit
def log_probs(dist, points):
    return jax.vmap(dist.log_prob)(points)


@jax.jit
def mode_and_height(dist):
    return dist.mode(), dist.log_prob(dist.mode())


@jax.jit
def samples(dist, keys):
    return jax.vmap(dist.sample)(keys)


def draw(dist, n=N):
    """Outside jit on the sphere: κ is static there, and each κ would be a compiled program of its own."""
    keys = jax.random.split(jax.random.key(0), n)
    return np.asarray(jax.vmap(dist.sample)(keys) if isinstance(dist, VonMisesFisher) else samples(dist, keys), float)


def assert_mean(values, expected, slack=1e-6):
    """The average of rows lies within five standard errors of what is expected."""
    error = values.std(0) / np.sqrt(len(values))
    np.testing.assert_array_less(np.abs(values.mean(0) - expected), 5 * error + slack)


def assert_moments(values, mean, covariance, slack=1e-6):
    assert_mean(values, mean, slack)
    centred = values - mean
    assert_mean(centred[:, :, None] * centred[:, None, :], covariance, slack)


def integral(f, mean, std):
    """E[f] of a scalar normal, split where an elementwise f = tanh turns."""
    turn = np.clip(-mean / std, -10, 10)
    return integrate.quad(lambda x: f(mean + std * x) * stats.norm.pdf(x), -12, 12, points=[turn], limit=400)[0]


def test_categorical_log_prob():
    logits = f32(LOGITS)
    got = jax.vmap(Categorical(logits).log_prob)(jnp.arange(4))
    np.testing.assert_allclose(got, LOGITS - special.logsumexp(LOGITS), rtol=1e-5)


def test_categorical_samples_have_its_frequencies():
    counts = np.bincount(draw(Categorical(f32(LOGITS))).astype(int), minlength=4)
    assert stats.chisquare(counts, N * special.softmax(LOGITS)).pvalue > 1e-4


def test_categorical_mode_is_the_likeliest():
    dist = Categorical(f32(LOGITS))
    assert int(dist.mode()) == np.argmax(jax.vmap(dist.log_prob)(jnp.arange(4))) == 2


def test_categorical_expect():
    got = Categorical(f32(LOGITS)).expect(jnp.tanh)
    np.testing.assert_allclose(got, special.softmax(LOGITS) @ np.tanh(np.arange(4.0)), rtol=1e-5)


def test_categorical_mean():
    got = Categorical(f32(LOGITS)).expect(lambda z: z)
    np.testing.assert_allclose(got, special.softmax(LOGITS) @ np.arange(4.0), rtol=1e-5)


def test_normal_log_prob():
    rng = np.random.default_rng(0)
    points = MEAN + 3 * rng.normal(size=(60, 3))
    want = stats.norm(MEAN, STD).logpdf(points).sum(-1)
    np.testing.assert_allclose(log_probs(normal(), f32(points)), want, rtol=1e-5, atol=1e-5)


def test_full_normal_log_prob():
    rng = np.random.default_rng(0)
    points = MEAN + 3 * rng.normal(size=(60, 3))
    want = stats.multivariate_normal(MEAN, TRIL @ TRIL.T).logpdf(points)
    np.testing.assert_allclose(log_probs(full(), f32(points)), want, rtol=2e-5, atol=1e-4)


def mixture_log_density(points):
    each = stats.norm(MIX_MEANS, MIX_STDS).logpdf(points[:, None]).sum(-1)
    return special.logsumexp(each + special.log_softmax(MIX_LOGITS), axis=-1)


def test_mixture_log_prob():
    """Also far out, where every component's density underflows float32."""
    rng = np.random.default_rng(0)
    points = np.concatenate([5 * rng.normal(size=(59, 2)), [[60.0, -40.0]]])
    np.testing.assert_allclose(log_probs(mixture(), f32(points)), mixture_log_density(points), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("dim", "kappa"), SPHERES)
def test_von_mises_fisher_log_prob(dim, kappa):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(20, dim))
    points /= np.linalg.norm(points, axis=-1, keepdims=True)
    want = stats.vonmises_fisher(direction(dim), kappa).logpdf(points)
    got = jax.vmap(VonMisesFisher(f32(direction(dim)), kappa).log_prob)(f32(points))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("dim", [350, 1000])
def test_von_mises_fisher_of_many_dimensions(dim):
    """Where Bessel functions are too small for a number: the density integrates to one, by angles to the direction."""
    kappa = 5.0
    dist = VonMisesFisher(f32(direction(dim)), kappa)
    log_area = np.log(2) + (dim - 1) / 2 * np.log(np.pi) - special.gammaln((dim - 1) / 2)
    top = dist._constants()[0] + log_area
    each = lambda t: np.exp(top + kappa * np.cos(t) + (dim - 2) * np.log(np.sin(t)))  # noqa: E731
    mass, _ = integrate.quad(each, 0, np.pi, points=[np.pi / 2], epsabs=1e-9)
    along, _ = integrate.quad(lambda t: np.cos(t) * each(t), 0, np.pi, points=[np.pi / 2], epsabs=1e-9)
    assert mass == pytest.approx(1.0, rel=1e-6)
    assert dist._constants()[1] == pytest.approx(along, rel=1e-6)


def test_normal_moments():
    assert_moments(draw(normal()), MEAN, np.diag(STD**2))


def test_full_normal_moments():
    assert_moments(draw(full()), MEAN, TRIL @ TRIL.T)


def test_mixture_moments():
    weights = special.softmax(MIX_LOGITS)
    mean = weights @ MIX_MEANS
    offset = MIX_MEANS - mean
    covariance = np.diag(weights @ MIX_STDS**2) + (weights[:, None] * offset).T @ offset
    assert_moments(draw(mixture()), mean, covariance)


def test_mixture_samples_have_its_marginal():
    """Moments alone would not notice components whose spreads are swapped."""
    first = draw(mixture())[:, 0]
    weights = special.softmax(MIX_LOGITS)
    cdf = lambda x: stats.norm(MIX_MEANS[:, 0], MIX_STDS[:, 0]).cdf(x[:, None]) @ weights  # noqa: E731
    assert stats.kstest(first, cdf).pvalue > 1e-4


@pytest.mark.parametrize(("dim", "kappa"), SPHERES)
def test_von_mises_fisher_moments(dim, kappa):
    """Mean A μ; variance 1 − A² − (d−1)A/κ along μ, and the rest of the unit length shared evenly across it."""
    mu = direction(dim)
    length = special.ive(dim / 2, kappa) / special.ive(dim / 2 - 1, kappa)
    along = 1 - length**2 - (dim - 1) / kappa * length
    across = (1 - along - length**2) / (dim - 1)
    covariance = along * np.outer(mu, mu) + across * (np.eye(dim) - np.outer(mu, mu))
    assert_moments(draw(VonMisesFisher(f32(mu), kappa)), length * mu, covariance, slack=1e-5)


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_von_mises_fisher_samples_have_unit_norm(dim):
    """In two dimensions a tangent drawn almost along μ keeps too few digits when μ is projected out."""
    samples = draw(VonMisesFisher(f32(direction(dim)), 5.0))
    np.testing.assert_allclose(np.linalg.norm(samples, axis=-1), 1, atol=5e-5)


@pytest.mark.parametrize("dist", [normal(), full(), mixture()], ids=lambda d: type(d).__name__)
def test_mode_is_the_highest_point(dist):
    rng = np.random.default_rng(0)
    mode, height = mode_and_height(dist)
    size = np.repeat([0.05, 1.0, 20.0], 20)[:, None]
    around = np.asarray(mode) + size * rng.normal(size=(60, mode.size))
    assert np.max(log_probs(dist, f32(around))) < height


def test_mixture_mode_is_not_the_heaviest_component():
    np.testing.assert_allclose(mode_and_height(mixture())[0], MIX_MEANS[1])


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_von_mises_fisher_mode_is_the_highest_point(dim):
    rng = np.random.default_rng(0)
    dist = VonMisesFisher(f32(direction(dim)), 5.0)
    around = direction(dim) + rng.choice([0.1, 1.0, 10.0], size=(60, 1)) * rng.normal(size=(60, dim))
    around /= np.linalg.norm(around, axis=-1, keepdims=True)
    assert np.max(jax.vmap(dist.log_prob)(f32(around))) < dist.log_prob(dist.mode())


FUNCTIONS = [(lambda z: z, lambda z: z), (jnp.square, np.square), (jnp.tanh, np.tanh)]


def marginals(dist):
    """(weight, mean, std) of each coordinate, summed over components."""
    if isinstance(dist, Mixture):
        return special.softmax(MIX_LOGITS), MIX_MEANS, MIX_STDS
    std = STD if isinstance(dist, Normal) else np.sqrt(np.diag(TRIL @ TRIL.T))
    return np.ones(1), MEAN[None], std[None]


@pytest.mark.parametrize("dist", [normal(), full(), mixture()], ids=lambda d: type(d).__name__)
@pytest.mark.parametrize(("f", "reference"), FUNCTIONS, ids=["mean", "square", "tanh"])
def test_expect_is_the_integral(dist, f, reference):
    weights, means, stds = marginals(dist)
    want = weights @ np.vectorize(lambda m, s: integral(reference, m, s))(means, stds)
    np.testing.assert_allclose(dist.expect(f), want, rtol=1e-4, atol=3e-3)


@pytest.mark.parametrize("std", [0.3, 1.0, 10.0])
def test_expect_of_tanh_over_the_range_of_standard_deviations(std):
    """A state-dependent posterior has standard deviations from 0.3 to 10."""
    means = np.linspace(-3, 3, 7)
    got = Normal(f32(means), jnp.full(7, jnp.log(std))).expect(jnp.tanh)
    want = [integral(np.tanh, m, std) for m in means]
    np.testing.assert_allclose(got, want, atol=5e-3)


@pytest.mark.parametrize(("dim", "kappa"), SPHERES)
def test_von_mises_fisher_mean_is_the_integral(dim, kappa):
    density = lambda a: np.exp(kappa * (np.cos(a) - 1)) * np.sin(a) ** (dim - 2)  # noqa: E731
    length = integrate.quad(lambda a: np.cos(a) * density(a), 0, np.pi)[0] / integrate.quad(density, 0, np.pi)[0]
    got = VonMisesFisher(f32(direction(dim)), kappa).expect(lambda z: z)
    np.testing.assert_allclose(got, length * direction(dim), rtol=1e-5, atol=1e-6)


def test_huber_is_a_density_with_quadratic_middle_and_linear_tails():
    """Normalisation, distribution function and mean against numerical integration of exp(−Huber's loss)."""
    mean, scale = 0.4, 0.7

    def density(x):
        size = abs(x - mean) / scale
        return np.exp(-(0.5 * size**2 if size <= 1 else size - 0.5))

    total = integrate.quad(density, -40, 40, points=[mean - scale, mean, mean + scale], limit=200)[0]
    dist = Huber(f32([mean]), f32([np.log(scale)]))
    points = np.linspace(-4, 4, 17)
    found = log_probs(dist, f32(points[:, None]))
    np.testing.assert_allclose(found, [np.log(density(x) / total) for x in points], atol=1e-5)
    drawn = np.asarray(draw(dist))[:, 0]
    grid = np.linspace(-40, 40, 200_001)
    cumulative = np.cumsum([density(x) for x in grid]) * (grid[1] - grid[0]) / total
    assert stats.kstest(drawn, lambda x: np.interp(x, grid, cumulative)).pvalue > 1e-3
    assert float(dist.expect(lambda z: z)[0]) == pytest.approx(mean, abs=1e-4)
    second = np.sum(grid**2 * np.gradient(cumulative, grid)) * (grid[1] - grid[0])
    assert float(dist.expect(lambda z: z**2)[0]) == pytest.approx(second, rel=1e-2)


def test_floored_is_a_density_that_is_a_tenth_of_the_prior_far_away():
    """Against scipy, with a prior uniform over [−3, 3]²."""
    prior, mean, std = Box((-3.0, -3.0), (3.0, 3.0)), np.array([0.5, -0.2]), np.array([0.3, 0.2])
    dist = Floored(Normal(f32(mean), f32(np.log(std))), prior.log_prob)
    points = np.array([[0.5, -0.2], [0.9, 0.1], [-2.5, 2.5], [3.0, -3.0]])
    found = log_probs(dist, f32(points))
    want = 0.9 * stats.multivariate_normal(mean, np.diag(std**2)).pdf(points) + 0.1 / 36
    np.testing.assert_allclose(found, np.log(want), atol=1e-4)
    np.testing.assert_allclose(found[2:] + np.log(36), np.log(0.1), atol=1e-4)
    np.testing.assert_allclose(dist.mode(), mean, rtol=1e-6)
    np.testing.assert_allclose(dist.expect(lambda z: z), mean, rtol=1e-4)
    np.testing.assert_allclose(np.std(draw(dist), axis=0), std, rtol=0.1)
