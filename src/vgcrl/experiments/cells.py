"""Programs of a grid, and the one small file that each leaves when it is finished: `cells/PROGRAM.json`.

One that was stopped leaves `cells/PROGRAM.unfinished.json`, with its evaluations so far.
"""

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from PIL import Image

from vgcrl.errors import UsageError
from vgcrl.files import atomic_write, read_small
from vgcrl.measure import target_states
from vgcrl.objective.types import EnvSpec
from vgcrl.show import filmstrip
from vgcrl.show.report import png
from vgcrl.training import fields, logs, run_folder, summary, trainer
from vgcrl.training.config import FIELDS, Config
from vgcrl.training.logs import to_json
from vgcrl.training.options import Options
from vgcrl.training.program import Program, RunState, one_run

Row = dict[str, str]  # a row of the paper's table; one that the paper does not have lacks the paper's numbers
Cell = dict[str, Any]  # a program as on disk

STEPS = 10_000_000  # the paper's
STRIPS = ("best", "worst")  # runs by LGR_v of which a filmstrip is kept
KEPT = (*summary.SUMMARISED, "episode_steps", "F_replay")
KINDS = {
    "config": dict,
    "settings": list,
    "seeds": list,
    "steps": int,
    "runs": int,
    "envs": int,
    "updates_per_step": float,
    "episodes": int,
    "targets": dict,
    "final": dict,
    "curves": dict,
    "strips": dict,
    "wall_seconds": float,
    "minutes_per_row": float,
    "hardware": str,
    "versions": dict,
}
CONFIGURED = ("env", "engine", "physics", "terminate", "envs", "horizon", "hidden", "batch", "steps", "seeds")
CONFIGURED += ("updates_per_step", "posterior_learning_rate", "evaluate_episodes")
SAME = ("method", "env", "goal_dim", "posterior")
LARGE = 1e150  # the square of a larger number may overflow
MEASURED = ("F", "lgr_z", "lgr_s", "lgr_v")
OF_TARGETS = ("still_lgr_v", "spread_v")


class Job(NamedTuple):
    """A program, and a row of the table for each of its settings, in their order."""

    name: str
    rows: tuple[Row, ...]
    options: Options

    @property
    def settings(self) -> list[dict[str, int]]:
        return [{name: int(row[name]) for name in ("p_her", "sn")} for row in self.rows]


def cell_path(folder: Path, job: Job) -> Path:
    return folder / "cells" / f"{job.name}.json"


def unfinished_path(folder: Path, job: Job) -> Path:
    return folder / "cells" / f"{job.name}.unfinished.json"


def run_path(folder: Path, job: Job) -> Path:
    return folder / "runs" / job.name


def check(job: Job, cell: Cell) -> None:
    """Raises ValueError where a cell is of another program, or lacks something that a report needs of it."""
    _need(cell.get("program") == job.name, f"it is of {cell.get('program')!r:.40}, not of {job.name}")
    for name, kind in KINDS.items():
        _need(name in cell, f"{name!r} is missing")
        right = _is_number(cell[name], kind) if kind in (int, float) else isinstance(cell[name], kind)
        _need(right, f"{name!r} is not of its kind")
    about, targets = cell["config"], cell["targets"]
    for name in CONFIGURED:
        _need(name in about, f"config has no {name!r}")
        _check_value(name, about[name])
    for name in (name for name in SAME if name in (job.options or ())):
        _need(about.get(name) == job.options[name], f"{name!r} of config is not that of {job.name}")
    _need(cell["steps"] > 0, "'steps' are none")
    _need(_is_number(targets.get("count"), int), "targets are not counted")
    for name in OF_TARGETS if targets["count"] else ():
        _need(_is_number(targets.get(name), float), f"{name!r} of targets is no number")
    _need(_is_number(targets.get("missed", 0), float), "'missed' of targets is no number")
    _need(cell["settings"] == job.settings, f"its settings are not those of {job.name}")
    seeds = cell["seeds"]
    _need(all(_is_number(seed, int) for seed in seeds), "'seeds' are no numbers")
    _need(len({*seeds}) == len(seeds), "a seed is in 'seeds' twice")
    _need(all(isinstance(x, str) for x in cell["versions"].values()), "'versions' are no words")
    for name in MEASURED:
        _need(name in cell["final"], f"final has no {name!r}")
    shape = len(job.rows), len(cell["seeds"])
    for name, values in cell["final"].items():
        _need(_is_table(values, shape), f"{name!r} is not {shape[0]} settings of {shape[1]} seeds")
    curves = {"step": [], **cell["curves"]}
    steps = curves.pop("step")
    _need(_is_table(steps, (len(steps),)) and None not in steps, "'step' of its curves are no numbers")
    for name, values in curves.items():
        _need(_is_table(values, (len(steps), *shape)), f"the curve of {name!r} is not of {len(steps)} evaluations")
    for name, place in cell["strips"].items():
        inside = _is_table(place, (2,)) and all(_is_number(x, int) for x in place)
        inside = inside and place[0] < shape[0] and place[1] < shape[1]
        _need(name in STRIPS and inside, f"its filmstrip {name!r:.40} is of no run")


