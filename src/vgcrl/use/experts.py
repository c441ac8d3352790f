"""Velocity-tracking experts: GCRL itself, with velocities as goals and Huber's loss as −log q.

One policy per seed serves all target velocities; for each target the seed that comes closest is its expert, at the
evaluation at which it came closest; one that stays on its feet is closer than any that falls. States are taken from
the second half of its episode.
"""

import dataclasses
import itertools
from collections.abc import Callable
from functools import partial, reduce
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from vgcrl.errors import UsageError
from vgcrl.measure.target_states import TOLERANCE, UNREADABLE, Experts, read, write
from vgcrl.objective.types import EnvSpec
from vgcrl.training import run_folder, summary, trainer
from vgcrl.training.config import FIELDS, Config
from vgcrl.training.fields import flag, spoken
from vgcrl.training.host_program import compile_config
from vgcrl.training.options import Options
from vgcrl.training.program import Program, RunState
from vgcrl.training.resolve import resolve

SPEEDS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)  # of the paper, per axis
STATES = 6  # of each expert
FIXED = ("method", "features", "posterior", "goal_dim")  # of an expert; the rest is as in any run
EXPERT = Options(  # sigma is the scale of the loss, in m/s
    "gcrl", features="velocity", posterior="state-huber", sigma=0.2, evaluate_episodes=10
)


def configuration(given: Options) -> Config:
    """Eight evaluations, unless told."""
    config = resolve(given)
    if "evaluate_every" not in given:
        config = dataclasses.replace(config, evaluate_every=-(-config.steps // 8))
    if config.swept:
        raise UsageError(f"{flag(config.swept[0])} takes one value here: experts are of one setting; valid: one number")
    if any(low > min(SPEEDS) or high < max(SPEEDS) for low, high in _ranges(config)):
        reach = f"from {min(SPEEDS)} to {max(SPEEDS)} m/s"
        raise UsageError(f"--env {config.env}: its velocities do not reach {reach}; valid: a body such as HalfCheetah")
    return config


def command(config: Config) -> str:
    """The command that asks for a configuration: what is not as it would be anyway."""
    usual = configuration(EXPERT | {"env": config.env, "steps": config.steps})
    names = [name for name in FIELDS if name not in FIXED]
    asked = {k: getattr(config, k) for k in names if k in ("env", "steps") or getattr(config, k) != getattr(usual, k)}
    return " ".join(["vgcrl experts", *(f"{flag(k)} {spoken(v)}" for k, v in asked.items())])


def _ranges(config: Config) -> list[tuple[float, float]]:
    spec = config.specification
    return [(spec.low[i], spec.high[i]) for i in spec.velocity]


def choose(path: np.ndarray, asked: np.ndarray, spec: EnvSpec, step: int, facts: dict[str, Any]) -> Experts:
    """From (seed, step, expert, observation): states of each expert's best seed, and what velocity it kept."""
    settled, low, high = path[:, path.shape[1] // 2 :], *spec.height
    achieved = settled[..., list(spec.velocity)].mean(axis=1)
    random = np.random.default_rng(0)
    places = [random.choice(settled.shape[1], STATES, False) for _ in asked]

    def of_one_seed(states: np.ndarray, kept: np.ndarray) -> Experts:
        shown = np.concatenate([states[place, e] for e, place in enumerate(places)])
        fell = np.any((states[..., 0] < low) | (states[..., 0] > high), axis=0)
        return Experts(shown, asked, kept, np.full(len(asked), step), fell, facts)

    return reduce(closest, map(of_one_seed, settled, achieved))


def closest(old: Experts, new: Experts) -> Experts:
    """Of two recordings, for each target the one that missed it by less; the facts of the new one."""
    better = np.where(old.fell == new.fell, new.error < old.error, old.fell)

    def either(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        chosen = np.where(better[:, None], b.reshape(len(better), -1), a.reshape(len(better), -1))
        return chosen.reshape(b.shape)

    return Experts(*map(either, old[:-1], new[:-1]), new.facts)


def to_the_end(config: Config) -> Program:
    """The same program, but who falls stays down: a path is of one episode, without fresh starts in it."""
    return compile_config(dataclasses.replace(config, terminate=False) if config.terminate else config)


class Keeper:
    """Called at every evaluation: writes the best states so far to a file of targets."""

    def __init__(self, config: Config, out: Path, best: Experts | None):
        self.out, self.best, self.program = out, best, to_the_end(config)
        self.facts = {
            "command": command(config),
            "env": config.env,
            "seeds": config.seeds,
            "updates_per_step": config.updates_per_step,
            "tolerance": TOLERANCE,
            "hardware": summary.hardware(),
            "versions": {name: version(name) for name in ("vgcrl", "jax", "mujoco") if find_spec(name)},
        }

    def __call__(self, runs: RunState, step: int) -> None:
        spec = self.program.spec
        asked = np.array(list(itertools.product(SPEEDS, repeat=len(spec.velocity))), np.float32)
        path = np.asarray(self.program.record_episodes(runs, jnp.asarray(asked)))
        found = choose(path, asked, spec, step, self.facts | {"steps": step})
        self.best = found if self.best is None else closest(self.best, found)
        write(self.out, self.best)


def kept(out: Path, config: Config) -> Experts | None:
    """What an earlier call has left of the same experts."""
    try:
        found = read(out)
    except UNREADABLE:
        return None
    return found if found.facts.get("command") == command(config) else None


def experts(given: Options, out: Path, say: Callable[[str], None]) -> Experts | None:
    """Trains what is missing beside `out`, which has the best so far; None where the user stopped it."""
    config = configuration(given)
    if out.suffix != ".safetensors":
        raise UsageError(f"--out {out} has another ending; valid: a file that ends in .safetensors")
    if config.horizon < 2 * STATES:
        raise UsageError(f"--horizon {config.horizon} is too short for {STATES} states; valid: at least {2 * STATES}")
    folder = out.with_suffix("")
    started = (folder / "config.json").exists()
    if started and run_folder.read_config(folder) != config:
        raise UsageError(f"{folder} holds experts trained otherwise; valid: the same options, or another --out")
    keep = Keeper(config, out, kept(out, config) if started else None)
    if run_folder.is_finished(folder):
        if keep.best is None:
            _, runs, counters = trainer.restore(folder, say)
            keep(runs, counters["step"])
        return keep.best
    how = trainer.resume if started else partial(trainer.start, Options.of(config))
    if how(folder, evaluated=keep).interrupted:
        say("stopped and saved; the same command continues")
        return None
    return keep.best
