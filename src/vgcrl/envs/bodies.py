"""HalfCheetah, Ant and Humanoid: Gymnasium's v5 tasks without contact forces, written once for every engine.

Functions take numpy or JAX arrays, of one simulation or of many: all leading axes are kept.
"""

import functools
import importlib.util
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vgcrl.errors import UsageError, install
from vgcrl.objective.types import EnvSpec

HORIZON = 1000
SPEED = 2.0  # m/s: range of the velocities as goals, the largest of the paper's targets
REACH = 10.0  # m: range of the places as goals, on each axis


class Task(NamedTuple):
    xml: str  # among Gymnasium's own files
    gymnasium: str  # the same task there
    options: dict[str, Any]  # of Gymnasium's task
    places: int  # leading positions that say where the body is: x, or x and y; observed only where asked for
    noise: float  # scale of the random start
    normal: bool  # velocities start from a normal distribution, else from a uniform one
    rich: bool  # inertias, body velocities and actuator forces are observed too
    height: tuple[float, float] | None  # healthy range of z; outside it an episode may terminate
    strict: bool = False  # whether the ends of that range are unhealthy
    frames: int = 5  # simulation steps per action


TASKS = {
    "HalfCheetah": Task("half_cheetah.xml", "HalfCheetah-v5", {}, 1, 0.1, True, False, None),
    "Ant": Task("ant.xml", "Ant-v5", {"include_cfrc_ext_in_observation": False}, 2, 0.1, True, False, (0.2, 1.0)),
    "Humanoid": Task(
        "humanoid.xml",
        "Humanoid-v5",
        {"include_cfrc_ext_in_observation": False},
        2,
        0.01,
        False,
        True,
        (1.0, 2.0),
        strict=True,
    ),
}
RICH = ("cinert", "cvel", "qfrc_actuator")


def model_file(task: Task) -> Path:
    """Returns the path of the model's XML, which is Gymnasium's own file."""
    try:
        import gymnasium
    except ImportError as error:
        raise UsageError(f"{task.gymnasium[:-3]} needs {error.name}; valid: {install('mujoco')}") from None
    return Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / task.xml


def load(task: Task) -> Any:
    """Returns MuJoCo's model, loaded from Gymnasium's own file."""
    path = model_file(task)
    try:
        mujoco: Any = importlib.import_module("mujoco")
    except ImportError as error:
        raise UsageError(f"{task.gymnasium[:-3]} needs {error.name}; valid: {install('mujoco')}") from None
    quiet_mujoco()
    return mujoco.MjModel.from_xml_path(str(path))


def quiet_mujoco() -> None:
    """Sends each of MuJoCo's warnings to stderr once, not to ./MUJOCO_LOG.TXT, unless the user has set a handler."""
    if importlib.util.find_spec("mujoco") is None:
        return
    mujoco: Any = importlib.import_module("mujoco")
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_warn_once)


@functools.cache
def _warn_once(text: str) -> None:
    if "settotalmass" not in text:  # Gymnasium's own files are old, and nothing depends on it
        print(f"MuJoCo: {text}", file=sys.stderr)


def observe(task: Task, data: Any, positions: bool) -> Any:
    """Returns the observation, (..., obs), of `data`, which has MuJoCo's fields; with `positions` places come first."""
    xp = data.qpos.__array_namespace__()
    parts = [data.qpos[..., 0 if positions else task.places :], data.qvel]
    if task.rich:
        lead = data.qpos.shape[:-1]
        parts += [data.cinert[..., 1:, :].reshape(*lead, -1), data.cvel[..., 1:, :].reshape(*lead, -1)]
        parts.append(data.qfrc_actuator[..., 6:])
    return xp.concatenate(parts, axis=-1)


def unhealthy(task: Task, qpos: Any, qvel: Any) -> Any:
    """Returns whether a body is outside its healthy range, (...,); never where the task has none."""
    xp = qpos.__array_namespace__()
    z = qpos[..., 2]
    if task.height is None:
        return xp.zeros(z.shape, bool)
    low, high = task.height
    if task.strict:
        return ~((z > low) & (z < high))
    finite = xp.isfinite(qpos).all(axis=-1) & xp.isfinite(qvel).all(axis=-1)
    return ~(finite & (z >= low) & (z <= high))


