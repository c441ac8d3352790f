"""JaxGCRL's task for a run whose goals are places: targets 10 m away all around, episodes of 1000 steps.

python tools/go_there.py RUN [--targets 48] [--away 10] > FILE.json

Physics are MuJoCo's own. A body that falls is left lying, also where episodes of its training ended with a fall.
Arrivals are told twice: of the policy without noise, and with the noise it was trained with.
"""

import argparse
import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vgcrl.measure import places
from vgcrl.training import summary, trainer
from vgcrl.training.program import Program, RunState, policy
from vgcrl.use.policies import train_command

STEPS = 1000


def walk(program: Program, runs: RunState, goals: jax.Array, noise: float, steps: int = STEPS) -> np.ndarray:
    """Places at every step, (run, step, goal, place)."""
    config, agent = program.config, program.parts.agent
    lying = {"terminate": False} if config.terminate else {}
    envs = dataclasses.replace(config, horizon=steps, **lying).build_host_envs(config.runs, len(goals))
    keys = np.asarray(jax.random.key_data(jax.random.split(jax.random.key(1), config.runs)))
    rng = np.random.default_rng(0)

    @jax.jit
    @partial(jax.vmap, in_axes=(0, 0, None, 0))
    @partial(jax.vmap, in_axes=(None, 0, 0, 0))
    def act(run: RunState, obs: jax.Array, z: jax.Array, draw: jax.Array) -> jax.Array:
        return agent.act(run.learner.agent, obs, z, noise * draw)

    obs, path = envs.reset(keys), []
    for clock in range(steps):
        draws = rng.standard_normal((*obs.shape[:2], program.spec.action_dim), np.float32)
        out = envs.step(np.asarray(act(runs, jnp.asarray(obs), goals, jnp.asarray(draws))), keys, clock)
        obs = out.obs
        path.append(np.asarray(out.next_obs)[..., list(program.spec.place)])
    return np.stack(path, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--targets", type=int, default=48)
    parser.add_argument("--away", type=float, default=10.0, help="metres [10]")
    args = parser.parse_args()
    program, runs, counters = trainer.restore(args.run, lambda text: None)
    angle = 2 * np.pi * np.arange(args.targets) / args.targets
    targets = args.away * np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    found: dict[str, Any] = {}
    for name, noise in (("without noise", 0.0), ("with noise", 1.0)):
        paths = walk(program, policy(program.config, runs), jnp.asarray(targets), noise)
        found[name] = [places.arrivals(path, targets) for path in paths]
    record = {
        "command": f"python tools/go_there.py RUN --targets {args.targets} --away {args.away:g}",
        "trained": train_command(program.config),
        "steps": counters["step"],
        "task": f"{args.targets} targets {args.away:g} m away all around, {STEPS} steps, "
        f"engine {program.config.engine}",
        "versions": summary.versions(),
        "seeds": program.seeds.tolist(),
        "arrivals": found,
    }
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
