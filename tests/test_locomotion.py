"""HalfCheetah, Ant and Humanoid: the C engine against Gymnasium bit for bit, MJX against the C engine."""

import sys

import gymnasium
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from scipy import stats
from scipy.spatial.transform import Rotation

from vgcrl.envs import Vectorised, bodies, mjx_engine
from vgcrl.envs.contract import VecState
from vgcrl.envs.mujoco_engine import Batch
from vgcrl.errors import UsageError

NAMES = list(bodies.TASKS)
CASES = [(name, end) for name in NAMES for end in (False, True) if bodies.TASKS[name].height or not end]
KEYS = np.array([[1, 2], [3, 4]], np.uint32)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Gymnasium's HalfCheetah makes MuJoCo write a log to the working directory."""
    monkeypatch.chdir(tmp_path)


def theirs(name, terminate=False):
    """Gymnasium's environment, without its time limit."""
    task = bodies.TASKS[name]
    options = task.options | ({"terminate_when_unhealthy": terminate} if task.height else {})
    return gymnasium.make(task.gymnasium, **options).unwrapped


def ours(name, runs=1, count=4, *, terminate=False, horizon=1000):
    return Batch(bodies.TASKS[name], runs, count, terminate=terminate, horizon=horizon)


def place(env, qpos, qvel):
    env.reset()
    env.set_state(qpos, qvel)
    return env._get_obs().astype(np.float32)


def actions(steps, worlds, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (steps, *worlds.shape, worlds.spec.action_dim)).astype(np.float32)


# The C engine


@pytest.mark.parametrize(("name", "terminate"), CASES)
def test_equals_gymnasium_bit_for_bit(name, terminate):
    worlds = ours(name, 2, 2, terminate=terminate, horizon=120)
    envs = [theirs(name, terminate) for _ in range(4)]
    obs = worlds.reset(KEYS).reshape(4, -1)
    for i, env in enumerate(envs):
        np.testing.assert_array_equal(obs[i], place(env, worlds.qpos[i], worlds.qvel[i]))
    ends = terminals = 0
    for clock, action in enumerate(actions(300, worlds)):
        step = worlds.step(action, KEYS, clock)
        next_obs, obs, terminal, last = (x.reshape(4, *x.shape[2:]) for x in step)
        for i, env in enumerate(envs):
            low, high = (np.array(x) for x in (worlds.spec.action_low, worlds.spec.action_high))
            control = (low + high) / 2 + (high - low) / 2 * action.reshape(4, -1)[i].astype(np.float64)
            expected, _, terminated, _, _ = env.step(control)
            np.testing.assert_array_equal(next_obs[i], expected.astype(np.float32))
            assert terminal[i] == terminated
            if last[i]:
                expected = place(env, worlds.qpos[i], worlds.qvel[i])
            np.testing.assert_array_equal(obs[i], expected.astype(np.float32))
        ends, terminals = ends + last.sum(), terminals + terminal.sum()
    assert ends >= 8
    assert (terminals > 0) == terminate


