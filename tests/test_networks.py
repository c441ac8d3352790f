"""Layers against numpy, and the spectral bound against SVD, at the start and while training."""

import functools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vgcrl.objective.networks import INPUTS, MLP, Linear, Spectral, _top_eigenvector, dense, product, refresh
from vgcrl.objective.optim import adam_init, adam_step

SIZES = (4, 16, 12, 2)
BOUNDS = (0.5, 2.0, np.inf)


def f32(x):
    return jnp.asarray(x, jnp.float32)


def top(matrices):
    return np.linalg.svd(np.asarray(matrices, np.float64), compute_uv=False)[..., 0]


def spectral(weight, bound):
    """Refreshed until the power iteration has converged."""
    layer = Spectral.init(f32(weight), jnp.zeros(weight.shape[0]), bound=f32(bound))
    return jax.lax.fori_loop(0, 200, lambda _, x: x.refresh(), layer)


def test_product_is_the_matrix_product():
    """Value and both gradients, in a batch."""
    rng = np.random.default_rng(0)
    w, x, g = rng.normal(size=(3, 5)), rng.normal(size=(7, 5)), rng.normal(size=(7, 3))
    out, pull = jax.vjp(lambda w, x: jax.vmap(partial(product, w))(x), f32(w), f32(x))
    by_w, by_x = pull(f32(g))
    for got, want in ((out, x @ w.T), (by_w, g.T @ x), (by_x, g @ w)):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_symlog_is_the_inverse_of_a_symmetric_exponential():
    x = np.array([-1e6, -70.0, -1.0, -1e-3, 0.0, 1e-3, 1.0, 70.0, 1e6], np.float32)
    y = np.asarray(INPUTS["symlog"](jnp.asarray(x)), np.float64)
    np.testing.assert_allclose(np.sign(y) * np.expm1(np.abs(y)), x, rtol=1e-5)
    np.testing.assert_allclose(y, -np.asarray(INPUTS["symlog"](-jnp.asarray(x))))


@pytest.mark.parametrize(
    "layer", [Linear, partial(Spectral.init, bound=jnp.float32(np.inf))], ids=["linear", "spectral"]
)
def test_mlp_is_layers_with_relu_between(layer):
    rng = np.random.default_rng(0)
    net = MLP.init(jax.random.key(0), SIZES, layer)
    assert [x.weight.shape for x in net.layers] == [(16, 4), (12, 16), (2, 12)]
    assert [x.bias.shape for x in net.layers] == [(16,), (12,), (2,)]
    x = rng.normal(size=4)
    want = x
    for i, part in enumerate(net.layers):
        want = np.asarray(part.weight, float) @ (np.maximum(want, 0) if i else want) + np.asarray(part.bias, float)
    assert np.any(want < 0)  # no ReLU after the last layer
    np.testing.assert_allclose(net(f32(x)), want, rtol=1e-4, atol=1e-5)


def test_dense_is_uniform_within_the_root_of_fan_in():
    layers = dense(jax.random.key(0), (25, 40, 60))
    for layer, fan_in in zip(layers, (25, 40), strict=True):
        block = np.concatenate([layer.weight, layer.bias[:, None]], axis=1) * np.sqrt(fan_in)
        assert 0.95 < np.abs(block).max() <= 1 + 1e-6
        assert abs(block.mean()) < 5 / np.sqrt(3 * block.size)
    assert not np.allclose(layers[0].weight[0, :20], layers[1].weight[0, :20])


@pytest.mark.parametrize("sizes", [SIZES, pytest.param((30, 64, 64, 3), marks=pytest.mark.slow)])
def test_spectral_bound_holds_at_the_start(sizes):
    """Fifteen iterations know σ to one percent, for eight draws of the weights."""

    def layers(key, c):
        net = MLP.init(key, sizes, partial(Spectral.init, bound=c))
        return [(layer.weight, layer.effective()) for layer in net.layers]

    bounds = np.repeat([0.1, 0.5], 4)
    for weight, effective in jax.jit(jax.vmap(layers))(jax.random.split(jax.random.key(0), 8), f32(bounds)):
        assert np.all(top(weight)[:4] > bounds[:4])
        np.testing.assert_allclose(top(effective), np.minimum(bounds, top(weight)), rtol=0.01)