def _check_value(name: str, value: Any) -> None:
    """Raises an error where a value is not valid for the option of this name."""
    _need(value is not None or fields.kind_of(FIELDS[name]).optional, f"config has no {name!r}")
    if value is not None:
        fields.check(FIELDS[name], tuple(value) if isinstance(value, list) else value)


def _need(true: Any, otherwise: str) -> None:
    if not true:
        raise ValueError(otherwise)


def _is_number(x: Any, kind: type) -> bool:
    """Returns whether x is an int, or with `kind` float also a float, from 0 to LARGE."""
    whole = isinstance(x, int) and not isinstance(x, bool)
    return (whole or (kind is float and isinstance(x, float))) and 0 <= x <= LARGE


def _is_table(x: Any, shape: tuple[int, ...]) -> bool:
    """Returns whether x is nested lists of this shape, of finite numbers or None."""
    if not shape:
        return x is None or (isinstance(x, int | float) and not isinstance(x, bool) and -LARGE <= x <= LARGE)
    return isinstance(x, list) and len(x) == shape[0] and all(_is_table(each, shape[1:]) for each in x)


def read(folder: Path, job: Job, unfinished: bool = False) -> Cell | None:
    """Returns the cell of a program, or None where it is not finished; with `unfinished` also that of a stopped one."""
    paths = [cell_path(folder, job), *([unfinished_path(folder, job)] if unfinished else [])]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        return None
    try:
        cell = json.loads(read_small(path))
        check(job, cell)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"{path} is not a program's file: {error}; valid: the file as it was written, or delete it to train again"
        ) from None
    return cell


def read_all(folder: Path, jobs: list[Job], unfinished: bool = False) -> dict[str, Cell]:
    """Returns the cells of finished programs by name; with `unfinished` also those of stopped ones."""
    found = {job.name: read(folder, job, unfinished) for job in jobs}
    return {name: cell for name, cell in found.items() if cell is not None}


def write(folder: Path, job: Job, cell: Cell, pictures: dict[str, bytes]) -> None:
    """Writes the filmstrips and, last, the cell: where that file is, the program is finished."""
    path = cell_path(folder, job)
    path.parent.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        atomic_write(path.with_name(f"{job.name}.{name}.png"), picture)
    atomic_write(path, to_json(cell) + "\n")
    unfinished_path(folder, job).unlink(missing_ok=True)


def write_unfinished(folder: Path, job: Job) -> None:
    """Writes the cell of a stopped program, if it has been evaluated since training began."""
    run = run_path(folder, job)
    config, lines = run_folder.read_config(run), logs.read_lines(run / "metrics.jsonl")
    if not lines or not lines[-1]["step"]:
        return
    _, about = aims(config, config.specification, config.evaluate_episodes)
    cell = describe(job, config, lines, lines[-1]["seeds"], config.evaluate_episodes, about) | {"finished": False}
    path = unfinished_path(folder, job)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, to_json(cell) + "\n")


class EvaluationSize(NamedTuple):
    """The size of a program's last evaluation."""

    episodes: int
    targets: int  # at most


FULL_EVALUATION, QUICK_EVALUATION = (
    EvaluationSize(episodes=50, targets=98),
    EvaluationSize(episodes=8, targets=8),
)  # 98: two of each of 49 experts


