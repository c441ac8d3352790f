"""Velocity-tracking experts: GCRL itself, with velocities as goals and Huber's loss as −log q.

One policy per seed serves all target velocities. The expert of a target is the episode that kept closest to it, of any
seed, evaluation and requested velocity; an episode that stays on its feet is better than any that falls. States are
taken from the second half of that episode.
"""

import dataclasses
import itertools
import shlex
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import jax.numpy as jnp
import numpy as np

from vgcrl.envs import bodies
from vgcrl.errors import UsageError
from vgcrl.measure.target_states import TOLERANCE, UNREADABLE, Experts, read, write
from vgcrl.objective.goals import Box
from vgcrl.objective.types import EnvSpec
from vgcrl.training import run_folder, summary, trainer
from vgcrl.training.config import FIELDS, Config
from vgcrl.training.fields import flag, spoken, words_of
from vgcrl.training.host_program import compile_config
from vgcrl.training.options import Options
from vgcrl.training.program import Program, RunState
from vgcrl.training.resolve import resolve
from vgcrl.use.policies import folder_of
from vgcrl.version import VERSION

SPEEDS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)  # target speeds of the paper, per axis, in m/s
REQUESTS, TURNED = 41, 13  # velocities requested of a trained policy, per axis; the second if only speeds must be right
STATES = 6  # number of states of each expert
Turn = Callable[[np.ndarray, float], np.ndarray]  # (observations, angle) -> observations of the rotated scene
FIXED = ("method", "features", "posterior", "goal_dim")  # options that experts do not leave open
EXPERT = Options(  # sigma is the scale of the loss, in m/s
    "gcrl", features="velocity", posterior="state-huber", sigma=0.2, evaluate_episodes=10
)


