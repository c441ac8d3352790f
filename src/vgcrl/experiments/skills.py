"""Do skills go somewhere? Every method on the three bodies with places observed, under one budget and one yardstick.

F asks that skills can be told apart, which poses can; LSD, METRA and CSF ask that φ(s) moves. Coverage, velocities
and arrivals tell the difference.
"""

import colorsys
import math
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vgcrl.experiments.experiment import Experiment
from vgcrl.experiments.measured import last_rows, restored
from vgcrl.experiments.result_folder import Outcome
from vgcrl.experiments.verdicts import Claim, judge
from vgcrl.measure import target_states
from vgcrl.measure.rollout import sample_goals
from vgcrl.objective.goals import current
from vgcrl.objective.types import key_of_seed
from vgcrl.show.subplots import subplots
from vgcrl.show.tables import Table, number, with_interval
from vgcrl.training import logs, run_folder
from vgcrl.training.config import Config
from vgcrl.training.options import Options
from vgcrl.training.program import one_run

COMPARED = ("gcrl", "agcrl", "lingcrl", "diayn", "vgcrl", "visr", "discern", "dads", "lsd", "metra", "csf")
MOVES = ("lsd", "metra", "csf")  # methods whose objective asks φ(s) to move
SIZES = {"HalfCheetah": (3_000_000, 128), "Ant": (2_000_000, 512), "Humanoid": (1_000_000, 512)}  # steps, environments
SKILLS = 48  # number of skills whose paths are drawn and counted
PUBLISHED = {"Ant": "about 2000 (METRA)"}
COLUMNS = {
    "coverage": "cells covered",
    "spread_v": "spread of velocity, m/s",
    "F": "F",
    "lgr_z": "LGR(z)",
    "lgr_s": "LGR(s)",
    "lgr_v": "LGR_v",
    "success_3": "came within 3 m of places asked for",
    "success_1": "within 1 m",
    "success": "within 0.5 m",
    "success_end_1": "ended within 1 m",
    "time_near_1": "time within 1 m",
    "distance_left": "distance left, m",
}


def runs(quick: bool) -> dict[str, Options]:
    """Returns every method on every body. Quick: DIAYN and METRA on HalfCheetah, at a rate at which METRA soon runs."""
    alike = partial(Options, positions=True, horizon=200, updates_per_step=1 / 32, evaluate_episodes=SKILLS)
    if quick:
        sizes = {"seeds": 1, "steps": 1_250_000, "evaluate_every": 250_000, "learning_rate": (3e-4,)}
        return {f"HalfCheetah-{name}": alike(name, "HalfCheetah", **sizes) for name in ("diayn", "metra")}
    large = partial(alike, seeds=3, hidden=(256, 256), learning_rate=(1e-4,))
    return {
        f"{env}-{name}": large(name, env, envs=envs, steps=steps, evaluate_every=steps // 4)
        for env, (steps, envs) in SIZES.items()
        for name in COMPARED
    }


def standing_still(config: Config) -> float:
    """Returns LGR_v of a body that does not move: the mean squared length of the targets' velocities."""
    spec = config.specification
    targets = np.asarray(target_states.for_spec(config.env, spec, config.evaluate_episodes))
    return float(np.mean(np.sum(targets[:, list(spec.velocity)] ** 2, axis=1)))


def measured(run: Path, names: Iterable[str]) -> list[str]:
    """Returns numbers of the last evaluation as text, each with its interval."""
    last = logs.read_lines(run / "metrics.jsonl")[-1]
    return [with_interval(last["mean"][name], last["ci95"][name]) for name in names]


def covered(run: Path) -> np.ndarray:
    """Returns how many cells of 1 m each seed covered, (seed,)."""
    return np.array([row["coverage"] for row in last_rows(run)], float)


def row(run: Path) -> list[str]:
    config = run_folder.read_config(run)
    return [config.method, *measured(run, COLUMNS), config.engine]


def title(group: dict[str, Path]) -> str:
    config = run_folder.checked_config(next(iter(group.values())), examine=True)
    still = number(standing_still(config))
    return f"{config.env}, {config.steps:,} steps; LGR_v of standing still {still}, cells covered by it 1 to 4"


def claims(env: str, group: dict[str, Path]) -> list[Claim]:
    """Judges each method that asks for motion against DIAYN, seed by seed, by the cells covered."""
    poses, out = covered(group["diayn"]), []
    for name in (name for name in MOVES if name in group):
        sentence = f"{env}: {name} covers more than DIAYN (difference in cells of 1 m; holds only if ten times as many)"
        verdict = judge(covered(group[name]) - poses, least=0, full=9 * float(poses.mean()))
        out.append(Claim(sentence, *verdict, PUBLISHED.get(env, "–")))
    return out


def colour(z: np.ndarray, index: int) -> tuple[float, float, float]:
    """Returns the RGB colour of a goal: by its direction where goals are directions in the plane, else by its index."""
    hue = (math.atan2(z[1], z[0]) / math.tau) % 1 if z.shape == (2,) else index / SKILLS
    return colorsys.hsv_to_rgb(hue, 0.85, 0.85)


def draw_paths(axis: Axes, run: Path) -> None:
    """Draws where the skills of the first seed went: from above, or over time where bodies only move along x."""
    program, states = restored(run)
    z = sample_goals(current(program.goals, one_run(states, 0).learner.q), key_of_seed(0), SKILLS)
    path = np.asarray(program.record_episodes(states, z))[0][..., list(program.spec.place)]
    seconds = np.arange(len(path)) * program.spec.seconds
    for i in range(SKILLS):
        line = (path[:, i, 0], path[:, i, 1]) if path.shape[-1] == 2 else (seconds, path[:, i, 0])
        axis.plot(*line, color=colour(np.asarray(z[i]), i), linewidth=0.8)
    if path.shape[-1] == 2:
        axis.set_aspect("equal")


def paths(env: str, group: dict[str, Path]) -> Figure:
    """Draws the paths of every method on a body, all on one scale, so that a pose is seen to be one."""
    columns = min(4, len(group))
    lines = -(-len(group) // columns)
    figure, axes = subplots(lines, columns, figsize=(3.2 * columns, 3 * lines), squeeze=False, sharex=True, sharey=True)
    for axis, (name, run) in zip(axes.flat, group.items(), strict=False):
        draw_paths(axis, run)
        axis.set_title(name, fontsize=10)
    for axis in axes.flat[len(group) :]:
        axis.axis("off")
    two = len(run_folder.checked_config(next(iter(group.values())), examine=True).specification.place) == 2
    colours = "only tell goals apart; where goals are in the plane they are the direction of each"
    figure.suptitle(f"{SKILLS} goals, one episode each; colours {colours}", fontsize=9)
    figure.supxlabel("x, m" if two else "time, s", fontsize=9)
    figure.supylabel("y, m" if two else "x, m", fontsize=9)
    return figure


def compare(found: dict[str, Path]) -> Outcome:
    groups: dict[str, dict[str, Path]] = {}
    for key, run in found.items():
        env, _, name = key.partition("-")
        groups.setdefault(env, {})[name] = run
    said = [claim for env, group in groups.items() for claim in claims(env, group)]
    head = ["method", *COLUMNS.values(), "simulator"]
    tables = {title(group): Table(head, [row(r) for r in group.values()]) for group in groups.values()}
    return Outcome(said, tables, {f"Paths of skills, {env}": paths(env, group) for env, group in groups.items()})


EXPERIMENT = Experiment(
    "Skills that go somewhere",
    "Methods that ask φ(s) to move make robots go; methods that ask only to tell skills apart make them pose.",
    runs,
    compare,
)
