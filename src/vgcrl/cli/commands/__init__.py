"""The registry of commands."""

import argparse
from collections.abc import Callable
from typing import NamedTuple

from vgcrl.cli.commands import (
    bench,
    evaluate,
    experts,
    explore,
    film,
    listing,
    report,
    reproduce,
    resume,
    sweep,
    train,
)
from vgcrl.cli.config_options import Usual


class Command(NamedTuple):
    help: str
    add_options: Callable[[argparse.ArgumentParser, Usual], None]
    run: Callable[[argparse.Namespace], int]  # from parsed arguments to an exit code
    imports: bool = True  # whether it has --import
    draws: bool = True  # whether it waits for matplotlib


COMMANDS: dict[str, Command] = {
    "train": Command(
        "train a method; without arguments, ten skills on the 2-D point mass", train.add_options, train.run
    ),
    "resume": Command(
        "continue a run that stopped or was killed, from its last checkpoint", resume.add_options, resume.run
    ),
    "evaluate": Command(
        "measure a run, in the same episodes at every call", evaluate.add_options, evaluate.run, draws=False
    ),
    "experts": Command(
        "make target states for LGR(s), from policies that track velocities",
        experts.add_options,
        experts.run,
        draws=False,
    ),
    "report": Command(
        "curves, tables and pictures of runs, and how they compare, in one HTML file", report.add_options, report.run
    ),
    "explore": Command(
        "an interactive HTML page: choose a goal and watch; no server, no network", explore.add_options, explore.run
    ),
    "film": Command("a film of skills or goals, side by side", film.add_options, film.run),
    "reproduce": Command(
        "repeat an experiment of the paper and compare; continues where it stopped",
        reproduce.add_options,
        reproduce.run,
        imports=False,
    ),
    "sweep": Command(
        "train with several values, A,B,…, or a range, A..B, of any option; continues where it stopped",
        sweep.add_options,
        sweep.run,
    ),
    "list": Command(
        "methods, environments, experiments, target states, trained policies",
        listing.add_options,
        listing.run,
        draws=False,
    ),
    "bench": Command("updates/s and env steps/s on this machine", bench.add_options, bench.run, imports=False),
}
