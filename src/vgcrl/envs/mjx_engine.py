"""Locomotion on MJX: the same tasks as native environments, traced with the learner.

`physics` is one of two. By how much one step (five simulation steps of random action) ends elsewhere than
MuJoCo's, the largest coordinate of qpos in float32, median and 90 % quantile beside the step's own length:

            HalfCheetah          Ant                  Humanoid
exact       1e-7, 7e-7           1e-7, 3e-3           2e-7, 5e-7
fast        1e-7, 7e-7           4e-2, 9e-2           7e-3, 1e-2
length      0.43                 0.35                 0.12

exact: the model's own integrator and solver; Newton for the Humanoid's PGS, which MJX has not. What is left of
the Ant is the friction pyramid, which MJX turns another way under steep capsules (google-deepmind/mujoco#2774).
fast: Euler for RK4 and four iterations of the solver (one lets the Ant explode); the error is Euler's.
"""

import contextlib
import io
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vgcrl.envs import bodies
from vgcrl.envs.bodies import Task
from vgcrl.envs.contract import Env
from vgcrl.errors import UsageError

EULER, PGS, NEWTON = 0, 0, 2  # of mjtIntegrator and mjtSolver
PHYSICS: dict[str, dict[str, int]] = {"exact": {}, "fast": {"integrator": EULER, "iterations": 4, "ls_iterations": 4}}
HUGE = 1e10  # MuJoCo's own bound, mjMAXVAL


class BodyState(NamedTuple):
    """What a simulation goes on from; all else follows from it and the action."""

    qpos: Array
    qvel: Array
    qacc_warmstart: Array


def missing() -> str | None:
    """The module that is not installed."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints that Warp is not there
            from mujoco import mjx  # noqa: F401
    except ImportError as error:
        return error.name or "mujoco.mjx"
    return None


@contextlib.contextmanager
def _lenient():
    """MJX relies on implicit promotion of types and ranks."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def build(task: Task, *, terminate: bool = False, horizon: int, physics: str) -> Env:
    if missing():
        raise UsageError("--engine mjx needs mujoco-mjx; valid: pip install 'vgcrl[mjx]'")
    import mujoco
    from mujoco import mjx

    model = bodies.load(task)
    spec = bodies.specification(task, model, horizon)
    for name, value in PHYSICS[physics].items():
        setattr(model.opt, name, value)
    if model.opt.solver == PGS:
        model.opt.solver = NEWTON
    try:
        with _lenient():
            physical, blank = mjx.put_model(model, impl="jax"), mjx.make_data(model, impl="jax")
    except (NotImplementedError, ValueError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise UsageError(f"--engine mjx cannot run {task.gymnasium} ({why}); valid: mujoco, gymnasium") from None

    rest = mujoco.MjData(model)
    mujoco.mj_forward(model, rest)
    rest_sim = BodyState(*(jnp.asarray(x, jnp.float32) for x in (model.qpos0, rest.qvel, rest.qvel)))
    rest_obs = jnp.asarray(bodies.observe(task, rest), jnp.float32)

    def derive(data: Any) -> Any:
        """Inertias and velocities of the bodies at the present state, where the task shows them."""
        for stage in (mjx.kinematics, mjx.com_pos, mjx.com_vel) if task.rich else ():
            data = stage(physical, data)
        return data

    def observe(sim: BodyState, data: Any) -> Array:
        """Positions from `sim`: MJX normalises quaternions where MuJoCo, in a random start, shows them as they are."""
        rich = {"cinert": data._impl.cinert, "cvel": data.cvel, "qfrc_actuator": data.qfrc_actuator}
        return bodies.observe(task, SimpleNamespace(qpos=sim.qpos, qvel=sim.qvel, **rich))

    def reset(key: Array) -> tuple[BodyState, Array]:
        key_position, key_velocity = jax.random.split(key)
        position = jax.random.uniform(key_position, (model.nq,), jnp.float32, -1.0, 1.0)
        velocity = jax.random.uniform(key_velocity, (model.nv,), jnp.float32, -1.0, 1.0)
        if task.normal:
            velocity = jax.random.normal(key_velocity, (model.nv,), jnp.float32)
        qpos, qvel = bodies.start(task, rest_sim.qpos, position, velocity)
        sim = BodyState(qpos, qvel, jnp.zeros_like(qvel))
        with _lenient():
            return sim, observe(sim, derive(blank.replace(**sim._asdict())))

    def step(sim: BodyState, action: Array, key: Array) -> tuple[BodyState, Array, Array]:
        del key
        data = blank.replace(ctrl=spec.scale(action), **sim._asdict())
        with _lenient():
            data = jax.lax.fori_loop(0, task.frames, lambda _, data: mjx.step(physical, data), data)
            if model.opt.integrator == EULER:  # RK4 leaves the bodies at its last stage, as it does in MuJoCo
                data = derive(data)
        sim = BodyState(data.qpos, data.qvel, data.qacc_warmstart)
        obs = observe(sim, data)
        # A simulation that exploded starts again from the model's own pose, as MuJoCo lets it.
        sound = jnp.all(jnp.abs(jnp.concatenate(sim)) <= HUGE)
        sim, obs = jax.tree.map(lambda x, y: jnp.where(sound, x, y), (sim, obs), (rest_sim, rest_obs))
        terminal = bodies.unhealthy(task, sim.qpos, sim.qvel) if terminate else jnp.zeros((), bool)
        return sim, obs, terminal

    return Env(spec, reset, step)
