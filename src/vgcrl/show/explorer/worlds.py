"""Environments as plain data for a page, which simulates them itself: js/bodies.js and js/pointmass.js."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from vgcrl.envs import bodies, pointmass
from vgcrl.errors import UsageError
from vgcrl.training.program import Program

Data = dict[str, Any]
POINT_MASSES = ("pointmass", "windy-pointmass", "projected-pointmass")
ROOT = {"rootx": "x", "rootz": "height", "rooty": "pitch"}  # joints of a body that moves in a vertical plane
FREE = ["height", "quaternion w", "quaternion x", "quaternion y", "quaternion z"]
TURNS = ["height", "turn about x", "turn about y", "turn about z"]


def _number(x: float) -> float | None:
    return x if math.isfinite(x) else None


def specification(program: Program) -> Data:
    """Returns the fields of EnvSpec that the page's JavaScript reads; an unknown bound is None."""
    spec = program.spec
    numbers = {k: list(map(_number, getattr(spec, k))) for k in ("low", "high", "action_low", "action_high", "height")}
    sizes = {k: getattr(spec, k) for k in ("obs_dim", "action_dim", "horizon", "seconds")}
    return {**sizes, **numbers, "position": spec.position, "velocity": spec.velocity}


def _joint_names(model: Any) -> list[str]:
    names = [model.joint(j).name for j in range(model.njnt) if model.jnt_type[j] != 0]
    return [ROOT.get(name, name) for name in names]


def observation_names(task: bodies.Task, model: Any, hidden: int, width: int) -> list[str]:
    """Returns a name for each of the `width` numbers of an observation, which lacks the first `hidden` positions."""
    joints = _joint_names(model)
    free = len(joints) < model.njnt
    where = ["x", "y"][: task.places] if free else []
    positions = [*where, *FREE, *joints] if free else joints
    speeds = [*where, *TURNS, *joints] if free else joints
    names = [*positions[hidden:], *(f"velocity of {name}" for name in speeds)]
    return names + [f"inertia and forces {i}" for i in range(width - len(names))]


def body(program: Program) -> Data:
    """Returns one of the three bodies as data: its XML, and how it is observed and started."""
    task, spec = bodies.TASKS[program.config.env], program.spec
    model = bodies.load(task)
    hidden = task.places - len(spec.place)  # places are observed only where asked for
    start = {"noise": task.noise, "normal": task.normal}
    return {
        "kind": "body",
        "xml": bodies.model_file(task).read_text(encoding="utf-8"),
        "hidden": hidden,
        "moves": task.places,  # number of axes along which it travels: x, or x and y
        "place": list(spec.place),  # dimensions of the observation that are its place
        "rich": task.rich,
        "frames": task.frames,
        "strict": task.strict,
        "names": observation_names(task, model, hidden, spec.obs_dim),
        **start,
    }


def point_mass(program: Program) -> Data:
    """Returns a point mass as data: its sizes, its wind, and the constants of envs/pointmass.py."""
    config, dims = program.config, program.spec.action_dim
    names = ("ARENA", "MASS", "DAMPING", "GEAR", "TIMESTEP", "SOLREF", "SOLIMP")
    axes = ["x", "y", *(f"x{i + 1}" for i in range(2, dims))][:dims]
    projected = config.env == "projected-pointmass"
    seen = [f"o{i + 1}" for i in range(program.spec.obs_dim // 2)] if projected else axes
    return {
        "kind": "pointmass",
        "dims": dims,
        "wind": list(config.wind or (0.0,) * dims),
        "place": [] if projected else list(range(min(dims, 2))),
        "names": [*seen, *(f"velocity of {name}" for name in seen)],
        **{name.lower(): getattr(pointmass, name) for name in names},
    }


def projection(program: Program, setting: dict[str, Any]) -> np.ndarray | None:
    """Returns W of one run, or None where the environment is not the projected point mass."""
    if program.config.env != "projected-pointmass":
        return None
    return np.array(program.config.build_env(SimpleNamespace(**setting)).spec.facts["projection"])


def world(program: Program) -> Data:
    """Returns the world that the page simulates; raises UsageError where it can simulate none."""
    env = program.config.env
    if env in bodies.TASKS:
        return body(program)
    if env in POINT_MASSES:
        return point_mass(program)
    shown = ", ".join((*POINT_MASSES, *bodies.TASKS))
    raise UsageError(f"{env} cannot be shown on a page; valid: runs on {shown}, or on a Gymnasium environment")
