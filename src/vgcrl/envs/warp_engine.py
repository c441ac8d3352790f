"""Locomotion on MuJoCo Warp: MJX with its Warp implementation, at GPU speed, with the same choice of physics.

Warp has room for a fixed number of contacts in all worlds together, and of constraint rows in each world; what does not
fit is left out of the physics. ROOM is about three times the most that was seen in C MuJoCo (6 000 steps of random,
held and no actions: 4, 5 and 13 contacts, 18, 28 and 40 rows). Every step checks Warp's own overflow bits.

The order in which contacts are gathered differs from run to run, and so do the last bits of a step.
"""

import contextlib
import io
from typing import Any

import jax.numpy as jnp
from jax import Array

from vgcrl.envs import bodies, mjx_engine
from vgcrl.envs.bodies import Task
from vgcrl.envs.contract import Env
from vgcrl.envs.mjx_engine import Backend
from vgcrl.errors import UsageError, install

ROOM = {"HalfCheetah-v5": (12, 56), "Ant-v5": (16, 88), "Humanoid-v5": (40, 120)}  # contacts and constraint rows


def missing() -> str | None:
    """Returns what this machine lacks to run Warp, or None."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if mjx_engine.missing():
            return "mujoco-mjx"
        try:
            import warp
        except (ImportError, RuntimeError, OSError):
            return "warp-lang"
        warp.config.quiet = True
        warp.init()
        return None if warp.is_cuda_available() else "a CUDA device"


def _backend(model: Any, contacts: int, rows: int) -> Backend:
    from mujoco import mjx
    from mujoco.mjx.third_party.mujoco_warp._src.types import OverflowType

    with mjx_engine.lenient():
        physical = mjx.put_model(model, impl="warp")
        physical = physical.tree_replace({"opt._impl.warn_overflow": 0})  # we warn once, not for every world
        blank = mjx.make_data(model, impl="warp", naconmax=contacts, njmax=rows)
    harmless = OverflowType.ITERATIONS | OverflowType.LS_ITERATIONS  # the solver stopped at its limit, as it may in C
    lost = int(OverflowType.ALL & ~harmless)

    def overflow(data: Any) -> Array:
        return (data._impl.overflow.reshape(-1) & jnp.int32(lost)).any()

    return Backend(physical, blank, lambda data: mjx.forward(physical, data), overflow)


def build(
    task: Task, worlds: int, *, terminate: bool = False, horizon: int, physics: str | None, positions: bool = False
) -> Env:
    """Returns the task as an Env for `worlds` side by side, those of all runs together.

    `physics` None, as in runs from before there was a choice, is exact.
    """
    lacking = missing()
    if lacking:
        raise UsageError(
            f"--engine warp needs {lacking}; valid: {install('warp')} on a machine with an NVIDIA GPU, "
            "or --engine mujoco"
        )
    model = mjx_engine.load(task, physics or "exact")
    contacts, rows = ROOM[task.gymnasium]
    spec = bodies.specification(task, model, horizon, positions)
    return mjx_engine.environment(task, model, _backend(model, contacts * worlds, rows), spec, terminate, positions)
