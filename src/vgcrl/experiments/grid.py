"""A table of the paper as programs: rows of one shape train together, and a finished program is never repeated.

Files of finished programs may be gathered from several machines in one folder.
"""

import json
import shlex
import shutil
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from vgcrl.errors import UsageError
from vgcrl.experiments import cells, comparison, planning
from vgcrl.experiments.cells import STEPS, Cell, EvaluationSize, Job, Row, run_path
from vgcrl.experiments.entries import technique
from vgcrl.experiments.experiment import Ending, stated_claim
from vgcrl.experiments.paired_claims import PairedClaim
from vgcrl.experiments.paper import paper_rows
from vgcrl.experiments.request import Request
from vgcrl.experiments.result_folder import write_result
from vgcrl.experiments.scheduling import Executor, Say, Task, carried_out, check_failed
from vgcrl.experiments.training_task import train
from vgcrl.show.tables import aligned, counted, number
from vgcrl.training import run_folder
from vgcrl.training.fields import flag, one_of
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve

SEEDS = 3  # the paper's
FRACTION, BOUND = 0.5, 2.0  # share relabelled with P-HER; norm of the layers of q with SN
# What the committed tables were trained with: enough environments to keep a GPU busy, and few episodes for the points
# of curves.
WHOLE: dict[str, Any] = {
    "steps": STEPS,
    "seeds": SEEDS,
    "envs": 512,
    "updates_per_step": 0.0625,
    "evaluate_episodes": 10,
}
# Humanoid's episodes end with a fall, as Gymnasium's do: otherwise q learns its replay by heart.
OF_BODY: dict[str, dict[str, Any]] = {"Humanoid": {"terminate": True, "posterior_learning_rate": 3e-5}}
RATE, LOOKS = 3e-4, 4  # defaults: learning rate of q, as of the policy; number of evaluations
QUICK: dict[str, Any] = {
    "steps": 10_000,
    "seeds": 2,
    "envs": 16,
    "batch": 64,
    "hidden": (64, 64),
    "replay": 10_000,
    "random_steps": 1_000,
    "updates_per_step": 0.125,
    "evaluate_episodes": 8,
    "horizon": 200,
}
SCALES = (
    "steps",
    "seeds",
    "updates_per_step",
    "posterior_learning_rate",
    "terminate",
    "envs",
    "engine",
    "physics",
)  # options that a request may set


class ExtraRun(NamedTuple):
    """A program beside the paper's table."""

    name: str
    rows: tuple[Row, ...]
    sizes: dict[str, Any]
    quick: dict[str, Any]


class Grid(NamedTuple):
    title: str
    claim: str
    table: str  # its name in paper.csv
    method: str
    posteriors: dict[str, str]  # the paper's name -> ours
    higher: bool  # whether a higher LGR(z) is better
    contrasts: tuple[PairedClaim, ...]
    asides: tuple[ExtraRun, ...] = ()
    rate: float = RATE  # learning rate of q in runs that are not quick
    paper: bool = True  # whether the paper claims it

    def runs(self, quick: bool) -> dict[str, Options]:
        return {job.name: job.options for job in jobs(self, Request(quick))}


def knob(values: list[float]) -> tuple[float, ...]:
    """Returns one value where all settings agree, else the value of each setting."""
    return tuple(values) if len(set(values)) > 1 else tuple(values[:1])