def same_starts(name, qpos, qvel):
    """Noise is distributed as Gymnasium's, by Kolmogorov and Smirnov, and as wide."""
    task, env = bodies.TASKS[name], theirs(name)
    env.reset(seed=0)
    states = []
    for _ in range(400):
        env.reset()
        states.append((env.data.qpos.copy(), env.data.qvel.copy()))
    for mine, other in zip((qpos, qvel), map(np.stack, zip(*states, strict=True)), strict=True):
        centre = env.init_qpos if mine is qpos else env.init_qvel
        mine, other = np.asarray(mine, np.float64) - centre, other - centre
        assert stats.ks_2samp(mine.ravel(), other.ravel()).pvalue > 0.01
        np.testing.assert_allclose(mine.std(axis=0), other.std(), rtol=0.1)
        assert np.abs(mine.mean(axis=0)).max() < 0.1 * task.noise
        if np.abs(other).max() <= task.noise:
            assert 0.99 * task.noise < np.abs(mine).max() <= task.noise * (1 + 1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_starts_are_distributed_as_gymnasiums(name):
    worlds = ours(name, count=2000)
    worlds.reset(KEYS[:1])
    same_starts(name, worlds.qpos, worlds.qvel)


def test_time_limit_gives_the_true_successor_and_a_fresh_start():
    short, long = ours("HalfCheetah", horizon=3), ours("HalfCheetah")
    np.testing.assert_array_equal(short.reset(KEYS[:1]), long.reset(KEYS[:1]))
    for clock, action in enumerate(actions(4, short)):
        a, b = short.step(action, KEYS[:1], clock), long.step(action, KEYS[:1], clock)
        assert (a.last == (clock == 2)).all()
        assert not a.terminal.any()
        assert not b.last.any()
        if clock < 3:
            np.testing.assert_array_equal(a.next_obs, b.next_obs)
        assert (np.abs(a.obs - a.next_obs).max(axis=-1) > 0.1).all() == (clock == 2)
    assert (np.diff(a.obs[0], axis=0) != 0).any()


@pytest.mark.parametrize("name", NAMES)
def test_runs_together_equal_runs_alone(name):
    terminate = bodies.TASKS[name].height is not None
    both = ours(name, 2, 3, terminate=terminate, horizon=15)
    alone = [ours(name, 1, 3, terminate=terminate, horizon=15) for _ in KEYS]
    obs = both.reset(KEYS)
    assert (obs[0] != obs[1]).any()
    for run, worlds in enumerate(alone):
        np.testing.assert_array_equal(obs[run], worlds.reset(KEYS[run : run + 1])[0])
    for clock, action in enumerate(actions(40, both)):
        step = both.step(action, KEYS, clock)
        for run, worlds in enumerate(alone):
            mine = slice(run, run + 1)
            jax.tree.map(
                np.testing.assert_array_equal, [x[mine] for x in step], [*worlds.step(action[mine], KEYS[mine], clock)]
            )


@pytest.mark.parametrize("name", NAMES)
def test_saved_state_goes_on_bit_for_bit(name):
    first, second, cold = (ours(name, 2, 16, horizon=40) for _ in range(3))
    first.reset(KEYS)
    plan = actions(60, first)
    for clock, action in enumerate(plan[:30]):
        first.step(action, KEYS, clock)
    saved = {k: v.copy() for k, v in first.save().items()}
    for worlds in (second, cold):
        worlds.load(saved)
    cold.sims.bind("qacc_warmstart")[:] = 0
    differs = False
    for clock, action in enumerate(plan[30:], 30):
        step = first.step(action, KEYS, clock)
        jax.tree.map(np.testing.assert_array_equal, [*step], [*second.step(action, KEYS, clock)])
        np.testing.assert_array_equal(first.save()["sims"], second.save()["sims"])
        cold.step(action, KEYS, clock)
        differs |= (first.qpos != cold.qpos).any()
    assert differs  # so that the warm start is part of the state


# The tasks


@pytest.mark.parametrize(("name", "width"), [*zip(NAMES, (17, 27, 270), strict=True)])
def test_specification_addresses_the_observation(name, width):
    env, worlds = theirs(name), ours(name)
    spec, obs = worlds.spec, worlds.reset(KEYS[:1])[0]
    task = bodies.TASKS[name]
    assert spec.obs_dim == width == env.observation_space.shape[0] == obs.shape[-1]
    assert spec.seconds == pytest.approx(env.dt)
    assert len(spec.velocity) == task.places
    np.testing.assert_array_equal(obs[:, spec.velocity], worlds.qvel[:, : task.places].astype(np.float32))
    np.testing.assert_array_equal(obs[:, spec.position], worlds.qpos[:, task.places :].astype(np.float32))
    np.testing.assert_array_equal(np.float32(spec.action_low), env.action_space.low)
    np.testing.assert_array_equal(np.float32(spec.action_high), env.action_space.high)
    for side, column in ((spec.low, 0), (spec.high, 1)):
        for joint in range(env.model.njnt):
            view = env.model.joint(joint)
            index = view.qposadr[0] - task.places
            if view.limited[0]:
                assert side[index] == view.range[column]
        assert np.isfinite(side).sum() == env.model.jnt_limited.sum() + task.places
        assert all(abs(side[i]) == bodies.SPEED for i in spec.velocity)


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize("name", ["Ant", "Humanoid"])
def test_unhealthy_is_gymnasiums(name, xp):
    env, task = theirs(name, True), bodies.TASKS[name]
    env.reset(seed=0)
    heights = np.array([0.0, 0.1875, 0.25, 0.5, 1.0, 1.0625, 1.5, 2.0, 2.25, np.nan])  # exact in float32
    qpos, qvel = (np.repeat(x[None], len(heights), 0).astype(np.float32) for x in (env.data.qpos, env.data.qvel))
    qpos[:, 2] = heights
    expected = []
    for z in heights:
        env.data.qpos[2] = z
        expected.append(not env.is_healthy)
    assert {True, False} == set(expected)
    np.testing.assert_array_equal(bodies.unhealthy(task, xp.asarray(qpos), xp.asarray(qvel)), expected)


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("name", ["Ant", "Humanoid"])
def test_turned_is_what_mujoco_does_from_a_turned_start(name, positions):
    task = bodies.TASKS[name]
    env = gymnasium.make(
        task.gymnasium, **task.options, exclude_current_positions_from_observation=not positions
    ).unwrapped
    env.reset(seed=3)
    actions = np.random.default_rng(0).uniform(-0.4, 0.4, (10, *env.action_space.shape))
    for action in actions[:6]:
        env.step(action)
    qpos, qvel = env.data.qpos.copy(), env.data.qvel.copy()

    def paths(angles):
        for angle in angles:
            left, at, moving = Rotation.from_euler("z", angle), qpos.copy(), qvel.copy()
            at[:3], moving[:3] = left.apply(qpos[:3]), left.apply(qvel[:3])
            at[3:7] = (left * Rotation.from_quat(qpos[3:7], scalar_first=True)).as_quat(scalar_first=True)
            env.set_state(at, moving)
            env.data.qacc_warmstart[:] = 0
            yield np.array([env.step(action)[0] for action in actions[6:]])

    angles = np.array([0.0, 0.7, 2.5, -1.3])
    straight, *turned = paths(angles)
    for angle, expected in zip(angles[1:], turned, strict=True):
        got, w = bodies.turn(task, straight, np.full(4, angle), positions), 3 if positions else 1
        same = np.sign(np.sum(got[:, w : w + 4] * expected[:, w : w + 4], axis=-1, keepdims=True))
        got[:, w : w + 4] *= same  # a rotation has two quaternions
        np.testing.assert_allclose(got, expected, atol=1e-5)
        assert np.abs(straight - expected).max() > 0.1


def test_loading_leaves_no_log_behind(tmp_path):
    for task in bodies.TASKS.values():
        bodies.load(task)
    assert not [*tmp_path.iterdir()]


# MJX


COUNT = 16
needs_mjx = pytest.mark.skipif(mjx_engine.missing() is not None, reason="mujoco-mjx is not installed")


def native(name, physics, **options):
    """An environment and its compiled step."""
    envs = Vectorised(mjx_engine.build(bodies.TASKS[name], COUNT, horizon=1000, physics=physics, **options), COUNT)
    return envs, jax.jit(envs.step)


@pytest.fixture(scope="module")
def cheetah():
    return native("HalfCheetah", "exact")


def state(worlds, time=0):
    """The state of the C engine, for MJX."""
    fields = (worlds.qpos, worlds.qvel, worlds.sims.bind("qacc_warmstart"))
    body = mjx_engine.BodyState(*(jnp.asarray(x, jnp.float32) for x in fields))
    time, overflows = jnp.full(COUNT, time, jnp.int32), jnp.zeros(COUNT, jnp.int32)
    return VecState(mjx_engine.Simulation(body, jnp.zeros(COUNT, bool)), time, overflows)


def drift(name, step, steps=20, resync=60):
    """Largest difference in qpos, and in observation, to the C engine: in each step, and after some of them."""
    worlds = ours(name, count=COUNT)
    worlds.reset(KEYS[:1])
    free, once, rich = state(worlds), [], []
    key = jax.random.key(0)
    for clock, action in enumerate(actions(resync, worlds)):
        synced, answer = step(state(worlds), action[0], key)
        if clock < steps:
            free, _ = step(free, action[0], key)
        next_obs = worlds.step(action, KEYS[:1], clock).next_obs[0]
        once.append(np.abs(synced.sim.body.qpos - worlds.qpos).max(axis=-1))
        rich.append(np.abs(answer.next_obs - next_obs).max(axis=-1) / np.abs(next_obs).max(axis=-1))
        if clock == steps - 1:
            after = np.abs(free.sim.body.qpos - worlds.qpos).max(axis=-1)
    found = [np.median(once), np.quantile(once, 0.9), np.median(rich), np.median(after)]
    print(name, "one step: median {:.1e}, 90 % {:.1e}; observation {:.1e}; after 20: {:.1e}".format(*found))
    assert np.isfinite(found).all()
    return found


@needs_mjx
@pytest.mark.slow
def test_mjx_cheetah_equals_the_c_engine(cheetah):
    # Measured: 1e-7, 7e-7, 3e-7, 1e-4, while a step moves it by 0.4. Contacts amplify differences.
    np.testing.assert_array_less(drift("HalfCheetah", cheetah[1]), [1e-6, 1e-5, 1e-5, 2e-3])


@needs_mjx
@pytest.mark.slow
def test_mjx_time_limit(cheetah):
    worlds = ours("HalfCheetah", count=COUNT)
    worlds.reset(KEYS[:1])
    action = actions(1, worlds)[0, 0]
    going, before = cheetah[1](state(worlds, 998), action, jax.random.key(0))
    ended, after = cheetah[1](state(worlds, 999), action, jax.random.key(0))
    assert not before.last.any()
    assert after.last.all()
    assert not after.terminal.any()
    np.testing.assert_array_equal(before.obs, before.next_obs)
    np.testing.assert_array_equal(before.next_obs, after.next_obs)
    assert (np.abs(after.obs - after.next_obs).max(axis=-1) > 0.1).all()
    np.testing.assert_array_equal(ended.sim.body.qacc_warmstart, 0)
    assert (np.asarray(going.sim.body.qacc_warmstart) != 0).any()
    assert all(leaf.dtype in (jnp.float32, jnp.int32, bool) for leaf in jax.tree.leaves(going))


@needs_mjx
@pytest.mark.slow
def test_mjx_exploded_simulation_starts_again(cheetah):
    worlds = ours("HalfCheetah", count=COUNT)
    worlds.reset(KEYS[:1])
    bad = state(worlds)
    body = bad.sim.body._replace(qvel=bad.sim.body.qvel.at[0].set(jnp.nan))
    bad = bad._replace(sim=bad.sim._replace(body=body))
    action = jnp.zeros((COUNT, worlds.spec.action_dim))
    after, answer = cheetah[1](bad, action, jax.random.key(0))
    assert np.isfinite(answer.next_obs).all()
    np.testing.assert_array_equal(after.sim.body.qpos[0], np.float32(worlds.model.qpos0))
    np.testing.assert_array_equal(answer.next_obs[0], 0)
    assert (np.asarray(answer.next_obs[1:]) != 0).all(axis=-1).all()


@needs_mjx
@pytest.mark.parametrize("name", ["HalfCheetah", "Ant", pytest.param("Humanoid", marks=pytest.mark.slow)])
def test_mjx_starts(name):
    task = bodies.TASKS[name]
    env = mjx_engine.build(task, COUNT, horizon=1000, physics="exact")
    sim, obs = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 2000))
    same_starts(name, sim.body.qpos, sim.body.qvel)
    data = theirs(name)
    for i in range(5):
        place_obs = place(data, *(np.asarray(x[i], np.float64) for x in sim.body[:2]))
        np.testing.assert_allclose(obs[i], place_obs, rtol=1e-5, atol=1e-5)


