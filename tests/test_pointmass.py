"""The point mass against MuJoCo itself, and the contract of environments."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from vgcrl.envs import ENVS, Vectorised, pointmass
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve

DIMS = 3


def mujoco_step(model, data, position, velocity, action, wind):
    mujoco.mj_resetData(model, data)
    data.qpos[:], data.qvel[:], data.ctrl[:], data.qfrc_applied[:] = position, velocity, action, wind
    mujoco.mj_step(model, data)
    return data.qpos.copy(), data.qvel.copy()


def random_cases(count):
    """Half of them at or beyond a wall, many within the width of the soft limit."""
    rng = np.random.default_rng(0)
    position = rng.uniform(-1.6, 1.6, (count, DIMS))
    near = np.sign(position) * (pointmass.ARENA + rng.uniform(-0.002, 0.002, position.shape))
    position[::2] = near[::2]
    shape = position.shape
    return position, rng.normal(0, 5, shape), rng.uniform(-1, 1, shape), rng.uniform(-60, 60, shape)


@pytest.mark.parametrize(("x64", "tolerance"), [(True, 1e-10), (False, 1e-5)])
def test_single_steps_equal_mujoco(x64, tolerance):
    model = mujoco.MjModel.from_xml_string(pointmass.mjcf(DIMS))
    data = mujoco.MjData(model)
    cases = random_cases(2000)
    with jax.enable_x64(x64):
        dtype = jnp.float64 if x64 else jnp.float32
        arrays = [jnp.asarray(c, dtype) for c in cases]
        rounded = [np.asarray(a, np.float64) for a in arrays]  # MuJoCo starts from what float32 can hold
        sim = pointmass.PointState(arrays[0], arrays[1])
        ours = jax.jit(pointmass.physics)(sim, pointmass.GEAR * arrays[2] + arrays[3])
        position, velocity = (np.asarray(x, np.float64) for x in ours)
    theirs = [mujoco_step(model, data, *(c[i] for c in rounded)) for i in range(len(position))]
    scale = np.maximum(1, np.abs([v for _, v in theirs]))  # relative where velocities are large
    assert np.abs(position - [p for p, _ in theirs]).max() < tolerance
    assert (np.abs(velocity - [v for _, v in theirs]) / scale).max() < tolerance
    assert (np.abs(rounded[0]) > pointmass.ARENA).sum() > 500


def test_rollouts_equal_mujoco():
    """200 steps under random action and wind; walls are hit on the way."""
    model = mujoco.MjModel.from_xml_string(pointmass.mjcf(DIMS))
    data = mujoco.MjData(model)
    rng, contacts, worst = np.random.default_rng(1), 0, 0.0
    with jax.enable_x64(True):
        step = jax.jit(pointmass.physics)
        for _ in range(5):
            mujoco.mj_resetData(model, data)
            data.qpos[:] = rng.uniform(-1.5, 1.5, DIMS)
            sim = pointmass.PointState(jnp.asarray(data.qpos), jnp.asarray(data.qvel))
            for _ in range(200):
                data.ctrl[:], data.qfrc_applied[:] = rng.uniform(-1, 1, DIMS), rng.uniform(-40, 40, DIMS)
                force = pointmass.GEAR * data.ctrl + data.qfrc_applied
                mujoco.mj_step(model, data)
                sim = step(sim, jnp.asarray(force))
                contacts += int((np.abs(data.qpos) > pointmass.ARENA).sum())
                worst = max(worst, np.abs(np.asarray(sim.position) - data.qpos).max())
    assert worst < 1e-8
    assert contacts > 100


def test_wind_blows_only_where_it_should():
    env = pointmass.pointmass(3, wind=(0.0, 40.0, 0.0))
    keys = jax.random.split(jax.random.key(1), 500)
    still = pointmass.PointState(jnp.zeros(3), jnp.zeros(3))
    velocity = jax.vmap(lambda k: env.step(still, jnp.zeros(3), k)[0].velocity)(keys)
    assert jnp.all(velocity[:, jnp.array([0, 2])] == 0)
    top = 40 * pointmass.TIMESTEP / (pointmass.MASS + pointmass.TIMESTEP * pointmass.DAMPING)
    assert jnp.abs(velocity[:, 1]).max() == pytest.approx(top, rel=0.02)
    assert velocity[:, 1].std() == pytest.approx(top / 3**0.5, rel=0.1)


def test_paper_profiles():
    assert pointmass.paper_wind(2) == (0.0, 40.0)
    assert pointmass.paper_wind(10) == tuple(11.0 * i for i in range(10))


@pytest.mark.parametrize("name", [name for name, row in ENVS.items() if "jax" in row.engines])
def test_environment_contract(name):
    """Shapes, ranges, fresh starts, and the true successor kept apart from the observation after a reset."""
    env = resolve(Options(env=name)).build_env()
    spec, many = env.spec, Vectorised(env, 4)
    assert len(spec.low) == len(spec.high) == spec.obs_dim
    assert set(spec.position) | set(spec.velocity) | set(spec.features) <= set(range(spec.obs_dim))
    state, obs = many.reset(jax.random.key(0))
    first = obs

    def body(carry, key):
        state, _ = carry
        state, out = many.step(state, jnp.full((4, spec.action_dim), 0.5), key)
        return (state, out.obs), out

    keys = jax.random.split(jax.random.key(1), 2 * spec.horizon)
    out = jax.jit(lambda s, o: jax.lax.scan(body, (s, o), keys))(state, obs)[1]
    last = np.asarray(out.last)
    assert last.sum(axis=0).tolist() == [2] * 4
    assert np.flatnonzero(last[:, 0]).tolist() == [spec.horizon - 1, 2 * spec.horizon - 1]
    assert not np.asarray(out.terminal).any(), "a time limit is not a termination"
    same = np.asarray((out.obs == out.next_obs).all(-1))
    assert np.array_equal(same, ~last)
    starts = np.concatenate([first, out.obs[spec.horizon - 1], out.obs[-1]])
    assert len(np.unique(starts, axis=0)) == 12, "every episode has a fresh start"


def test_projection_is_applied_to_positions_and_velocities():
    plain = resolve(Options(env="pointmass")).build_env()
    seen = resolve(Options(env="projected-pointmass", projection_dim=5, projection_seed=(3,))).build_env()
    w = np.array(seen.spec.facts["projection"])
    assert w.shape == (5, 2)
    (sim, raw), (_, obs) = plain.reset(jax.random.key(0)), seen.reset(jax.random.key(0))
    np.testing.assert_allclose(obs, np.concatenate([w @ raw[:2], w @ raw[2:]]), rtol=1e-5)
    action = jnp.array([0.3, -1.0])
    _, raw, _ = plain.step(sim, action, jax.random.key(1))
    _, obs, _ = seen.step(sim, action, jax.random.key(1))
    np.testing.assert_allclose(obs, np.concatenate([w @ raw[:2], w @ raw[2:]]), rtol=1e-4, atol=1e-5)
    other = resolve(Options(env="projected-pointmass", projection_dim=5, projection_seed=(4,))).build_env()
    assert not np.allclose(w, other.spec.facts["projection"])