def train(bound):
    """Effective weights at every step of a regression, with `refresh` after each Adam step as the learner does."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 4))
    x, y = f32(x), f32(50 * x @ rng.normal(size=(4, 2)))

    def step(carry, _):
        net, state = carry
        grads = jax.grad(lambda net: jnp.mean((jax.vmap(net)(x) - y) ** 2))(net)
        net, state = adam_step(net, grads, state, jnp.float32(3e-3))
        net = refresh(net)
        return (net, state), [layer.effective() for layer in net.layers]

    net = MLP.init(jax.random.key(2), SIZES, partial(Spectral.init, bound=bound))
    (net, _), weights = jax.lax.scan(step, (net, adam_init(net)), None, length=400)
    return net, weights


@functools.cache
def trained():
    """One run per bound, in one vmap: weights are (run, step, out, in)."""
    return jax.jit(jax.vmap(train))(f32(BOUNDS))


@pytest.mark.parametrize("run", [pytest.param(run, marks=pytest.mark.slow) for run in (0, 1)])
def test_spectral_bound_holds_while_training(run):
    assert max(top(weights[run]).max() for weights in trained()[1]) <= 1.01 * BOUNDS[run]


@pytest.mark.slow
@pytest.mark.parametrize("run", [0, 1])
def test_spectral_bound_is_active_while_training(run):
    """The regression wants weights far beyond it."""
    assert min(top(weights[run])[-1] for weights in trained()[1]) > 0.97 * BOUNDS[run]


def test_without_a_bound_the_same_training_exceeds_it():
    assert all(top(weights[2])[-1] > 1.25 * BOUNDS[1] for weights in trained()[1])


def test_layers_are_carried_on_together_as_alone():
    """Also where one is so small that it has fewer vectors than the others."""

    @jax.jit
    def both_ways(key):
        net = MLP.init(key, (5, 7, 2), partial(Spectral.init, bound=0.1))
        net = jax.tree.map(lambda x: x + 0.1 * jnp.cos(jnp.arange(x.size, dtype=x.dtype)).reshape(x.shape), net)
        return net.layers, [layer.refresh() for layer in net.layers], refresh(net).layers

    before, alone, together = both_ways(jax.random.key(3))
    assert [len(layer.block) for layer in together] == [4, 2]
    for old, expected, found in zip(before, alone, together, strict=True):
        np.testing.assert_allclose(found.left, expected.left, atol=1e-5)
        np.testing.assert_allclose(found.block, expected.block, atol=1e-5)
        assert not np.allclose(found.left, old.left, atol=1e-2)


def test_training_moves_neither_the_bound_nor_the_norm_of_left():
    for layer in trained()[0].layers:
        np.testing.assert_array_equal(layer.bound, f32(BOUNDS))
        np.testing.assert_allclose(np.linalg.norm(layer.left, axis=-1), 1, atol=1e-5)


def test_runs_with_bounds_of_their_own_do_not_mix():
    """The effective weight of each run under vmap is the one it has alone."""
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(6, 4))
    bounds = (0.3, 1.0, np.inf)
    together = jax.vmap(lambda c: spectral(weight, c).effective())(f32(bounds))
    np.testing.assert_allclose(top(together), np.minimum(bounds, top(weight)), rtol=1e-4)
    for c, got in zip(bounds, together, strict=True):
        np.testing.assert_allclose(got, weight * min(1, c / top(weight)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("bound", [np.inf, 1.0])
def test_a_layer_within_its_bound_is_a_linear_layer(bound):
    """Bit by bit, value and gradients, with the bound off and with a bound just above σ."""
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(6, 4))
    weight, bias, x = f32(0.97 * weight / top(weight)), f32(rng.normal(size=6)), f32(rng.normal(size=4))
    layers = Linear(weight, bias), Spectral.init(weight, bias, bound=f32(bound))
    np.testing.assert_array_equal(layers[1].effective(), weight)
    (value, grad), (value_bounded, grad_bounded) = (
        jax.value_and_grad(lambda layer: jnp.sum(jnp.sin(layer(x))))(layer) for layer in layers
    )
    np.testing.assert_array_equal(value_bounded, value)
    np.testing.assert_array_equal(grad_bounded.weight, grad.weight)
    np.testing.assert_array_equal(grad_bounded.bias, grad.bias)
    assert np.all(np.isfinite(grad_bounded.weight))


def test_spectral_gradient_is_that_of_the_quotient():
    """∂/∂W ⟨M, cW/σ⟩ = c(M/σ − ⟨M, W⟩uvᵀ/σ²), and nothing reaches `left` or `bound`."""
    rng = np.random.default_rng(0)
    weight, m, c = rng.normal(size=(6, 4)), rng.normal(size=(6, 4)), 0.7
    u, s, vt = np.linalg.svd(weight)
    want = c * (m / s[0] - np.sum(m * weight) * np.outer(u[:, 0], vt[0]) / s[0] ** 2)
    grad = jax.grad(lambda layer: jnp.sum(f32(m) * layer.effective()))(spectral(weight, c))
    np.testing.assert_allclose(grad.weight, want, rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(grad.left, np.zeros(6))
    np.testing.assert_array_equal(grad.bound, 0)


def test_refresh_carries_the_power_iteration_on():
    """Only `block` and `left` move, `left` towards the first left singular vector."""
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(6, 4))
    block = f32(np.eye(6)[:2])
    layer = Spectral(f32(weight), f32(rng.normal(size=6)), block, block[0], f32(1.0))
    first = np.linalg.svd(weight)[0][:, 0]
    near = []
    for _ in range(6):
        near.append(abs(np.asarray(layer.left, float) @ first))
        moved = layer.refresh()
        for name in ("weight", "bias", "bound"):
            np.testing.assert_array_equal(getattr(moved, name), getattr(layer, name))
        layer = moved
    assert np.all(np.diff(near) > 0)


def test_a_zero_weight_is_harmless():
    layer = Spectral.init(jnp.zeros((3, 2)), jnp.zeros(3), bound=f32(1.0))
    grad = jax.grad(lambda layer: jnp.sum(layer(jnp.ones(2))))(layer)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves((layer.refresh(), grad)))


@pytest.mark.parametrize("top", [(1, -1, -1, 0), (0, 0, 1, 0), (1, 1, -1, -1), (3, -2, 1, -1), (1, 1, 1, 1)])
def test_the_leading_eigenvector_whatever_its_signs(top):
    v = np.array(top) / np.linalg.norm(top)
    found = np.asarray(_top_eigenvector(f32(0.1 * np.eye(4) + 2 * np.outer(v, v))))
    assert abs(found @ v) == pytest.approx(1, abs=1e-5)