@needs_mjx
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "physics", "bounds"),
    [
        ("Ant", "exact", [1e-6, 2e-2, 1e-5, 1.0]),
        ("Humanoid", "exact", [1e-6, 1e-5, 1e-5, 1e-4]),
        ("HalfCheetah", "fast", [1e-6, 1e-5, 1e-5, 2e-3]),
        ("Ant", "fast", [0.1, 0.2, 0.5, 2.0]),
        ("Humanoid", "fast", [0.02, 0.04, 0.1, 0.1]),
    ],
)
def test_mjx_drift(name, physics, bounds):
    np.testing.assert_array_less(drift(name, native(name, physics)[1]), bounds)


@needs_mjx
@pytest.mark.slow
def test_mjx_ant_differs_from_the_c_engine_only_by_the_friction_pyramid(monkeypatch):
    """MJX gives steep capsules on a plane another tangent (google-deepmind/mujoco#2774); with MuJoCo's it agrees."""
    from mujoco.mjx._src import collision_driver, collision_primitive

    @collision_primitive.collider(ncon=2)
    def along_the_capsule(plane, capsule):
        normal, axis = plane.mat[:, 2], capsule.mat[:, 2]
        tangent = axis - normal * jnp.dot(normal, axis)
        tangent = tangent / jnp.linalg.norm(tangent)
        frame = jnp.stack([normal, tangent, jnp.cross(normal, tangent)])
        ends = [
            collision_primitive._plane_sphere(
                normal, plane.pos, capsule.pos + sign * axis * capsule.size[1], capsule.size[0]
            )
            for sign in (1, -1)
        ]
        return *(jnp.stack(x) for x in zip(*ends, strict=True)), jnp.stack([frame, frame])

    pair = next(k for k in collision_driver._COLLISION_FUNC if [x.name for x in k] == ["PLANE", "CAPSULE"])
    monkeypatch.setitem(collision_driver._COLLISION_FUNC, pair, along_the_capsule)
    np.testing.assert_array_less(drift("Ant", native("Ant", "exact")[1]), [1e-6, 1e-5, 1e-5, 1e-3])


