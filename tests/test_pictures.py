"""Observations that are pictures: seen as numbers from 0 to 1, through convolutions, and kept as bytes."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vgcrl
from picture_envs import SIZE, Square
from test_foreign import one_line
from tiny import TINY
from vgcrl.envs.observations import flat
from vgcrl.objective.networks import MLP
from vgcrl.objective.pictures import Convolutions, PictureMLP
from vgcrl.objective.types import Transition
from vgcrl.training import memory, replay
from vgcrl.training.host_program import compile_config
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve
from vgcrl.use import evaluate

pytestmark = pytest.mark.usefixtures("unrendered")

KEY = jax.random.key(0)
ENV = "picture_envs:Square-v0"
SMALL = TINY | {"steps": 160, "batch": 4, "seeds": 1, "hidden": (16,)}


def test_bytes_become_numbers():
    seen = flat(Square().observation_space)
    picture, _ = Square().reset(seed=0)
    numbers = seen.flatten(picture)
    assert (seen.image, numbers.dtype, numbers.shape) == ((SIZE, SIZE, 1), np.float32, (SIZE * SIZE,))
    np.testing.assert_array_equal(numbers, picture.ravel() / np.float32(255))
    first, _ = Square(channels_first=True).reset(seed=0)
    other = flat(Square(channels_first=True).observation_space)
    assert other.image == seen.image
    np.testing.assert_array_equal(other.flatten(first), numbers)


def test_replay_keeps_bytes_and_gives_numbers_back():
    every = (jnp.arange(256, dtype=jnp.float32) / 255)[None]
    step = Transition(every, jnp.zeros((1, 1)), every[:, ::-1], jnp.zeros(1), jnp.zeros(1, bool))
    buffer = replay.init(step, 10, 2, pixels=True)
    assert buffer.obs.dtype == jnp.uint8
    buffer = jax.jit(replay.add)(buffer, step, jnp.ones(1, bool))
    drawn, later = jax.jit(replay.sample, static_argnums=2)(buffer, KEY, 3)
    for x in (drawn.obs, drawn.next_obs[:, ::-1], later[:, ::-1]):
        np.testing.assert_array_equal(x, np.repeat(every, 3, axis=0))


def test_pictures_become_channels_and_the_rest_is_added():
    shape = (8, 6, 2)

    @jax.jit
    def both():
        net = PictureMLP.init(KEY, (2 * 8 * 6 * 2 + 3, 16, 4), shape=shape, pictures=2)
        pictures, rest = jax.random.normal(KEY, (2, *shape)), jnp.arange(3.0)
        seen = jax.nn.relu(net.eyes(jnp.concatenate(list(pictures), axis=-1).ravel()))
        return net(jnp.concatenate([pictures.ravel(), rest])), net.mlp(jnp.concatenate([seen, rest]))

    np.testing.assert_allclose(*both(), rtol=1e-5)


@pytest.mark.parametrize("method", ["diayn", "gcrl", "metra", "dads", "discern"])
def test_every_network_has_convolutions(method):
    """Of the policy, the critics, and of q where that is a network at all."""
    program = compile_config(resolve(Options(method, ENV, **TINY | {"seeds": 1})))
    state = program.shapes().learner
    for net in (state.agent.actor, state.agent.critics):
        assert isinstance(net, PictureMLP)
    goals_are_pictures = method in ("gcrl", "discern")
    assert state.agent.actor.pictures == 1 + goals_are_pictures
    is_net = lambda x: isinstance(x, (Convolutions, MLP))  # noqa: E731
    kinds = [type(x) for x in jax.tree.leaves(state.q, is_leaf=is_net) if is_net(x)]
    assert kinds.count(Convolutions) == (method != "gcrl")
    assert program.shapes().replay.obs.dtype == jnp.uint8


@pytest.mark.slow
def test_a_run_on_pictures(tmp_path, capsys):
    run = vgcrl.train("diayn", env=ENV, out=tmp_path / "run", quiet=False, **SMALL)
    assert "pictures of 16 × 16 × 1 bytes, seen as numbers from 0 to 1" in capsys.readouterr().err
    assert (run.config.encoder, run.last["step"]) == ("conv", 160)
    policy, picture = vgcrl.load(run.dir), Square().reset(seed=0)[0]
    action = policy.act(picture, z=3)
    assert action.shape == (2,)
    np.testing.assert_allclose(policy.act(picture.ravel() / 255, z=3), action, atol=1e-6)
    np.testing.assert_allclose(policy.act(np.stack([picture, picture]), z=3), np.stack([action, action]), atol=1e-6)


@pytest.mark.parametrize("first", ["false", "true"])
def test_target_states_may_be_pictures(first, tmp_path, monkeypatch):
    """In Python and in a file they are pictures as the environment gives them, and become what the policy sees."""
    config = resolve(Options("diayn", ENV, env_arg=(f"channels_first={first}",)))
    env = Square(first == "true")
    pictures, asked = np.stack([env.reset(seed=i)[0] for i in range(3)]), []
    evaluated = lambda runs, targets, *_: asked.append(targets)  # noqa: E731
    program = SimpleNamespace(config=config, spec=config.specification, evaluate=evaluated)
    monkeypatch.setattr(evaluate, "restore", lambda *_: (program, None, {"step": 1}))
    np.save(tmp_path / "targets.npy", pictures)
    for given in (pictures, tmp_path / "targets.npy", list(pictures)):
        with pytest.raises(TypeError):  # there is no evaluation after all
            vgcrl.evaluate(tmp_path, targets=given)
        np.testing.assert_array_equal(asked.pop(), pictures.reshape(3, -1) / np.float32(255))


@pytest.mark.slow
def test_a_run_on_pictures_goes_on(tmp_path):
    run = vgcrl.train("diayn", env=ENV, out=tmp_path / "run", quiet=True, **SMALL)
    assert vgcrl.resume(run.dir, steps=320).last["step"] == 320


def test_choices_of_encoder():
    assert resolve(Options("diayn", "pointmass")).encoder == "mlp"
    assert resolve(Options("diayn", "pixel-pointmass")).encoder == "mlp"
    assert resolve(Options("diayn", "pixel-pointmass", encoder="conv")).encoder == "conv"
    assert resolve(Options("diayn", ENV, encoder="mlp")).encoder == "mlp"
    assert resolve(Options("diayn", ENV)).replay == 100_000
    assert resolve(Options("diayn", ENV, replay=200_000)).replay == 200_000
    one_line(lambda: resolve(Options("diayn", "pointmass", encoder="conv")), "needs pictures", "auto or mlp")
    asked = Options("diayn", ENV, encoder="conv", features="0,1")
    one_line(lambda: resolve(asked), "--encoder conv sees the whole picture")


@pytest.mark.slow
def test_skills_are_told_apart_by_looking(tmp_path):
    """Four skills of a square: each goes to a place of its own, and q reads off the picture which it was."""
    size = {"steps": 6_000, "envs": 8, "hidden": (64, 64), "batch": 64, "updates_per_step": 0.25, "random_steps": 500}
    size |= {"learning_rate": 1e-3, "posterior_learning_rate": 1e-3, "initial_alpha": 0.02, "replay": 20_000}
    size |= {"evaluate_episodes": 40, "evaluate_every": 6_000}
    run = vgcrl.train("diayn", env=ENV, goal_dim=4, seeds=1, out=tmp_path / "run", **size)
    assert run.last["mean"]["lgr_z"] > 0.9  # chance 0.25


@pytest.mark.parametrize(("pixels", "size"), [(True, 1), (False, 4)])
def test_pictures_need_a_byte_for_each_number(pixels, size):
    config = SimpleNamespace(runs=3, replay=1000, hidden=(16,))
    assert memory.least_memory(config, SimpleNamespace(obs_dim=50, pixels=pixels)) == 3 * (
        size * 1000 * 50 + 4 * 50 * 16
    )
