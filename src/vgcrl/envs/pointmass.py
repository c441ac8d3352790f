"""N-dimensional (windy) point mass: MuJoCo's own step in closed form.

N bodies have one slide joint each. The mass matrix is then diagonal and each joint limit is a constraint of one
dimension, so that MuJoCo's solver has the solution written below. Tests build the model of `mjcf()` and compare step
for step.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vgcrl.envs.contract import Env
from vgcrl.objective.types import EnvSpec

ARENA = 1.5  # half-width, the range of every joint
MASS = 0.3
DAMPING = 0.3
GEAR = 3.0  # force of a full action
TIMESTEP = 0.05
HORIZON = 100
SPEED = 5.0  # range of velocities as goals: about what half a second of full force gives

# MuJoCo's defaults: solref = (time constant, damping ratio), solimp = (d0, d1, width, midpoint 0.5, power 2)
SOLREF = (0.02, 1.0)
SOLIMP = (0.9, 0.95, 0.001)


class PointState(NamedTuple):
    position: Array
    velocity: Array


def impedance(depth: Array) -> Array:
    """Returns MuJoCo's d(r): d0 at the limit, d1 at `width` beyond it, and a quadratic spline in between."""
    d0, d1, width = SOLIMP
    x = jnp.clip(depth / width, 0.0, 1.0)
    y = jnp.where(x <= 0.5, 2 * x**2, 1 - 2 * (1 - x) ** 2)
    return d0 + y * (d1 - d0)


def limit_force(position: Array, velocity: Array, free: Array) -> Array:
    """Returns the force of the joint limits, max(0, (a_ref − a_0)/(1/m + R)); `free` is a_0, without that force."""
    time_constant, ratio = max(SOLREF[0], 2 * TIMESTEP), SOLREF[1]
    damping = 2 / (SOLIMP[1] * time_constant)
    stiffness = 1 / (SOLIMP[1] * time_constant * ratio) ** 2
    side = -jnp.sign(position)  # the direction in which a limit pushes
    gap = ARENA - jnp.abs(position)  # negative inside the limit
    d = impedance(-gap)
    reference = -damping * side * velocity - stiffness * d * gap
    force = jnp.maximum(0.0, reference - side * free) / (1 / MASS + (1 - d) / d / MASS)
    return jnp.where(gap < 0, side * force, 0.0)


def physics(sim: PointState, force: Array) -> PointState:
    """Returns the state after one Euler step with implicit damping, under `force` of motors and wind."""
    passive = force - DAMPING * sim.velocity
    total = passive + limit_force(sim.position, sim.velocity, passive / MASS)
    velocity = sim.velocity + TIMESTEP * total / (MASS + TIMESTEP * DAMPING)
    return PointState(sim.position + TIMESTEP * velocity, velocity)


def paper_wind(dims: int) -> tuple[float, ...]:
    """Returns the range of the wind on each dimension: the paper's [0, 40] in two dimensions, 11·i in any other."""
    return (0.0, 40.0) if dims == 2 else tuple(11.0 * i for i in range(dims))


def pointmass(dims: int = 2, wind: tuple[float, ...] | None = None, horizon: int = HORIZON) -> Env:
    """Returns a point mass whose observation is positions, then velocities, and whose actions are in [−1, 1].

    `wind` has R_i: a force U(−R_i, R_i) on dimension i is drawn anew at every step.
    """
    spec = EnvSpec(
        obs_dim=2 * dims,
        action_dim=dims,
        horizon=horizon,
        seconds=TIMESTEP,
        low=(-ARENA,) * dims + (-SPEED,) * dims,
        high=(ARENA,) * dims + (SPEED,) * dims,
        action_low=(-1.0,) * dims,
        action_high=(1.0,) * dims,
        position=tuple(range(dims)),
        velocity=tuple(range(dims, 2 * dims)),
        features=tuple(range(dims)),
        facts={"wind": list(wind)} if wind else {},
    )

    def observe(sim: PointState) -> Array:
        return jnp.concatenate([sim.position, sim.velocity])

    def reset(key: Array) -> tuple[PointState, Array]:
        sim = PointState(jax.random.uniform(key, (dims,), minval=-ARENA, maxval=ARENA), jnp.zeros(dims))
        return sim, observe(sim)

    def step(sim: PointState, action: Array, key: Array) -> tuple[PointState, Array, Array]:
        force = GEAR * jnp.clip(action, -1.0, 1.0)
        if wind:
            force = force + jnp.asarray(wind, jnp.float32) * jax.random.uniform(key, (dims,), minval=-1.0, maxval=1.0)
        sim = physics(sim, force)
        return sim, observe(sim), jnp.zeros((), bool)

    return Env(spec, reset, step)


def mjcf(dims: int) -> str:
    """Returns the XML of the same model for MuJoCo itself."""
    bodies = "".join(
        f'<body name="b{i}" pos="0 0 {i}"><joint name="j{i}" type="slide" axis="1 0 0" limited="true" '
        f'range="{-ARENA} {ARENA}" damping="{DAMPING}"/><geom type="sphere" size=".05" mass="{MASS}" '
        f'contype="0" conaffinity="0"/></body>'
        for i in range(dims)
    )
    motors = "".join(f'<motor joint="j{i}" gear="{GEAR}" ctrllimited="true" ctrlrange="-1 1"/>' for i in range(dims))
    return (
        f'<mujoco><option timestep="{TIMESTEP}" gravity="0 0 0"/>'
        f"<worldbody>{bodies}</worldbody><actuator>{motors}</actuator></mujoco>"
    )
