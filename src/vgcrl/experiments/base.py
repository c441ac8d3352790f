"""What an experiment is: a claim, the runs that test it, and the comparison with the paper.

Runs of one shape are one program and one directory. A finished run is not repeated, an interrupted one
goes on. Verdicts are computed from the runs with intervals; nothing is typed in.
"""

import csv
import json
import platform
import shlex
from collections.abc import Callable
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib.figure import Figure

from vgcrl import training
from vgcrl.config import Config
from vgcrl.metrics import interval
from vgcrl.report import Page, Section, svg
from vgcrl.tables import Table, with_interval

HOLDS, WEAKER, FAILS = "holds", "weaker", "does not hold"


class Claim(NamedTuple):
    """One sentence and what the runs say of it."""

    sentence: str
    verdict: str
    measured: float
    ci95: list[float] | None
    paper: str = "–"


class Outcome(NamedTuple):
    claims: list[Claim]
    tables: dict[str, Table]
    figures: dict[str, Figure]
    finding: str = ""  # what was found where an effect is weaker than the paper's, in numbers


class Experiment(NamedTuple):
    title: str
    claim: str
    runs: Callable[[bool], dict[str, Config]]  # quick -> one configuration per program
    compare: Callable[[dict[str, Path]], Outcome]


def judge(values: Any, *, least: float, full: float, higher: bool = True) -> tuple[str, float, list[float] | None]:
    """Holds where the mean reaches `full` and its interval clears `least`; weaker where only the interval does."""
    sign = 1 if higher else -1
    x = sign * np.asarray(values, float)
    ci = interval(x)
    clear = ci is not None and ci[0] > sign * least
    verdict = HOLDS if clear and x.mean() >= sign * full else WEAKER if clear else FAILS
    bounds = None if ci is None else sorted(sign * b for b in ci)
    return verdict, float(sign * x.mean()), bounds


def last_rows(run: Path) -> list[dict[str, Any]]:
    return training.read_lines(run / "metrics.jsonl")[-1]["seeds"]


def curve(run: Path, value: Callable[[dict[str, Any]], float]) -> tuple[np.ndarray, np.ndarray]:
    """Steps, and value(row) as (evaluation, run)."""
    lines = training.read_lines(run / "metrics.jsonl")
    return np.array([x["step"] for x in lines]), np.array([[value(r) for r in x["seeds"]] for x in lines])


def restored(run: Path) -> tuple[training.Program, training.RunState]:
    """The program of a run, and the states of all its members."""
    program, runs, _ = training.restore(run, lambda text: None)
    return program, runs


def member(runs: training.RunState, index: int) -> training.RunState:
    return jax.tree.map(lambda x: x[index], runs)


def paper_rows(table: str) -> list[dict[str, str]]:
    text = (files("vgcrl") / "data" / "paper.csv").read_text()
    return [row for row in csv.DictReader(text.splitlines()) if row["table"] == table]


def hardware() -> str:
    device = jax.devices()[0]
    return f"{device.device_kind} ({platform.machine()}, {jax.default_backend()})"


def run_all(experiment: Experiment, folder: Path, quick: bool, say: Callable[[str], None]) -> dict[str, Path] | None:
    """Every program of the experiment; None where the user stopped it."""
    runs = {name: folder / "runs" / name for name in experiment.runs(quick)}
    for i, (name, config) in enumerate(experiment.runs(quick).items()):
        place = f"[{i + 1}/{len(runs)}] {name}"
        if training.finished(runs[name]):
            say(f"{place}: done before")
            continue
        started = (runs[name] / "config.json").exists()
        say(f"{place}: {'continues' if started else 'starts'}")
        run = training.resume(runs[name]) if started else training.start(config, runs[name])
        if run.interrupted:
            return None
    return runs


def record(
    name: str, experiment: Experiment, outcome: Outcome, runs: dict[str, Path], command: list[str]
) -> dict[str, Any]:
    """All that a reader of the results needs, small enough to commit."""
    programs = {}
    for key, run in runs.items():
        config, lines = training.read_config(run), training.read_lines(run / "metrics.jsonl")
        for row in lines[-1]["seeds"]:
            row.pop("train", None)
        programs[key] = {
            "config": json.loads(config.to_json()),
            "runs": len(lines[-1]["seeds"]),
            "steps": lines[-1]["step"],
            "updates_per_step": config.updates_per_step,
            "wall_seconds": round(lines[-1]["wall"], 1),
            "last": lines[-1],
        }
    return {
        "experiment": name,
        "title": experiment.title,
        "claim": experiment.claim,
        "command": shlex.join(command),
        "hardware": hardware(),
        "versions": {"vgcrl": version("vgcrl"), "jax": jax.__version__, "python": platform.python_version()},
        "claims": [claim._asdict() for claim in outcome.claims],
        "tables": {title: table._asdict() for title, table in outcome.tables.items()},
        "finding": outcome.finding,
        "programs": programs,
    }


def page(result: dict[str, Any], figures: dict[str, str]) -> Page:
    """A page from a result as it is on disk, and its figures as SVG."""
    rows = [
        [c["sentence"], c["verdict"], with_interval(c["measured"], c["ci95"]), c["paper"]] for c in result["claims"]
    ]
    sections = [
        Section(text=result["claim"], verdict=True),
        Section("Verdicts", table=Table(["claim", "verdict", "measured, 95 %", "paper"], rows)),
        *([Section(text=result["finding"])] if result["finding"] else []),
        *(Section(title, figure=text) for title, text in figures.items()),
        *(Section(title, table=Table(**table)) for title, table in result["tables"].items()),
    ]
    programs = result["programs"].values()
    seconds = sum(p["wall_seconds"] for p in programs)
    lead = (
        f"{sum(p['runs'] for p in programs)} runs in {len(programs)} programs, {seconds / 60:.1f} minutes on "
        f"{result['hardware']}; {result['command']}."
    )
    return Page(
        result["title"], lead, sections, json.dumps({k: p["config"] for k, p in result["programs"].items()}, indent=1)
    )


def save(name: str, experiment: Experiment, folder: Path, runs: dict[str, Path], command: list[str]) -> dict[str, Any]:
    """result.json and one SVG and PNG per figure."""
    outcome = experiment.compare(runs)
    result = record(name, experiment, outcome, runs, command)
    (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    for title, figure in outcome.figures.items():
        figure.savefig(folder / f"{slug(title)}.png", dpi=110)
        (folder / f"{slug(title)}.svg").write_text(svg(figure))
    return result


def slug(title: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in title.lower()).strip("-")


def read_page(folder: Path) -> Page:
    """The page of a saved experiment."""
    result = json.loads((folder / "result.json").read_text())
    drawings = {path.stem.replace("-", " ").capitalize(): path.read_text() for path in sorted(folder.glob("*.svg"))}
    return page(result, drawings)
