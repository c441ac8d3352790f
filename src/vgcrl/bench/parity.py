"""How far each engine ends from C MuJoCo after one environment step, and whether it ends there twice.

`python -m vgcrl.bench.parity --out FILE` writes a row per body and engine. A row has the largest difference of any
coordinate of qpos, its median and 90 % quantile over states met under random actions, and how far the step itself
leads; the same for the observation; and whether the same steps give the same bits again. `--env BODY` writes the rows
of one body.
"""

import argparse
import platform
import shlex
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vgcrl.envs import bodies, mjx_engine, warp_engine
from vgcrl.envs.contract import Env
from vgcrl.envs.mjx_engine import BodyState, Simulation
from vgcrl.errors import UsageError
from vgcrl.files import atomic_write
from vgcrl.training.logs import to_json

STATES, AGAIN = 256, 20  # states that are stepped from; steps of the test of determinism
HORIZON = 1000
ENGINES = {
    "mjx exact": partial(mjx_engine.build, physics="exact"),
    "mjx fast": partial(mjx_engine.build, physics="fast"),
    "warp exact": partial(warp_engine.build, physics="exact"),
    "warp fast": partial(warp_engine.build, physics="fast"),
}


def met(task: bodies.Task, count: int) -> tuple[BodyState, np.ndarray, np.ndarray, dict[str, int]]:
    """Runs C MuJoCo under random actions; returns states, an action for each, what it leads to, and the room needed.

    What it leads to is qpos and then the observation, (state, nq + obs); the room is the most contacts and constraint
    rows that were met.
    """
    import mujoco

    model, random = bodies.load(task), np.random.default_rng(0)
    data, rows, after, actions = mujoco.MjData(model), [], [], []
    room = {"contacts": 0, "rows": 0}
    for i in range(count):
        if i % 32 == 0:
            mujoco.mj_resetData(model, data)
            noise = random.uniform(-1, 1, model.nq), random.standard_normal(model.nv)
            data.qpos[:], data.qvel[:] = bodies.start(task, model.qpos0, *noise)
        for _ in range(random.integers(1, 12)):
            data.ctrl[:] = random.uniform(*model.actuator_ctrlrange.T)
            mujoco.mj_step(model, data, task.frames)
            room = {"contacts": max(room["contacts"], data.ncon), "rows": max(room["rows"], data.nefc)}
        rows.append([x.astype(np.float32) for x in (data.qpos, data.qvel, data.qacc_warmstart)])
        actions.append(random.uniform(-1, 1, model.nu).astype(np.float32))
        branch = mujoco.MjData(model)
        branch.qpos[:], branch.qvel[:], branch.qacc_warmstart[:] = rows[-1]
        low, high = model.actuator_ctrlrange.T
        branch.ctrl[:] = (low + high) / 2 + (high - low) / 2 * actions[-1]
        mujoco.mj_step(model, branch, task.frames)
        after.append(np.concatenate([branch.qpos, bodies.observe(task, branch, False)]))
    columns = (jnp.asarray(np.stack(x)) for x in zip(*rows, strict=True))
    return BodyState(*columns), np.stack(actions), np.stack(after), room


def _quantiles(x: np.ndarray) -> dict[str, float]:
    return {"median": float(np.median(x)), "q90": float(np.quantile(x, 0.9)), "largest": float(x.max())}


def compare(task: bodies.Task, env: Env, states: BodyState, actions: np.ndarray, after: np.ndarray) -> dict[str, Any]:
    sims = Simulation(states, jnp.zeros(len(actions), bool))
    step = jax.jit(jax.vmap(lambda sim, action: env.step(sim, action, jax.random.key(0))))
    sim, obs, _ = step(sims, jnp.asarray(actions))
    width = states.qpos.shape[1]
    moved = np.abs(np.asarray(states.qpos) - after[:, :width]).max(axis=1)

    def repeat() -> np.ndarray:
        now = sims
        for _ in range(AGAIN):
            now, _, _ = step(now, jnp.asarray(actions))
        return np.asarray(now.body.qpos)

    first, second = repeat(), repeat()
    return {
        "qpos": _quantiles(np.abs(np.asarray(sim.body.qpos) - after[:, :width]).max(axis=1)),
        "observation": _quantiles(np.abs(np.asarray(obs) - after[:, width:]).max(axis=1)),
        "step_length": _quantiles(moved),
        "overflows": int(np.asarray(sim.overflow).sum()),
        "same_bits_again": bool((first == second).all()),
        "largest_difference_again": float(np.abs(first - second).max()),
    }


def parity(names: Iterable[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name in names:
        task = bodies.TASKS[name]
        states, actions, after, room = met(task, STATES)
        for engine, build in ENGINES.items():
            try:
                env = build(task, STATES, horizon=HORIZON)
            except UsageError as error:
                rows.append({"env": name, "engine": engine, "not_run": str(error)})
                continue
            rows.append({"env": name, "engine": engine, "room": room, **compare(task, env, states, actions, after)})
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--env", choices=bodies.TASKS)
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["python", "-m", "vgcrl.bench.parity", *sys.argv[1:]])
    device = f"{jax.devices()[0].device_kind}, {platform.machine()}"
    rows = parity([given.env] if given.env else bodies.TASKS)
    found = {"command": command, "device": device, "jax": jax.__version__, "rows": rows}
    atomic_write(given.out, to_json(found) + "\n")


if __name__ == "__main__":
    main()
