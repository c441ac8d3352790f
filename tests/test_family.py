"""What DISCERN, DADS and pictures add: contrast, memory, implied posteriors, convolutions; and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from vgcrl.cli import main
from vgcrl.envs import pixels, pointmass
from vgcrl.objective.distributions import GoalAmongDecoys, Implied
from vgcrl.objective.goals import Visited, current
from vgcrl.objective.networks import Linear, Spectral
from vgcrl.objective.pictures import Convolutions
from vgcrl.objective.posteriors import POSTERIORS, Build, PosteriorView, Standardiser
from vgcrl.objective.posteriors.nonparametric import MEMORY
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def test_contrast_is_a_softmax_over_goal_and_decoys():
    own, decoys, goal = unit(RNG.normal(size=4)), unit(RNG.normal(size=(5, 4))), unit(RNG.normal(size=4))
    d = GoalAmongDecoys(jnp.zeros(2), jnp.array(own), (jnp.zeros((5, 2)), jnp.array(decoys)), 3.0)
    scores = 3.0 * np.concatenate([[goal @ own], decoys @ own])
    assert float(d.log_prob((jnp.zeros(2), jnp.array(goal)))) == pytest.approx(special.log_softmax(scores)[0], abs=1e-5)


def test_samples_of_a_contrast_are_its_candidates_in_proportion():
    states = jnp.arange(3.0)[:, None]
    embeddings = jnp.array(unit(RNG.normal(size=(3, 4))), jnp.float32)
    d = GoalAmongDecoys(jnp.array([9.0]), embeddings[0], (states, embeddings), 2.0)
    drawn = np.asarray(jax.vmap(d.sample)(jax.random.split(KEY, 4000)))[:, 0]
    scores = 2.0 * np.append(np.asarray(embeddings @ embeddings[0]), 1.0)
    expected = 4000 * special.softmax(scores)
    observed = [np.sum(drawn == x) for x in (0.0, 1.0, 2.0, 9.0)]
    assert stats.chisquare(observed, expected).pvalue > 1e-3


def test_the_memory_spreads_over_what_is_visited_and_forgets():
    """Visits crowd in a corner, what is remembered does not; what was visited once, far away, is forgotten."""
    q = POSTERIORS["nonparametric"](KEY, Build(2, 2, (8,), Linear, 1.0, 1, 5.0))
    states = jnp.asarray(RNG.uniform(size=(1200, 256, 2)) ** 4, jnp.float32)
    refresh = jax.jit(lambda q, x, k: q.refresh(x, k))
    q = refresh(q, 9.0 + states[0], KEY)
    assert np.max(q.memory) >= 9
    for x, key in zip(states, jax.random.split(KEY, len(states)), strict=True):
        q = refresh(q, x, key)
    memory = np.asarray(q.memory)
    assert np.max(memory) <= 1
    assert len(np.unique(memory, axis=0)) > 0.95 * MEMORY
    assert np.median(memory) > 3 * np.median(states), "the median visit is at 1/16"
    goals = current(Visited(2, 31), type("Seen", (), {"q": q})())
    drawn = np.asarray(jax.vmap(goals.sample)(jax.random.split(KEY, 50)))
    assert all((memory == z).all(axis=1).any() for z in drawn)
    with pytest.raises(ValueError, match="memory"):
        Visited(2, 31).sample(KEY)


def test_implied_posterior_is_bayes_rule():
    likelihood = np.array([0.1, 0.7, 0.05])
    d = Implied(jnp.log(jnp.array(likelihood, jnp.float32)))
    for z in jnp.arange(3):
        assert float(d.log_prob(z)) == pytest.approx(np.log(likelihood[z] / likelihood.sum()), abs=1e-5)
        assert float(d.fit(z)) == pytest.approx(np.log(likelihood[z]), abs=1e-5), "dynamics are fitted by p(s'|s, z)"


def test_skill_dynamics_see_which_skill_moved_so():
    """Fitted to skills that move left and right, the implied posterior tells them apart."""
    q = POSTERIORS["dynamics"](KEY, Build(2, 2, (16,), Linear, 1.0, 2, 5.0))
    from vgcrl.objective.optim import adam_init, adam_step

    z = jnp.arange(64) % 2
    s = jnp.asarray(RNG.normal(size=(64, 1)), jnp.float32)
    x = jnp.concatenate([s, s + jnp.where(z == 0, -0.1, 0.1)[:, None]], axis=1)

    def loss(q):
        return -jnp.mean(jax.vmap(lambda x, z: q(x).fit(z))(x, z))

    @jax.jit
    def step(q, optimiser):
        q, optimiser = adam_step(q, jax.grad(loss)(q), optimiser, jnp.float32(1e-2))
        return q.refresh(x, KEY), optimiser

    optimiser = adam_init(q)
    for _ in range(300):
        q, optimiser = step(q, optimiser)
    assert np.mean(jax.vmap(lambda x: q(x).mode())(x) == z) > 0.95


@pytest.mark.parametrize("shape", [(8, 8, 2), (7, 10, 1), (3, 5, 3)])
def test_convolutions_are_convolutions(shape):
    @jax.jit
    def both(x):
        net, h = Convolutions.init(KEY, shape, 5), x.transpose(2, 0, 1)[None]
        for layer in net.layers:
            kernel = layer.weight.reshape(layer.weight.shape[0], -1, 3, 3)
            h = jax.lax.conv_general_dilated(h, kernel, (2, 2), "SAME") + layer.bias[None, :, None, None]
            h = jax.nn.relu(h)
        return net(x.reshape(-1)), net.head(h[0].transpose(1, 2, 0).reshape(-1))

    np.testing.assert_allclose(*both(jnp.asarray(RNG.normal(size=shape), jnp.float32)), rtol=1e-4, atol=1e-5)


def test_bounded_convolutions_stretch_no_picture():
    """Patches overlap, so that a bound on the layer of patches alone would not do: blurring stretches the most."""

    @jax.jit
    def stretch(bound):
        net = Convolutions.init(KEY, (8, 8, 2), 5, lambda w, b: Spectral.init(jnp.ones_like(w), b, bound=bound))
        return jnp.linalg.norm(jax.jacobian(net)(jax.random.uniform(KEY, (8 * 8 * 2,))), 2)

    assert 0.3 < stretch(1.0) <= 1.001


def test_the_picture_shows_the_body_now_and_before():
    env = pixels.picture(pointmass.pointmass(2))
    sim, obs = env.reset(KEY)
    for _ in range(3):
        before = obs
        sim, obs, _ = env.step(sim, jnp.array([1.0, -0.5]), KEY)
    now, then = np.split(np.asarray(obs), 2)
    np.testing.assert_array_equal(then, np.split(np.asarray(before), 2)[0])
    rows, columns = np.mgrid[: pixels.SIZE, : pixels.SIZE]
    weight = now.reshape(pixels.SIZE, pixels.SIZE)
    place = np.array([np.sum(columns * weight), np.sum(rows * weight)]) / weight.sum()
    position = np.asarray(sim.inner.position)
    inside = np.abs(position) < 1.0
    np.testing.assert_allclose(
        (place / (pixels.SIZE - 1) * 2 - 1)[inside] * pointmass.ARENA, position[inside], atol=0.1
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("vgcrl --critic successor", "which gaussian is not; valid: categorical or vmf"),
        ("diayn --critic vector", "--critic 'vector' is unknown"),
        ("diayn --gpi 4", "--gpi needs successor features"),
        ("discern --relabel p-her", "a sample of which is no state that was reached; valid: none or her"),
        ("infogail --relabel her", "its q sees the action"),
        ("dads --relabel p-her", "its q sees a transition"),
        ("discern --posterior nonparametric-conv", "needs pictures, pointmass has numbers"),
        ("discern --env pixel-pointmass --posterior nonparametric-conv --features 0,1", "sees the whole picture"),
        ("visr --goal-dim 1", "valid: at least 2"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(words, said, capsys, tmp_path):
    out = tmp_path / "run"
    assert main(["train", *words.split(), "--out", str(out)]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(("env", "poses"), [("pointmass", "0,1"), ("HalfCheetah", "0,1,2,3,4,5,6,7")])
def test_goals_of_discern_are_what_a_picture_shows(env, poses):
    """Poses can be held, the fastest movements ever seen cannot."""
    assert resolve(Options("discern", env)).features == poses
    assert resolve(Options("discern", env, features="1,0")).features == "1,0"


def test_skill_dynamics_follow_changes_as_they_see_them():
    """Features of spread 100: changes of 1 are 0.01 of it, and that is the scale that is learned."""
    q = POSTERIORS["dynamics"](KEY, Build(2, 2, (16,), Linear, 1.0, 2, 5.0))
    seen = Standardiser(jnp.zeros(1), jnp.full(1, 1e4), jnp.ones(()))
    view = PosteriorView(q, (0,), "transition", 1, seen)
    s = 100 * jnp.asarray(RNG.normal(size=(64, 1)), jnp.float32)
    inputs = jnp.concatenate([s, s + 1], axis=1)
    follow = jax.jit(lambda view: view.refresh(inputs, KEY))
    for _ in range(900):
        view = follow(view)
    change = np.diff(jax.vmap(view.scaled)(inputs), axis=1)
    assert float(view.q.scale[0]) == pytest.approx(float(np.sqrt(np.mean(change**2))) + 1e-3, rel=0.02)
