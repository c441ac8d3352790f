"""All combinations of the values: those that fit in one program are its settings, the others become programs.

Seeds and knobs are trained together (vmapped); every combination of the other options is a program of its own.
"""

import itertools
import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vgcrl.errors import Broken, UsageError
from vgcrl.experiments.scheduling import Executor, Say, Task
from vgcrl.experiments.sweep.ask import Ask, Choices, Range, spoken_values, varied
from vgcrl.experiments.sweep.results import higher_is_better
from vgcrl.experiments.training_task import training_task
from vgcrl.files import atomic_write
from vgcrl.show.tables import Table, counted
from vgcrl.training import run_folder
from vgcrl.training.config import FIELDS, KNOBS, Config
from vgcrl.training.fields import flag, one_of, spoken
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve
from vgcrl.training.summary import SUMMARISED

Values = dict[str, Any]  # option -> value, as on the command line of `vgcrl train`
# Options whose defaults may depend on the machine.
BY_MACHINE = ("engine", "physics", "workers", "evaluate_every", "checkpoint_every", "plugins")


def combinations(options: Choices) -> list[Values]:
    return [dict(zip(options, each, strict=True)) for each in itertools.product(*options.values())]


def resolved(values: Values, words: list[str]) -> tuple[Options, Config]:
    """Returns the options of a program and its configuration; an error begins with `words`, which name the program."""
    try:
        options = Options(**values)
        return options, resolve(options)
    except Broken:
        raise
    except UsageError as error:
        raise UsageError(f"{' '.join(words)}: {error}" if words else str(error)) from None


def programs(ask: Ask) -> dict[str, tuple[Options, Config]]:
    """Returns options and configuration of every program by name; raises UsageError where one is not valid."""
    for name, values in ask.options.items():
        if isinstance(values, Range):
            raise UsageError(f"{flag(name)} {spoken_values(name, values)} is a range; valid: --trials N with it")
    knobs = combinations({k: ask.options[k] for k in KNOBS if k in ask.options})
    together = {k: tuple(dict.fromkeys(each[k] for each in knobs)) for k in knobs[0]}
    together = {k: v if len(v) == 1 else tuple(each[k] for each in knobs) for k, v in together.items()}
    apart = {k: v for k, v in ask.options.items() if k not in KNOBS}
    out = {}
    for values in combinations(apart):
        words = [f"{k.replace('_', '-')}={spoken(values[k])}" for k in varied(apart)]
        out["-".join(words).replace("/", "_") or _only_name(ask)] = resolved(values | together, words)
    if ask.program is not None:
        one_of("--program", ask.program, out)
    return out


def _only_name(ask: Ask) -> str:
    """Returns the name of the only program: `all`, or the name of values that a search gave it."""
    name = ask.program or "all"
    if name != "all" and ("=" not in name or "/" in name):
        raise UsageError(f"--program {name} is not valid; valid: all")
    return name


def check_options(run: Path, config: Config, given: Choices) -> None:
    """Raises UsageError where a run that is there was begun with other options."""
    if not run_folder.is_started(run):
        return
    found = run_folder.read_config(run)
    names = (name for name in FIELDS if name in given or name not in BY_MACHINE)
    other = next((name for name in names if getattr(found, name) != getattr(config, name)), None)
    if other:
        was, now = (spoken(getattr(each, other)) or "not given" for each in (found, config))
        raise UsageError(
            f"{run} has {flag(other)} {was}, here it is {now}; valid: another --out, or the same options to go on"
        )


def tasks(ask: Ask, folder: Path, say: Say) -> list[Task]:
    """Returns a task for each program that is not finished or lacks its last evaluation."""
    words, out = ask._replace(metric="F").command(), []
    wanted = {name: each for name, each in programs(ask).items() if ask.program in (None, name)}
    for name, (options, config) in wanted.items():
        run = folder / "runs" / name
        check_options(run, config, ask.options)
        if not (run_folder.is_finished(run) and run_folder.is_evaluated(run)):
            out.append(training_task(name, options, run, (*words, "--program", name), name, say))
    return out


@contextmanager
def own_folder(folder: Path, ask: Ask) -> Generator[None]:
    """Locks the folder of a sweep while it is trained, and keeps its options there.

    Raises UsageError where another process is training it, or the folder holds another sweep.
    """
    path, text = folder / "sweep.json", json.dumps(ask.options, indent=1) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    with run_folder.locked(folder, "sweep"):
        if path.exists() and path.read_bytes() != text.encode():
            try:
                json.loads(path.read_bytes())
            except (ValueError, RecursionError):
                valid = "delete that file, and the same options go on"
                raise UsageError(f"{path} is damaged; valid: {valid}") from None
            raise UsageError(f"--out: {folder} holds another sweep; valid: another --out, or the same options to go on")
        atomic_write(path, text)
        yield


def plan(ask: Ask) -> Table:
    """Returns a table of what would be trained."""
    one_of("--optimise", ask.metric, SUMMARISED)
    if ask.trials:
        check_trials(ask)
        return Table(["trials", "each"], [[str(ask.trials), "one program"]])
    every = programs(ask)
    higher_is_better(ask.metric, [config for _, config in every.values()])
    rows = [[name, str(len(c.settings)), str(c.runs), f"{c.steps:,}"] for name, (_, c) in every.items()]
    return Table(["program", "settings", "runs", "steps of each"], rows)


def check_trials(ask: Ask) -> Config:
    """Checks every value together with the first values of other options; returns the configuration of first values."""
    if ask.program is not None:
        raise UsageError("--program does not go with --trials; valid: one of them")
    if "method" in varied(ask.options):
        raise UsageError("METHOD has several values; valid with --trials: one")
    first = {k: v[0] for k, v in ask.options.items()}
    for name in varied(ask.options):
        for value in ask.options[name]:
            _one_combination(first | {name: value}, [f"{flag(name)} {spoken(value)}"])
    config = _one_combination(first, [])
    if not varied(ask.options):
        raise UsageError("--trials: no option has several values; valid: A,B,… or LOW..HIGH of at least one")
    higher_is_better(ask.metric, [config])
    return config


def _one_combination(values: Values, words: list[str]) -> Config:
    return resolved({k: (v,) if k in KNOBS else v for k, v in values.items()}, words)[1]


def train_all(ask: Ask, folder: Path, say: Say, execute: Executor) -> list[str]:
    """Trains all combinations, and returns a line for each program that failed."""
    every = [config for _, config in programs(ask).values()]
    higher_is_better(ask.metric, every)
    if ask.program is not None:  # also what a node does for a sweep that has locked the folder
        return execute(tasks(ask, folder, say), folder, say)
    with own_folder(folder, ask):
        say(f"{counted(len(every), 'program')}, {counted(sum(config.runs for config in every), 'run')} in all")
        return execute(tasks(ask, folder, say), folder, say)
