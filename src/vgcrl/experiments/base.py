"""What an experiment is: a claim, the runs that test it, and the comparison with the paper.

Runs of one shape are one program and one directory. A finished run is not repeated, an interrupted one
goes on. Verdicts are computed from the runs with intervals; nothing is typed in.
"""

import base64
import csv
import html
import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from vgcrl.errors import UsageError
from vgcrl.experiments.scheduling import Executor, Say, Task, carried_out, check_failed
from vgcrl.files import atomic_write, read_small
from vgcrl.measure.statistics import interval
from vgcrl.show.figures import over_time
from vgcrl.show.report import Page, Section, markdown, png, svg, write
from vgcrl.show.tables import Table, aligned, counted, least_to_most, with_interval
from vgcrl.training import logs, run_folder, summary, trainer
from vgcrl.training.config import Config
from vgcrl.training.fields import flag, one_of, spoken
from vgcrl.training.options import Options
from vgcrl.training.program import Program, RunState
from vgcrl.training.resolve import resolve

Facts = dict[str, Any]  # what a result tells of a program: config, runs, steps, wall_seconds, hardware and more
HOLDS, WEAKER, FAILS = "holds", "weaker", "does not hold"
AGAINST = "holds, against the paper's table"  # the numbers of that table have the opposite sign
NOT_SHOWN, NOT_TESTED = "not shown", "not tested"
BEHIND = "What stands behind each program"
COUNTED = {  # verdict -> what is said of one claim, and of several
    HOLDS: ("holds", "hold"),
    AGAINST: ("holds against the paper's table", "hold against the paper's table"),
    WEAKER: ("is weaker", "are weaker"),
    NOT_SHOWN: ("is not shown", "are not shown"),
    FAILS: ("does not hold", "do not hold"),
    NOT_TESTED: ("is not tested", "are not tested"),
}


class PictureKind(NamedTuple):
    name: str  # its MIME type is image/NAME
    starts: tuple[bytes, ...]  # what such a file may begin with


PICTURES = {
    ".png": PictureKind("png", (b"\x89PNG\r\n\x1a\n",)),
    ".svg": PictureKind("svg+xml", (b"<svg", b"<?xml")),
}


class Claim(NamedTuple):
    """A sentence, and what the runs say of it: verdict, mean and interval."""

    sentence: str
    verdict: str
    measured: float | None
    ci95: list[float] | None
    paper: str = "–"


class Outcome(NamedTuple):
    claims: list[Claim]
    tables: dict[str, Table]
    figures: dict[str, Figure]
    finding: str = ""  # what was found where an effect is weaker than the paper's, in numbers


class Request(NamedTuple):
    """What the user asks of an experiment.

    Only a grid takes more than `quick`, `program`, `engine`, `physics` and `dry_run`.
    """

    quick: bool = False
    env: tuple[str, ...] = ()  # empty: all
    goal_dim: tuple[int, ...] = ()  # empty: all
    steps: int | None = None
    seeds: int | None = None
    updates_per_step: float | None = None
    posterior_learning_rate: float | None = None
    terminate: bool | None = None
    envs: int | None = None
    engine: str | None = None
    physics: str | None = None
    looks: int | None = None  # number of evaluations during training
    minutes: float | None = None  # after which training stops and saves
    dry_run: bool = False
    report: bool = False  # train nothing, and report on the programs that are there
    program: str | None = None  # train only this one, and write no report

    def words(self) -> list[str]:
        """Returns the options as words of the command line."""
        alone = ("quick", "dry_run", "report")
        given = {k: v for k, v in self._asdict().items() if v not in (None, ()) and not (k in alone and v is False)}
        return [word for k, v in given.items() for word in ([flag(k)] if k in alone else [flag(k), spoken(v)])]

    def one(self, experiment: str, program: str) -> tuple[str, ...]:
        """Returns the words of the command that trains one program of an experiment."""
        alone = self._replace(program=program, env=(), goal_dim=(), minutes=None, dry_run=False)
        return ("reproduce", experiment, *alone.words())


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


def stated(experiment: Any, quick: bool) -> str:
    """Returns the claim of an experiment or a grid, and whose it is; where quick, after a warning that it is a test."""
    whose = "The paper's claim" if experiment.paper else "Claim"
    return (smoke(experiment.runs(False)) if quick else "") + f"{whose}: {experiment.claim}"


def smoke(whole: dict[str, Options]) -> str:
    configs = [resolve(options) for options in whole.values()]
    size = f"{sum(c.runs for c in configs)} runs of {least_to_most([c.steps for c in configs])} steps"
    return (
        "A smoke test: fewer runs and steps, in some experiments smaller networks and shorter episodes too. It is not "
        f"comparable with the paper, nor with the whole experiment, which has {size}. "
    )