def aims(config: Config, spec: EnvSpec, most: int) -> tuple[jax.Array | None, dict[str, Any]]:
    """Returns at most `most` target states, or None, and facts about them.

    These are their number, the share of experts that missed their velocity, and what standing still scores on them.
    """
    states = target_states.for_spec(config.env, spec, most)
    if states is None:
        return None, {"count": 0}
    velocity = np.asarray(states)[:, list(spec.velocity)]
    still, spread = (velocity**2).sum(axis=1).mean(), velocity.var(axis=0).mean() ** 0.5
    missed, experts = target_states.quality(config.env)
    about = {"count": len(velocity), "missed": missed / experts}
    return states, about | {"still_lgr_v": float(still), "spread_v": float(spread)}


def columns(rows: list[dict[str, Any]], seeds: int, names: list[str]) -> dict[str, list[list[float]]]:
    """Returns the numbers of all runs by name, each as lists (setting, seed)."""
    return {n: [[row[n] for row in rows[i : i + seeds]] for i in range(0, len(rows), seeds)] for n in names}


def with_replay(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Adds F of the last batch from replay; it is far above F where q knows the episodes it saw, not the skills."""
    return [row | {"F_replay": row["train"]["F"]} for row in rows]


def strip(program: Program, run: RunState) -> bytes:
    """Returns a small PNG of a few skills of one run."""
    large, small = io.BytesIO(png(filmstrip.skills(program, run, count=3), dpi=75)), io.BytesIO()
    Image.open(large).convert("RGB").quantize(48, dither=Image.Dither.NONE).save(small, format="png", optimize=True)
    return small.getvalue()


def describe(
    job: Job, config: Config, lines: list[dict[str, Any]], rows: list[dict[str, Any]], episodes: int, aimed: Any
) -> Cell:
    """Returns the cell of a program; `rows` are the last evaluation of each run, `lines` all those in training."""
    rows, history = with_replay(rows), [with_replay(line["seeds"]) for line in lines]
    # Numbers that the environment has: at the first evaluation, before anything diverges, none of these is None.
    names = [name for name in KEPT if history[0][0].get(name) is not None]
    reported = [columns(each, config.seeds, names) for each in history]
    return {
        "program": job.name,
        "config": dataclasses.asdict(config),
        "settings": job.settings,
        "seeds": list(range(config.seed, config.seed + config.seeds)),
        "steps": lines[-1]["step"],
        "runs": len(rows),
        "envs": config.envs,
        "updates_per_step": config.updates_per_step,
        "episodes": episodes,
        "targets": aimed,
        "final": columns(rows, config.seeds, names),
        "curves": {"step": [line["step"] for line in lines], **{k: [x[k] for x in reported] for k in names}},
        "strips": {},
        "wall_seconds": round(lines[-1]["wall"], 1),
        "minutes_per_row": round(lines[-1]["wall"] / 60 / len(job.rows), 2),
        "hardware": ", ".join(dict.fromkeys(line["hardware"] for line in lines)),
        "versions": lines[-1].get("versions", {}),
    }


def finish(job: Job, run: Path, size: EvaluationSize, say: Callable[[str], None]) -> tuple[Cell, dict[str, bytes]]:
    """Evaluates a trained program; returns its cell, and PNGs of its best and its worst run by LGR_v."""
    program, runs, _ = trainer.restore(run, say)
    states, about = aims(program.config, program.spec, size.targets)
    out = jax.device_get(program.evaluate(runs, states, episodes=size.episodes))
    rows = summary.summarise(program, out)["seeds"]
    trained = run_folder.read_config(run)  # by an engine that may be another than the one that measures it
    cell = describe(job, trained, logs.read_lines(run / "metrics.jsonl"), rows, size.episodes, about)
    order = np.argsort([row["lgr_v"] or 0.0 for row in rows], kind="stable").tolist()
    shown = dict(zip(STRIPS, (order[0], order[-1]), strict=True)) if filmstrip.is_body(program) else {}
    cell["strips"] = {name: divmod(i, program.config.seeds) for name, i in shown.items()}  # setting and seed
    cell["measured_on"], cell["measured_by"] = summary.hardware(), program.config.engine
    return cell, {name: strip(program, one_run(runs, i)) for name, i in shown.items()}