def start(task: Task, qpos: Any, position_noise: Any, velocity_noise: Any) -> tuple[Any, Any]:
    """Returns positions and velocities at a reset, given noise that is uniform on (−1, 1), or normal for velocities."""
    return qpos + task.noise * position_noise, task.noise * velocity_noise


def turn(task: Task, obs: np.ndarray, angle: Any, positions: bool) -> np.ndarray:
    """Returns the observations (..., obs) of a body on a plane as if all were turned left by `angle`, in radians."""
    out, angle = obs.copy(), np.broadcast_to(angle, obs.shape[:-1])
    cos, sin = np.cos(angle), np.sin(angle)

    def vectors(first: Any) -> None:
        """Turns the vectors whose x is at the indices `first` of the observation, and y at the next."""
        first = np.atleast_1d(first)
        x, y = obs[..., first], obs[..., first + 1]
        out[..., first] = cos[..., None] * x - sin[..., None] * y
        out[..., first + 1] = sin[..., None] * x + cos[..., None] * y

    height = 2 if positions else 0
    if positions:
        vectors(0)
    w, x, y, z = (obs[..., height + 1 + i] for i in range(4))
    c, s = np.cos(angle / 2), np.sin(angle / 2)
    out[..., height + 1 : height + 5] = np.stack([c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w], axis=-1)
    model = load(task)
    velocity = height + model.nq - 2
    vectors(velocity)
    if task.rich:
        inertia = velocity + model.nv + 10 * np.arange(model.nbody - 1)
        xx, yy, xy, xz, yz = (obs[..., inertia + i] for i in (0, 1, 3, 4, 5))
        c, s = cos[..., None], sin[..., None]
        out[..., inertia] = c * c * xx - 2 * c * s * xy + s * s * yy
        out[..., inertia + 1] = s * s * xx + 2 * c * s * xy + c * c * yy
        out[..., inertia + 3] = c * s * (xx - yy) + (c * c - s * s) * xy
        out[..., inertia + 4], out[..., inertia + 5] = c * xz - s * yz, s * xz + c * yz
        vectors(inertia + 6)
        moving = inertia[-1] + 10 + 6 * np.arange(model.nbody - 1)
        vectors(moving)
        vectors(moving + 3)
    return out


def specification(task: Task, model: Any, horizon: int, positions: bool) -> EnvSpec:
    """Returns the EnvSpec of a body, with the dimensions and ranges of its observation.

    An observation has the places, if shown, then the pose, the velocities, and what else the task shows.
    """
    unseen = 0 if positions else task.places
    first_velocity = model.nq - unseen
    width = first_velocity + model.nv
    if task.rich:
        width += (model.nbody - 1) * 16 + model.nv - 6
    place = tuple(range(task.places - unseen))
    velocity = tuple(first_velocity + i for i in range(task.places))
    low, high = [-math.inf] * width, [math.inf] * width
    for joint in range(model.njnt):
        if model.jnt_limited[joint]:
            i = model.jnt_qposadr[joint] - unseen
            low[i], high[i] = (float(x) for x in model.jnt_range[joint])
    for i in velocity:
        low[i], high[i] = -SPEED, SPEED
    for i in place:
        low[i], high[i] = -REACH, REACH
    return EnvSpec(
        obs_dim=width,
        action_dim=model.nu,
        horizon=horizon,
        seconds=task.frames * model.opt.timestep,
        low=tuple(low),
        high=tuple(high),
        action_low=tuple(float(x) for x in model.actuator_ctrlrange[:, 0]),
        action_high=tuple(float(x) for x in model.actuator_ctrlrange[:, 1]),
        position=tuple(range(len(place), first_velocity)),
        velocity=velocity,
        features=tuple(range(width)),
        facts={},
        height=task.height or (-math.inf, math.inf),
        place=place,
    )