def tally(verdicts: list[str]) -> str:
    """Returns a sentence that says how many claims hold, are weaker, and so on."""
    counts = [(verdicts.count(kind), words) for kind, words in COUNTED.items() if kind in verdicts]
    return f"{counted(len(verdicts), 'claim')}: {', '.join(f'{n} {words[n > 1]}' for n, words in counts)}."


def judge(values: Any, *, least: float, full: float, higher: bool = True) -> tuple[str, float, list[float] | None]:
    """Returns the verdict on a claim, the mean of `values`, one per seed, and its 95 % interval.

    A claim holds where the mean reaches `full` and the interval clears `least`; it is weaker where only the interval
    does. It does not hold where the interval lies on the wrong side of `least`; it is not shown where it is on both.
    """
    sign = 1 if higher else -1
    each = sign * np.asarray(values, float)
    mean, ci = float(each.mean()), interval(each)
    if ci is None or not np.isfinite(each).all():  # a single seed, or one that diverged
        return NOT_TESTED, sign * mean, None
    low, high = ci
    if low > sign * least:
        verdict = HOLDS if mean >= sign * full else WEAKER
    else:
        verdict = FAILS if high < sign * least else NOT_SHOWN
    return verdict, sign * mean, sorted((sign * low, sign * high))


def last_rows(run: Path) -> list[dict[str, Any]]:
    return logs.read_lines(run / "metrics.jsonl")[-1]["seeds"]


