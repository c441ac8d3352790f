"""Tests whether an episode should end when the body is unhealthy; the default of `--terminate` rests on it."""

from pathlib import Path
from typing import Any

import numpy as np

from vgcrl.experiments.experiment import Experiment
from vgcrl.experiments.measured import last_rows
from vgcrl.experiments.result_folder import Outcome
from vgcrl.experiments.verdicts import Claim, judge
from vgcrl.measure.statistics import interval
from vgcrl.show.figures import LABELS
from vgcrl.show.tables import Table, with_interval
from vgcrl.training import run_folder
from vgcrl.training.options import Options

BODIES = ("Ant", "Humanoid")
SETTINGS: dict[str, dict[str, Any]] = {
    "no": {"terminate": False},
    "yes": {"terminate": True},
    "yes, bonus 3": {"terminate": True, "alive_bonus": 3.0},
}
SHOWN = ("F", "lgr_z", "spread_v", "spread_x", "episode_steps")


def runs(quick: bool) -> dict[str, Options]:
    steps, seeds = (20_000, 3) if quick else (150_000, 5)
    sizes: dict[str, Any] = {"steps": steps, "seeds": seeds, "evaluate_every": steps // 2, "evaluate_episodes": 10}
    sizes |= {"hidden": (64, 64), "batch": 128, "envs": 32, "updates_per_step": 0.125}
    sizes |= {"replay": 150_000, "random_steps": 5_000}
    return {
        f"{body}-{name.replace(', ', '-').replace(' ', '')}": Options(
            "diayn", body, engine="mujoco", **sizes, **setting
        )
        for body in BODIES
        for name, setting in SETTINGS.items()
    }


def values(run: Path, metric: str) -> np.ndarray:
    return np.array([row[metric] for row in last_rows(run)], float)


def compare(found: dict[str, Path]) -> Outcome:
    groups = {
        body: dict(
            zip(SETTINGS, (run for run in found.values() if run_folder.read_config(run).env == body), strict=True)
        )
        for body in BODIES
    }
    tables = {
        f"{body}: what becomes of ten skills when an unhealthy robot ends the episode": Table(
            ["ends when unhealthy", *(LABELS.get(m, "steps of an episode") for m in SHOWN)],
            [
                [name, *(with_interval(values(run, m).mean(), interval(values(run, m))) for m in SHOWN)]
                for name, run in group.items()
            ],
        )
        for body, group in groups.items()
    }
    claims = []
    for body, group in groups.items():
        no, yes, paid = group.values()
        for what, one, other, metric in (
            ("skills are told apart better at the end of an episode that does not end early", no, yes, "lgr_z"),
            ("episodes end further from each other without early ends", no, yes, "spread_x"),
            ("a bonus for going on makes episodes that can end early longer", paid, yes, "episode_steps"),
        ):
            gain = values(one, metric) - values(other, metric)
            claims.append(Claim(f"{body}: {what} ({LABELS.get(metric, 'steps')})", *judge(gain, least=0, full=0)))
    return Outcome(claims, tables, {})


EXPERIMENT = Experiment(
    "Should an episode end when the robot is unhealthy?",
    "Without early ends, as by default, ten skills are told apart better and end further from each other.",
    runs,
    compare,
    logs=True,
)
