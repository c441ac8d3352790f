"""Locomotion on MJX: the same tasks as native environments, traced with the learner.

`physics` is one of two. exact: the model's own integrator and solver, but Newton in place of the Humanoid's PGS, which
MJX lacks. fast: Euler in place of RK4, and four iterations of the solver (with one the Ant explodes); its error is that
of Euler. `python -m vgcrl.bench.parity` measures how far each engine ends from MuJoCo's step (results/engines). The
error that remains for the Ant with exact physics is that of the friction pyramid, which MJX turns another way under
steep capsules (google-deepmind/mujoco#2774).
"""

import contextlib
import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vgcrl.envs import bodies
from vgcrl.envs.bodies import Task
from vgcrl.envs.contract import Env
from vgcrl.errors import UsageError, install

EULER, PGS, NEWTON = 0, 0, 2  # of mjtIntegrator and mjtSolver
PHYSICS: dict[str, dict[str, int]] = {"exact": {}, "fast": {"integrator": EULER, "iterations": 4, "ls_iterations": 4}}
HUGE = 1e10  # MuJoCo's own bound, mjMAXVAL


class BodyState(NamedTuple):
    """The state from which a simulation continues; all else follows from it and the action."""

    qpos: Array
    qvel: Array
    qacc_warmstart: Array


class Backend(NamedTuple):
    """An implementation of MJX: its model and blank data, and where they differ."""

    model: Any
    blank: Any
    derive: Callable[[Any], Any]  # data -> with inertias and velocities of the bodies at its present state
    overflow: Callable[[Any], Array]  # data -> whether contacts did not fit


def missing() -> str | None:
    """Returns the name of the module of MJX that is not installed, or None."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints that Warp is not there
            from mujoco import mjx  # noqa: F401
    except ImportError as error:
        return error.name or "mujoco.mjx"
    return None


@contextlib.contextmanager
def lenient():
    """Allows implicit promotion of types and ranks, on which MJX relies, and gives products full single precision."""
    with (
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
        jax.default_matmul_precision("highest"),
    ):
        yield


def load(task: Task, physics: str) -> Any:
    """Returns MuJoCo's model with the integrator and solver that MJX shall use."""
    model = bodies.load(task)
    for name, value in PHYSICS[physics].items():
        setattr(model.opt, name, value)
    if model.opt.solver == PGS:
        model.opt.solver = NEWTON
    return model


def _jax_backend(task: Task, model: Any) -> Backend:
    from mujoco import mjx

    try:
        with lenient():
            physical, blank = mjx.put_model(model, impl="jax"), mjx.make_data(model, impl="jax")
    except (NotImplementedError, ValueError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise UsageError(f"--engine mjx cannot run {task.gymnasium} ({why}); valid: mujoco, gymnasium") from None

    def derive(data: Any) -> Any:
        for stage in (mjx.kinematics, mjx.com_pos, mjx.com_vel):
            data = stage(physical, data)
        return data

    return Backend(physical, blank, derive, lambda data: jnp.zeros((), bool))


def build(
    task: Task, worlds: int, *, terminate: bool = False, horizon: int, physics: str, positions: bool = False
) -> Env:
    """Returns the task as an Env; `worlds`, how many run side by side, is limited by memory alone."""
    if missing():
        raise UsageError(f"--engine mjx needs mujoco-mjx; valid: {install('mjx')}")
    model = load(task, physics)
    spec = bodies.specification(task, model, horizon, positions)
    return environment(task, model, _jax_backend(task, model), spec, terminate, positions)


class Simulation(NamedTuple):
    body: BodyState
    overflow: Array  # whether contacts of its latest step did not fit


def environment(task: Task, model: Any, backend: Backend, spec: Any, terminate: bool, positions: bool) -> Env:
    """Returns the task as an Env on one implementation of MJX."""
    import mujoco
    from mujoco import mjx

    rest = mujoco.MjData(model)
    mujoco.mj_forward(model, rest)
    rest_body = BodyState(*(jnp.asarray(x, jnp.float32) for x in (model.qpos0, rest.qvel, rest.qvel)))
    rest_obs = jnp.asarray(bodies.observe(task, rest, positions), jnp.float32)

    def derived(data: Any) -> Any:
        return backend.derive(data) if task.rich else data

    def observe(body: BodyState, data: Any) -> Array:
        """Returns the observation with positions of `body`: MJX normalises quaternions in `data`, MuJoCo does not."""
        rich = {"cinert": data._impl.cinert, "cvel": data.cvel, "qfrc_actuator": data.qfrc_actuator}
        return bodies.observe(task, SimpleNamespace(qpos=body.qpos, qvel=body.qvel, **rich), positions)

    def reset(key: Array) -> tuple[Simulation, Array]:
        key_position, key_velocity = jax.random.split(key)
        position = jax.random.uniform(key_position, (model.nq,), jnp.float32, -1.0, 1.0)
        velocity = jax.random.uniform(key_velocity, (model.nv,), jnp.float32, -1.0, 1.0)
        if task.normal:
            velocity = jax.random.normal(key_velocity, (model.nv,), jnp.float32)
        qpos, qvel = bodies.start(task, rest_body.qpos, position, velocity)
        body = BodyState(qpos, qvel, jnp.zeros_like(qvel))
        with lenient():
            return Simulation(body, jnp.zeros((), bool)), observe(body, derived(blank_at(body)))

    def blank_at(body: BodyState, **fields: Array) -> Any:
        return backend.blank.replace(**body._asdict(), **fields)

    def step(sim: Simulation, action: Array, key: Array) -> tuple[Simulation, Array, Array]:
        del key

        def frame(_: Any, carry: tuple[Any, Array]) -> tuple[Any, Array]:
            data = mjx.step(backend.model, carry[0])
            return data, carry[1] | backend.overflow(data)

        with lenient():
            first = blank_at(sim.body, ctrl=spec.scale(action)), jnp.zeros((), bool)
            data, overflow = jax.lax.fori_loop(0, task.frames, frame, first)
            if model.opt.integrator == EULER:  # RK4 leaves the bodies at its last stage, as it does in MuJoCo
                data = derived(data)
        body = BodyState(data.qpos, data.qvel, data.qacc_warmstart)
        obs = observe(body, data)
        # A simulation that exploded starts again from the model's own pose, as MuJoCo lets it.
        sound = jnp.all(jnp.abs(jnp.concatenate(body)) <= HUGE)
        body, obs = jax.tree.map(lambda x, y: jnp.where(sound, x, y), (body, obs), (rest_body, rest_obs))
        terminal = bodies.unhealthy(task, body.qpos, body.qvel) if terminate else jnp.zeros((), bool)
        return Simulation(body, overflow), obs, terminal

    return Env(spec, reset, step, lambda sim: sim.overflow)