def curve(run: Path, value: Callable[[dict[str, Any]], float]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the steps of all evaluations, and value(row) of every run at each, (evaluation, run)."""
    lines = logs.read_lines(run / "metrics.jsonl")
    return np.array([x["step"] for x in lines]), over_time(lines, value)


def restored(run: Path) -> tuple[Program, RunState]:
    """Returns the program of a run folder, and the states of all its runs."""
    program, runs, _ = trainer.restore(run, lambda text: None)
    return program, runs


def paper_rows(table: str) -> list[dict[str, str]]:
    text = (files("vgcrl") / "data" / "paper.csv").read_text(encoding="utf-8")
    return [row for row in csv.DictReader(text.splitlines()) if row["table"] == table]


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
            out.append(run_task(key, options, run, ask.one(name, key), place, say))
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


def run_task(name: str, options: Options, run: Path, words: tuple[str, ...], place: str, say: Say) -> Task:
    """Returns the task that trains one run folder, or continues it."""

    def make() -> None:
        say(f"{place}: {'continues' if run_folder.is_started(run) else 'starts'}")
        if train(options, run).interrupted:
            raise KeyboardInterrupt

    config = resolve(options)
    return Task(name, make, words, float(config.runs * config.steps))


def train(options: Options, run: Path) -> run_folder.Run:
    """Trains a run from the start, or continues it as it was begun."""
    return trainer.resume(run) if run_folder.is_started(run) else trainer.start(options, run)


def program_facts(run: Path) -> Facts:
    """Returns what a result tells of a run folder: configuration, sizes, time, hardware and last evaluation."""
    config, lines = run_folder.read_config(run), logs.read_lines(run / "metrics.jsonl")
    for row in lines[-1]["seeds"]:
        row.pop("train", None)
    return {
        "config": json.loads(config.to_json()),
        "runs": len(lines[-1]["seeds"]),
        "steps": lines[-1]["step"],
        "updates_per_step": config.updates_per_step,
        "wall_seconds": round(lines[-1]["wall"], 1),
        "hardware": lines[-1].get("hardware", "not recorded"),
        "last": lines[-1],
    }


def page(result: dict[str, Any], figures: dict[str, str], pictures: dict[str, str]) -> Page:
    """Returns the page of a result as it is on disk; `figures` and `pictures` map titles to HTML or Markdown."""
    rows = [
        [c["sentence"], c["verdict"], with_interval(c["measured"], c["ci95"]), c["paper"]] for c in result["claims"]
    ]
    sections = [
        Section(text=result["claim"], verdict=True),
        *([Section(text=tally([c["verdict"] for c in result["claims"]]))] if rows else []),
        *([Section("Verdicts", table=Table(["claim", "verdict", "measured, 95 %", "paper"], rows))] if rows else []),
        *([Section(text=result["finding"])] if result["finding"] else []),
        *(Section(title, figure=text) for title, text in figures.items()),
        *(table_section(title, text_table(**table)) for title, table in result["tables"].items()),
        *(Section(title, figure=text) for title, text in pictures.items()),
        Section("Commands", table=Table(["trained with"], [[each] for each in result["command"].split("; ")])),
    ]
    programs = result["programs"].values()
    seconds = sum(p["wall_seconds"] for p in programs)
    trained = f"{counted(sum(p['runs'] for p in programs), 'run')} in {counted(len(programs), 'program')}"
    lead = f"{trained}, {seconds / 60:.1f} minutes. Hardware: {result['hardware']}. Commands are at the end."
    return Page(
        result["title"], lead, sections, json.dumps({k: p["config"] for k, p in result["programs"].items()}, indent=1)
    )


def table_section(title: str, table: Table) -> Section:
    """Returns the section of a table; a legend of its signs, which may follow its title, becomes the text."""
    heading, means, legend = title.partition(": ▲")
    return Section(heading, text=f"▲{legend}." if means else "", table=table)


def text_table(columns: list[Any], rows: list[list[Any]]) -> Table:
    """Returns a table in which every cell is text, from one read from a file."""
    return Table([str(cell) for cell in columns], [[str(cell) for cell in row] for row in rows])


def sizes_and_minutes(programs: dict[str, Facts]) -> Table:
    """Returns a table of the settings, seeds, steps and minutes of each program."""
    rows = []
    for name, facts in programs.items():
        config = Config.from_json(json.dumps(facts["config"]))
        swept = f" of {', '.join(config.swept).replace('_', ' ')}" if config.swept else ""
        numbers = (config.seeds, f"{facts['steps']:,}", config.envs, f"{config.updates_per_step:g}")
        rows.append([name, f"{len(config.settings)}{swept}", *map(str, numbers), f"{facts['wall_seconds'] / 60:.1f}"])
    heads = ["program", "settings", "seeds of each", "steps", "environments", "updates per step", "minutes"]
    return Table(heads, rows)


def save(folder: Path, result: dict[str, Any], figures: dict[str, Figure]) -> None:
    """Writes result.json, and one SVG and one PNG per figure."""
    atomic_write(folder / "result.json", logs.to_json(result, indent=1) + "\n")
    for title, figure in figures.items():
        atomic_write(folder / f"{slug(title)}.png", png(figure, dpi=110))
        atomic_write(folder / f"{slug(title)}.svg", svg(figure))


def slug(title: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())


def embed(folder: Path, title: str, file: str) -> str:
    """Returns a picture as an HTML element, in which no script of it can run.

    Raises ValueError where the file is not a picture that lies in the folder itself.
    """
    path = folder / file
    kind = PICTURES.get(path.suffix)
    if kind is None or not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{file!r} is no picture of this folder")
    data = read_small(path)
    if not data.lstrip().startswith(kind.starts):
        raise ValueError(f"{file!r} is no {path.suffix[1:]}")
    source = f"data:image/{kind.name};base64,{base64.b64encode(data).decode()}"
    return f'<img style="max-width:100%" alt="{html.escape(title)}" src="{source}">'


def link(folder: Path, title: str, file: str) -> str:
    """Returns the Markdown that shows a picture beside it."""
    return f"![{title}]({file})"


def read_page(folder: Path, show: Callable[[Path, str, str], str] = embed) -> Page:
    """Returns the page of a saved experiment; `show` makes HTML or Markdown of a picture's folder, title and file."""
    path = folder / "result.json"
    try:
        result = json.loads(read_small(path))
        titles = result.get("figures") or [p.stem.replace("-", " ").capitalize() for p in sorted(folder.glob("*.svg"))]
        drawn = {title: f"{slug(title)}.{'svg' if show is embed else 'png'}" for title in titles}
        both = (drawn, result.get("pictures", {}))
        return page(result, *({title: show(folder, title, file) for title, file in x.items()} for x in both))
    except UsageError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise UsageError(f"{path} is not the result of an experiment: {error!r}; valid: as it was written") from None


def conclude(
    folder: Path, about: dict[str, str], outcome: Outcome, programs: dict[str, Facts], say: Say, **more: Any
) -> Path:
    """Writes all that a reader needs, small enough to commit, says the verdicts, and returns the path of the report.

    `about` has the first entries of the result: experiment, title, claim and command.
    """
    result = about | {
        "hardware": "; ".join(dict.fromkeys(each["hardware"] for each in programs.values())),
        "versions": summary.versions(),
        "claims": [claim._asdict() for claim in outcome.claims],
        "tables": {title: table._asdict() for title, table in outcome.tables.items()},
        "finding": outcome.finding,
        "figures": list(outcome.figures),
        "programs": programs,
        **more,
    }
    save(folder, result, outcome.figures)
    for claim in outcome.claims:
        measured = with_interval(claim.measured, claim.ci95)
        say(f"  {claim.verdict:>13}: {claim.sentence}: {measured} (paper: {claim.paper})")
    if outcome.claims:
        say(tally([claim.verdict for claim in outcome.claims]))
    atomic_write(folder / "README.md", markdown(read_page(folder, link)))  # what a forge shows of the folder
    return write([read_page(folder)], folder / "report.html")


def reproduce(
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
    claim = stated(experiment, ask.quick)
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
    return Ending(conclude(folder, about, outcome, programs, say))