def configuration(given: Options) -> Config:
    """Returns the configuration of experts; by default it has eight evaluations."""
    config = resolve(given)
    if "evaluate_every" not in given:
        config = dataclasses.replace(config, evaluate_every=-(-config.steps // 8))
    if config.swept:
        raise UsageError(f"{flag(config.swept[0])} takes one value here: experts are of one setting; valid: one number")
    if any(low > min(SPEEDS) or high < max(SPEEDS) for low, high in _ranges(config)):
        which, valid = f"--env {config.env}", "a robot such as HalfCheetah"
        if config.goal_range:
            which, valid = f"--goal-range {spoken(config.goal_range)}", "a range that does, or none"
        raise UsageError(f"{which}: velocities do not reach from {min(SPEEDS)} to {max(SPEEDS)} m/s; valid: {valid}")
    return config


def command(config: Config) -> str:
    """Returns the command that asks for a configuration, without options that have their default."""
    usual = configuration(EXPERT | {"env": config.env, "steps": config.steps})
    names = [name for name in FIELDS if name not in FIXED]
    asked = {k: getattr(config, k) for k in names if k in ("env", "steps") or getattr(config, k) != getattr(usual, k)}
    return shlex.join(["vgcrl", "experts", *(word for k, v in asked.items() for word in words_of(k, v))])


def _ranges(config: Config) -> list[tuple[float, float]]:
    spec = config.specification
    return [(spec.low[i], spec.high[i]) for i in spec.velocity]


def choose(
    path: np.ndarray, targets: np.ndarray, spec: EnvSpec, step: int, facts: dict[str, Any], turn: Turn | None = None
) -> Experts:
    """Returns experts from observations (seed, step, episode, observation).

    For each target they are states of the episode that kept closest to it. With `turn` an episode is rotated towards
    its target, so that only its speed has to be right.
    """
    settled, low, high = path[:, path.shape[1] // 2 :], *spec.height
    episodes = np.moveaxis(settled, 1, 2).reshape(-1, settled.shape[1], settled.shape[-1])  # episodes of all seeds
    achieved = episodes[..., list(spec.velocity)].mean(axis=1)
    height = episodes[..., len(spec.place)]  # the first dimension after the place
    fell = np.any((height < low) | (height > high), axis=1)
    if turn:
        errors = np.abs(np.linalg.norm(achieved, axis=-1) - np.linalg.norm(targets, axis=-1)[:, None])
    else:
        errors = np.linalg.norm(achieved - targets[:, None], axis=-1)
    best = np.array([np.lexsort((row, fell))[0] for row in errors])
    random = np.random.default_rng(0)
    states = np.stack([episodes[e, random.choice(settled.shape[1], STATES, False)] for e in best])
    achieved = achieved[best]
    if turn:
        angles = np.arctan2(targets[:, 1], targets[:, 0]) - np.arctan2(achieved[:, 1], achieved[:, 0])
        angles = np.where(targets.any(axis=-1), angles, 0.0)
        states = np.stack([turn(*each) for each in zip(states, angles, strict=True)])
        cos, sin, (x, y) = np.cos(angles), np.sin(angles), achieved.T
        achieved = np.stack([cos * x - sin * y, sin * x + cos * y], axis=-1)
    return Experts(np.concatenate(states), targets, achieved, np.full(len(targets), step), fell[best], facts)


def closer(old: Experts, new: Experts) -> np.ndarray:
    """Returns for which targets the new recording is better: it stays on its feet, or misses the target by less."""
    return np.where(old.fell == new.fell, new.error < old.error, old.fell)


def merged(old: Experts, new: Experts, take: np.ndarray) -> Experts:
    """Returns the new experts for the targets in `take`, else the old ones; the facts are those of the new ones."""

    def either(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        chosen = np.where(take[:, None], b.reshape(len(take), -1), a.reshape(len(take), -1))
        return chosen.reshape(b.shape)

    return Experts(*map(either, old[:-1], new[:-1]), new.facts)


def grid(speeds: Iterable[float], spec: EnvSpec) -> np.ndarray:
    """Returns the velocities that have one of these speeds along every axis."""
    return np.array(list(itertools.product(speeds, repeat=len(spec.velocity))), np.float32)


def requests(goals: Box, each: int) -> np.ndarray:
    """Returns velocities to request, `each` along every axis, over one and a half times the range that was trained."""
    axes = [
        np.linspace((low + high) / 2 - 0.75 * (high - low), (low + high) / 2 + 0.75 * (high - low), each)
        for low, high in zip(goals.low, goals.high, strict=True)
    ]
    return np.array(list(itertools.product(*axes)), np.float32)


def common_facts(config: Config, command: str, step: int) -> dict[str, Any]:
    """Returns the facts that are stored with experts."""
    return {
        "command": command,
        "env": config.env,
        "seeds": config.seeds,
        "updates_per_step": config.updates_per_step,
        "tolerance": TOLERANCE,
        "hardware": summary.hardware(),
        "versions": {"vgcrl": VERSION} | {name: version(name) for name in ("jax", "mujoco") if find_spec(name)},
        "steps": step,
    }


def to_the_end(config: Config) -> Program:
    """Returns the program without early termination, so that each path is of one episode, without resets in it."""
    return compile_config(dataclasses.replace(config, terminate=False) if config.terminate else config)


class Keeper:
    """Called at every evaluation: writes the best states so far to a file of target states."""

    def __init__(self, config: Config, out: Path, best: Experts | None):
        self.config, self.out, self.best, self.program = config, out, best, to_the_end(config)

    def __call__(self, runs: RunState, step: int) -> None:
        spec = self.program.spec
        asked = grid(SPEEDS, spec)
        path = np.asarray(self.program.record_episodes(runs, jnp.asarray(asked)))
        found = choose(path, asked, spec, step, common_facts(self.config, command(self.config), step))
        self.best = found if self.best is None else merged(self.best, found, closer(self.best, found))
        write(self.out, self.best)


def _check_out(out: Path) -> None:
    if out.suffix != ".safetensors":
        raise UsageError(f"--out {out} has another ending; valid: a file that ends in .safetensors")


def _check_horizon(config: Config) -> None:
    if config.horizon < 2 * STATES:
        raise UsageError(f"--horizon {config.horizon} is too short for {STATES} states; valid: at least {2 * STATES}")


def kept(out: Path, config: Config) -> Experts | None:
    """Returns the experts that an earlier call of the same command left in a file, or None."""
    try:
        found = read(out)
    except UNREADABLE:
        return None
    return found if found.facts.get("command") == command(config) else None


def experts(given: Options, out: Path, say: Callable[[str], None]) -> Experts | None:
    """Train experts in a folder beside `out`, which has the best so far. Returns them, or None if it was stopped."""
    config = configuration(given)
    _check_out(out)
    _check_horizon(config)
    folder = out.with_suffix("")
    started = run_folder.is_started(folder)
    if started and run_folder.read_config(folder) != config:
        raise UsageError(f"{folder} holds experts trained otherwise; valid: the same options, or another --out")
    best = kept(out, config) if started else None
    if best is None and out.exists():
        raise UsageError(f"--out {out} is there and is no part of this training; valid: another --out")
    keep = Keeper(config, out, best)
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


def _velocity_policy(name: str, env: str, say: Callable[[str], None]) -> tuple[Program, RunState, int]:
    program, runs, counters = trainer.restore(folder_of(name), say)
    config = program.config
    aims = config.posterior.startswith("state-") and config.feature_indices(program.spec) == program.spec.velocity
    if config.env != env or not aims or not program.spec.velocity:
        raise UsageError(
            f"--policy {name} does not pursue velocities of {env}; valid: one trained with --features velocity"
        )
    _check_horizon(config)
    return to_the_end(config), runs, counters["step"]


def _experts_of(out: Path, env: str, targets: np.ndarray) -> Experts:
    """Returns the experts in a file; raises UsageError if they are not of this environment and these targets."""
    valid = f"a new file, or one of `vgcrl experts --env {env}`"
    try:
        found = read(out)
        if found.facts["env"] != env:
            raise ValueError(f"they are of {found.facts['env']}")
        if not np.array_equal(found.asked, targets) or len(found.states) != STATES * len(targets):
            raise ValueError("they pursued other velocities")
    except UNREADABLE as error:
        raise UsageError(f"--out {out} does not hold experts of {env}: {error}; valid: {valid}") from None
    return found


def _turn_of(program: Program) -> Turn:
    task = bodies.TASKS.get(program.config.env)
    if task is None or task.places != 2:
        planar = ", ".join(name for name, each in bodies.TASKS.items() if each.places == 2)
        raise UsageError(f"--turn yes: {program.config.env} does not turn; valid: {planar}")
    return lambda obs, angle: bodies.turn(task, obs, angle, bool(program.spec.place))


def recorded(policy: str, env: str, out: Path, say: Callable[[str], None], turn: bool = False) -> Experts:
    """Record experts from a trained policy, and write them to `out`.

    Many velocities are requested, since the policy may keep one velocity when asked for another. If the file exists,
    only experts in it that missed their target are replaced. With `turn` episodes are rotated towards their target, so
    an expert may start facing another way than episodes do.
    """
    _check_out(out)
    program, runs, step = _velocity_policy(policy, env, say)
    spec, words = program.spec, f"vgcrl experts --env {env} --policy {policy}{' --turn yes' if turn else ''}"
    turning = _turn_of(program) if turn else None
    targets = grid(SPEEDS, spec)
    old = _experts_of(out, env, targets) if out.exists() else None
    asked = requests(cast(Box, program.goals), TURNED if turn else REQUESTS)
    path = np.asarray(program.record_episodes(runs, jnp.asarray(asked)))
    best = choose(path, targets, spec, step, common_facts(program.config, words, step), turning)
    if old:
        before = [facts for facts in (old.facts, *old.facts.get("before", [])) if facts["command"] != words]
        best = merged(old, best, old.missed & closer(old, best))
        best = best._replace(facts=best.facts | {"before": before})
    write(out, best)
    return best
