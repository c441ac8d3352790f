"""An experiment: a claim that runs test, whose numbers are compared with the paper's.

Runs of one shape are one program and one directory. A finished run is not repeated, an interrupted one goes on.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from vgcrl.errors import UsageError
from vgcrl.experiments.measured import program_facts
from vgcrl.experiments.program_tables import BEHIND, sizes_and_minutes
from vgcrl.experiments.request import Request
from vgcrl.experiments.result_folder import Outcome, write_result
from vgcrl.experiments.scheduling import Executor, Say, Task, carried_out, check_failed
from vgcrl.experiments.training_task import training_task
from vgcrl.show.tables import Table, aligned, least_to_most
from vgcrl.training import run_folder
from vgcrl.training.fields import one_of
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve


class Ending(NamedTuple):
    report: Path | None
    stopped: bool = False  # whether the user stopped it


class Experiment(NamedTuple):
    title: str
    claim: str
    runs: Callable[[bool], dict[str, Options]]  # quick -> the options of each program, by name
    compare: Callable[[dict[str, Path]], Outcome]
    logs: bool = False  # compares what runs logged, so that it does not need their checkpoints
    paper: bool = False  # whether the paper claims it


def stated_claim(experiment: Any, quick: bool) -> str:
    """Returns the claim of an experiment or a grid, and whose it is; where quick, after a warning that it is a test."""
    whose = "The paper's claim" if experiment.paper else "Claim"
    return (smoke_warning(experiment.runs(False)) if quick else "") + f"{whose}: {experiment.claim}"


def smoke_warning(whole: dict[str, Options]) -> str:
    configs = [resolve(options) for options in whole.values()]
    size = f"{sum(c.runs for c in configs)} runs of {least_to_most([c.steps for c in configs])} steps"
    return (
        "A smoke test: fewer runs and steps, in some experiments smaller networks and shorter episodes too. It is not "
        f"comparable with the paper, nor with the whole experiment, which has {size}. "
    )


def programs_of(experiment: Experiment, ask: Request) -> dict[str, Options]:
    """Returns the options of every program, with the simulator asked for."""
    programs = experiment.runs(ask.quick)
    if ask.program is not None:
        one_of("--program", ask.program, programs)
    simulator = {k: v for k, v in {"engine": ask.engine, "physics": ask.physics}.items() if v is not None}
    return {name: options | simulator for name, options in programs.items()}


def done_before(experiment: Experiment, run: Path) -> bool:
    return run_folder.is_finished(run) or (experiment.logs and run_folder.is_evaluated(run))


def tasks(name: str, experiment: Experiment, ask: Request, folder: Path, say: Say) -> list[Task]:
    """Returns a task for each unfinished program of an experiment, or only for the one asked for."""
    programs, out = programs_of(experiment, ask), []
    for i, (key, options) in enumerate(programs.items()):
        run, place = folder / "runs" / key, f"[{i + 1}/{len(programs)}] {key}"
        if done_before(experiment, run):
            say(f"{place}: done before")
        elif ask.program in (None, key):
            out.append(training_task(key, options, run, ask.one(name, key), place, say))
    return out


def plan(experiment: Experiment, ask: Request, folder: Path) -> Table:
    """Returns a table of the programs asked for, and whether each is done, begun or to do."""
    rows = []
    for name, options in programs_of(experiment, ask).items():
        if ask.program in (None, name):
            run, config = folder / "runs" / name, resolve(options)
            state = "done" if done_before(experiment, run) else "begun" if run_folder.is_started(run) else "to do"
            rows.append([name, str(config.runs), f"{config.steps:,}", state])
    return Table(["program", "runs", "steps of each", "state"], rows)


def reproduce_experiment(
    name: str, experiment: Experiment, folder: Path, ask: Request, command: str, say: Say, execute: Executor
) -> Ending:
    """Trains the missing programs of an experiment, compares them with the paper, and writes the report.

    A dry run says the claim and the plan, and does nothing else.
    """
    of_grids = ask._replace(quick=False, program=None, engine=None, physics=None, dry_run=False)
    refused = [word for word in of_grids.words() if word.startswith("--")]
    if refused:
        raise UsageError(
            f"{refused[0]} does not apply to {name}, only to the tables of robots; valid with: discrete, continuous"
        )
    claim = stated_claim(experiment, ask.quick)
    if ask.dry_run:
        for line in (f"{name}: {claim}", *aligned(plan(experiment, ask, folder))):
            say(line)
        return Ending(None)
    todo = tasks(name, experiment, ask, folder, say)
    folder.mkdir(parents=True, exist_ok=True)
    say(f"{name}: {claim}")
    failed, stopped = carried_out(lambda: execute(todo, folder, say), folder, say)
    check_failed(failed, len(todo))
    if stopped or ask.program is not None:
        return Ending(None, stopped)
    runs = {key: folder / "runs" / key for key in experiment.runs(ask.quick)}
    about = {"experiment": name, "title": experiment.title, "claim": claim, "command": command}
    programs, outcome = {key: program_facts(run) for key, run in runs.items()}, experiment.compare(runs)
    outcome = outcome._replace(tables=outcome.tables | {BEHIND: sizes_and_minutes(programs)})
    return Ending(write_result(folder, about, outcome, programs, say))
