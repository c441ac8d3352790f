"""The registry of environments: the engines that run each, its options, and the sizes that suit it."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax

from vgcrl.envs import (
    bodies,
    gymnasium_engine,
    mjx_engine,
    mujoco_engine,
    own,
    pixels,
    pointmass,
    projection,
    warp_engine,
)
from vgcrl.envs.contract import Broken, Env, HostEnvs, Vectorised, cores
from vgcrl.envs.modules import hint_of_robotics
from vgcrl.errors import UsageError, hint


class Engine(NamedTuple):
    native: bool  # whether it builds an Env, to be traced with the learner, else HostEnvs on the host
    build: Callable[..., Any]  # how many side by side (HostEnvs: runs, environments in each); keywords: its options
    options: tuple[str, ...]
    inexact_on: tuple[str, ...] = ()  # backends of JAX on which a repeated run may differ in its last bits
    examined_by: str | None = None  # the engine that measures what this one trained; None: itself

    @property
    def exact(self) -> bool:
        """Whether a repeated run has the same bits on this machine."""
        return jax.default_backend() not in self.inexact_on


class EnvRow(NamedTuple):
    engines: dict[str, Engine]  # the default first
    options: dict[str, Any]  # option -> its default, which may depend on the other options
    describe: str
    sizes: dict[str, Any]  # defaults of the training configuration


SMALL: dict[str, Any] = {
    "steps": 90_000,
    "envs": 16,
    "hidden": (64, 64),
    "batch": 128,
    "learning_rate": (1e-3,),
    "replay": 20_000,
    "random_steps": 1_000,
    "updates_per_step": 0.125,
    "evaluate_episodes": 100,
}
PAPER: dict[str, Any] = {
    "steps": 1_000_000,
    "envs": 128,
    "hidden": (256, 256),
    "batch": 256,
    "learning_rate": (3e-4,),
    "replay": 1_000_000,
    "random_steps": 10_000,
    "updates_per_step": 0.25,
    "evaluate_episodes": 20,
}


GYMNASIUM = ("env_arg", "horizon", "workers")  # options of any Gymnasium environment
WARP_WORLDS = 1024  # with so many environments or more, Warp on an H200 is faster than MuJoCo on 16 cores


def _jax(build: Callable[..., Env], *options: str) -> dict[str, Engine]:
    return {"jax": Engine(True, lambda worlds, **chosen: build(**chosen), options)}


def _body(name: str) -> EnvRow:
    task = bodies.TASKS[name]
    options = {"horizon": bodies.HORIZON, "positions": False} | ({"terminate": False} if task.height else {})
    names, simulated = tuple(options), (*options, "physics")
    return EnvRow(
        {
            "mujoco": Engine(False, partial(mujoco_engine.Batch, task), names),
            "mjx": Engine(True, partial(mjx_engine.build, task), simulated, ("gpu",)),
            "warp": Engine(True, partial(warp_engine.build, task), simulated, ("gpu",), examined_by="mujoco"),
            "gymnasium": Engine(False, partial(gymnasium_engine.body, task), (*names, "workers")),
        },
        {**options, "physics": "exact", "workers": 0},
        f"Gymnasium's {task.gymnasium} without contact forces",
        PAPER,
    )


ENVS = {
    "pointmass": EnvRow(
        _jax(lambda dims, horizon: pointmass.pointmass(dims, None, horizon), "dims", "horizon"),
        {"dims": 2, "horizon": pointmass.HORIZON},
        "N-dimensional point mass, equal to MuJoCo's",
        SMALL,
    ),
    "windy-pointmass": EnvRow(
        _jax(pointmass.pointmass, "dims", "wind", "horizon"),
        {"dims": 2, "wind": lambda dims, **_: pointmass.paper_wind(dims), "horizon": pointmass.HORIZON},
        "the same under random force U(-R_i, R_i) on dimension i",
        SMALL,
    ),
    "projected-pointmass": EnvRow(
        _jax(
            lambda dims, projection_dim, projection_seed, horizon: projection.project(
                pointmass.pointmass(dims, None, horizon), projection_dim, projection_seed
            ),
            "dims",
            "projection_dim",
            "projection_seed",
            "horizon",
        ),
        {
            "dims": 2,
            "projection_dim": lambda dims, **_: dims,
            "projection_seed": (0,),
            "horizon": pointmass.HORIZON,
        },
        "the same observed through a random matrix W, o = W s",
        {**SMALL, "steps": 120_000},  # A takes longer to find than a policy
    ),
    "pixel-pointmass": EnvRow(
        _jax(lambda horizon: pixels.picture(pointmass.pointmass(2, None, horizon)), "horizon"),
        {"horizon": pointmass.HORIZON},
        "the 2-D point mass seen as a picture of 16 x 16 pixels, now and a step ago",
        SMALL,
    ),
    "HalfCheetah": _body("HalfCheetah"),
    "Ant": _body("Ant"),
    "Humanoid": _body("Humanoid"),
}


def find(name: str) -> EnvRow:
    """Returns the row of an environment; raises UsageError where the name is unknown.

    A name is one of the registry, any Gymnasium id (`Id-v0`, or `package.module:Id-v0` for one's own), or a class or
    function `package.module:Name`.
    """
    if name in ENVS:
        return ENVS[name]
    known = gymnasium_engine.ids(name)
    if ":" in name or name in known or own.is_given(name) or (not known and re.search(r"-v\d+$", name)):
        return EnvRow(
            {"gymnasium": Engine(False, partial(gymnasium_engine.Foreign, name), GYMNASIUM)},
            {"env_arg": (), "horizon": gymnasium_engine.horizon(name), "workers": 0},
            "a Gymnasium environment",
            PAPER | {"envs": 16},
        )
    if name.startswith(own.LOCAL):
        valid = f"vgcrl.register_env({name!r}, ...) first, or in a module that --import names"
        raise UsageError(f"--env {name} was given in Python, as an object without a name to find it by; valid: {valid}")
    near = hint(name, [*ENVS, *known], 3, 0.5) + hint_of_robotics(name)
    raise UsageError(
        f"--env {name!r} is unknown{near}; valid: {', '.join(ENVS)}, an installed Gymnasium id, package.module:Id-v0, "
        "or package.module:Class"
    )


def choose(row: EnvRow, worlds: int) -> str:
    """Returns the name of the engine that was measured to be fastest, for `auto`.

    It is Warp on a GPU with enough environments, else MuJoCo on the CPU's cores, or MJX where a GPU has few beside it.
    """
    default = next(iter(row.engines))
    if "warp" in row.engines and worlds >= WARP_WORLDS and jax.default_backend() == "gpu" and not warp_engine.missing():
        return "warp"
    few = cores() < 4 and jax.default_backend() != "cpu"
    return "mjx" if default == "mujoco" and few and mjx_engine.missing() is None else default


__all__ = [
    "ENVS",
    "GYMNASIUM",
    "Broken",
    "Engine",
    "Env",
    "EnvRow",
    "HostEnvs",
    "Vectorised",
    "choose",
    "cores",
    "find",
]