def program(grid: Grid, rows: list[Row], sizes: dict[str, Any]) -> Options:
    """Returns the options of one program, whose settings are rows that differ only in P-HER and SN."""
    sizes = {"looks": LOOKS, "posterior_learning_rate": RATE} | sizes
    looks, rate = sizes.pop("looks"), sizes.pop("posterior_learning_rate")
    sizes = {"evaluate_every": -(-sizes["steps"] // looks)} | sizes
    return Options(
        grid.method,
        rows[0]["env"],
        goal_dim=int(rows[0]["goal_dim"]),
        posterior=grid.posteriors[rows[0]["posterior"]],
        posterior_learning_rate=(rate,),
        relabel="p-her",
        relabel_fraction=knob([FRACTION * int(row["p_her"]) for row in rows]),
        spectral_norm=knob([BOUND * int(row["sn"]) for row in rows]),
        **sizes,
    )


def name(grid: Grid, row: Row) -> str:
    which = [grid.posteriors[row["posterior"]]] if len(grid.posteriors) > 1 else []
    return "-".join([row["env"], f"G{row['goal_dim']}", *which])


def published(grid: Grid, quick: bool) -> list[Row]:
    """Returns the rows of the paper's table by body and |G|; quick: only the two smallest |G| of the first body."""
    rows = paper_rows(grid.table)
    bodies = list(dict.fromkeys(row["env"] for row in rows))
    few = sorted({int(row["goal_dim"]) for row in rows})[:2]
    rows.sort(key=lambda row: (bodies.index(row["env"]), int(row["goal_dim"])))
    return [row for row in rows if not quick or (row["env"] == bodies[0] and int(row["goal_dim"]) in few)]


def jobs(grid: Grid, ask: Request) -> list[Job]:
    """Returns every program of a grid, with the sizes asked for."""
    asked = {k: getattr(ask, k) for k in (*SCALES, "looks") if getattr(ask, k) is not None}
    sizes = (QUICK if ask.quick else WHOLE | {"posterior_learning_rate": grid.rate}) | asked
    groups: dict[str, list[Row]] = {}
    for row in published(grid, ask.quick):
        groups.setdefault(name(grid, row), []).append(row)
    of_body = {} if ask.quick else OF_BODY
    out = [
        Job(key, tuple(rows), program(grid, rows, sizes | of_body.get(rows[0]["env"], {}) | asked))
        for key, rows in groups.items()
    ]
    for aside in grid.asides:
        own = sizes | (aside.quick if ask.quick else aside.sizes)
        if ask.program == aside.name:
            own = {k: v for k, v in own.items() if k != "evaluate_every" or ask.looks is None} | asked
        own["steps"] = min(own["steps"], ask.steps or own["steps"])
        out.append(Job(aside.name, aside.rows, program(grid, list(aside.rows), own)))
    return out


def select(every: list[Job], ask: Request) -> list[Job]:
    """Returns the programs of the bodies and |G| asked for, or the one that is asked for by its name."""
    if ask.program is not None:
        one_of("--program", ask.program, [job.name for job in every])
        given = [name for name in ("env", "goal_dim") if getattr(ask, name)]
        if given:
            raise UsageError(f"--program names one program, so {flag(given[0])} has no meaning; valid: one of the two")
        return [job for job in every if job.name == ask.program]
    envs, sizes = ({str(job.options[key]): None for job in every} for key in ("env", "goal_dim"))
    for env in ask.env:
        one_of("--env", env, envs)
    for size in map(str, ask.goal_dim):
        one_of("--goal-dim", size, sizes)
    chosen = [job for job in every if not ask.env or job.options["env"] in ask.env]
    return [job for job in chosen if not ask.goal_dim or job.options["goal_dim"] in ask.goal_dim]


def trained(folder: Path, job: Job) -> bool:
    """Returns whether a program is trained, here or elsewhere.

    What is left to do then needs neither the device nor the engine that trained it.
    """
    return cells.cell_path(folder, job).exists() or run_folder.is_finished(run_path(folder, job))


def make(job: Job, folder: Path, size: EvaluationSize, say: Say) -> None:
    """Trains a program or continues it, evaluates it, writes its cell, and deletes the large parts of its run."""
    run = run_path(folder, job)
    if not cells.cell_path(folder, job).exists():
        if not trained(folder, job) and train(job.options, run).interrupted:
            cells.write_unfinished(folder, job)
            raise KeyboardInterrupt
        cells.write(folder, job, *cells.finish(job, run, size, say))
    trim(run)


def trim(run: Path) -> None:
    for part in ("checkpoints", "events"):
        shutil.rmtree(run / part, ignore_errors=True)


def progress(job: Job, selected: list[Job], folder: Path) -> str:
    """Returns a line for when a program starts: how far the whole experiment is, and how long it will take."""
    done = cells.read_all(folder, selected)
    left = planning.left(planning.estimate(each, folder, done, sizes=False) for each in selected)
    verb = "continues" if run_folder.is_started(run_path(folder, job)) else "starts"
    return f"[{len(done) + 1}/{len(selected)}] {job.name}: {verb}; {left} in all"


def tasks(name: str, selected: list[Job], folder: Path, ask: Request, say: Say) -> list[Task]:
    """Returns a task for each unfinished program; deletes large parts of finished ones, which a kill may have left."""
    size, done = cells.QUICK_EVALUATION if ask.quick else cells.FULL_EVALUATION, cells.read_all(folder, selected)
    for job in (job for job in selected if job.name in done):
        trim(run_path(folder, job))

    def make_one(job: Job) -> None:
        say(progress(job, selected, folder))
        make(job, folder, size, say)

    todo = [job for job in selected if job.name not in done]
    work = planning.work([planning.estimate(job, folder, done, sizes=False) for job in todo])
    pairs = zip(todo, work, strict=True)
    return [Task(job.name, partial(make_one, job), alone(job, ask).one(name, job.name), each) for job, each in pairs]


def alone(job: Job, ask: Request) -> Request:
    """Returns the request for this program alone, with its own sizes, which may differ for one beside the table."""
    sizes = {k: job.options[k] for k in SCALES if k != "posterior_learning_rate" and getattr(ask, k) is not None}
    told = ask.looks is not None and job.options["evaluate_every"] == -(-job.options["steps"] // ask.looks)
    return ask._replace(**sizes, looks=ask.looks if told else None)


def facts(cell: Cell) -> dict[str, Any]:
    """Returns what a result tells of a program; its curves are only in its cell."""
    return {k: v for k, v in cell.items() if k not in ("curves", "program")}


def pictures(found: dict[str, Cell], every: list[Job]) -> dict[str, str]:
    """Returns the files of the filmstrips by title."""
    out = {}
    for job in every:
        cell = found.get(job.name, {"strips": {}})
        for which, (setting, seed) in cell["strips"].items():
            score, how = cell["final"]["lgr_v"][setting][seed], technique(job.rows[setting])
            title = f"Skills of {job.name}: {which} run by LGR_v, {number(score)} ({how}, seed {cell['seeds'][seed]})"
            out[title] = f"cells/{job.name}.{which}.png"
    return out


def scales(job: Job, cell: Cell) -> tuple[Any, ...]:
    """Returns the value of each of SCALES in which a finished program differs from its job, else None.

    Exact physics never counts as different: every engine has it by default.
    """
    there = {"engine": "auto", "physics": None}  # since the engine of the job may not run here
    given, usual = cell["config"], json.loads(resolve(job.options | there).to_json())
    usual |= {name: job.options[name] for name in there if name in job.options}
    differ = (None if given[k] in (usual[k], "exact") else given[k] for k in SCALES)
    return tuple(x[0] if isinstance(x, list) else x for x in differ)


def commands(name: str, grid: Grid, every: list[Job], found: dict[str, Cell], quick: bool) -> list[str]:
    """Returns the commands that train what is there; bodies may differ in their sizes and in the |G| that are done.

    Of a |G| that is not all there, or whose programs differ, each program has a command of its own.
    """
    table, plain = [job for job in every if "aside" not in job.rows[0]], grid.runs(quick)
    done: dict[tuple[Any, ...], list[Job]] = {}
    for job in (job for job in table if job.name in found):
        changed = scales(job._replace(options=plain[job.name]), found[job.name])
        done.setdefault((job.options["env"], *changed), []).append(job)
    bodies: dict[tuple[Any, ...], list[str]] = {}
    alone: list[Job] = []
    for (env, *changed), some in done.items():
        others = {job.options["goal_dim"] for job in table if job.options["env"] == env and job not in some}
        alone += [job for job in some if job.options["goal_dim"] in others]
        sizes = tuple(dict.fromkeys(job.options["goal_dim"] for job in some if job.options["goal_dim"] not in others))
        if sizes:
            bodies.setdefault((sizes if others else (), *changed), []).append(env)
    asks = []
    for (sizes, *changed), envs in bodies.items():
        few = tuple(envs) if len(envs) < len({job.options["env"] for job in table}) else ()
        asks.append(Request(quick, few, sizes, **dict(zip(SCALES, changed, strict=True))))
    whole = Request(quick) in asks  # this command trains the programs beside the table too
    alone += [job for job in every if job not in table and job.name in found]
    for job in alone:
        changed = scales(job._replace(options=plain[job.name]), found[job.name])
        if not whole or any(x is not None for x in changed):
            asks.append(Request(quick, program=job.name, **dict(zip(SCALES, changed, strict=True))))
    return [shlex.join(["vgcrl", "reproduce", name, *ask.words()]) for ask in asks]


def report(name: str, grid: Grid, every: list[Job], folder: Path, ask: Request, command: str, say: Say) -> Path | None:
    """Writes the report of all programs that are there, also unfinished ones; returns its path, or None without any."""
    found = cells.read_all(folder, every, unfinished=True)
    if not found:
        return None
    outcome = comparison.compare(every, found, grid.contrasts, grid.higher)
    claim, programs = stated_claim(grid, ask.quick), {key: facts(cell) for key, cell in found.items()}
    reported = "; ".join(commands(name, grid, every, found, ask.quick)) or command
    about = {"experiment": name, "title": grid.title, "claim": claim, "command": reported}
    say(outcome.finding)
    return write_result(folder, about, outcome, programs, say, pictures=pictures(found, every))


def say_plan(selected: list[Job], folder: Path, say: Say) -> None:
    done = cells.read_all(folder, selected)
    estimates = [planning.estimate(job, folder, done) for job in selected]
    for line in (*aligned(planning.table(estimates, done)), planning.total(estimates)):
        say(line)
    if done:
        others = sum(scales(job, done[job.name]) != (None,) * len(SCALES) for job in selected if job.name in done)
        differ = f", {others} of them with other {', '.join(map(flag, SCALES))} than asked for" if others else ""
        kept = f"{counted(len(done), 'program')} in {folder / 'cells'}{differ}"
        say(f"not trained again: {kept}; --out DIR trains all afresh")


def reproduce_grid(
    name: str, grid: Grid, folder: Path, ask: Request, command: str, say: Say, execute: Executor
) -> Ending:
    """Says what a grid will take, trains its missing programs, compares all with the paper, and writes the report."""
    if ask.report and ask.program:
        raise UsageError("--report tells of all programs, --program makes one; valid: one of the two")
    every = jobs(grid, ask)
    selected = select(every, ask)
    for job in selected:
        if not trained(folder, job):
            resolve(job.options)
    found = cells.read_all(folder, every, unfinished=True)  # raises for damaged files before anything starts
    if ask.report and not found:
        raise UsageError(f"--report finds no program in {folder / 'cells'}; valid: --out DIR where some were trained")
    if not ask.dry_run:
        folder.mkdir(parents=True, exist_ok=True)
    say(f"{name}: {stated_claim(grid, ask.quick)}")

    def train_all() -> list[str]:
        if ask.program is None and not ask.report:
            say_plan(selected, folder, say)
        return [] if ask.dry_run or ask.report else execute(tasks(name, selected, folder, ask, say), folder, say)

    failed, stopped = carried_out(train_all, folder, say, ask.minutes or 0)
    path = None if ask.dry_run or ask.program else report(name, grid, every, folder, ask, command, say)
    check_failed(failed, len(selected))
    return Ending(path, stopped)
