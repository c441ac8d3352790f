"""Pictures of bodies, against MuJoCo's own geometry."""

from typing import Any

import jax
import numpy as np
import pytest

from tiny import TINY
from vgcrl.envs import bodies
from vgcrl.show import filmstrip
from vgcrl.training import host_program
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve

KEYS = np.array([[1, 2]], np.uint32)


@pytest.fixture(params=bodies.TASKS)
def env(request):
    return request.param


def episodes(env, skills=3, steps=12):
    """Constant actions of different strength, one per skill."""
    width = bodies.load(bodies.TASKS[env]).nu
    return filmstrip.record(
        resolve(Options(env=env)), lambda obs, z: np.tile(z[:, None], width), np.linspace(-1, 1, skills), KEYS, steps
    )


def compiled(method, **changes):
    options: dict[str, Any] = TINY | {"envs": 2, "seeds": 1, "horizon": 50} | changes
    program = host_program.compile_config(resolve(Options(method, "HalfCheetah", engine="mujoco", **options)))
    return program, jax.tree.map(lambda x: x[0], program.init())


def test_episodes_are_those_of_the_environment(env):
    """They begin as its episodes do, differ by their actions, and do not depend on how long they are followed."""
    qpos = episodes(env)
    model = bodies.load(bodies.TASKS[env])
    assert qpos.shape == (13, 3, model.nq)
    assert (np.abs(qpos[0] - model.qpos0) <= bodies.TASKS[env].noise).all()
    assert (qpos[-1, 0] != qpos[-1, 2]).all()
    np.testing.assert_array_equal(episodes(env, steps=5), qpos[:6])


def test_capsules_are_mujocos(env):
    """Against the frame of each geom, and its distance to the floor by MuJoCo's own collision detection."""
    import mujoco

    model = bodies.load(bodies.TASKS[env])
    qpos = episodes(env)[-1]
    ends, radius = filmstrip.capsules(model, qpos)
    data, apart = mujoco.MjData(model), np.zeros(6)
    moves = np.flatnonzero(model.geom_bodyid)
    assert ends.shape == (3, len(moves), 2, 3)
    for q, segments in zip(qpos, ends, strict=True):
        data.qpos[:] = q
        mujoco.mj_forward(model, data)
        for geom, (a, b), r in zip(moves, segments, radius, strict=True):
            along = data.geom_xmat[geom].reshape(3, 3) @ [0, 0, 1]
            capsule = model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_CAPSULE
            half = model.geom_size[geom, 1] if capsule else 0.0
            np.testing.assert_allclose(a, data.geom_xpos[geom] - half * along, atol=1e-12)
            np.testing.assert_allclose(b, data.geom_xpos[geom] + half * along, atol=1e-12)
            height = mujoco.mj_geomDistance(model, data, 0, geom, 10.0, apart)  # above the floor
            np.testing.assert_allclose(min(a[2], b[2]) - r, height, atol=1e-6)


def test_outlines():
    """All of the outline of a thick line is at its radius from it; it goes round both ends."""
    random = np.random.default_rng(0)
    ends, radius = random.normal(size=(20, 2, 2)), random.uniform(0.1, 1, 20)
    ends[10:, 1] = ends[10:, 0]  # circles
    for (a, b), r, vertices in zip(ends, radius, filmstrip.outline(ends, radius), strict=True):
        path: Any = filmstrip.Path(vertices, filmstrip.CODES)
        points = np.concatenate([curve(np.linspace(0, 1, 9)) for curve, _ in path.iter_bezier()])
        share = np.clip((points - a) @ (b - a) / max((b - a) @ (b - a), 1e-12), 0, 1)[:, None]
        np.testing.assert_allclose(np.linalg.norm(points - a - share * (b - a), axis=1), r, rtol=3e-3)
        for end, other in ((a, b), (b, a)):
            tip = end + r * (end - other) / max(np.linalg.norm(end - other), 1e-12)
            assert np.linalg.norm(vertices - tip, axis=1).min() < (1e-9 if (a != b).any() else 2 * r)


def test_cameras():
    np.testing.assert_allclose(filmstrip.camera(0, 0), [[1, 0, 0], [0, 0, 1], [0, 1, 0]], atol=1e-15)
    for view in filmstrip.CAMERAS.values():
        np.testing.assert_allclose(view @ view.T, np.eye(3), atol=1e-15)
        assert view[0, 0] > 0.8  # forward is to the right
        assert view[1, 2] > 0.8  # up is up


def test_tiles_are_every_second_square():
    low, high = np.array([-1.3, 0.25]), np.array([2.5, 3.25])
    squares = filmstrip.tiles(low, high)
    points = np.random.default_rng(0).uniform(low, high, (500, 2))
    inside = [((points >= s[0]) & (points < s[2])).all(axis=1) for s in squares]
    np.testing.assert_array_equal(np.sum(inside, axis=0), np.floor(points).sum(axis=1) % 2)


def test_spread():
    assert filmstrip.most_different(np.array([3.0, 0.0, 0.1, 5.0, 0.2]), 3).tolist() == [1, 0, 3]
    assert filmstrip.most_different(np.zeros(3), 5).tolist() == [0, 1, 2]


def test_figures(env, tmp_path):
    task, qpos = bodies.TASKS[env], episodes(env)
    figure = filmstrip.filmstrip(task, qpos, ["a", "b", "c"], frames=4)
    assert len(figure.axes) == 3
    metre = {tuple(np.round(a.transData.transform([1, 1]) - a.transData.transform([0, 0]), 6)) for a in figure.axes}
    assert len(metre) == 1  # one scale for all rows,
    np.testing.assert_allclose(*metre.pop())  # and for both directions
    seconds = task.frames * bodies.load(task).opt.timestep * 12
    for row, axis in enumerate(figure.axes):
        limits = np.array([axis.get_xlim(), axis.get_ylim()])
        assert np.isfinite(limits).all()
        words = [text.get_text() for text in axis.texts]
        assert words[0] == "abc"[row]
        speed = (qpos[-1, row, 0] - qpos[0, row, 0]) / seconds
        assert words[1].startswith(f"x {speed:+.2f} m/s".replace("-", "−"))
        drawn = [c for c in axis.collections if isinstance(c, filmstrip.PathCollection)]
        assert len(drawn) == 4
        shown = np.concatenate([path.vertices for body in drawn for path in body.get_paths()])
        assert (shown >= limits[:, 0]).all()
        assert (shown <= limits[:, 1]).all()
        strength = [np.asarray(body.get_facecolor())[1:, :3].mean() for body in drawn]
        assert strength == sorted(strength, reverse=True)  # later is darker
    figure.savefig(tmp_path / "film.svg")


@pytest.mark.parametrize(("method", "first"), [("diayn", "skill"), ("vgcrl", "z = ")])
def test_skills_of_a_run(method, first):
    program, run = compiled(method)
    assert filmstrip.is_body(program)
    figure = filmstrip.skills(program, run, count=3, seconds=0.5)
    assert len(figure.axes) == 3
    assert all(axis.texts[0].get_text().startswith(first) for axis in figure.axes)
    speeds = [float(axis.texts[1].get_text().split()[1].replace("−", "-")) for axis in figure.axes]
    assert speeds == sorted(speeds)
    assert speeds[0] < speeds[-1]


def test_a_point_is_no_body():
    options: dict[str, Any] = TINY
    assert not filmstrip.is_body(host_program.compile_config(resolve(Options(**options))))
