"""The methods of the paper's Table 1, and DADS, under equal budgets on the 2-D point mass and on HalfCheetah.

The paper says that they are one family; here they stand in one table. Chance is what the same run measured before it
had learned anything. LSD, METRA and CSF, whose F is no bound, are compared with them in `skills`.
"""

import math
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from vgcrl.experiments.experiment import Experiment
from vgcrl.experiments.measured import curve
from vgcrl.experiments.result_folder import Outcome
from vgcrl.experiments.verdicts import Claim, judge
from vgcrl.measure.statistics import interval
from vgcrl.objective.distributions import VonMisesFisher
from vgcrl.objective.goals import Discrete, Visited
from vgcrl.show.figures import LABELS
from vgcrl.show.subplots import mark_steps, subplots
from vgcrl.show.tables import Table, number, with_interval
from vgcrl.training import logs, run_folder
from vgcrl.training.components import KAPPA, goal_space
from vgcrl.training.config import Config
from vgcrl.training.options import Options

NAMES = ("gcrl", "agcrl", "lingcrl", "diayn", "vgcrl", "infogail", "discern", "visr", "dads")
BODY = "HalfCheetah"
SHOWN = ("F", "lgr_z", "lgr_s", "lgr_v", "spread_v", "spread_x")


def runs(quick: bool) -> dict[str, Options]:
    small = partial(Options, env="pointmass", seeds=5, steps=40_000 if quick else 60_000)
    large = partial(Options, env=BODY, seeds=3, steps=500_000, evaluate_every=100_000)
    programs = {f"pointmass-{name}": small(name) for name in NAMES}
    return programs if quick else programs | {f"{BODY}-{name}": large(name) for name in NAMES}


def best_f(config: Config) -> float | None:
    """Returns the largest F that q allows, or None where it is not known.

    It is H(z) where q can be certain of z, else H(z) plus the log density at the mode of q.
    """
    goals = goal_space(config)
    if isinstance(goals, Discrete | Visited):
        return goals.entropy
    if config.posterior == "vmf":
        pole = jnp.eye(config.goal_dim)[0]
        return float(VonMisesFisher(pole, KAPPA).log_prob(pole)) + goals.entropy
    if config.posterior == "state-fixed":
        return goals.entropy - config.goal_dim * (0.5 * math.log(2 * math.pi) + math.log(config.sigma))
    return None


def lines(run: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the first and the last evaluation of a run."""
    every = logs.read_lines(run / "metrics.jsonl")
    return every[0], every[-1]


def row(run: Path) -> list[str]:
    config, (first, last) = run_folder.read_config(run), lines(run)
    best = {"F": best_f(config), "lgr_z": type(goal_space(config)).lgr_best, "lgr_s": 0.0, "lgr_v": 0.0}
    cells = [config.method]
    for name in SHOWN:
        chance, top = first["mean"][name], best.get(name)
        ends = ", ".join([f"chance {number(chance)}", *([f"best {number(top)}"] if top is not None else [])])
        cells.append(f"{with_interval(last['mean'][name], last['ci95'][name])} ({ends})")
    return cells


def claim(run: Path) -> Claim:
    """Judges the gain of a method: F of each seed at the end, less F before learning."""
    config, (first, last) = run_folder.read_config(run), lines(run)
    gain = [after["F"] - before["F"] for before, after in zip(first["seeds"], last["seeds"], strict=True)]
    top = best_f(config)
    full, why = (0.5 * (top - first["mean"]["F"]), "half of what is possible") if top is not None else (0.5, "0.5 nats")
    sentence = f"{config.env}: {config.method} raises its own F (gain; holds only if at least {why})"
    return Claim(sentence, *judge(gain, least=0, full=full))


def curves(found: dict[str, Path]) -> Figure:
    """Draws F over training, a panel per run folder; 0 is the F of a q that knows nothing."""
    columns = 4
    lines = -(-len(found) // columns)
    figure, axes = subplots(lines, columns, figsize=(11, 0.7 + 2.2 * lines))
    for axis in np.ravel(axes)[len(found) :]:
        axis.axis("off")
    for axis, run in zip(np.ravel(axes), found.values(), strict=False):
        config = run_folder.read_config(run)
        steps, values = curve(run, lambda r: r["F"])
        low, high = np.array([interval(v) or [math.nan] * 2 for v in values]).T
        axis.plot(steps, values.mean(axis=1), label="mean over seeds")
        axis.fill_between(steps, low, high, alpha=0.2, linewidth=0, label="its 95 % interval")
        axis.axhline(0, color="grey", linewidth=0.8, label="a q that knows nothing")
        top = best_f(config)
        if top is not None:
            axis.axhline(
                top, color="tab:green", linewidth=0.8, linestyle="--", label="the largest F, where it is known"
            )
        axis.set_title(f"{config.method}, {config.env}", fontsize=9)
        mark_steps(axis)
    handles = {
        text: line for axis in np.ravel(axes) for line, text in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4, fontsize=9)
    figure.supxlabel("environment steps", fontsize=9)
    figure.supylabel("F, nats", fontsize=9)
    return figure


def compare(found: dict[str, Path]) -> Outcome:
    envs = {run_folder.read_config(run).env: None for run in found.values()}
    groups = {env: [run for run in found.values() if run_folder.read_config(run).env == env] for env in envs}
    tables = {
        f"{env}, {run_folder.read_config(group[0]).steps:,} steps": Table(
            ["method", *(LABELS[name] for name in SHOWN)], [row(r) for r in group]
        )
        for env, group in groups.items()
    }
    return Outcome([claim(run) for run in found.values()], tables, {"F over training": curves(found)})


EXPERIMENT = Experiment(
    "Every method, one yardstick",
    "Every row of Table 1, and DADS, runs through one learner and raises its own F.",
    runs,
    compare,
    logs=True,
)
