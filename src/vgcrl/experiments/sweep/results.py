"""The report of a sweep: a table of settings, best first, their curves, and the command of the best."""

import shlex
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from vgcrl.errors import UsageError
from vgcrl.experiments.measured import program_facts
from vgcrl.experiments.result_folder import Outcome, write_result
from vgcrl.experiments.scheduling import Say
from vgcrl.experiments.sweep.ask import Ask, Choices, varied
from vgcrl.show.figures import LABELS
from vgcrl.show.subplots import subplots
from vgcrl.show.tables import Table, counted, with_interval
from vgcrl.training import logs, run_folder
from vgcrl.training.components import goal_space
from vgcrl.training.config import KNOBS, Config
from vgcrl.training.fields import flag, one_of, spoken, words_of
from vgcrl.training.summary import measurable

LOWER = ("lgr_s", "lgr_v", "distance_left")  # metrics that are distances
SHOWN = ("F", "lgr_z", "lgr_s", "lgr_v")


class Setting(NamedTuple):
    """A combination of values, and what its seeds reached."""

    program: str
    values: dict[str, Any]  # of the options that were varied
    mean: dict[str, float | None]
    ci95: dict[str, list[float] | None]
    curve: tuple[list[int], list[float]]  # steps, and the metric


def settings(name: str, run: Path, options: Choices, metric: str) -> list[Setting]:
    """Returns the settings of one program, with what its evaluations measured."""
    config, lines = run_folder.read_config(run), logs.read_lines(run / "metrics.jsonl")
    out = []
    for i, values in enumerate(config.settings):
        each = [line["settings"][i] if "settings" in line else line for line in lines]
        chosen = {k: values[k] if k in KNOBS else getattr(config, k) for k in varied(options)}
        numbers = [one["mean"][metric] for one in each]
        curve = [line["step"] for line in lines], [np.nan if x is None else x for x in numbers]
        out.append(Setting(name, chosen, each[-1]["mean"], each[-1]["ci95"], curve))
    return out


def higher_is_better(metric: str, configs: list[Config]) -> bool:
    """Returns whether a higher metric is better; raises UsageError where configurations lack it or do not agree."""
    for config in configs:
        one_of("--optimise", metric, measurable(config.specification))
    if metric not in ("lgr_z", "lgr_z_steps"):
        return metric not in LOWER
    known = {type(goal_space(config)).lgr_best > 0 for config in configs}
    if len(known) > 1:
        raise UsageError(f"--optimise {metric}: higher is better for some of these methods; valid: F, lgr_s, lgr_v")
    return known.pop()


def ordered(found: list[Setting], metric: str, higher: bool) -> list[Setting]:
    """Returns the settings, the best first, and last those without a finite number."""

    def key(setting: Setting) -> float:
        value = setting.mean[metric]
        return np.inf if value is None or not np.isfinite(value) else -value if higher else value

    return sorted(found, key=key)


def best_command(best: Setting, ask: Ask) -> str:
    """Returns the command `vgcrl train` with the values of one setting."""
    values = {k: v[0] for k, v in ask.options.items()} | best.values
    method = [str(values.pop("method"))] if "method" in values else []
    words = [word for k, v in values.items() for word in words_of(k, v)]
    words += [word for module in ask.modules for word in ("--import", module)]
    return shlex.join(["vgcrl", "train", *method, *words])


def drawn(found: list[Setting], metric: str, most: int = 10) -> Figure:
    figure, axis = subplots(figsize=(7, 3.6))
    for setting in found[:most]:
        label = ", ".join(f"{k} {spoken(v)}" for k, v in setting.values.items())
        axis.plot(*setting.curve, label=label)
    axis.xaxis.set_major_formatter(EngFormatter())
    axis.set(xlabel="environment steps", ylabel=LABELS.get(metric, metric))
    if any(setting.values for setting in found):
        axis.legend(fontsize=7)
    axis.grid(alpha=0.3)
    return figure


def outcome(found: list[Setting], ask: Ask, higher: bool) -> Outcome:
    names, best = varied(ask.options), ordered(found, ask.metric, higher)
    shown = list(dict.fromkeys((ask.metric, *SHOWN)))
    rows = [
        [*(spoken(s.values[k]) for k in names), *(with_interval(s.mean[m], s.ci95[m]) for m in shown)] for s in best
    ]
    columns = [*(k.replace("_", " ") for k in names), *(LABELS.get(m, m) for m in shown)]
    label = LABELS.get(ask.metric, ask.metric)
    tables = {f"Settings, best {label} first (mean ± 95 % over seeds)": Table(columns, rows)}
    finding = f"Best {label}, {with_interval(best[0].mean[ask.metric], best[0].ci95[ask.metric])}: "
    return Outcome(
        [], tables, {f"{label} over training": drawn(best, ask.metric)}, finding + best_command(best[0], ask)
    )


def report(ask: Ask, names: list[str], folder: Path, say: Say) -> Path | None:
    """Writes the report of the programs evaluated so far, and returns its path, or None where there are none."""
    runs = {name: folder / "runs" / name for name in names}
    runs = {k: run for k, run in runs.items() if run_folder.is_started(run) and logs.read_lines(run / "metrics.jsonl")}
    if not runs:
        return None
    higher = higher_is_better(ask.metric, [run_folder.read_config(run) for run in runs.values()])
    found = [each for name, run in runs.items() for each in settings(name, run, ask.options, ask.metric)]
    result, facts = outcome(found, ask, higher), {name: program_facts(run) for name, run in runs.items()}
    undone = [name for name in names if name not in runs or not run_folder.is_evaluated(runs[name])]
    so_far = f"{counted(len(undone), 'program')} of {len(names)} not finished. " if undone else ""
    result = result._replace(finding=so_far + result.finding)
    title, claim = f"Sweep of {folder.name}", f"What {', '.join(map(flag, varied(ask.options)))} change."
    about = {"experiment": "sweep", "title": title, "claim": claim, "command": shlex.join(["vgcrl", *ask.command()])}
    say(result.finding)
    return write_result(folder, about, result, facts, say)
