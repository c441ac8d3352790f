"""Acting with the noise of training: samples of the policy, the same from the same generator; who asks for it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from scipy import stats

import vgcrl
from test_foreign import one_line
from untrained import random_policies, untrained
from vgcrl.cli import main
from vgcrl.envs import gl
from vgcrl.envs.contract import Env, Vectorised
from vgcrl.measure.rollout import draw_noise, trajectories
from vgcrl.objective.agents.sac import LOG_STD_RANGE
from vgcrl.show import panels
from vgcrl.training.host_program import _draw_noise
from vgcrl.use import policies
from vgcrl.use.policy import policy_of

OBS, GOAL = np.array([0.3, -0.2, 0.1, 0.4], np.float32), np.array([0.5, -0.5], np.float32)


@pytest.fixture(scope="module")
def acting():
    """A policy, and mean and spread of its action before the tanh, from its network alone."""
    program, runs = random_policies("gcrl")
    actor = jax.tree.map(lambda x: jnp.asarray(x[0]), runs.learner.agent.actor)
    mean, log_std = np.split(np.asarray(actor(jnp.concatenate([OBS, GOAL]))), 2)
    return policy_of(program, jax.tree.map(jnp.asarray, runs), None), mean, np.exp(np.clip(log_std, *LOG_STD_RANGE))


def test_samples_are_those_of_the_squashed_gaussian(acting):
    """Mean and spread by Gauss–Hermite quadrature, and the whole distribution by Kolmogorov and Smirnov."""
    policy, mean, std = acting
    many, rng = np.repeat(OBS[None], 20_000, axis=0), np.random.default_rng(1)
    actions = policy.act(many, z=GOAL, deterministic=False, rng=rng)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    values, weights = np.tanh(mean + std * nodes[:, None]), weights[:, None] / weights.sum()
    expected = np.sum(weights * values, axis=0)
    spread = np.sqrt(np.sum(weights * (values - expected) ** 2, axis=0))
    np.testing.assert_allclose(actions.mean(axis=0), expected, atol=4 * spread.max() / 20_000**0.5)
    np.testing.assert_allclose(actions.std(axis=0), spread, rtol=0.03)
    for i in range(2):
        assert stats.kstest(np.arctanh(actions[:, i]), stats.norm(mean[i], std[i]).cdf).pvalue > 1e-3
    assert np.corrcoef(actions.T)[0, 1] == pytest.approx(0, abs=0.04)


def test_without_noise_it_is_the_mode_and_with_it_what_the_generator_says(acting):
    policy, mean, std = acting
    np.testing.assert_allclose(policy.act(OBS, z=GOAL), np.tanh(mean), atol=1e-6)
    draws = np.random.default_rng(3).standard_normal((2, 2), np.float32)
    rng = np.random.default_rng(3)
    for draw in draws:
        action = policy.act(OBS, goal_state=[*GOAL, 0, 0], deterministic=False, rng=rng)
        np.testing.assert_allclose(action, np.tanh(mean + std * draw), atol=1e-5)
    own = [policy.act(OBS, z=GOAL, deterministic=False) for _ in range(2)]
    assert not np.allclose(*own)
    for wrong in ({"rng": np.random.default_rng(0)}, {"rng": 3, "deterministic": False}):
        with pytest.raises(ValueError, match="rng goes with deterministic=False"):
            policy.act(OBS, z=GOAL, **wrong)


def test_the_generator_of_a_policy_starts_from_its_seed(tmp_path):
    folder = untrained(tmp_path, "diayn")
    one, again, other = (vgcrl.load(folder, seed=s).act(OBS, z=2, deterministic=False) for s in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, other)


def test_choices_are_samples_of_the_softmax(tmp_path):
    """Where an action is one of several."""
    program, runs = random_policies("diayn", env="CartPole-v1", goal_dim=3)
    actor = jax.tree.map(lambda x: jnp.asarray(x[0]), runs.learner.agent.actor)
    policy, obs = policy_of(program, jax.tree.map(jnp.asarray, runs), None), np.array([0.5, -1.0, 0.3, 2.0], np.float32)
    share = jax.nn.softmax(actor(jnp.concatenate([obs, jax.nn.one_hot(1, 3)])))[1]
    chosen = policy.act(np.repeat(obs[None], 4000, axis=0), z=1, deterministic=False, rng=np.random.default_rng(0))
    assert chosen.mean() == pytest.approx(float(share), abs=4 * 0.5 / 4000**0.5)
    assert policy.act(obs, z=1) in {0: "left", 1: "right"}  # a number, as tables of an environment ask for


def test_episodes_are_given_the_noise_drawn_for_them():
    envs = Vectorised(vgcrl.make("pointmass"), 3)
    draws, key = draw_noise(envs, jax.random.key(1)), jax.random.key(0)
    assert draws.shape == (envs.spec.horizon, 3, 2)
    z = jnp.zeros((3, 1))
    noisy = trajectories(envs, lambda obs, z, noise: jnp.tanh(noise), z, key, draws)
    state, obs = envs.reset(jax.random.split(key)[0])
    _, out = envs.step(state, jnp.tanh(draws[0]), jax.random.split(jax.random.split(key)[1], envs.spec.horizon)[0])
    np.testing.assert_allclose(noisy[:2], jnp.stack([obs, out.next_obs]), atol=1e-6)


def test_noise_on_the_host_is_that_of_run_and_step():
    keys = np.array([[1, 2], [3, 4]], np.uint32)
    drawn = _draw_noise(keys, 5, (40, 3))
    assert (drawn.shape, drawn.dtype) == ((2, 40, 3), np.float32)
    np.testing.assert_array_equal(drawn[1], _draw_noise(keys[1:], 5, (40, 3))[0])
    assert not np.allclose(drawn[0], drawn[1])
    assert not np.allclose(drawn, _draw_noise(keys, 6, (40, 3)))
    assert abs(drawn.mean()) < 0.3
    assert drawn.std() == pytest.approx(1, abs=0.2)


def test_evaluations_ask_for_it(tmp_path, monkeypatch, capsys):
    """`--noise yes` reaches the program, and the record says so."""
    from vgcrl.training.native_program import NativeProgram

    folder, asked = untrained(tmp_path, "diayn"), []

    def evaluate(self, runs, targets=None, episodes=None, noise=False):
        asked.append(noise)
        raise ZeroDivisionError

    monkeypatch.setattr(NativeProgram, "evaluate", evaluate)
    for words in ([], ["--noise", "yes"], ["--noise", "no"]):
        with pytest.raises(ZeroDivisionError):
            main(["evaluate", str(folder), "--json", *words])
    with pytest.raises(ZeroDivisionError):
        vgcrl.evaluate(folder, noise=True)
    assert asked == [False, True, False, True]
    assert main(["evaluate", str(folder), "--noise", "some"]) == 2
    assert "yes or no" in capsys.readouterr().err


def pixels(path):
    with Image.open(path) as found:
        return np.asarray(found.convert("RGB"), float)


def test_films_with_noise_differ_and_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(gl, "choose_gl", lambda: False)
    folder = untrained(tmp_path / "run", "gcrl", env="HalfCheetah", features="velocity")
    made = [
        vgcrl.film(folder, out=tmp_path / f"{i}.png", goals=[(1.0,)], seconds=0.5, noise=noise)
        for i, noise in enumerate((None, False, True, True))
    ]
    usual, without, with_noise, again = map(pixels, made)
    np.testing.assert_array_equal(usual, without)
    np.testing.assert_array_equal(with_noise, again)
    bar = (slice(0, 30), slice(panels.WIDTH // 2, panels.WIDTH))  # at time 0, where nothing else differs
    assert (with_noise[bar] != without[bar]).any()
    body = (slice(40, None), slice(-panels.WIDTH, None))
    assert (with_noise[body] != without[body]).any()


def test_a_policy_is_shown_as_it_is_meant(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gl, "choose_gl", lambda: False)
    monkeypatch.chdir(tmp_path)
    assert vgcrl.load("ant-place").noise
    assert not vgcrl.load("pointmass-diayn").noise
    for words, said in (([], True), (["--noise", "no"], False)):
        assert main(["film", "ant-place", "--goal", "3,0", "--seconds", "0.1", "--out", "film.png", *words]) == 0
        assert ("as it is meant to" in capsys.readouterr().err) == said
    run = untrained(tmp_path / "run", "diayn")
    assert not policies.meant_with_noise(run)


def test_a_gpi_policy_draws_for_the_goal_it_chose():
    program, runs = random_policies("visr", critic="successor", gpi=3)
    run = jax.tree.map(lambda x: jnp.asarray(x[0]), runs)
    z = jnp.array([1.0] + [0.0] * (program.goals.dim - 1))
    still = program.act(run, jnp.asarray(OBS), z, jnp.zeros(2))
    np.testing.assert_allclose(still, program.act(run, jnp.asarray(OBS), z), atol=1e-6)
    assert not np.allclose(program.act(run, jnp.asarray(OBS), z, jnp.ones(2)), still)


@pytest.mark.parametrize("show", [vgcrl.explore, vgcrl.film])
def test_noise_is_yes_or_no(show, tmp_path):
    one_line(lambda: show("pointmass-diayn", noise="no", out=tmp_path / "a.html"), "noise is 'no'")
    assert not list(tmp_path.iterdir())


def test_a_path_is_of_one_episode():
    """Stairs that end at 3, where the environment begins again at 0."""
    start = jnp.zeros(4)

    def step(x, action, key):
        after = x + action[0]
        return after, after, after[0] >= 3

    spec = vgcrl.make("pointmass").spec._replace(horizon=6)
    stairs = Vectorised(Env(spec, lambda key: (start, start), step), 2)
    z = jnp.array([[1.0, 0.0], [2.0, 0.0]])
    path = trajectories(stairs, lambda obs, z, noise: z, z, jax.random.key(0))
    assert path[..., 0].T.tolist() == [[0, 1, 2, 3, 3, 3, 3], [0, 2, 4, 4, 4, 4, 4]]