@needs_mjx
@pytest.mark.slow
def test_mjx_ant_terminates():
    worlds = ours("Ant", count=COUNT)
    worlds.reset(KEYS[:1])
    worlds.qpos[0, 2] = 5.0
    after, answer = native("Ant", "fast", terminate=True)[1](state(worlds), actions(1, worlds)[0, 0], jax.random.key(0))
    np.testing.assert_array_equal(answer.terminal, np.arange(COUNT) == 0)
    np.testing.assert_array_equal(answer.last, answer.terminal)
    assert (np.asarray(after.sim.body.qpos)[:, 2] < 1.5).all()


@needs_mjx
def test_mjx_models_it_refuses(monkeypatch):
    task = bodies.TASKS["Ant"]
    model = bodies.load(task)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICIT
    monkeypatch.setattr(bodies, "load", lambda _: model)
    with pytest.raises(UsageError, match=r"--engine mjx cannot run Ant-v5 \(.*IMPLICIT.*\); valid") as refused:
        mjx_engine.build(task, COUNT, horizon=1000, physics="exact")
    assert "\n" not in str(refused.value)


def test_mjx_missing_is_one_line(monkeypatch):
    monkeypatch.delattr(mujoco, "mjx", raising=False)
    monkeypatch.setitem(sys.modules, "mujoco.mjx", None)
    assert mjx_engine.missing() == "mujoco.mjx"
    with pytest.raises(UsageError, match=r"^--engine mjx needs mujoco-mjx; valid: pip install .*\[mjx\]'$"):
        mjx_engine.build(bodies.TASKS["Ant"], COUNT, horizon=1000, physics="exact")


def test_mjx_multiplies_in_single_precision():
    """On GPUs the default is less."""
    square = lambda x: x @ x  # noqa: E731
    with mjx_engine.lenient():
        assert "Precision.HIGHEST" in str(jax.make_jaxpr(square)(jax.numpy.ones((2, 2))))
