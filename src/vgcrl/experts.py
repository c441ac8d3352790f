"""Velocity-tracking experts: GCRL itself, with velocities as goals and Huber's loss as −log q.

One policy per seed serves all target velocities; for each target the seed that comes closest is its expert. States
are taken from the second half of its episode.
"""

import dataclasses
import itertools
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from vgcrl import training
from vgcrl.config import Config, flag, resolve, spoken
from vgcrl.errors import UsageError
from vgcrl.hosted import compile_config
from vgcrl.program import Program
from vgcrl.targets import TOLERANCE, Experts, write

SPEEDS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)  # of the paper, per axis
STATES = 6  # of each expert
FIXED = ("method", "features", "posterior", "goal_dim")  # of an expert; the rest is as in any run
EXPERT = Config(  # sigma is the scale of the loss, in m/s
    "gcrl", features="velocity", posterior="state-huber", sigma=0.2, evaluate_episodes=10
)


def configuration(given: Config) -> Config:
    """Four evaluations, unless told."""
    config = resolve(given)
    if given.evaluate_every is None:
        config = dataclasses.replace(config, evaluate_every=-(-config.steps // 4))
    if any(low > min(SPEEDS) or high < max(SPEEDS) for low, high in _ranges(config)):
        raise UsageError(f"--env {config.env}: its velocities do not reach from {min(SPEEDS)} to {max(SPEEDS)} m/s")
    return config


def command(config: Config) -> str:
    """The command that asks for a configuration: what is not as it would be anyway."""
    usual = configuration(dataclasses.replace(EXPERT, env=config.env, steps=config.steps))
    names = [f.name for f in dataclasses.fields(Config) if f.name not in FIXED]
    asked = {k: getattr(config, k) for k in names if k in ("env", "steps") or getattr(config, k) != getattr(usual, k)}
    return " ".join(["vgcrl experts", *(f"{flag(k)} {spoken(v)}" for k, v in asked.items())])


def _ranges(config: Config) -> list[tuple[float, float]]:
    spec = config.specification
    return [(spec.low[i], spec.high[i]) for i in spec.velocity]


def choose(path: np.ndarray, asked: np.ndarray, velocity: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """From (seed, step, expert, observation): states of each expert's best seed, and what velocity it kept."""
    settled = path[:, path.shape[1] // 2 :]
    achieved = settled[..., list(velocity)].mean(axis=1)
    best = np.linalg.norm(achieved - asked, axis=-1).argmin(axis=0)
    random = np.random.default_rng(0)
    states = [settled[seed, random.choice(settled.shape[1], STATES, False), e] for e, seed in enumerate(best)]
    return np.concatenate(states), achieved[best, np.arange(len(asked))]


def to_the_end(config: Config) -> Program:
    """The same program, but who falls stays down: a path is of one episode, without fresh starts in it."""
    return compile_config(dataclasses.replace(config, terminate=False) if config.terminate else config)


def record(folder: Path, out: Path, say: Callable[[str], None]) -> Experts:
    """What the newest checkpoint of a run of experts can do, as a file of target states."""
    program, runs, counters = training.restore(folder, say)
    config = program.config
    asked = np.array(list(itertools.product(SPEEDS, repeat=len(program.spec.velocity))), np.float32)
    path = np.asarray(to_the_end(config).watch(runs, jnp.asarray(asked)))
    states, achieved = choose(path, asked, program.spec.velocity)
    facts = {
        "command": command(config),
        "env": config.env,
        "seeds": config.seeds,
        "steps": counters["step"],
        "updates_per_step": config.updates_per_step,
        "tolerance": TOLERANCE,
        "hardware": training.hardware(),
        "versions": {name: version(name) for name in ("vgcrl", "jax", "mujoco") if find_spec(name)},
    }
    found = Experts(states, asked, achieved, facts)
    write(out, found)
    return found


def experts(given: Config, out: Path, say: Callable[[str], None]) -> Experts | None:
    """Trains what is missing beside `out`, then records; None where the user stopped it."""
    config = configuration(given)
    if out.suffix != ".safetensors":
        raise UsageError(f"--out {out} has another ending; valid: a file that ends in .safetensors")
    if config.horizon < 2 * STATES:
        raise UsageError(f"--horizon {config.horizon} is too short for {STATES} states; valid: at least {2 * STATES}")
    folder = out.with_suffix("")
    if (folder / "config.json").exists() and training.read_config(folder) != config:
        raise UsageError(f"{folder} holds experts trained otherwise; valid: the same options, or another --out")
    if not training.finished(folder):
        begun = (folder / "config.json").exists()
        run = training.resume(folder) if begun else training.start(config, folder)
        if run.interrupted:
            say("stopped and saved; the same command continues")
            return None
    return record(folder, out, say)
