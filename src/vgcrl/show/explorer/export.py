"""A run as plain data for a page: its settings, its world, its goals, and the policy and q of every seed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from vgcrl.envs import bodies
from vgcrl.errors import UsageError
from vgcrl.objective.agents.sac import LOG_STD_RANGE
from vgcrl.objective.goals import current
from vgcrl.objective.methods import METHODS
from vgcrl.objective.posteriors import UNLEARNED
from vgcrl.show.explorer import networks, worlds
from vgcrl.show.explorer.networks import Data
from vgcrl.show.explorer.recorded import recorded_world
from vgcrl.training import trainer
from vgcrl.training.logs import read_lines
from vgcrl.training.program import Program, RunState, diverged, without

SHOWN = {"F": "F", "lgr_z": "LGR(z)", "lgr_s": "LGR(s)", "lgr_v": "LGR_v"}


def _labels(program: Program) -> list[str]:
    config = program.config
    seeds = range(config.seed, config.seed + config.seeds)
    return [", ".join(filter(None, (f"seed {seed}", name))) for name in config.setting_names for seed in seeds]


def _policy(program: Program, run: RunState, label: str, setting: dict[str, Any]) -> Data:
    """Returns the policy and q of one run as data, with all that they need: standardiser, projection and goal space."""
    view = worlds.projection(program, setting)
    return {
        "label": label,
        "actor": networks.mlp(run.learner.agent.actor),
        "posterior": networks.posterior(run.learner.q.q),
        "standard": networks.standardiser(run.learner.q.standardise),
        "projection": None if view is None else networks.tensor(view),
        "goals": networks.goal_space(current(program.goals, run.learner.q)),
    }


def policies(program: Program, runs: RunState) -> list[Data]:
    config, labels = program.config, _labels(program)
    settings = [setting for setting in config.settings for _ in range(config.seeds)]

    def one(i: int) -> RunState:
        return jax.tree.map(lambda x: jax.numpy.asarray(x[i]), without(runs, "replay", "scene"))

    lost = diverged(runs)
    if lost.all():
        raise UsageError("every run has diverged; valid: one that can act")
    return [_policy(program, one(i), label, settings[i]) for i, label in enumerate(labels) if not lost[i]]


def _goal_names(program: Program, features: tuple[int, ...], names: list[str]) -> list[str]:
    if METHODS[program.config.method].bounded:
        return [names[i] for i in features]
    return [f"z{i + 1}" for i in range(program.goals.dim)]


def meaning(program: Program, features: tuple[int, ...], place: list[int]) -> str:
    """Returns what a goal of this run is: `place`, `velocity` or `state` where goals are states, else `latent`."""
    if not METHODS[program.config.method].bounded:
        return "latent"
    if place and features == tuple(place):
        return "place"
    return "velocity" if features == program.spec.velocity else "state"


def measured(folder: Path) -> Data:
    """Returns the mean over seeds of each number of the last evaluation; empty where there was none, or where several
    settings were trained, of which the page shows one at a time."""
    lines = read_lines(folder / "metrics.jsonl")
    return lines[-1]["mean"] if lines and "settings" not in lines[-1] else {}


def labelled(measured: dict[str, Any]) -> Data:
    """Renames numbers to the names of the paper, and leaves out those that this run does not have."""
    return {label: measured[name] for name, label in SHOWN.items() if measured.get(name) is not None}


def describe(
    program: Program,
    runs: RunState,
    steps: int,
    measured: Data,
    noise: bool = False,
    given: Sequence[Any] | None = None,
    say: Callable[[str], None] = print,
) -> Data:
    """Returns all data of a page; raises UsageError where no page can show the environment.

    `noise`: whether the policy acts with the noise of training when the page opens, or in its recorded episodes.
    `given`: the goals of those episodes. `say` is told what takes long.
    """
    config, features = program.config, program.config.feature_indices(program.spec)
    foreign = not config.native and config.env not in bodies.TASKS
    if given is not None and not foreign:
        raise UsageError(f"goals of {config.env} are chosen on its page; valid: without --goal and --skills")
    world = recorded_world(program, runs, noise, given, say) if foreign else worlds.world(program)
    return {
        "method": config.method,
        "env": config.env,
        "q": METHODS[config.method].q,
        "fixed": config.posterior in UNLEARNED,
        "steps": steps,
        "measured": measured,
        "noise": noise,
        "log_std_range": LOG_STD_RANGE,
        "spec": worlds.specification(program),
        "inputs": config.inputs,
        "relative": features if config.relative_goals else (),
        "unseen": program.spec.place if config.relative_goals else (),
        "features": features,
        "sees": METHODS[config.method].posterior_input,
        "meaning": meaning(program, features, world["place"]),
        "goal_names": _goal_names(program, features, world["names"]),
        "world": world,
        "policies": [] if foreign else policies(program, runs),
    }


def export_run(folder: Path, warn: Callable[[str], None], noise: bool, given: Sequence[Any] | None) -> Data:
    """Returns the data of a run folder for a page; raises UsageError where it has no trained policy."""
    program, runs, counters = trainer.restore(folder, warn)
    if program.config.gpi:
        warn(f"--gpi {program.config.gpi}: the page acts for the goal itself, without the policies of other goals")
    if not counters["step"]:
        raise UsageError(f"{folder} has no policy yet; valid: a run that was trained")
    return describe(program, runs, counters["step"], measured(folder), noise, given, warn)
